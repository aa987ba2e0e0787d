/* Runs work that may outlast the heartbeat time-out, for example disk accesses, on a separate
 * thread, so that the rank keeps sending heartbeats. */
#ifndef RUNTIME_COMM_BACKGROUND_H
#define RUNTIME_COMM_BACKGROUND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "weft/comm.h"

typedef enum weft_status wf_background_fn(void *arg, struct weft_error *err);

/* Background work of a rank.  A zeroed struct means that no work was started. */
struct wf_background {
    wf_background_fn *work;
    void *arg;
    enum weft_status status; /* status of the work, once the work is done */
    struct weft_error err;
    pthread_t thread;
    bool has_thread;
    atomic_bool running;
};

/* Starts work(arg) on a thread, or runs it now if no thread can be started.  `b` must not move
 * until wf_background_join() or wf_background_wait() returns.  Local. */
void wf_background_start(struct wf_background *b, wf_background_fn *work, void *arg);

/* Returns whether the work is still running.  Local. */
bool wf_background_is_running(const struct wf_background *b);

/* Waits for the work without sending heartbeats.  Local. */
void wf_background_join(struct wf_background *b);

/* Waits for the work and sends heartbeats meanwhile.  `comm` may be NULL.  Returns WEFT_PEER if
 * another rank fails.  The status of the work is not returned; it is in b->status.  Local. */
enum weft_status wf_background_wait(struct wf_background *b, struct weft_comm *comm,
                                    struct weft_error *err);

/* Starts work(arg), waits for it and returns its status, or the error of the wait.  Calls
 * work(arg) directly if comm is NULL.  Local. */
enum weft_status wf_background_run(struct weft_comm *comm, wf_background_fn *work, void *arg,
                                   struct weft_error *err);

#endif
