/* Output in the forms of the reference system: bubble, summary line and workloads. */
#include "weft/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

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
