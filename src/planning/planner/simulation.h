/* Simulates a plan on a cluster: times, bounds, varied times, traffic of residual blocks. */
#ifndef PLANNING_PLANNER_SIMULATION_H
#define PLANNING_PLANNER_SIMULATION_H

#include "planning/planner/plan.h"
#include "planning/planner/traffic_report.h"
#include "weft/bound.h"
#include "weft/sim.h"

/* Everything is borrowed during the call. */
struct wf_simulation_input {
    struct weft_sim_options options; /* cost and memory are those of the plan */
    size_t n_samples;                /* 0: the times do not vary */
    struct weft_jitter jitter;
    uint32_t block_layers; /* of a residual block; 0: the model has none */
    enum weft_block_cache block_cache;
    struct weft_payload payload;
};

struct wf_simulation {
    struct weft_sim sim;
    struct weft_bounds bounds;    /* makespan 0: not known, since ranks differ in speed */
    struct weft_samples samples;  /* n 0: none */
    struct weft_traffic *traffic; /* owned; NULL without residual blocks */
    struct wf_traffic_report traffic_report;
};

/* Simulates a plan.  wf_simulation_release() frees.  Returns WEFT_USAGE if a cluster and a hop
 * cost are both given. */
enum weft_status wf_simulation_init(struct wf_simulation *out, const struct wf_plan *plan,
                                    const struct wf_simulation_input *in,
                                    struct weft_error *err);
void wf_simulation_release(struct wf_simulation *s); /* a zeroed one is allowed */

/* Totals over ranks and links. */
struct wf_simulation_summary {
    struct weft_idle_time idle;            /* sums over all ranks */
    size_t peak_pending_w, peak_receive;   /* maxima over all ranks */
    double bytes;                          /* over all links */
    const struct weft_link_usage *busiest; /* borrowed; NULL without links */
    uint32_t slowest; /* the rank whose delay costs the most; with samples */
};

struct wf_simulation_summary wf_simulation_summarize(const struct wf_simulation *s);

/* Writes the simulation as a JSON object. */
void wf_simulation_write_json(struct wf_json *j, const struct wf_simulation *s,
                              const struct wf_plan *plan);

#endif
