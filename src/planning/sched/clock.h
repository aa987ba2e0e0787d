/* The clock: when every action of a schedule starts, if each rank runs its list as soon as it
 * can.  This is the one place that turns dependencies into times; what a hop takes is given. */
#ifndef PLANNING_SCHED_CLOCK_H
#define PLANNING_SCHED_CLOCK_H

#include "weft/schedule.h"

/* What a message takes: it arrives latency + transfer after its producer's end, if nothing else
 * is in the way. */
struct weft_hop {
    double latency, transfer;
};

enum weft_transfer_mode {
    WEFT_TRANSFER_DELAYS,  /* it occupies nothing */
    WEFT_TRANSFER_LINK,    /* it occupies its link (a directed pair of ranks) for `transfer` */
    WEFT_TRANSFER_COMPUTE, /* and both ranks: the sender after its action, the receiver before */
};

struct weft_clock_input {
    const struct weft_schedule *schedule; /* borrowed, and proven: see weft_verify() */
    const struct weft_cost *cost;         /* borrowed; NULL: unit costs */
    struct weft_values speed; /* of each rank: its actions take so many times longer */
    /* borrowed: (pipes, stages - 1), between stage s and s + 1; NULL: cost->hop for all.  Not
     * used where both stages are on one rank. */
    const struct weft_hop *forward, *backward;
    enum weft_transfer_mode mode;
};

/* One rank's times. */
struct weft_rank_clock {
    double first, end; /* of its own actions; first < 0: it has none */
    double busy;       /* computing; with WEFT_TRANSFER_COMPUTE also transferring */
};

/* `ranks` is (ranks).  `start` and `length` are one an action of the schedule, in its order, or
 * both NULL; where transfers occupy ranks, an action's length has them in it; an overlapped pair's
 * length is on its first action; an action that is not compute
 * has the time at which it was met.  WEFT_SCHEDULE when it deadlocks. */
enum weft_status weft_clock_run(const struct weft_clock_input *in,
                                struct weft_rank_clock *ranks, double *start, double *length,
                                struct weft_error *err);

#endif
