/* The clock: computes when every action of a schedule starts if each rank runs its list as
 * early as possible.  No other file computes times from dependencies.  Hop times are inputs. */
#ifndef PLANNING_SCHED_START_TIMES_H
#define PLANNING_SCHED_START_TIMES_H

#include "weft/schedule.h"
#include "weft/sim.h"

/* The times of a message.  If the link is free, the message arrives latency + transfer after
 * the end of the action that produces it. */
struct wf_hop {
    double latency, transfer;
};

struct wf_start_times_input {
    const struct weft_schedule *schedule; /* borrowed; verified by weft_verify() */
    const struct weft_cost *cost;         /* borrowed; NULL: unit costs */
    /* per rank: factor by which the durations of its actions are multiplied */
    struct weft_values speed;
    /* borrowed: (pipes, stages - 1), entry s is the hop between stages s and s + 1.  NULL: the
     * hops of the cost.  An entry is ignored if both stages are on the same rank. */
    const struct wf_hop *forward, *backward;
    enum weft_contention contention; /* the resources that a transfer occupies */
};

struct wf_rank_times {
    /* start of the first action and end of the last action; first < 0: no actions */
    double first, end;
    double busy; /* time spent computing; with WEFT_CONTENTION_RANKS, also transferring */
};

/* Stores the times of all ranks in `ranks`, (ranks), and the times of all actions in `start`
 * and `length`, which have one entry per action in the schedule's order or are both NULL.  If
 * transfers occupy ranks, the length of an action includes its transfers.  The length of an
 * overlapped pair is stored at its first action.  An action that is not compute starts when its
 * rank reaches it and has length 0.  Returns WEFT_SCHEDULE if the schedule deadlocks. */
enum weft_status wf_start_times_compute(const struct wf_start_times_input *in,
                                        struct wf_rank_times *ranks, double *start,
                                        double *length, struct weft_error *err);

#endif
