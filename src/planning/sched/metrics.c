/* Computes the metrics of a timed schedule: makespan, bubbles, busy and idle times, peaks. */
#include "planning/sched/metrics.h"

#include <stdlib.h>

#include "base/error.h"
#include "planning/sched/deps.h"
#include "planning/sched/schedule_priv.h"

size_t weft_schedule_offset(const struct weft_schedule *s, uint32_t rank)
{
    return s->first[rank];
}

/* Computes the metrics that depend only on the order of actions, not on times: peak memory,
 * peak activations and number of messages. */
static void count_rank(struct weft_metrics *m, const struct weft_schedule *s,
                       const struct weft_stage_memory *deltas, uint32_t rank)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    struct weft_action_span row = weft_schedule_rank(s, rank);
    bool forward_only = weft_schedule_is_forward_only(s);
    double mem = 0;
    size_t live = 0;
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        if (!weft_act_is_compute(a.kind))
            continue;
        const struct weft_stage_memory *d = &deltas[a.stage];
        /* change of memory per kind: F, B, I, W */
        const double change[] = {d->f, d->i + d->w, d->i, d->w};

        m->n_actions++;
        mem += change[a.kind];
        if (mem > m->peak_mem[rank])
            m->peak_mem[rank] = mem;
        if (a.kind == WEFT_ACT_F && ++live > m->peak_activations[rank])
            m->peak_activations[rank] = live;
        if ((wf_act_frees_activation(a.kind) || forward_only) && live > 0)
            live--;
        if (forward_only) /* the stage keeps nothing after its forward */
            mem = 0;

        int64_t dependent = a.kind == WEFT_ACT_W ? -1 : wf_action_dependent(a);
        if (dependent >= 0 && dependent < place->n_stages)
            m->n_messages += weft_placement_rank(place, (uint32_t)dependent, a.micro) != rank;
    }
}

static void compute_totals(struct weft_metrics *m, const struct weft_placement *place,
                           const struct wf_rank_times *clocks)
{
    double idle = 0, busy = 0;
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        if (clocks[r].first >= 0 && clocks[r].end > m->makespan)
            m->makespan = clocks[r].end;
        m->rank_span[r] = clocks[r].first < 0 ? 0 : clocks[r].end - clocks[r].first;
        if (m->rank_span[r] > m->span)
            m->span = m->rank_span[r];
        m->busy[r] = clocks[r].busy;
        busy += clocks[r].busy;
    }

    for (uint32_t r = 0; r < m->n_ranks; r++) {
        m->idle[r] = m->makespan - m->busy[r];
        idle += m->idle[r];
    }

    if (m->makespan > 0)
        m->bubble = idle / (m->n_ranks * m->makespan);
    if (m->span > 0)
        m->bubble_span = (m->n_ranks * m->span - busy) / (m->n_ranks * m->span);
    m->bubble_ratio = (double)(m->n_ranks - 1) / (double)place->n_micros;
    m->efficiency = 1 - m->bubble_ratio;
}

static bool metrics_alloc(struct weft_metrics *m, uint32_t n_ranks, size_t n_actions)
{
    *m = (struct weft_metrics){.n_ranks = n_ranks};
    m->busy = calloc(n_ranks, sizeof *m->busy);
    m->idle = calloc(n_ranks, sizeof *m->idle);
    m->rank_span = calloc(n_ranks, sizeof *m->rank_span);
    m->peak_mem = calloc(n_ranks, sizeof *m->peak_mem);
    m->peak_activations = calloc(n_ranks, sizeof *m->peak_activations);
    m->start = calloc(n_actions + 1, sizeof *m->start);
    m->length = calloc(n_actions + 1, sizeof *m->length);
    return m->busy != NULL && m->idle != NULL && m->rank_span != NULL && m->peak_mem != NULL &&
           m->peak_activations != NULL && m->start != NULL && m->length != NULL;
}

void weft_metrics_release(struct weft_metrics *m)
{
    free(m->busy);
    free(m->idle);
    free(m->rank_span);
    free(m->peak_mem);
    free(m->peak_activations);
    free(m->start);
    free(m->length);
    *m = (struct weft_metrics){0};
}

enum weft_status weft_metrics_init(struct weft_metrics *out, const struct weft_schedule *s,
                                   const struct weft_cost *cost,
                                   const struct weft_memory_cost *memory,
                                   struct weft_error *err)
{
    const struct wf_start_times_input in = {.schedule = s, .cost = cost};
    return wf_metrics_init_full(out, &in, memory, err);
}

enum weft_status wf_metrics_init_full(struct weft_metrics *out,
                                      const struct wf_start_times_input *in,
                                      const struct weft_memory_cost *memory,
                                      struct weft_error *err)
{
    const struct weft_schedule *s = in->schedule;
    const struct weft_placement *place = weft_schedule_placement(s);
    WEFT_TRY(weft_cost_check(in->cost, memory, place->n_ranks, place->n_stages, place->n_micros,
                             err));

    struct weft_metrics m = {0};
    struct wf_rank_times *clocks = calloc(place->n_ranks, sizeof *clocks);
    struct weft_stage_memory *deltas = malloc(sizeof *deltas * place->n_stages);
    enum weft_status st = WEFT_OK;
    if (clocks == NULL || deltas == NULL ||
        !metrics_alloc(&m, place->n_ranks, weft_schedule_n_actions(s)))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to time a schedule of %zu actions",
                       weft_schedule_n_actions(s));

    if (st == WEFT_OK)
        st = wf_start_times_compute(in, clocks, m.start, m.length, err);
    if (st == WEFT_OK) {
        for (uint32_t i = 0; i < place->n_stages; i++)
            deltas[i] = weft_memory_cost_stage(memory, i);
        for (uint32_t r = 0; r < place->n_ranks; r++)
            count_rank(&m, s, deltas, r);
        compute_totals(&m, place, clocks);
        *out = m;
        m = (struct weft_metrics){0};
    }

    weft_metrics_release(&m);
    free(clocks);
    free(deltas);
    return st;
}
