/* Busy and idle time of the ranks of a trace.  Unlike the simulator's figures (weft/sim.h) they are
 * derived from the events alone, so that they exist for measured traces, too. */
#ifndef PLANNING_SIM_TRACE_USAGE_H
#define PLANNING_SIM_TRACE_USAGE_H

#include "weft/sim.h"
#include "weft/trace.h"

struct wf_trace_usage {
    double *busy;                /* owned: (ranks, WEFT_N_ACT_KINDS), time in each kind */
    struct weft_idle_time *idle; /* owned: (ranks) */
};

/* Computes the usage of each rank.  Idle time counts as communication from the moment at which
 * another rank completed the missing input.  Release it with wf_trace_usage_release(). */
enum weft_status wf_trace_usage_init(struct wf_trace_usage *u, const struct weft_trace *t,
                                     struct weft_error *err);

/* Frees what *u owns and empties it.  A zeroed struct is allowed. */
void wf_trace_usage_release(struct wf_trace_usage *u);

#endif
