/* The clock.  Computes start times by running all ranks of a verified schedule, each action
 * after its dependencies. */
#include "planning/sched/start_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "planning/sched/channel.h"
#include "planning/sched/schedule_priv.h"

/* Forces inlining, so that the inner loop is one function.  The functions are so small that
 * calls would cost more than the function bodies. */
#define FAST __attribute__((always_inline)) static inline

/* One stage of one pipe: the duration of each pass, and the ranks of the neighbouring stages,
 * which receive the results. */
struct stage_times {
    double time[WEFT_ACT_W + 1]; /* duration by action kind */
    /* delay of a result to the next or previous stage; 0 on the same rank */
    double hop_next, hop_prev;
    uint32_t rank, next_rank, prev_rank;
};

/* The state of one rank.  It changes with every action, so it fits in one cache line. */
struct rank_state {
    const struct weft_action *row; /* borrowed */
    size_t len, at;
    /* 1 + index of the cell that the rank waits for; 0: the rank does not wait */
    uint64_t wait;
    double now, busy, first;
};

/* A verified schedule runs the actions of one (stage, micro) in order on one rank.  So an
 * action waits only for results of neighbouring stages.  One time per cell is enough: before
 * the forward of the cell, it is the time at which the input is available; after the forward,
 * it is the time at which the gradient is available.  The gradient never arrives before the
 * forward, because the next stage computes the gradient from the result of the forward. */
struct timing_state {
    const struct wf_start_times_input *in;
    const struct weft_placement *place;
    struct stage_times *stage_table; /* owned: (pipes, stages) */
    /* owned: (stages, micros), a time, or NaN if not known yet */
    double *available;
    struct rank_state *rank_states; /* owned: (ranks) */
    uint32_t *ready;                /* owned: (ranks), stack of the ranks that can run */
    uint32_t n_ready;
    struct wf_channels links; /* owned: the links; empty with WEFT_CONTENTION_NONE */
    double *link_free;        /* owned: (links), time at which each link becomes free */
    double *start, *length;   /* borrowed */
    size_t n_done;
};

/* Prefetch distance in elements.  The hardware prefetcher does not help here, because all other
 * ranks run between two accesses to the row of a rank. */
enum { PREFETCH_DIST = 16 };

/* Records the time at which a result is available, and wakes the rank if it waits for this
 * result. */
FAST void deliver(struct timing_state *c, uint32_t rank, size_t cell, double when)
{
    c->available[cell] = when;
    __builtin_prefetch(&c->available[cell + PREFETCH_DIST], 1);
    if (c->rank_states[rank].wait == cell + 1) {
        c->rank_states[rank].wait = 0;
        c->ready[c->n_ready++] = rank;
    }
}

FAST const struct stage_times *stage_times_of(const struct timing_state *c,
                                              struct weft_action a)
{
    return &c->stage_table[(size_t)weft_placement_pipe(c->place, a.micro) * c->place->n_stages +
                           a.stage];
}

FAST size_t cell_of(const struct timing_state *c, uint32_t stage, uint32_t micro)
{
    return (size_t)stage * c->place->n_micros + micro;
}

/* Returns true if an action needs a result of a neighbouring stage. */
FAST bool waits(const struct timing_state *c, struct weft_action a)
{
    if (a.kind == WEFT_ACT_F)
        return a.stage > 0;
    return a.kind != WEFT_ACT_W && a.stage + 1u < c->place->n_stages;
}

static const struct wf_hop *hop_of(const struct timing_state *c, struct weft_action a,
                                   bool next)
{
    size_t at = (size_t)weft_placement_pipe(c->place, a.micro) * (c->place->n_stages - 1) +
                a.stage - !next;
    return next ? &c->in->forward[at] : &c->in->backward[at];
}

/* Starts a transfer as soon as its link is free.  Returns the arrival time of the data.  If the
 * transfer occupies the sender, moves *end to the end of the transfer. */
static double send_over_link(struct timing_state *c, struct weft_action a, bool next,
                             double *end)
{
    size_t at = (size_t)weft_placement_pipe(c->place, a.micro) * (c->place->n_stages - 1) +
                a.stage - !next;
    uint32_t link = next ? c->links.forward[at] : c->links.backward[at];
    const struct wf_hop *hop = hop_of(c, a, next);
    double begin = c->link_free[link] > *end ? c->link_free[link] : *end;
    c->link_free[link] = begin + hop->transfer;
    if (c->in->contention == WEFT_CONTENTION_RANKS)
        *end = c->link_free[link];
    return begin + hop->transfer + hop->latency;
}

/* Delivers a result to the stage that needs it.  If the transfer occupies the sending rank,
 * moves *end to the end of the transfer. */
FAST void deliver_result(struct timing_state *c, struct weft_action a,
                         const struct stage_times *at, bool occupies, double *end)
{
    if (a.kind == WEFT_ACT_F) {
        /* the forward consumed the input: the cell now waits for the gradient */
        if (a.stage > 0)
            c->available[cell_of(c, a.stage, a.micro)] = NAN;
        if (a.stage + 1u == c->place->n_stages)
            return;
        bool link = occupies && at->next_rank != at->rank;
        deliver(c, at->next_rank, cell_of(c, a.stage + 1, a.micro),
                link ? send_over_link(c, a, true, end) : *end + at->hop_next);
    } else if (a.kind != WEFT_ACT_W && a.stage > 0) {
        bool link = occupies && at->prev_rank != at->rank;
        deliver(c, at->prev_rank, cell_of(c, a.stage - 1, a.micro),
                link ? send_over_link(c, a, false, end) : *end + at->hop_prev);
    }
}

/* Returns how long the transfer of an action's input occupies the rank of the action. */
static double recv_time(const struct timing_state *c, struct weft_action a,
                        const struct stage_times *at)
{
    if (a.kind == WEFT_ACT_F && a.stage > 0 && at->prev_rank != at->rank) {
        struct weft_action from = {.micro = a.micro, .stage = (a.stage - 1) & 0xffffff};
        return hop_of(c, from, true)->transfer;
    }
    if ((a.kind == WEFT_ACT_B || a.kind == WEFT_ACT_I) && at->next_rank != at->rank) {
        struct weft_action from = {.micro = a.micro, .stage = (a.stage + 1) & 0xffffff};
        return hop_of(c, from, false)->transfer;
    }
    return 0;
}

static double pair_time(const struct timing_state *c, struct weft_action a,
                        struct weft_action b)
{
    struct weft_action f = a.kind == WEFT_ACT_F ? a : b, g = a.kind == WEFT_ACT_F ? b : a;
    double slowdown = weft_values_get(c->in->speed, stage_times_of(c, f)->rank, 1);
    double whole = weft_cost_pair(c->in->cost, f.stage, g.stage);
    struct weft_stage_cost tf = weft_cost_stage(c->in->cost, f.stage);
    struct weft_stage_cost tg = weft_cost_stage(c->in->cost, g.stage);
    if (g.kind == WEFT_ACT_I) /* input gradient only: a proportional share of the pair's time */
        whole = tf.f + tg.b > 0 ? whole * (tf.f + tg.i) / (tf.f + tg.b) : 0;
    return whole * slowdown;
}

/* Returns the time at which the inputs of the next `unit` actions are available.  If an input
 * is not known yet, returns NaN and records the cell that the rank waits for. */
FAST double inputs_available(const struct timing_state *c, struct rank_state *r, size_t unit)
{
    double latest = 0;
    for (size_t k = 0; k < unit; k++) {
        struct weft_action a = r->row[r->at + k];
        if (!waits(c, a))
            continue;
        size_t cell = cell_of(c, a.stage, a.micro);
        double available = c->available[cell];
        if (!(available >= 0)) {
            r->wait = cell + 1;
            return NAN;
        }
        latest = available > latest ? available : latest;
    }
    return latest;
}

/* Runs one compute action or pair.  Returns false if the rank has to wait. */
FAST bool run_cell(struct timing_state *c, struct rank_state *r, size_t unit, bool occupies,
                   double *begin, double *took)
{
    const struct weft_action *a = &r->row[r->at];
    double available = inputs_available(c, r, unit);
    if (!(available >= 0))
        return false;

    const struct stage_times *st = stage_times_of(c, *a);
    *begin = available > r->now ? available : r->now;
    *took = unit == 2 ? pair_time(c, a[0], a[1]) : st->time[a->kind];
    if (occupies && c->in->contention == WEFT_CONTENTION_RANKS)
        for (size_t k = 0; k < unit; k++)
            *took += recv_time(c, a[k], stage_times_of(c, a[k]));
    if (r->first < 0)
        r->first = *begin;

    double end = *begin + *took;
    deliver_result(c, a[0], st, occupies, &end);
    if (unit == 2)
        deliver_result(c, a[1], stage_times_of(c, a[1]), occupies, &end);
    *took = end - *begin; /* sending may have occupied the rank as well */
    r->busy += *took;
    r->now = end;
    return true;
}

/* Runs one rank until it waits or ends.  Every caller passes a constant for `occupies`.  So the
 * compiler removes the contention code from the common case, in which transfers occupy neither
 * links nor ranks. */
FAST void run_rank(struct timing_state *c, uint32_t rank, bool occupies)
{
    struct rank_state *r = &c->rank_states[rank];
    size_t base = c->in->schedule->first[rank], from = r->at;
    while (r->at < r->len) {
        size_t unit = r->row[r->at].paired ? 2 : 1;
        double begin = r->now, took = 0;
        if (weft_act_is_compute(r->row[r->at].kind) &&
            !run_cell(c, r, unit, occupies, &begin, &took))
            break;

        __builtin_prefetch(&r->row[r->at + PREFETCH_DIST]);
        for (size_t k = 0; c->start != NULL && k < unit; k++) {
            c->start[base + r->at + k] = begin;
            c->length[base + r->at + k] = k == 0 ? took : 0;
        }
        r->at += unit;
    }
    c->n_done += r->at - from;
}

static void run_all(struct timing_state *c)
{
    bool occupies = c->in->contention != WEFT_CONTENTION_NONE && c->in->forward != NULL;
    while (c->n_ready > 0) {
        uint32_t rank = c->ready[--c->n_ready];
        if (occupies)
            run_rank(c, rank, true);
        else
            run_rank(c, rank, false);
    }
}

static void fill_stage_times(struct timing_state *c, uint32_t pipe, uint32_t stage)
{
    const struct weft_placement *p = c->place;
    const uint32_t *rank_of = p->rank_of + (size_t)pipe * p->n_stages;
    struct stage_times *st = &c->stage_table[(size_t)pipe * p->n_stages + stage];
    struct weft_stage_cost t = weft_cost_stage(c->in->cost, stage);
    double slowdown = weft_values_get(c->in->speed, rank_of[stage], 1);
    size_t boundary = (size_t)pipe * (p->n_stages - 1) + stage;

    st->time[WEFT_ACT_F] = t.f * slowdown;
    st->time[WEFT_ACT_B] = t.b * slowdown;
    st->time[WEFT_ACT_I] = t.i * slowdown;
    st->time[WEFT_ACT_W] = t.w * slowdown;

    st->rank = st->next_rank = st->prev_rank = rank_of[stage];
    if (stage + 1 < p->n_stages) {
        const struct wf_hop *h = c->in->forward == NULL ? NULL : &c->in->forward[boundary];
        st->next_rank = rank_of[stage + 1];
        if (st->next_rank != st->rank)
            st->hop_next = h == NULL
                               ? weft_cost_hop(c->in->cost, p->n_stages, pipe, stage, false)
                               : h->latency + h->transfer;
    }
    if (stage > 0) {
        const struct wf_hop *h =
            c->in->backward == NULL ? NULL : &c->in->backward[boundary - 1];
        st->prev_rank = rank_of[stage - 1];
        if (st->prev_rank != st->rank)
            st->hop_prev = h == NULL
                               ? weft_cost_hop(c->in->cost, p->n_stages, pipe, stage - 1, true)
                               : h->latency + h->transfer;
    }
}

static void timing_state_release(struct timing_state *c)
{
    free(c->stage_table);
    free(c->available);
    free(c->rank_states);
    free(c->ready);
    free(c->link_free);
    wf_channels_release(&c->links);
}

static enum weft_status timing_state_init(struct timing_state *c, struct weft_error *err)
{
    const struct weft_placement *p = c->place;
    size_t cells = (size_t)p->n_stages * p->n_micros, n = (size_t)p->n_pipes * p->n_stages;
    size_t bytes;

    if (!wf_size_mul(cells + PREFETCH_DIST, sizeof *c->available, &bytes))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to time %zu cells", cells);
    c->stage_table = calloc(n, sizeof *c->stage_table);
    c->available = wf_pages_alloc(bytes);
    c->rank_states = calloc(p->n_ranks, sizeof *c->rank_states);
    c->ready = malloc(sizeof *c->ready * p->n_ranks);
    if (c->stage_table == NULL || c->available == NULL || c->rank_states == NULL ||
        c->ready == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to time %zu cells", cells);

    if (c->in->contention != WEFT_CONTENTION_NONE && c->in->forward != NULL) {
        WEFT_TRY(wf_channels_init(&c->links, p, true, err));
        c->link_free = calloc(c->links.n + 1, sizeof *c->link_free);
        if (c->link_free == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu links", c->links.n);
    }

    memset(c->available, 0xff, bytes); /* all bytes 0xff: NaN as a double */
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++)
        for (uint32_t stage = 0; stage < p->n_stages; stage++)
            fill_stage_times(c, pipe, stage);
    for (uint32_t r = p->n_ranks; r-- > 0;) {
        struct weft_action_span row = weft_schedule_rank(c->in->schedule, r);
        c->rank_states[r] = (struct rank_state){.row = row.at, .len = row.len, .first = -1};
        c->ready[c->n_ready++] = r;
    }
    return WEFT_OK;
}

enum weft_status wf_start_times_compute(const struct wf_start_times_input *in,
                                        struct wf_rank_times *ranks, double *start,
                                        double *length, struct weft_error *err)
{
    struct timing_state c = {.in = in,
                             .place = weft_schedule_placement(in->schedule),
                             .start = start,
                             .length = length};
    enum weft_status st = timing_state_init(&c, err);
    if (st == WEFT_OK) {
        run_all(&c);
        for (uint32_t r = 0; r < c.place->n_ranks; r++)
            ranks[r] = (struct wf_rank_times){c.rank_states[r].first, c.rank_states[r].now,
                                              c.rank_states[r].busy};
        if (c.n_done < weft_schedule_n_actions(in->schedule))
            st = WEFT_FAIL(err, WEFT_SCHEDULE, "the schedule deadlocks");
    }
    timing_state_release(&c);
    return st;
}
