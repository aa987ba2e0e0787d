/* Plans as burn_dragon, a reference system, has them: the rules for settings, bubble, summary
 * line, workloads, and the gradient of a shared weight. */
#include "weft/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

enum weft_status weft_reference_plan_check(const struct weft_reference_plan *p,
                                           struct weft_error *err)
{
    size_t s = p->stage_count, v = p->virtual_stages_per_rank, m = p->microbatches;
    size_t stages, events;

    if (!p->enabled)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "pipeline planning requires parallel.pipeline.enabled = true");

    if (p->n_layer == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "pipeline planning requires n_layer > 0");
    if (s == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "pipeline planning requires parallel.pipeline.stage_count > 0");

    if (v == 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "pipeline planning requires parallel.pipeline.virtual_stages_per_rank > 0");
    if (v > s)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.pipeline.virtual_stages_per_rank must be <= "
                         "parallel.pipeline.stage_count (got %zu > %zu)",
                         v, s);

    if (m == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "pipeline planning requires parallel.pipeline.microbatches > 0");
    if (p->interleaved && m < s)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.pipeline.microbatches must be >= "
                         "parallel.pipeline.stage_count for interleaved_1f1b (got %zu < %zu)",
                         m, s);

    if (!wf_size_mul(s, v, &stages))
        return WEFT_FAIL(err, WEFT_USAGE, "pipeline virtual-stage count overflow");
    if (stages > p->n_layer)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "pipeline planning requires total virtual stages <= n_layer (got %zu > "
            "%zu)",
            stages, p->n_layer);

    if (!wf_size_mul(m, stages, &events) || !wf_size_mul(events, 2, &events))
        return WEFT_FAIL(err, WEFT_USAGE, "pipeline event count overflow");
    return WEFT_OK;
}

float weft_reference_bubble(const struct weft_metrics *m)
{
    double idle = 0, all = m->makespan * m->n_ranks;
    for (uint32_t r = 0; r < m->n_ranks; r++)
        idle += m->idle[r];
    return (float)idle / (float)(all > 1 ? all : 1);
}

enum weft_status weft_reference_summary(const struct weft_schedule *s,
                                        const struct weft_metrics *m, char *out, size_t size,
                                        struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    const char *name = strcmp(weft_schedule_name(s), "greedy-gpipe") == 0  ? "Gpipe"
                       : strcmp(weft_schedule_name(s), "greedy-1f1b") == 0 ? "Interleaved1f1b"
                                                                           : NULL;
    if (name == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the reference system has no schedule '%s' (expected greedy-gpipe or "
                         "greedy-1f1b)",
                         weft_schedule_name(s));

    snprintf(
        out, size,
        "schedule=%s physical_stages=%u virtual_stages_per_rank=%u total_virtual_stages=%u "
        "microbatches=%u total_ticks=%.0f bubble_fraction=%.3f",
        name, p->n_ranks, weft_schedule_n_chunks(s), p->n_stages, p->n_micros, m->makespan,
        (double)weft_reference_bubble(m));
    return WEFT_OK;
}

/* Returns true if any pipe has the stage on this rank.  Unlike weft_placement_runs(), this
 * includes pipes that have no micro. */
static bool is_placed_on(const struct weft_placement *p, uint32_t stage, uint32_t rank)
{
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++)
        if (p->rank_of[(size_t)pipe * p->n_stages + stage] == rank)
            return true;
    return false;
}

enum weft_status weft_workload_init(struct weft_workload *out, const struct weft_schedule *s,
                                    const struct weft_event *events, size_t n_events,
                                    uint32_t rank, struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    if (rank >= p->n_ranks)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u is out of range (expected 0 to %u)", rank,
                         p->n_ranks - 1);

    struct weft_workload w = {0};
    w.stages = malloc(sizeof *w.stages * p->n_stages);
    w.forward = malloc(sizeof *w.forward * (n_events + 1));
    w.backward = malloc(sizeof *w.backward * (n_events + 1));
    if (w.stages == NULL || w.forward == NULL || w.backward == NULL) {
        weft_workload_release(&w);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a workload");
    }

    for (uint32_t stage = 0; stage < p->n_stages; stage++)
        if (is_placed_on(p, stage, rank))
            w.stages[w.n_stages++] = stage;
    for (size_t i = 0; i < n_events; i++) {
        if (events[i].rank != rank)
            continue;
        if (events[i].kind == WEFT_ACT_F)
            w.forward[w.n_forward++] = i;
        else
            w.backward[w.n_backward++] = i;
    }
    *out = w;
    return WEFT_OK;
}

void weft_workload_release(struct weft_workload *w)
{
    free(w->stages);
    free(w->forward);
    free(w->backward);
    *w = (struct weft_workload){0};
}

enum weft_status
weft_reference_merge_gradients(const struct weft_schedule *s, const struct weft_partition *p,
                               weft_reference_gradient_fn *gradient, void *arg, float weight,
                               float learning_rate, float *rank_gradients,
                               struct weft_reference_merge *out, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    if (place->n_pipes != 1)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the schedule has %u pipes (expected 1, as in the reference system)",
                         place->n_pipes);
    if (p->n_stages != place->n_stages)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the partition has %u stages (expected %u, as the schedule)",
                         p->n_stages, place->n_stages);

    struct weft_reference_merge merge = {0};
    memset(rank_gradients, 0, place->n_ranks * sizeof *rank_gradients);
    for (uint32_t stage = 0; stage < p->n_stages; stage++) {
        float *of_rank = &rank_gradients[place->rank_of[stage]];
        for (uint32_t l = p->at[stage].first_layer; l < p->at[stage].end_layer; l++)
            for (uint32_t m = 0; m < place->n_micros; m++) {
                float g = gradient(arg, l, m);
                merge.reference_gradient += g;
                *of_rank += g;
            }
    }
    for (uint32_t r = 0; r < place->n_ranks; r++)
        merge.merged_gradient += rank_gradients[r];
    merge.updated_weight = weight - learning_rate * merge.merged_gradient;
    *out = merge;
    return WEFT_OK;
}
