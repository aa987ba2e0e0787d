/* Simulates a plan on a cluster and computes bounds, samples and traffic. */
#include "planning/planner/simulation.h"

#include <stdlib.h>

#include "base/error.h"
#include "config/values.h"
#include "planning/sim/hops.h"

void wf_simulation_release(struct wf_simulation *s)
{
    wf_traffic_report_release(&s->traffic_report);
    weft_traffic_free(s->traffic);
    weft_samples_release(&s->samples);
    weft_sim_release(&s->sim);
    *s = (struct wf_simulation){0};
}

/* Computes lower bounds for all orders, with the hops of the cluster and the speeds of the ranks.
 * If ranks differ in speed and a stage runs on several of them, no bound is known. */
static enum weft_status find_bounds(struct wf_simulation *s, const struct wf_plan *plan,
                                    const struct weft_sim_options *options, double effort,
                                    struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(plan->schedule);
    struct weft_cost cost;
    if (!wf_cost_is_placeable(place, options))
        return WEFT_OK;
    WEFT_TRY(wf_cost_place(&cost, place, options, err));
    enum weft_status st =
        weft_bounds_of(plan->schedule, &cost, &plan->memory, effort, &s->bounds, err);
    wf_cost_release(&cost);
    return st;
}

static enum weft_status count_traffic(struct wf_simulation *s, const struct wf_plan *plan,
                                      const struct wf_simulation_input *in,
                                      struct weft_error *err)
{
    uint32_t *finished_by = NULL, n = 0;
    if (in->block_layers == 0)
        return WEFT_OK;
    WEFT_TRY(weft_residual_blocks(&plan->partition, in->block_layers, &finished_by, &n, err));
    enum weft_status st = weft_traffic_new(weft_schedule_placement(plan->schedule), finished_by,
                                           n, in->block_cache, &s->traffic, err);
    free(finished_by);
    if (st == WEFT_OK)
        st = wf_traffic_report_init(&s->traffic_report, s->traffic, plan->schedule, in->payload,
                                    in->block_layers, err);
    return st;
}

static enum weft_status simulate(struct wf_simulation *s, const struct wf_plan *plan,
                                 const struct wf_simulation_input *in, struct weft_error *err)
{
    struct weft_sim_options options = in->options;
    options.cost = &plan->cost;
    options.memory = &plan->memory;
    if (options.cluster != NULL && plan->cost.hop > 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "the cluster determines the times of hops, but a hop cost of %g is given; remove "
            "one of them",
            plan->cost.hop);
    WEFT_TRY(weft_sim_init(&s->sim, plan->schedule, &options, err));
    WEFT_TRY(find_bounds(s, plan, &options, in->effort > 0 ? in->effort : 0.2, err));
    WEFT_TRY(count_traffic(s, plan, in, err));
    if (in->n_samples == 0)
        return WEFT_OK;
    return weft_samples_init(&s->samples, plan->schedule, &options, &in->jitter, in->n_samples,
                             err);
}

enum weft_status wf_simulation_init(struct wf_simulation *out, const struct wf_plan *plan,
                                    const struct wf_simulation_input *in,
                                    struct weft_error *err)
{
    struct wf_simulation s = {0};
    enum weft_status st = simulate(&s, plan, in, err);
    if (st == WEFT_OK)
        *out = s;
    else
        wf_simulation_release(&s);
    return st;
}

static double link_bytes(const struct weft_link_usage *l)
{
    return l->forward_bytes + l->backward_bytes;
}

struct wf_simulation_summary wf_simulation_summarize(const struct wf_simulation *s)
{
    struct wf_simulation_summary sum = {0};
    for (uint32_t r = 0; r < s->sim.metrics.n_ranks; r++) {
        const struct weft_idle_time *idle = &s->sim.idle[r];
        sum.idle.warm_up += idle->warm_up;
        sum.idle.drain += idle->drain;
        sum.idle.communication += idle->communication;
        sum.idle.imbalance += idle->imbalance;
        sum.idle.data += idle->data;
        if (s->sim.peak_pending_w[r] > sum.peak_pending_w)
            sum.peak_pending_w = s->sim.peak_pending_w[r];
        if (s->sim.peak_receive[r] > sum.peak_receive)
            sum.peak_receive = s->sim.peak_receive[r];
        if (s->samples.n > 0 && s->samples.slow_rank[r] > s->samples.slow_rank[sum.slowest])
            sum.slowest = r;
    }
    for (size_t i = 0; i < s->sim.n_links; i++) {
        const struct weft_link_usage *l = &s->sim.links[i], *best = sum.busiest;
        sum.bytes += link_bytes(l);
        if (best == NULL || l->busy > best->busy ||
            (l->busy == best->busy && link_bytes(l) > link_bytes(best)))
            sum.busiest = l;
    }
    return sum;
}
