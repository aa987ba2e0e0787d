/* Hop times between stages on a cluster. */
#ifndef PLANNING_SIM_HOPS_H
#define PLANNING_SIM_HOPS_H

#include "planning/sched/start_times.h"
#include "weft/sim.h"

/* Hops between neighbouring stages.  Each array has the shape (pipes, stages - 1) and is
 * NULL if there is no cluster. */
struct wf_hops {
    struct wf_hop *forward, *backward; /* owned */
};

/* Computes the hops of a placement.  On success the caller must call wf_hops_release(). */
enum weft_status wf_hops_init(struct wf_hops *h, const struct weft_placement *place,
                              const struct weft_sim_options *options, struct weft_error *err);

/* Frees the hops and empties *h. */
void wf_hops_release(struct wf_hops *h);

/* Returns the size in bytes of one message between `stage` and `stage` + 1. */
static inline double wf_boundary_bytes(const struct weft_sim_options *o, uint32_t stage,
                                       bool gradient)
{
    double forward = weft_values_get(o->bytes, stage, 0);
    return gradient ? weft_values_get(o->gradient_bytes, stage, forward) : forward;
}

#endif
