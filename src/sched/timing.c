#include "weft/timing.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "sched/schedule_priv.h"
#include "sched/walk.h"

/* State of one run: when each output and each input gradient was ready, when each rank is. */
struct clockwork {
    const struct weft_schedule *s;
    const struct weft_cost *cost;
    struct weft_dep_rules rules;
    struct weft_stage_cost *times;    /* owned: (stages) */
    struct weft_stage_memory *deltas; /* owned: (stages) */
    double *forward, *gradient;       /* owned: (stages, micros), when it was done */
    double hop;
};

struct rank_state {
    double free, first, busy, mem;
    size_t live;
};

size_t weft_schedule_offset(const struct weft_schedule *s, uint32_t rank)
{
    return s->first[rank];
}

static double action_time(const struct clockwork *c, struct weft_action a)
{
    const struct weft_stage_cost *t = &c->times[a.stage];
    switch (a.kind) {
    case WEFT_ACT_F:
        return t->f;
    case WEFT_ACT_B:
        return t->b;
    case WEFT_ACT_I:
        return t->i;
    case WEFT_ACT_W:
        return t->w;
    }
    return 0;
}

/* The pair's own time; a pair with only an input gradient gets it in proportion. */
static double pair_time(const struct clockwork *c, struct weft_action a, struct weft_action b)
{
    struct weft_action f = a.kind == WEFT_ACT_F ? a : b, g = a.kind == WEFT_ACT_F ? b : a;
    double whole = weft_cost_pair(c->cost, f.stage, g.stage);
    if (g.kind == WEFT_ACT_B)
        return whole;
    double apart = c->times[f.stage].f + c->times[g.stage].b;
    return apart > 0 ? whole * (c->times[f.stage].f + c->times[g.stage].i) / apart : 0;
}

/* The earliest start that the action's own dependencies allow. */
static double ready_at(const struct clockwork *c, struct weft_action a, uint32_t rank)
{
    const struct weft_placement *place = c->rules.place;
    struct weft_dep deps[2];
    double t = 0;
    unsigned n = weft_kind_is_compute(a.kind) ? weft_action_deps(&c->rules, a, deps) : 0;
    for (unsigned i = 0; i < n; i++) {
        size_t cell = (size_t)deps[i].stage * place->n_micros + deps[i].micro;
        double done = deps[i].event == WEFT_EV_F ? c->forward[cell] : c->gradient[cell];
        if (deps[i].stage != a.stage &&
            weft_placement_rank(place, deps[i].stage, deps[i].micro) != rank)
            done += c->hop;
        if (done > t)
            t = done;
    }
    return t;
}

/* Books memory, activations and messages of one compute action, and when its result is there. */
static void book(const struct clockwork *c, struct weft_metrics *m, struct rank_state *state,
                 uint32_t rank, struct weft_action a, double end)
{
    const struct weft_placement *place = c->rules.place;
    const struct weft_stage_memory *d = &c->deltas[a.stage];
    size_t cell = (size_t)a.stage * place->n_micros + a.micro;
    m->n_actions++;
    state->mem += a.kind == WEFT_ACT_F   ? d->f
                  : a.kind == WEFT_ACT_I ? d->i
                  : a.kind == WEFT_ACT_W ? d->w
                                         : d->i + d->w;
    if (state->mem > m->peak_mem[rank])
        m->peak_mem[rank] = state->mem;
    if (a.kind == WEFT_ACT_F) {
        c->forward[cell] = end;
        if (++state->live > m->peak_activations[rank])
            m->peak_activations[rank] = state->live;
    } else if (a.kind != WEFT_ACT_W) {
        c->gradient[cell] = end;
    }
    if (weft_kind_frees_activation(a.kind) && state->live > 0)
        state->live--;
    int64_t heir = a.kind == WEFT_ACT_W ? -1 : weft_action_heir(a);
    if (heir >= 0 && heir < place->n_stages)
        m->n_messages += weft_placement_rank(place, (uint32_t)heir, a.micro) != rank;
}

static void run_rank(const struct clockwork *c, struct weft_metrics *m,
                     struct rank_state *state, const struct weft_run *run)
{
    struct weft_action_span row = weft_schedule_rank(c->s, run->rank);
    size_t base = weft_schedule_offset(c->s, run->rank);
    for (size_t i = run->begin; i < run->end;) {
        struct weft_action a = row.at[i];
        size_t unit = a.paired ? 2 : 1;
        double start = state->free, length = 0;
        if (weft_kind_is_compute(a.kind)) {
            for (size_t k = 0; k < unit; k++) {
                double t = ready_at(c, row.at[i + k], run->rank);
                start = t > start ? t : start;
            }
            length = unit == 2 ? pair_time(c, a, row.at[i + 1]) : action_time(c, a);
            if (state->first < 0)
                state->first = start;
            for (size_t k = 0; k < unit; k++)
                book(c, m, state, run->rank, row.at[i + k], start + length);
        }
        m->start[base + i] = start;
        m->length[base + i] = length;
        if (unit == 2) {
            m->start[base + i + 1] = start;
            m->length[base + i + 1] = 0;
        }
        state->free = start + length;
        state->busy += length;
        i += unit;
    }
}

static void sum_up(struct weft_metrics *m, const struct weft_placement *place,
                   const struct rank_state *states)
{
    double idle = 0, busy = 0;
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        if (states[r].first >= 0 && states[r].free > m->makespan)
            m->makespan = states[r].free;
        m->rank_span[r] = states[r].first < 0 ? 0 : states[r].free - states[r].first;
        if (m->rank_span[r] > m->span)
            m->span = m->rank_span[r];
        m->busy[r] = states[r].busy;
        busy += states[r].busy;
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
}

static bool clockwork_init(struct clockwork *c, const struct weft_schedule *s,
                           const struct weft_cost *cost, const struct weft_memory *memory)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    size_t cells = (size_t)place->n_stages * place->n_micros;
    *c = (struct clockwork){
        .s = s, .cost = cost, .rules = {place, false}, .hop = cost == NULL ? 0 : cost->hop};
    c->times = malloc(sizeof *c->times * place->n_stages);
    c->deltas = malloc(sizeof *c->deltas * place->n_stages);
    c->forward = calloc(cells + 1, sizeof *c->forward);
    c->gradient = calloc(cells + 1, sizeof *c->gradient);
    if (c->times == NULL || c->deltas == NULL || c->forward == NULL || c->gradient == NULL)
        return false;
    for (uint32_t i = 0; i < place->n_stages; i++) {
        c->times[i] = weft_cost_stage(cost, i);
        c->deltas[i] = weft_memory_stage(memory, i);
    }
    return true;
}

static void clockwork_release(struct clockwork *c)
{
    free(c->times);
    free(c->deltas);
    free(c->forward);
    free(c->gradient);
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
                                   const struct weft_memory *memory, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    struct clockwork c = {0};
    struct weft_walk w = {0};
    struct weft_metrics m = {0};
    struct rank_state *states = calloc(place->n_ranks, sizeof *states);
    enum weft_status st = WEFT_OK;
    if (states == NULL || !clockwork_init(&c, s, cost, memory) ||
        !metrics_alloc(&m, place->n_ranks, weft_schedule_n_actions(s))) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to time a schedule of %zu actions",
                       weft_schedule_n_actions(s));
        goto done;
    }
    st = weft_walk_init(&w, s, WEFT_WALK_COMPUTE, NULL, WEFT_DEPTH_BUFFERED, err);
    if (st != WEFT_OK)
        goto done;
    for (uint32_t r = 0; r < place->n_ranks; r++)
        states[r].first = -1;
    struct weft_run run;
    while (weft_walk_next(&w, &run))
        run_rank(&c, &m, &states[run.rank], &run);
    if (w.n_done < w.n_all) {
        st = WEFT_FAIL(err, WEFT_SCHEDULE, "the schedule deadlocks: weft check shows where");
        goto done;
    }
    sum_up(&m, place, states);
    *out = m;
    m = (struct weft_metrics){0};
done:
    weft_metrics_release(&m);
    weft_walk_release(&w);
    clockwork_release(&c);
    free(states);
    return st;
}
