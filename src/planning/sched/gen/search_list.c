/* The list scheduler simulates time.  Whenever a rank is free, it starts one of the ready
 * actions.  There are several rules for the choice of this action:
 *
 *   rules        Input gradients run first, because other ranks wait for them and they lead to
 *                free memory.  Forwards run next, with preference for the deeper chunk.  Weight
 *                gradients fill gaps, because no rank waits for them.
 *   round robin  The pass and chunk that ran longest ago runs first.  Weight gradients fill
 *                gaps.
 *   guided       Actions run in the order of a pattern's times (search_pattern.c).  Weight
 *                gradients fill gaps.
 *   refill       Forwards and input gradients run in a given order.  Weight gradients fill
 *                gaps.
 *
 * All rules except refill always schedule all actions.  Without a check, forwards of chunk 0
 * could use all memory, and the oldest micro could then not run through chunk 1.  Therefore a
 * forward starts only if the oldest micro can still finish.  This is the case if the memory
 * limit permits the activations of chunk 0 plus one pass through chunk 1, after all started
 * work of chunk 1 and all weight gradients are done.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planning/sched/gen/search.h"

struct rank_list {
    double free;         /* time at which the rank becomes free */
    double mem;          /* current memory of the rank */
    double cap;          /* maximum number of micros in flight in chunk 0 */
    uint32_t done[3][2]; /* (passes, chunks): number of micros done */
    uint32_t last[2][2]; /* (F and I, chunks): 1 + list position of the last such action */
    uint32_t len;
    uint32_t follow; /* only for refill: position in the given order */
};

struct wf_list_sched {
    const struct wf_list_knobs *knobs; /* borrowed: during make_list() */
    const uint32_t *given;             /* borrowed: during make_list(), for refill */
    struct rank_list *ranks;           /* owned: (ranks) */
    /* owned: (n_ops), arrival time of each action's input; INFINITY: not known yet */
    double *arrival;
    double *expected; /* owned: (n_ops), start time of each action in the given order */
    double *wake;     /* owned: (2 * leaves), tournament tree of the ranks' wake-up times */
    uint32_t leaves;
};

/* An action that a rank could start. */
struct candidate {
    uint32_t id;
    double at;  /* time at which the action can start */
    double key; /* the candidate with the lowest key runs first */
};

static const struct candidate no_candidate = {WF_OP_NONE, INFINITY, INFINITY};

struct wf_list_sched *wf_list_sched_new(const struct wf_search *s)
{
    struct wf_list_sched *l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    for (l->leaves = 1; l->leaves < s->n_ranks; l->leaves *= 2)
        ;
    l->ranks = malloc(sizeof *l->ranks * s->n_ranks);
    l->arrival = malloc(sizeof *l->arrival * s->n_ops);
    l->expected = malloc(sizeof *l->expected * s->n_ops);
    l->wake = malloc(sizeof *l->wake * 2 * l->leaves);
    if (l->ranks == NULL || l->arrival == NULL || l->expected == NULL || l->wake == NULL) {
        wf_list_sched_free(l);
        return NULL;
    }
    return l;
}

void wf_list_sched_free(struct wf_list_sched *l)
{
    if (l == NULL)
        return;
    free(l->ranks);
    free(l->arrival);
    free(l->expected);
    free(l->wake);
    free(l);
}

/* -- time ---------------------------------------------------------------------------------- */

static void set_wake(struct wf_list_sched *l, uint32_t rank, double t)
{
    uint32_t i = l->leaves + rank;
    l->wake[i] = t;
    for (i /= 2; i > 0; i /= 2)
        l->wake[i] = wf_double_min(l->wake[2 * i], l->wake[2 * i + 1]);
}

/* Returns the rank with the earliest wake-up time, or n_ranks if there is none. */
static uint32_t next_rank(const struct wf_list_sched *l, uint32_t n_ranks)
{
    uint32_t i = 1;
    if (l->wake[1] == INFINITY)
        return n_ranks;
    while (i < l->leaves)
        i = 2 * i + (l->wake[2 * i] > l->wake[2 * i + 1]);
    return i - l->leaves;
}

/* Starts an action at time t and sets the arrival time of its result. */
static void issue(struct wf_list_sched *l, struct wf_search *s, uint32_t id, double t)
{
    const struct wf_op *op = &s->ops[id];
    struct rank_list *k = &l->ranks[op->rank];
    uint32_t pass = op->row / s->n_stages, chunk = op->row % s->n_stages >= s->n_ranks;

    s->order[op->rank * s->per_rank + k->len++] = id;
    k->done[pass][chunk]++;
    if (pass != WF_PASS_W)
        k->last[pass][chunk] = k->len;
    k->mem += op->delta;
    k->free = t + op->time;

    if (op->to != WF_OP_NONE) {
        const struct wf_op *to = &s->ops[op->to];
        double arrival = k->free + to->hop;
        l->arrival[op->to] = arrival;
        if (to->rank != op->rank && arrival < l->wake[l->leaves + to->rank])
            set_wake(l, to->rank, wf_double_max(arrival, l->ranks[to->rank].free));
    }
    set_wake(l, op->rank, k->free);
}

/* -- candidates ---------------------------------------------------------------------------- */

/* Returns the next action of a given pass and chunk on a rank, or WF_OP_NONE if all are
 * done. */
static uint32_t next_op(const struct wf_search *s, const struct rank_list *k, uint32_t rank,
                        uint32_t pass, uint32_t chunk)
{
    uint32_t m = k->done[pass][chunk];
    uint32_t limit = pass == WF_PASS_F ? s->n_micros : k->done[pass - 1][chunk];
    return m < limit ? wf_search_op_id(s, pass, wf_search_stage(s, rank, chunk), m)
                     : WF_OP_NONE;
}

/* Returns true if the oldest micro can still finish after the rank starts a forward of
 * `chunk`. */
static bool is_safe(const struct wf_search *s, const struct rank_list *k, uint32_t rank,
                    uint32_t chunk)
{
    double f0 = wf_search_stage_op(s, WF_PASS_F, rank)->delta;
    double i0 = wf_double_max(0, wf_search_stage_op(s, WF_PASS_I, rank)->delta);
    double memory = (k->done[0][0] - k->done[1][0] + (chunk == 0)) * f0;
    if (s->n_chunks == 1)
        return wf_search_fits(s, rank, memory + i0);
    uint32_t stage = wf_search_stage(s, rank, 1);
    double f1 = wf_search_stage_op(s, WF_PASS_F, stage)->delta;
    double through = f1 + wf_double_max(0, wf_search_stage_op(s, WF_PASS_I, stage)->delta);
    if (chunk == 1)
        memory += (k->done[0][1] - k->done[1][1]) * f1;
    return wf_search_fits(s, rank, memory + wf_double_max(through, i0));
}

/* Returns the next forward or input gradient as a candidate, or no_candidate if this action
 * must not run now.  If the only reason is memory that weight gradients can free, lowers
 * *blocked to the time at which the action could start. */
static struct candidate get_candidate(const struct wf_list_sched *l, const struct wf_search *s,
                                      uint32_t rank, uint32_t pass, uint32_t chunk, double now,
                                      double *blocked)
{
    const struct rank_list *k = &l->ranks[rank];
    uint32_t id = next_op(s, k, rank, pass, chunk);
    if (id == WF_OP_NONE || l->arrival[id] == INFINITY)
        return no_candidate;
    if (pass == WF_PASS_F && ((chunk == 0 && k->done[0][0] - k->done[1][0] >= k->cap) ||
                              !is_safe(s, k, rank, chunk)))
        return no_candidate;

    double at = wf_double_max(now, l->arrival[id]), delta = s->ops[id].delta;
    if (delta > 0 && !wf_search_fits(s, rank, k->mem + delta)) {
        *blocked = wf_double_min(*blocked, at);
        return no_candidate;
    }
    return (struct candidate){id, at, 0};
}

/* Returns the pending weight gradient with the lowest micro, or WF_OP_NONE.  Among equal
 * micros, prefers the deeper chunk. */
static uint32_t oldest_weight(const struct wf_list_sched *l, const struct wf_search *s,
                              uint32_t rank)
{
    const struct rank_list *k = &l->ranks[rank];
    uint32_t best = WF_OP_NONE;
    if (s->n_passes < 3)
        return best;
    for (uint32_t c = s->n_chunks; c-- > 0;) {
        uint32_t id = next_op(s, k, rank, WF_PASS_W, c);
        if (id != WF_OP_NONE && (best == WF_OP_NONE || k->done[2][c] < best % s->n_micros))
            best = id;
    }
    return best;
}

/* -- rules of choice: they return the action to start now, or WF_OP_NONE to wait until *until - */

/* Returns the candidate that can start sooner, or `a` if both can start at the same time. */
static struct candidate sooner(struct candidate a, struct candidate b)
{
    return b.at < a.at ? b : a;
}

static uint32_t choose_by_rules(struct wf_list_sched *l, const struct wf_search *s,
                                uint32_t rank, double now, double *until)
{
    const struct wf_list_knobs *knobs = l->knobs;
    const struct rank_list *k = &l->ranks[rank];
    double blocked = INFINITY;

    struct candidate f = get_candidate(l, s, rank, WF_PASS_F, 0, now, &blocked);
    struct candidate g = get_candidate(l, s, rank, WF_PASS_I, 0, now, &blocked);
    if (s->n_chunks == 2) {
        struct candidate f1 = get_candidate(l, s, rank, WF_PASS_F, 1, now, &blocked);
        struct candidate g1 = get_candidate(l, s, rank, WF_PASS_I, 1, now, &blocked);
        bool lags = k->done[1][1] < k->done[1][0] + s->n_ranks - rank;
        f = sooner(f1, f);
        g = knobs->deep_first || lags ? sooner(g1, g) : sooner(g, g1);
    }

    if (f.at <= now && g.at <= now)
        return knobs->forward_first ? f.id : g.id;
    if (g.at <= now)
        return g.id;
    if (f.at <= now && g.at >= now + knobs->max_wait * s->ops[f.id].time)
        return f.id;

    /* No forward or gradient starts now, so fill the gap with a weight gradient. */
    *until = f.at <= now ? g.at : wf_double_min(g.at, f.at);
    uint32_t w = oldest_weight(l, s, rank);
    if (w == WF_OP_NONE)
        return WF_OP_NONE;
    double time = s->ops[w].time;
    bool fills = now + time <= *until + knobs->w_slack * time;
    bool frees = blocked <= now && g.at > now + knobs->max_wait * time;
    return fills || frees ? w : WF_OP_NONE;
}

static uint32_t choose_by_key(struct wf_list_sched *l, const struct wf_search *s, uint32_t rank,
                              double now, double *until)
{
    const struct wf_list_knobs *knobs = l->knobs;
    double blocked = INFINITY;
    struct candidate all[4], first = no_candidate, best = no_candidate;

    for (uint32_t n = 0; n < 2 * s->n_chunks; n++) {
        all[n] = get_candidate(l, s, rank, n % 2, n / 2, now, &blocked);
        first = sooner(first, all[n]);
    }

    double wait = first.id == WF_OP_NONE ? 0 : knobs->max_wait * s->ops[first.id].time;
    for (uint32_t n = 0; n < 2 * s->n_chunks; n++) {
        uint32_t id = all[n].id;
        if (id == WF_OP_NONE || all[n].at > first.at + wait)
            continue;
        all[n].key = knobs->round_robin
                         ? l->ranks[rank].last[n % 2][n / 2]
                         : knobs->offset[s->ops[id].row] + knobs->period * (id % s->n_micros);
        if (all[n].key < best.key)
            best = all[n];
    }

    if (best.at <= now)
        return best.id;

    *until = best.at;
    uint32_t w = oldest_weight(l, s, rank);
    if (w == WF_OP_NONE)
        return WF_OP_NONE;
    double time = s->ops[w].time;
    return now + time <= *until + knobs->w_slack * time || blocked <= now ? w : WF_OP_NONE;
}

/* Chooses an action in the cool-down of a refill.  Only gradients are left, and the chunks run
 * in rotation.  If the arrival time of an input is not known yet, the start time of the action
 * in the given order is the estimate. */
static uint32_t choose_cool_down(struct wf_list_sched *l, const struct wf_search *s,
                                 uint32_t rank, double now, double *until)
{
    struct rank_list *k = &l->ranks[rank];
    struct candidate best = no_candidate;
    double likely = INFINITY;

    for (uint32_t c = 0; c < s->n_chunks; c++) {
        uint32_t id = next_op(s, k, rank, WF_PASS_I, c);
        if (id == WF_OP_NONE)
            continue;
        *until = wf_double_min(*until, l->arrival[id]);
        likely =
            wf_double_min(likely, l->arrival[id] < INFINITY ? l->arrival[id] : l->expected[id]);
        bool fits = wf_search_fits(s, rank, k->mem + wf_double_max(0, s->ops[id].delta));
        if (l->arrival[id] <= now && fits && k->last[1][c] < best.key)
            best = (struct candidate){id, now, k->last[1][c]};
    }

    uint32_t w = oldest_weight(l, s, rank);
    if (best.id != WF_OP_NONE || w == WF_OP_NONE || *until <= now)
        return best.id != WF_OP_NONE ? best.id : w;
    double time = s->ops[w].time;
    return now + time <= likely + l->knobs->w_slack * time ? w : WF_OP_NONE;
}

static uint32_t choose_refill(struct wf_list_sched *l, const struct wf_search *s, uint32_t rank,
                              double now, double *until)
{
    struct rank_list *k = &l->ranks[rank];
    if (l->knobs->round_robin && k->done[0][s->n_chunks - 1] == s->n_micros)
        return choose_cool_down(l, s, rank, now, until);

    const uint32_t *row = l->given + rank * s->per_rank;
    while (k->follow < s->per_rank && s->ops[row[k->follow]].row >= 2 * s->n_stages)
        k->follow++;
    uint32_t w = oldest_weight(l, s, rank);
    if (k->follow == s->per_rank)
        return w;

    uint32_t id = row[k->follow];
    bool fits = wf_search_fits(s, rank, k->mem + wf_double_max(0, s->ops[id].delta));
    if (l->arrival[id] <= now && fits) {
        k->follow++;
        return id;
    }

    *until = l->arrival[id];
    if (w == WF_OP_NONE || *until <= now)
        return w;
    /* If the arrival time is not known yet, the start time in the given order is the
     * estimate. */
    double likely = *until < INFINITY ? *until : l->expected[id];
    double time = s->ops[w].time;
    return now + time <= likely + l->knobs->w_slack * time ? w : WF_OP_NONE;
}

/* -- making a list ------------------------------------------------------------------------- */

static void reset(struct wf_list_sched *l, const struct wf_search *s)
{
    for (size_t i = 0; i < s->n_ops; i++)
        l->arrival[i] = s->ops[i].from == WF_OP_NONE ? 0 : INFINITY;
    for (uint32_t i = 0; i < 2 * l->leaves; i++)
        l->wake[i] = INFINITY;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double cap = l->knobs->in_flight + l->knobs->in_flight_slope * (s->n_ranks - 1 - r);
        l->ranks[r] = (struct rank_list){.cap = wf_double_max(1, floor(cap + 1e-9))};
        set_wake(l, r, 0);
    }
}

/* Generates an order in s->order.  Returns false if some actions could not be scheduled. */
static bool make_list(struct wf_list_sched *l, struct wf_search *s,
                      uint32_t (*choose)(struct wf_list_sched *, const struct wf_search *,
                                         uint32_t, double, double *))
{
    size_t n = 0;
    reset(l, s);
    for (uint32_t r; (r = next_rank(l, s->n_ranks)) < s->n_ranks;) {
        double now = wf_double_max(l->wake[l->leaves + r], l->ranks[r].free), until = INFINITY;
        uint32_t id = choose(l, s, r, now, &until);
        if (id == WF_OP_NONE) {
            set_wake(l, r, until > now ? until : INFINITY);
        } else {
            issue(l, s, id, now);
            n++;
        }
    }
    return n == s->n_ops;
}

struct wf_score wf_list_sched_try(struct wf_list_sched *l, struct wf_search *s,
                                  const struct wf_list_knobs *knobs)
{
    enum wf_family family = knobs->round_robin      ? WF_FAMILY_ROUND_ROBIN
                            : knobs->offset != NULL ? WF_FAMILY_GUIDED
                                                    : WF_FAMILY_LIST;
    l->knobs = knobs;
    if (!make_list(l, s, family == WF_FAMILY_LIST ? choose_by_rules : choose_by_key))
        return WF_SCORE_INFEASIBLE;
    return wf_search_try(s, family, s->order);
}

struct wf_score wf_list_sched_refill_w(struct wf_list_sched *l, struct wf_search *s,
                                       enum wf_family family, double w_slack, bool cool_down)
{
    if (wf_score_compare(s->best[family].score, WF_SCORE_INFEASIBLE) >= 0 ||
        !wf_search_time(s, s->best[family].order))
        return WF_SCORE_INFEASIBLE;
    memcpy(l->expected, s->start, sizeof *l->expected * s->n_ops);
    l->knobs = &(struct wf_list_knobs){.w_slack = w_slack, .round_robin = cool_down};
    l->given = s->best[family].order;
    if (!make_list(l, s, choose_refill))
        return WF_SCORE_INFEASIBLE;
    return wf_search_try(s, family, s->order);
}
