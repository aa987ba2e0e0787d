/* Stops a session after the current step when a signal arrives. */
#ifndef TRAINING_SESSION_STOP_H
#define TRAINING_SESSION_STOP_H

/* Handles SIGINT, SIGTERM and SIGHUP from now on, and ignores SIGPIPE.  Call it before each
 * session: it discards earlier signals.  The first signal only requests a stop after the
 * current step; a second signal has its usual effect.  A different signal within one second of
 * the first is ignored, because launchers send several signals for one request.
 *
 * Writes `first` to standard output at the first signal, `second` at the second signal.  Both
 * are string literals or NULL. */
void wf_stop_catch_signals(const char *first, const char *second);

/* Returns the signal that requested the stop, or 0 if no signal arrived before the last
 * step. */
int wf_stop_signal(void);

/* Discards pending stop requests, because all steps are done. */
void wf_stop_finish(void);

#endif
