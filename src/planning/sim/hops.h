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

/* Returns the delay of a message between `stage` and `stage` + 1 of a pipe, if both are on
 * different ranks.  Without a cluster it is the delay of the cost. */
double wf_hop_time(const struct wf_hops *h, const struct weft_placement *place,
                   const struct weft_cost *cost, uint32_t pipe, uint32_t stage, bool backward);

/* Returns true if wf_cost_place() can express the options as costs of stages.  It cannot if ranks
 * differ in speed and a stage runs on several ranks. */
bool wf_cost_is_placeable(const struct weft_placement *place,
                          const struct weft_sim_options *options);

/* Computes the costs of the stages on their ranks: times multiplied by the speed of the rank, and
 * hops by the links of the cluster.  Searches and bounds use these costs.  Uses the fields cost,
 * speed, cluster, unit_seconds, bytes and gradient_bytes of `options`.  Requires
 * wf_cost_is_placeable().  The caller releases *out with wf_cost_release(). */
enum weft_status wf_cost_place(struct weft_cost *out, const struct weft_placement *place,
                               const struct weft_sim_options *options, struct weft_error *err);

/* Checks the options for schedules with this placement, like weft_sim_check(). */
enum weft_status wf_sim_options_check(const struct weft_placement *place,
                                      const struct weft_sim_options *options,
                                      struct weft_error *err);

/* Returns the size in bytes of one message between `stage` and `stage` + 1. */
static inline double wf_boundary_bytes(const struct weft_sim_options *o, uint32_t stage,
                                       bool gradient)
{
    double forward = weft_values_get(o->bytes, stage, 0);
    return gradient ? weft_values_get(o->gradient_bytes, stage, forward) : forward;
}

#endif
