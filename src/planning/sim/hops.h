/* What each border between stages costs on a cluster. */
#ifndef PLANNING_SIM_HOPS_H
#define PLANNING_SIM_HOPS_H

#include "planning/sched/start_times.h"
#include "weft/sim.h"

/* (pipes, stages - 1) each; all NULL without a cluster. */
struct wf_hops {
    struct wf_hop *forward, *backward; /* owned */
};

enum weft_status wf_hops_init(struct wf_hops *h, const struct weft_placement *place,
                              const struct weft_sim_options *options, struct weft_error *err);
void wf_hops_release(struct wf_hops *h);

/* Bytes over the border after `stage`. */
static inline double wf_boundary_bytes(const struct weft_sim_options *o, uint32_t stage,
                                       bool gradient)
{
    double forward = weft_values_get(o->bytes, stage, 0);
    return gradient ? weft_values_get(o->gradient_bytes, stage, forward) : forward;
}

#endif
