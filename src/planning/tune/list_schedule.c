/* List scheduling for any number of chunks.  A free rank starts the best ready action.  By
 * default it prefers gradients to forwards, and forwards of deeper chunks to other forwards.
 * Weight gradients fill gaps.
 *
 * Memory must always suffice to complete all micros that have started.  So a forward starts
 * only if all started micros could still finish on this rank in sequence, oldest first.
 * Each micro must be able to run its remaining forwards while all later micros keep their
 * activations. */
#include "planning/tune/list_schedule.h"

#include <math.h>
#include <stdlib.h>
struct list_scheduler {
    struct wf_search *s;
    const struct wf_list_rule *rule;
    uint32_t *done;     /* owned: (ranks, passes, chunks), number of completed micros */
    double *free, *mem; /* owned: (ranks), time at which the rank becomes free; memory in use */
    /* owned: (n_ops), arrival time of the action's input; INFINITY if not known yet */
    double *arrival;
    uint32_t *len; /* owned: (ranks), number of actions in the rank's list */
    /* owned: (ranks), the next action that the rank would start, or WF_OP_NONE */
    uint32_t *next;
    double *at;      /* owned: (ranks), start time of the action in `next` */
    double *chunk_f; /* owned: (ranks, chunks), memory change by a forward */
};

static uint32_t *count(const struct list_scheduler *l, uint32_t rank, uint32_t pass,
                       uint32_t chunk)
{
    return &l->done[((size_t)rank * 3 + pass) * l->s->n_chunks + chunk];
}

static uint32_t next_of(const struct list_scheduler *l, uint32_t rank, uint32_t pass,
                        uint32_t chunk)
{
    uint32_t m = *count(l, rank, pass, chunk);
    uint32_t limit = pass == WF_PASS_F ? l->s->n_micros : *count(l, rank, pass - 1, chunk);
    return m < limit ? wf_search_op_id(l->s, pass, wf_search_stage(l->s, rank, chunk), m)
                     : WF_OP_NONE;
}

/* Returns true if all started micros could still finish after one more forward of `chunk`. */
static bool is_safe(const struct list_scheduler *l, uint32_t rank, uint32_t chunk)
{
    const struct wf_search *s = l->s;
    const double *f = l->chunk_f + (size_t)rank * s->n_chunks;
    double memory = 0;
    for (uint32_t c = 0; c < s->n_chunks; c++)
        memory += f[c] * (*count(l, rank, 0, c) - *count(l, rank, 1, c) + (c == chunk));

    uint32_t n_started = *count(l, rank, 0, 0) + (chunk == 0);
    for (uint32_t m = *count(l, rank, 1, 0); m < n_started; m++) {
        double more = 0, own = 0;
        for (uint32_t c = 0; c < s->n_chunks; c++) {
            bool forward = m < *count(l, rank, 0, c) + (c == chunk);
            bool back = m < *count(l, rank, 1, c);
            more += forward ? 0 : f[c];
            own += forward && !back ? f[c] : 0;
        }
        if (!wf_search_fits(s, rank, memory + more))
            return false;
        memory -= own;
    }
    return true;
}

/* Returns the sort key of an action.  The action with the lowest key runs first. */
static double key_of(const struct list_scheduler *l, uint32_t pass, uint32_t chunk,
                     uint32_t micro)
{
    double deep = l->s->n_chunks - chunk;
    if (pass == WF_PASS_F && l->rule->oldest_first)
        deep = micro + 0.5 * deep / l->s->n_chunks;
    bool second = (pass == WF_PASS_F) != l->rule->forward_first;
    return deep + (second ? 1e6 : 0);
}

/* Determines the next action of a rank and its start time. */
static void choose(struct list_scheduler *l, uint32_t rank)
{
    const struct wf_search *s = l->s;
    double best_at = INFINITY, best_key = INFINITY,
           cap = l->rule->in_flight + l->rule->in_flight_slope * (s->n_ranks - 1 - rank);
    uint32_t best = WF_OP_NONE, weight = WF_OP_NONE;
    bool blocked = false;

    for (uint32_t c = 0; c < s->n_chunks; c++)
        for (uint32_t pass = 0; pass < 2; pass++) {
            uint32_t id = next_of(l, rank, pass, c);
            if (id == WF_OP_NONE || l->arrival[id] == INFINITY)
                continue;
            uint32_t in_flight = *count(l, rank, 0, 0) - *count(l, rank, 1, 0);
            if (pass == WF_PASS_F &&
                ((c == 0 && in_flight >= wf_double_max(1, floor(cap))) || !is_safe(l, rank, c)))
                continue;
            if (!wf_search_fits(s, rank, l->mem[rank] + wf_double_max(0, s->ops[id].delta))) {
                blocked = true;
                continue;
            }
            double at = wf_double_max(l->free[rank], l->arrival[id]);
            double key = key_of(l, pass, c, id % s->n_micros);
            if (at < best_at || (at == best_at && key < best_key)) {
                best = id;
                best_at = at;
                best_key = key;
            }
        }

    /* A weight gradient runs first if it fits before the best action or if memory requires
     * it. */
    for (uint32_t c = s->n_chunks; c-- > 0 && s->n_passes == 3 && weight == WF_OP_NONE;)
        weight = next_of(l, rank, WF_PASS_W, c);
    double time = weight == WF_OP_NONE ? 0 : s->ops[weight].time;
    if (weight != WF_OP_NONE && (best == WF_OP_NONE || (blocked && best_at > l->free[rank]) ||
                                 l->free[rank] + time <= best_at + l->rule->w_slack * time)) {
        if (best == WF_OP_NONE || best_at > l->free[rank]) {
            best = weight;
            best_at = l->free[rank];
        }
    }
    l->next[rank] = best;
    l->at[rank] = best_at;
}

static void issue(struct list_scheduler *l, uint32_t rank)
{
    struct wf_search *s = l->s;
    uint32_t id = l->next[rank];
    const struct wf_op *op = &s->ops[id];
    uint32_t stage = op->row % s->n_stages;

    s->order[rank * s->per_rank + l->len[rank]++] = id;
    (*count(l, rank, op->row / s->n_stages, stage / s->n_ranks))++;
    l->mem[rank] += op->delta;
    l->free[rank] = l->at[rank] + op->time;

    if (op->to != WF_OP_NONE) {
        l->arrival[op->to] = l->free[rank] + s->ops[op->to].hop;
        if (s->ops[op->to].rank != rank)
            choose(l, s->ops[op->to].rank);
    }
    choose(l, rank);
}

static bool build_order(struct list_scheduler *l)
{
    struct wf_search *s = l->s;
    for (size_t i = 0; i < s->n_ops; i++)
        l->arrival[i] = s->ops[i].from == WF_OP_NONE ? 0 : INFINITY;
    for (uint32_t r = 0; r < s->n_ranks; r++)
        for (uint32_t c = 0; c < s->n_chunks; c++)
            l->chunk_f[r * s->n_chunks + c] = wf_double_max(
                0, wf_search_stage_op(s, WF_PASS_F, wf_search_stage(s, r, c))->delta);

    for (uint32_t r = 0; r < s->n_ranks; r++)
        choose(l, r);
    for (size_t n = 0; n < s->n_ops; n++) {
        uint32_t first = 0;
        for (uint32_t r = 1; r < s->n_ranks; r++)
            if (l->at[r] < l->at[first])
                first = r;
        if (l->next[first] == WF_OP_NONE)
            return false;
        issue(l, first);
    }
    return true;
}

enum weft_status wf_list_try(struct wf_search *s, const struct wf_list_rule *rule,
                             struct wf_score *out, struct weft_error *err)
{
    size_t ranks = s->n_ranks;
    struct list_scheduler l = {
        .s = s,
        .rule = rule,
        .done = calloc(ranks * 3 * s->n_chunks, sizeof *l.done),
        .free = calloc(ranks, sizeof *l.free),
        .mem = calloc(ranks, sizeof *l.mem),
        .arrival = malloc(sizeof *l.arrival * s->n_ops),
        .len = calloc(ranks, sizeof *l.len),
        .next = calloc(ranks, sizeof *l.next),
        .at = calloc(ranks, sizeof *l.at),
        .chunk_f = calloc(ranks * s->n_chunks, sizeof *l.chunk_f),
    };

    enum weft_status st = WEFT_OK;
    if (l.done == NULL || l.free == NULL || l.mem == NULL || l.arrival == NULL ||
        l.len == NULL || l.next == NULL || l.at == NULL || l.chunk_f == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu actions", s->n_ops);
    else
        *out =
            build_order(&l) ? wf_search_try(s, WF_FAMILY_LIST, s->order) : WF_SCORE_INFEASIBLE;
    free(l.done);
    free(l.free);
    free(l.mem);
    free(l.arrival);
    free(l.len);
    free(l.next);
    free(l.at);
    free(l.chunk_f);
    return st;
}
