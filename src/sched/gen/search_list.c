#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/gen/search.h"

/* The list scheduler: time goes on, and whenever a rank is free it takes one of the actions that
 * can start, by rules with knobs.
 *
 *     gradients first (they free memory and others wait for them), then forwards, the deeper
 *     chunk first, then weight gradients, which nobody waits for, to fill the gaps
 *
 * What it makes always fits the limits and never gets stuck.  The danger is that forwards of
 * chunk 0 take all memory, so that the oldest micro finds no room to come back up through chunk
 * 1.  Hence a forward of chunk 0 starts only if, with all begun micros' chunk 1 finished and all
 * weight gradients done, there would still be room for one pass through chunk 1.
 */

struct rank_list {
    double free, mem;
    uint32_t done[3][2]; /* passes and chunks: how many micros */
    uint32_t len;
    uint32_t follow; /* position in the order that is followed */
};

struct weft_lister {
    struct rank_list *ranks; /* owned: (ranks) */
    double *arrival;         /* owned: (n_ops), when its input is there, INFINITY: not known */
    double *expected;        /* owned: (n_ops), when it started in the order that is followed */
    double *wake;            /* owned: (2 * leaves), a tournament: the earliest of each pair */
    uint32_t leaves;
};

struct weft_lister *weft_lister_new(const struct weft_search *s)
{
    struct weft_lister *l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    for (l->leaves = 1; l->leaves < s->n_ranks; l->leaves *= 2)
        ;
    l->ranks = malloc(sizeof *l->ranks * s->n_ranks);
    l->arrival = malloc(sizeof *l->arrival * s->n_ops);
    l->expected = malloc(sizeof *l->expected * s->n_ops);
    l->wake = malloc(sizeof *l->wake * 2 * l->leaves);
    if (l->ranks == NULL || l->arrival == NULL || l->expected == NULL || l->wake == NULL) {
        weft_lister_free(l);
        return NULL;
    }
    return l;
}

void weft_lister_free(struct weft_lister *l)
{
    if (l == NULL)
        return;
    free(l->ranks);
    free(l->arrival);
    free(l->expected);
    free(l->wake);
    free(l);
}

static void set_wake(struct weft_lister *l, uint32_t rank, double t)
{
    uint32_t i = l->leaves + rank;
    l->wake[i] = t;
    for (i /= 2; i > 0; i /= 2)
        l->wake[i] = fmin(l->wake[2 * i], l->wake[2 * i + 1]);
}

/* The rank that wakes first; n_ranks when none ever does. */
static uint32_t next_rank(const struct weft_lister *l, uint32_t n_ranks)
{
    uint32_t i = 1;
    if (l->wake[1] == INFINITY)
        return n_ranks;
    while (i < l->leaves)
        i = 2 * i + (l->wake[2 * i] > l->wake[2 * i + 1]);
    return i - l->leaves;
}

/* The next action of a pass and chunk on a rank, or WEFT_NO_OP. */
static uint32_t next_op(const struct weft_search *s, const struct rank_list *k, uint32_t rank,
                        uint32_t pass, uint32_t chunk)
{
    uint32_t m = k->done[pass][chunk];
    uint32_t may = pass == WEFT_PASS_F ? s->n_micros : k->done[pass - 1][chunk];
    return m < may ? weft_search_op(s, pass, weft_search_stage(s, rank, chunk), m) : WEFT_NO_OP;
}

static void issue(struct weft_lister *l, struct weft_search *s, uint32_t id, double t)
{
    const struct weft_op *op = &s->ops[id];
    struct rank_list *k = &l->ranks[op->rank];
    uint32_t pass = op->row / s->n_stages, chunk = op->row % s->n_stages >= s->n_ranks;
    s->order[op->rank * s->per_rank + k->len++] = id;
    k->done[pass][chunk]++;
    k->mem += op->delta;
    k->free = t + op->time;
    if (op->to != WEFT_NO_OP) {
        const struct weft_op *to = &s->ops[op->to];
        double there = k->free + to->hop;
        l->arrival[op->to] = there;
        if (to->rank != op->rank && there < l->wake[l->leaves + to->rank])
            set_wake(l, to->rank, fmax(there, l->ranks[to->rank].free));
    }
    set_wake(l, op->rank, k->free);
}

/* Room that has to stay for the oldest micro to finish when a forward of `chunk` has started. */
static bool leaves_room(const struct weft_search *s, const struct rank_list *k, uint32_t rank,
                        uint32_t chunk)
{
    const struct weft_op *f0 = &s->ops[weft_search_op(s, WEFT_PASS_F, rank, 0)];
    const struct weft_op *i0 = &s->ops[weft_search_op(s, WEFT_PASS_I, rank, 0)];
    if (s->n_chunks == 1)
        return weft_search_fits(s, rank, (k->done[0][0] - k->done[1][0] + 1) * f0->delta +
                                             fmax(0, i0->delta));
    uint32_t up = weft_search_stage(s, rank, 1);
    const struct weft_op *f1 = &s->ops[weft_search_op(s, WEFT_PASS_F, up, 0)];
    const struct weft_op *i1 = &s->ops[weft_search_op(s, WEFT_PASS_I, up, 0)];
    double through = f1->delta + fmax(0, i1->delta);
    double held = (k->done[0][0] - k->done[1][0] + (chunk == 0)) * f0->delta;
    if (chunk == 1)
        held += (k->done[0][1] - k->done[1][1]) * f1->delta;
    return weft_search_fits(s, rank, held + fmax(through, fmax(0, i0->delta)));
}

struct choice {
    uint32_t id;
    double at; /* when it can start */
};

static void prefer(struct choice *best, const struct weft_lister *l, uint32_t id, double now)
{
    double at = fmax(now, l->arrival[id]);
    if (best->id == WEFT_NO_OP || at < best->at)
        *best = (struct choice){id, at};
}

/* The gradient to take, by arrival; both there: the deeper chunk's, or that of the older micro. */
static struct choice pick_gradient(const struct weft_lister *l, const struct weft_search *s,
                                   const struct weft_knobs *knobs, uint32_t rank, double now)
{
    const struct rank_list *k = &l->ranks[rank];
    struct choice best = {WEFT_NO_OP, INFINITY};
    bool upper = s->n_chunks == 2 &&
                 (knobs->deep_first || k->done[1][1] < k->done[1][0] + s->n_ranks - rank);
    for (uint32_t n = 0; n < s->n_chunks; n++) {
        uint32_t id = next_op(s, k, rank, WEFT_PASS_I, upper ? 1 - n : n);
        if (id != WEFT_NO_OP)
            prefer(&best, l, id, now);
    }
    return best;
}

/* The forward to take: the deeper chunk's, if both are there.  `blocked` is set when one only
 * waits for weight gradients to free memory. */
static struct choice pick_forward(const struct weft_lister *l, const struct weft_search *s,
                                  const struct weft_knobs *knobs, uint32_t rank, double now,
                                  double *blocked)
{
    const struct rank_list *k = &l->ranks[rank];
    struct choice best = {WEFT_NO_OP, INFINITY};
    double cap = floor(knobs->ahead + knobs->ahead_slope * (s->n_ranks - 1 - rank) + 1e-9);
    *blocked = INFINITY;
    for (uint32_t c = s->n_chunks; c-- > 0;) {
        uint32_t id = next_op(s, k, rank, WEFT_PASS_F, c);
        if (id == WEFT_NO_OP || !leaves_room(s, k, rank, c))
            continue;
        if (c == 0 && k->done[0][0] - k->done[1][0] >= fmax(1, cap))
            continue;
        if (weft_search_fits(s, rank, k->mem + s->ops[id].delta))
            prefer(&best, l, id, now);
        else
            *blocked = fmin(*blocked, fmax(now, l->arrival[id]));
    }
    return best;
}

/* The oldest weight gradient, the deeper chunk first. */
static uint32_t pick_weight(const struct weft_lister *l, const struct weft_search *s,
                            uint32_t rank)
{
    const struct rank_list *k = &l->ranks[rank];
    uint32_t best = WEFT_NO_OP;
    if (s->n_passes < 3)
        return best;
    for (uint32_t c = s->n_chunks; c-- > 0;) {
        uint32_t id = next_op(s, k, rank, WEFT_PASS_W, c);
        if (id != WEFT_NO_OP && (best == WEFT_NO_OP || k->done[2][c] < best % s->n_micros))
            best = id;
    }
    return best;
}

static double nominal(const struct weft_search *s, const struct weft_knobs *knobs, uint32_t id)
{
    return knobs->offset[s->ops[id].row] + knobs->period * (id % s->n_micros);
}

/* Of what can start now, what the steady state would run first; failing that, what arrives
 * first. */
static struct choice pick_by_block(const struct weft_lister *l, const struct weft_search *s,
                                   const struct weft_knobs *knobs, uint32_t rank, double now,
                                   double *blocked)
{
    const struct rank_list *k = &l->ranks[rank];
    struct choice best = {WEFT_NO_OP, INFINITY};
    double cap = floor(knobs->ahead + knobs->ahead_slope * (s->n_ranks - 1 - rank) + 1e-9);
    double first = INFINITY;
    *blocked = INFINITY;
    for (uint32_t n = 0; n < 2 * s->n_chunks; n++) {
        uint32_t pass = n % 2, c = n / 2, id = next_op(s, k, rank, pass, c);
        if (id == WEFT_NO_OP)
            continue;
        if (pass == WEFT_PASS_F) {
            if (!leaves_room(s, k, rank, c))
                continue;
            if (c == 0 && k->done[0][0] - k->done[1][0] >= fmax(1, cap))
                continue;
            if (!weft_search_fits(s, rank, k->mem + s->ops[id].delta)) {
                *blocked = fmin(*blocked, fmax(now, l->arrival[id]));
                continue;
            }
        }
        double at = fmax(now, l->arrival[id]), key = nominal(s, knobs, id);
        double wait = knobs->hold * s->ops[id].time;
        if (at == INFINITY)
            continue;
        if (best.id == WEFT_NO_OP || at + wait < best.at - 0 * first ||
            (at <= best.at + wait && key < first)) {
            best = (struct choice){id, at};
            first = key;
        }
    }
    return best;
}

static uint32_t decide_by_block(const struct weft_lister *l, const struct weft_search *s,
                                const struct weft_knobs *knobs, uint32_t rank, double now,
                                double *until)
{
    double blocked;
    struct choice c = pick_by_block(l, s, knobs, rank, now, &blocked);
    uint32_t w = pick_weight(l, s, rank);
    if (c.id != WEFT_NO_OP && c.at <= now)
        return c.id;
    *until = c.at;
    if (w == WEFT_NO_OP)
        return WEFT_NO_OP;
    double time = s->ops[w].time;
    if (now + time <= *until + knobs->patience * time || blocked <= now)
        return w;
    return WEFT_NO_OP;
}

/* What the rank does now; WEFT_NO_OP: it sleeps until *until. */
static uint32_t decide(const struct weft_lister *l, const struct weft_search *s,
                       const struct weft_knobs *knobs, uint32_t rank, double now,
                       double *until)
{
    double blocked;
    struct choice g = pick_gradient(l, s, knobs, rank, now);
    struct choice f = pick_forward(l, s, knobs, rank, now, &blocked);
    uint32_t w = pick_weight(l, s, rank);
    bool f_now = f.id != WEFT_NO_OP && f.at <= now, g_now = g.id != WEFT_NO_OP && g.at <= now;
    if (f_now && g_now)
        return knobs->forward_first ? f.id : g.id;
    if (g_now)
        return g.id;
    if (f_now && !(g.at < now + knobs->hold * s->ops[f.id].time))
        return f.id;
    *until = fmin(g.at, f_now ? INFINITY : f.at);
    if (w == WEFT_NO_OP)
        return WEFT_NO_OP;
    double time = s->ops[w].time;
    if (now + time <= *until + knobs->patience * time)
        return w;
    if (blocked <= now && g.at > now + knobs->hold * time)
        return w;
    return WEFT_NO_OP;
}

static void reset(struct weft_lister *l, const struct weft_search *s)
{
    for (size_t i = 0; i < s->n_ops; i++)
        l->arrival[i] = s->ops[i].from == WEFT_NO_OP ? 0 : INFINITY;
    for (uint32_t i = 0; i < 2 * l->leaves; i++)
        l->wake[i] = INFINITY;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        l->ranks[r] = (struct rank_list){0};
        set_wake(l, r, 0);
    }
}

bool weft_lister_try(struct weft_lister *l, struct weft_search *s,
                     const struct weft_knobs *knobs)
{
    reset(l, s);
    size_t n = 0;
    for (uint32_t r; (r = next_rank(l, s->n_ranks)) < s->n_ranks;) {
        double now = fmax(l->wake[l->leaves + r], l->ranks[r].free), until = INFINITY;
        uint32_t id = knobs->offset == NULL ? decide(l, s, knobs, r, now, &until)
                                            : decide_by_block(l, s, knobs, r, now, &until);
        if (id == WEFT_NO_OP) {
            set_wake(l, r, until > now ? until : INFINITY);
            continue;
        }
        issue(l, s, id, now);
        n++;
    }
    return n == s->n_ops && weft_search_try(s, s->order);
}

/* What a rank does next when its forwards and gradients have a given order. */
static uint32_t decide_refill(struct weft_lister *l, const struct weft_search *s,
                              const uint32_t *order, double patience, uint32_t rank, double now,
                              double *until)
{
    struct rank_list *k = &l->ranks[rank];
    const uint32_t *row = order + rank * s->per_rank;
    while (k->follow < s->per_rank && s->ops[row[k->follow]].row >= 2 * s->n_stages)
        k->follow++;
    uint32_t w = pick_weight(l, s, rank);
    if (k->follow == s->per_rank)
        return w;
    uint32_t id = row[k->follow];
    bool fits = weft_search_fits(s, rank, k->mem + fmax(0, s->ops[id].delta));
    if (l->arrival[id] <= now && fits) {
        k->follow++;
        return id;
    }
    *until = l->arrival[id];
    if (w == WEFT_NO_OP || (!fits && *until <= now))
        return w;
    /* An arrival that is not known yet will be about when it was in the given order. */
    double likely = l->arrival[id] < INFINITY ? l->arrival[id] : l->expected[id];
    return now + s->ops[w].time <= likely + patience * s->ops[w].time ? w : WEFT_NO_OP;
}

bool weft_lister_refill(struct weft_lister *l, struct weft_search *s, const uint32_t *order,
                        double patience)
{
    if (!weft_search_time(s, order))
        return false;
    memcpy(l->expected, s->start, sizeof *l->expected * s->n_ops);
    reset(l, s);
    size_t n = 0;
    for (uint32_t r; (r = next_rank(l, s->n_ranks)) < s->n_ranks;) {
        double now = fmax(l->wake[l->leaves + r], l->ranks[r].free), until = INFINITY;
        uint32_t id = decide_refill(l, s, order, patience, r, now, &until);
        if (id == WEFT_NO_OP) {
            set_wake(l, r, until > now ? until : INFINITY);
            continue;
        }
        issue(l, s, id, now);
        n++;
    }
    return n == s->n_ops && weft_search_try(s, s->order);
}
