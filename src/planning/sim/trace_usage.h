/* Computes the busy and idle time of the ranks of a trace.  Unlike the figures of the
 * simulator (weft/sim.h), these times are derived from the events alone, so they are also
 * available for measured traces. */
#ifndef PLANNING_SIM_TRACE_USAGE_H
#define PLANNING_SIM_TRACE_USAGE_H

#include "weft/sim.h"
#include "weft/trace.h"

struct wf_trace_usage {
    double *busy; /* owned: (ranks, WEFT_N_ACT_KINDS), busy time per kind of action */
    struct weft_idle_time *idle; /* owned: (ranks) */
};

/* Computes the usage of each rank.  Idle time counts as communication from the moment at
 * which another rank completed the missing input.  The caller must release *u with
 * wf_trace_usage_release(). */
enum weft_status wf_trace_usage_init(struct wf_trace_usage *u, const struct weft_trace *t,
                                     struct weft_error *err);

/* Frees the arrays of *u and zeroes *u.  A zeroed struct is allowed. */
void wf_trace_usage_release(struct wf_trace_usage *u);

#endif
