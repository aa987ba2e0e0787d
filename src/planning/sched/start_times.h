/* The clock: when every action of a schedule starts, if each rank runs its list as soon as it
 * can.  This is the one place that turns dependencies into times; what a hop takes is given. */
#ifndef PLANNING_SCHED_START_TIMES_H
#define PLANNING_SCHED_START_TIMES_H

#include "weft/schedule.h"
#include "weft/sim.h"

/* What a message takes: it arrives latency + transfer after its producer's end, if nothing else
 * is in the way. */
struct wf_hop {
    double latency, transfer;
};

struct wf_start_times_input {
    const struct weft_schedule *schedule; /* borrowed, and proven: see weft_verify() */
    const struct weft_cost *cost;         /* borrowed; NULL: unit costs */
    struct weft_values speed; /* of each rank: its actions take so many times longer */
    /* borrowed: (pipes, stages - 1), between stage s and s + 1; NULL: cost->hop for all.  Not
     * used where both stages are on one rank. */
    const struct wf_hop *forward, *backward;
    enum weft_contention contention; /* what a transfer occupies */
};

/* One rank's times. */
struct wf_rank_times {
    double first, end; /* of its own actions; first < 0: it has none */
    double busy;       /* computing; with WEFT_CONTENTION_RANKS also transferring */
};

/* `ranks` is (ranks).  `start` and `length` are one an action of the schedule, in its order, or
 * both NULL; where transfers occupy ranks, an action's length has them in it; an overlapped pair's
 * length is on its first action; an action that is not compute
 * has the time at which it was met.  WEFT_SCHEDULE when it deadlocks. */
enum weft_status wf_start_times_compute(const struct wf_start_times_input *in,
                                        struct wf_rank_times *ranks, double *start,
                                        double *length, struct weft_error *err);

#endif
