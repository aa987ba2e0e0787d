/* Simulates a plan on a cluster: times, bounds, samples with random times, and traffic of
 * residual blocks. */
#ifndef PLANNING_PLANNER_SIMULATION_H
#define PLANNING_PLANNER_SIMULATION_H

#include "planning/planner/plan.h"
#include "planning/planner/traffic_report.h"
#include "weft/bound.h"
#include "weft/sim.h"

/* The input of a simulation.  All pointers are borrowed during the call. */
struct wf_simulation_input {
    struct weft_sim_options options; /* `cost` and `memory` are taken from the plan */
    double effort;                   /* effort of the bounds, see weft/bound.h; 0 means 0.2 */
    size_t n_samples; /* number of samples with random times; 0 disables sampling */
    struct weft_jitter jitter;
    /* layers per residual block; 0 if the model has no residual blocks */
    uint32_t block_layers;
    enum weft_block_cache block_cache;
    struct weft_payload payload;
};

struct wf_simulation {
    struct weft_sim sim;
    struct weft_bounds bounds;    /* makespan 0: unknown, as ranks differ in speed */
    struct weft_samples samples;  /* n is 0 if sampling is disabled */
    struct weft_traffic *traffic; /* owned; NULL without residual blocks */
    struct wf_traffic_report traffic_report;
};

/* Simulates a plan.  The caller releases *out with wf_simulation_release().  Returns
 * WEFT_USAGE if both a cluster and a hop cost are given. */
enum weft_status wf_simulation_init(struct wf_simulation *out, const struct wf_plan *plan,
                                    const struct wf_simulation_input *in,
                                    struct weft_error *err);
void wf_simulation_release(struct wf_simulation *s); /* `s` may be zeroed */

/* Totals and maxima over ranks and links. */
struct wf_simulation_summary {
    struct weft_idle_time idle;            /* sums over all ranks */
    size_t peak_pending_w, peak_receive;   /* maxima over all ranks */
    double bytes;                          /* total over all links */
    const struct weft_link_usage *busiest; /* borrowed; NULL if there are no links */
    uint32_t slowest; /* the rank whose delay increases the makespan most; requires samples */
};

struct wf_simulation_summary wf_simulation_summarize(const struct wf_simulation *s);

/* Writes the simulation as a JSON object. */
void wf_simulation_write_json(struct wf_json *j, const struct wf_simulation *s,
                              const struct wf_plan *plan);

/* Appends the figures of the simulation as text, without those of its plan. */
void wf_simulation_write_text(struct wf_text *out, const struct wf_simulation *s,
                              const struct wf_plan *plan);

#endif
