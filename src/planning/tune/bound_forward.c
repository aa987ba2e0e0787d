/* Computes lower bounds for forward-only schedules. */
#include "planning/tune/bound_forward.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"

/* Times along one pipe, by stage: from time 0 to the earliest start of the stage, and from the
 * end of the stage's forward to the end of the last stage's. */
struct pipe_times {
    double *head, *tail; /* owned */
};

/* The inputs of the bound for one rank. */
struct rank_work {
    double head, work, tail;
};

static double hop_between(const struct weft_placement *p, const struct weft_cost *cost,
                          uint32_t pipe, uint32_t stage)
{
    const uint32_t *rank_of = p->rank_of + (size_t)pipe * p->n_stages;
    return rank_of[stage] == rank_of[stage + 1]
               ? 0
               : weft_cost_hop(cost, p->n_stages, pipe, stage, false);
}

static void fill_times(const struct weft_placement *p, const struct weft_cost *cost,
                       uint32_t pipe, struct pipe_times *t)
{
    uint32_t last = p->n_stages - 1;
    t->head[0] = t->tail[last] = 0;
    for (uint32_t s = 0; s < last; s++)
        t->head[s + 1] =
            t->head[s] + weft_cost_stage(cost, s).f + hop_between(p, cost, pipe, s);
    for (uint32_t s = last; s-- > 0;)
        t->tail[s] =
            t->tail[s + 1] + weft_cost_stage(cost, s + 1).f + hop_between(p, cost, pipe, s);
}

static uint32_t count_micros(const struct weft_placement *p, uint32_t pipe)
{
    uint32_t n = 0;
    for (uint32_t m = 0; m < p->n_micros; m++)
        n += weft_placement_pipe(p, m) == pipe;
    return n;
}

/* Adds the work of one pipe to its ranks.  Returns the time of one micro through the pipe. */
static double add_pipe(const struct weft_placement *p, const struct weft_cost *cost,
                       uint32_t pipe, struct pipe_times *t, struct rank_work *ranks)
{
    uint32_t micros = count_micros(p, pipe);
    if (micros == 0)
        return 0;
    fill_times(p, cost, pipe, t);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        struct rank_work *r = &ranks[p->rank_of[(size_t)pipe * p->n_stages + s]];
        r->head = fmin(r->head, t->head[s]);
        r->tail = fmin(r->tail, t->tail[s]);
        r->work += micros * weft_cost_stage(cost, s).f;
    }
    return weft_cost_stage(cost, 0).f + t->tail[0];
}

enum weft_status wf_bounds_forward(const struct weft_schedule *s, const struct weft_cost *cost,
                                   struct weft_bounds *out, struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    WEFT_TRY(weft_cost_check(cost, NULL, p->n_ranks, p->n_stages, p->n_micros, err));
    struct rank_work *ranks = calloc(p->n_ranks, sizeof *ranks);
    struct pipe_times t = {calloc(p->n_stages, sizeof(double)),
                           calloc(p->n_stages, sizeof(double))};
    struct weft_bounds bounds = {.makespan_by = WEFT_BOUND_WORK, .span_by = WEFT_BOUND_WORK};
    enum weft_status st = WEFT_OK;
    if (ranks == NULL || t.head == NULL || t.tail == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a bound over %u stages", p->n_stages);

    for (uint32_t r = 0; st == WEFT_OK && r < p->n_ranks; r++)
        ranks[r].head = ranks[r].tail = HUGE_VAL;
    for (uint32_t pipe = 0; st == WEFT_OK && pipe < p->n_pipes; pipe++)
        bounds.makespan = fmax(bounds.makespan, add_pipe(p, cost, pipe, &t, ranks));
    for (uint32_t r = 0; st == WEFT_OK && r < p->n_ranks; r++) {
        if (ranks[r].head == HUGE_VAL)
            continue; /* no stage of a pipe with micros is on this rank */
        bounds.makespan = fmax(bounds.makespan, ranks[r].head + ranks[r].work + ranks[r].tail);
        bounds.span = fmax(bounds.span, ranks[r].work);
    }

    free(ranks);
    free(t.head);
    free(t.tail);
    if (st == WEFT_OK) {
        bounds.each_makespan[WEFT_BOUND_WORK] = bounds.makespan;
        bounds.each_span[WEFT_BOUND_WORK] = bounds.span;
        *out = bounds;
    }
    return st;
}
