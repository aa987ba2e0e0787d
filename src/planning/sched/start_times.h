/* The clock: computes when every action of a schedule starts if each rank runs its list as early
 * as possible.  This is the only place that turns dependencies into times.  Hop times are inputs. */
#ifndef PLANNING_SCHED_START_TIMES_H
#define PLANNING_SCHED_START_TIMES_H

#include "weft/schedule.h"
#include "weft/sim.h"

/* Times of a message.  It arrives latency + transfer after the end of its producer, unless its
 * link is occupied. */
struct wf_hop {
    double latency, transfer;
};

struct wf_start_times_input {
    const struct weft_schedule *schedule; /* borrowed; verified by weft_verify() */
    const struct weft_cost *cost;         /* borrowed; NULL: unit costs */
    struct weft_values speed;             /* per rank: factor on the time of its actions */
    /* borrowed: (pipes, stages - 1), between stages s and s + 1; NULL: cost->hop for all.  Ignored
     * if both stages are on one rank. */
    const struct wf_hop *forward, *backward;
    enum weft_contention contention; /* what a transfer occupies */
};

struct wf_rank_times {
    double first, end; /* start of its first action, end of its last one; first < 0: none */
    double busy;       /* computing; with WEFT_CONTENTION_RANKS also transferring */
};

/* Computes the times of all ranks, `ranks` (ranks), and of all actions, `start` and `length`, one
 * entry per action in the schedule's order, or both NULL.  If transfers occupy ranks, the length
 * of an action includes its transfers.  The length of an overlapped pair is stored at its first
 * action.  An action that is not compute starts when its rank reaches it and has length 0.  Returns
 * WEFT_SCHEDULE if the schedule deadlocks. */
enum weft_status wf_start_times_compute(const struct wf_start_times_input *in,
                                        struct wf_rank_times *ranks, double *start,
                                        double *length, struct weft_error *err);

#endif
