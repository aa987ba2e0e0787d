/* What each border between stages costs on a cluster. */
#ifndef PLANNING_SIM_HOPS_H
#define PLANNING_SIM_HOPS_H

#include "planning/sched/clock.h"
#include "weft/sim.h"

/* (pipes, stages - 1) each; all NULL without a cluster. */
struct weft_hops {
    struct weft_hop *forward, *backward; /* owned */
};

enum weft_status weft_hops_init(struct weft_hops *h, const struct weft_placement *place,
                                const struct weft_sim_options *options, struct weft_error *err);
void weft_hops_release(struct weft_hops *h);

/* Bytes over the border after `stage`. */
static inline double weft_border_bytes(const struct weft_sim_options *o, uint32_t stage,
                                       bool gradient)
{
    double forward = weft_value(o->bytes, stage, 0);
    return gradient ? weft_value(o->gradient_bytes, stage, forward) : forward;
}

#endif
