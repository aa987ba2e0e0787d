#include "sched/gen/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static bool fill_limits(struct weft_search *s, const struct weft_params *params,
                        double otherwise)
{
    s->limit = malloc(sizeof *s->limit * s->n_ranks);
    if (s->limit == NULL)
        return false;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double f = 0;
        for (uint32_t c = 0; c < s->n_chunks; c++) {
            double d = weft_memory_stage(params->memory, weft_search_stage(s, r, c)).f;
            f = d > f ? d : f;
        }
        double own = otherwise > 0 ? otherwise * f : 1e300;
        s->limit[r] = params->memory == NULL
                          ? own
                          : weft_value(params->memory->limit, r, own);
    }
    return true;
}

static void fill_op(const struct weft_search *s, uint32_t stage, uint32_t micro,
                    enum weft_pass pass, struct weft_op *op)
{
    uint32_t rank = stage < s->n_ranks ? stage : 2 * s->n_ranks - 1 - stage;
    bool up = pass == WEFT_PASS_I; /* where its input comes from, and its output goes */
    bool has_from = pass != WEFT_PASS_W && (up ? stage + 1 < s->n_stages : stage > 0);
    bool has_to = pass != WEFT_PASS_W && (up ? stage > 0 : stage + 1 < s->n_stages);
    uint32_t before = up ? stage + 1 : stage - 1, after = up ? stage - 1 : stage + 1;
    op->rank = rank;
    op->row = pass * s->n_stages + stage;
    op->from = has_from ? weft_search_op(s, pass, before, micro) : WEFT_NO_OP;
    op->to = has_to ? weft_search_op(s, pass, after, micro) : WEFT_NO_OP;
    uint32_t from_rank = before < s->n_ranks ? before : 2 * s->n_ranks - 1 - before;
    op->hop = has_from && from_rank != rank ? s->hop : 0;
}

static void fill_ops(struct weft_search *s, const struct weft_params *params)
{
    for (uint32_t stage = 0; stage < s->n_stages; stage++) {
        struct weft_stage_cost t = weft_cost_stage(params->cost, stage);
        struct weft_stage_memory d = weft_memory_stage(params->memory, stage);
        bool whole = s->setup.whole;
        double times[3] = {t.f, whole ? t.b : t.i, t.w};
        double deltas[3] = {d.f, whole ? d.i + d.w : d.i, d.w};
        for (uint32_t pass = 0; pass < s->n_passes; pass++)
            for (uint32_t micro = 0; micro < s->n_micros; micro++) {
                struct weft_op *op = &s->ops[weft_search_op(s, pass, stage, micro)];
                fill_op(s, stage, micro, pass, op);
                op->time = times[pass];
                op->delta = deltas[pass];
            }
    }
}

/* What no order can beat.  Rank r starts when the first micro reaches it, at start[r].  Then it
 * has its own work to do; and if rank q is busy with forwards and gradients until the last
 * gradient leaves it, that still has to travel to r:
 *
 *     q       F F F I F I ... I
 *     r < q                     hop I hop I W
 *
 * where q's work is all that its stages do for all micros but weight gradients. */
static void fill_bound(struct weft_search *s)
{
    double span = 0, makespan = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double start = 0, back = 0, own = 0, last_w = 0;
        for (uint32_t q = 0; q < r; q++)
            start += s->ops[weft_search_op(s, WEFT_PASS_F, q, 0)].time + s->hop;
        for (uint32_t c = 0; c < s->n_chunks; c++)
            for (uint32_t p = 0; p < s->n_passes; p++)
                own += s->n_micros *
                       s->ops[weft_search_op(s, p, weft_search_stage(s, r, c), 0)].time;
        if (s->n_passes == 3)
            last_w = s->ops[weft_search_op(s, WEFT_PASS_W, r, 0)].time;
        double rank_span = own, gone = 0;
        for (uint32_t q = r; q < s->n_ranks; q++) {
            double work = 0;
            for (uint32_t c = 0; c < s->n_chunks; c++)
                for (uint32_t p = 0; p < 2; p++)
                    work += s->n_micros *
                            s->ops[weft_search_op(s, p, weft_search_stage(s, q, c), 0)].time;
            double t = gone + work + back + last_w;
            rank_span = t > rank_span ? t : rank_span;
            gone += s->ops[weft_search_op(s, WEFT_PASS_F, q, 0)].time + s->hop;
            back += s->ops[weft_search_op(s, WEFT_PASS_I, q, 0)].time + s->hop;
        }
        span = rank_span > span ? rank_span : span;
        makespan = start + rank_span > makespan ? start + rank_span : makespan;
    }
    s->bound[0] = span;
    s->bound[1] = makespan;
}

static bool allocate(struct weft_search *s)
{
    size_t n = s->n_ops, ranks = s->n_ranks;
    s->ops = malloc(sizeof *s->ops * n);
    s->bound = malloc(sizeof *s->bound * 2);
    bool pool = true;
    for (uint32_t i = 0; i < WEFT_SEARCH_POOL; i++) {
        s->best[i].order = malloc(sizeof *s->best[i].order * n);
        pool = pool && s->best[i].order != NULL;
    }
    s->start = malloc(sizeof *s->start * n);
    s->end = malloc(sizeof *s->end * n);
    s->topo = malloc(sizeof *s->topo * n);
    s->rank_start = malloc(sizeof *s->rank_start * ranks);
    s->rank_end = malloc(sizeof *s->rank_end * ranks);
    s->order = malloc(sizeof *s->order * n);
    s->pc = malloc(sizeof *s->pc * ranks);
    s->waits_for = malloc(sizeof *s->waits_for * ranks);
    s->ready = malloc(sizeof *s->ready * ranks);
    return s->ops != NULL && s->bound != NULL && pool && s->start != NULL &&
           s->end != NULL && s->topo != NULL && s->rank_start != NULL && s->rank_end != NULL &&
           s->order != NULL && s->pc != NULL && s->waits_for != NULL && s->ready != NULL;
}

enum weft_status weft_search_init(struct weft_search *s, const struct weft_search_setup *setup,
                                  const struct weft_params *params, double otherwise,
                                  struct weft_error *err)
{
    *s = (struct weft_search){
        .setup = *setup,
        .minimize = params->minimize,
        .n_ranks = params->ranks,
        .n_stages = params->ranks * setup->chunks,
        .n_micros = params->micros,
        .n_chunks = setup->chunks,
        .n_passes = setup->whole ? 2 : 3,
        .hop = params->cost == NULL ? 0 : params->cost->hop,
    };
    size_t per_rank, n;
    if (!weft_size_mul(s->n_micros, s->n_chunks * s->n_passes, &per_rank) ||
        !weft_size_mul(per_rank, s->n_ranks, &n) || n >= WEFT_NO_OP)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: %u stages x %u micros are too many to search: make them fewer",
                         setup->name, s->n_stages, s->n_micros);
    s->per_rank = per_rank;
    s->n_ops = n;
    if (!allocate(s) || !fill_limits(s, params, otherwise)) {
        weft_search_release(s);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory to search with %zu actions",
                         setup->name, n);
    }
    fill_ops(s, params);
    fill_bound(s);
    return WEFT_OK;
}

void weft_search_release(struct weft_search *s)
{
    free(s->limit);
    free(s->ops);
    free(s->bound);
    for (uint32_t i = 0; i < WEFT_SEARCH_POOL; i++)
        free(s->best[i].order);
    free(s->start);
    free(s->end);
    free(s->topo);
    free(s->rank_start);
    free(s->rank_end);
    free(s->order);
    free(s->pc);
    free(s->waits_for);
    free(s->ready);
    *s = (struct weft_search){0};
}

double weft_search_peak(const struct weft_search *s, const uint32_t *row)
{
    double mem = 0, peak = 0;
    for (size_t i = 0; i < s->per_rank; i++) {
        mem += s->ops[row[i]].delta;
        peak = mem > peak ? mem : peak;
    }
    return peak;
}

/* One micro after the other: all its forwards, then its gradients backwards, each weight
 * gradient at once.  Nothing needs less memory. */
static void one_by_one(const struct weft_search *s, uint32_t rank, uint32_t *row)
{
    size_t n = 0;
    for (uint32_t m = 0; m < s->n_micros; m++) {
        for (uint32_t c = 0; c < s->n_chunks; c++)
            row[n++] = weft_search_op(s, WEFT_PASS_F, weft_search_stage(s, rank, c), m);
        for (uint32_t c = s->n_chunks; c-- > 0;)
            for (uint32_t p = WEFT_PASS_I; p < s->n_passes; p++)
                row[n++] = weft_search_op(s, p, weft_search_stage(s, rank, c), m);
    }
}

enum weft_status weft_search_check_limits(struct weft_search *s, struct weft_error *err)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        uint32_t *row = s->order + r * s->per_rank;
        one_by_one(s, r, row);
        double least = weft_search_peak(s, row);
        if (!weft_search_fits(s, r, least))
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s: rank %u has a memory limit of %g, which is too little for one "
                             "micro: give it at least %g",
                             s->setup.name, r, s->limit[r], least);
    }
    weft_search_try(s, s->order);
    return WEFT_OK;
}

bool weft_search_time(struct weft_search *s, const uint32_t *order)
{
    const double not_yet = -1;
    uint32_t n_ready = 0;
    size_t done = 0;
    for (size_t i = 0; i < s->n_ops; i++)
        s->end[i] = not_yet;
    for (uint32_t r = s->n_ranks; r-- > 0;) {
        s->pc[r] = 0;
        s->rank_end[r] = 0;
        s->waits_for[r] = WEFT_NO_OP;
        s->ready[n_ready++] = r;
    }
    while (n_ready > 0) {
        uint32_t r = s->ready[--n_ready], i = s->pc[r];
        const uint32_t *row = order + r * s->per_rank;
        double t = s->rank_end[r];
        for (; i < s->per_rank; i++) {
            uint32_t id = row[i];
            const struct weft_op *op = &s->ops[id];
            if (op->from != WEFT_NO_OP) {
                double there = s->end[op->from];
                if (there < 0) {
                    s->waits_for[r] = op->from;
                    break;
                }
                t = there + op->hop > t ? there + op->hop : t;
            }
            s->start[id] = t;
            s->end[id] = t += op->time;
            s->topo[done++] = id;
            if (op->to != WEFT_NO_OP) {
                uint32_t heir = s->ops[op->to].rank;
                if (s->waits_for[heir] == id) {
                    s->waits_for[heir] = WEFT_NO_OP;
                    s->ready[n_ready++] = heir;
                }
            }
        }
        s->pc[r] = i;
        s->rank_end[r] = t;
    }
    for (uint32_t r = 0; r < s->n_ranks; r++)
        s->rank_start[r] = s->start[order[r * s->per_rank]];
    return done == s->n_ops;
}

struct weft_score weft_search_score(const struct weft_search *s)
{
    double span = 0, makespan = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double own = s->rank_end[r] - s->rank_start[r];
        span = own > span ? own : span;
        makespan = s->rank_end[r] > makespan ? s->rank_end[r] : makespan;
    }
    return s->minimize == WEFT_MIN_SPAN ? (struct weft_score){span, makespan, 0}
                                        : (struct weft_score){makespan, span, 0};
}

/* Sums of the same times in another order may differ in the last bits; that is no difference. */
static int compare(double a, double b)
{
    double slack = 1e-9 * (a > b ? a : b);
    return a < b - slack ? -1 : a > b + slack;
}

int weft_score_compare(struct weft_score a, struct weft_score b)
{
    int c = compare(a.first, b.first);
    if (c == 0)
        c = compare(a.second, b.second);
    return c != 0 ? c : compare(a.peak, b.peak);
}

bool weft_search_try(struct weft_search *s, const uint32_t *order)
{
    double peak = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double own = weft_search_peak(s, order + r * s->per_rank);
        if (!weft_search_fits(s, r, own))
            return false;
        peak = own > peak ? own : peak;
    }
    if (!weft_search_time(s, order))
        return false;
    return weft_search_keep(s, order, peak);
}

bool weft_search_keep(struct weft_search *s, const uint32_t *order, double peak)
{
    struct weft_score score = weft_search_score(s);
    score.peak = peak;
    uint32_t at = s->n_best, last;
    for (; at > 0; at--) {
        int c = weft_score_compare(score, s->best[at - 1].score);
        if (c == 0)
            return false;
        if (c > 0)
            break;
    }
    if (at == WEFT_SEARCH_POOL)
        return false;
    last = s->n_best < WEFT_SEARCH_POOL ? s->n_best++ : WEFT_SEARCH_POOL - 1;
    uint32_t *room = s->best[last].order;
    for (uint32_t i = last; i > at; i--)
        s->best[i] = s->best[i - 1];
    memcpy(room, order, sizeof *order * s->n_ops);
    s->best[at].score = score;
    s->best[at].order = room;
    return at == 0;
}

bool weft_search_is_perfect(const struct weft_search *s)
{
    bool by_span = s->minimize == WEFT_MIN_SPAN;
    return s->n_best > 0 && compare(s->best[0].score.first, s->bound[by_span ? 0 : 1]) <= 0 &&
           compare(s->best[0].score.second, s->bound[by_span ? 1 : 0]) <= 0;
}

enum weft_status weft_search_finish(const struct weft_search *s, struct weft_schedule **out,
                                    struct weft_error *err)
{
    static const enum weft_kind split[] = {WEFT_ACT_F, WEFT_ACT_I, WEFT_ACT_W};
    static const enum weft_kind whole[] = {WEFT_ACT_F, WEFT_ACT_B};
    const enum weft_kind *kinds = s->setup.whole ? whole : split;
    if (s->n_best == 0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "%s: the search found no order", s->setup.name);
    struct weft_builder b;
    struct weft_shape shape = {s->n_ranks, s->n_stages, s->n_micros, 1};
    WEFT_TRY(weft_builder_init(&b, s->setup.name, shape, s->n_passes, 0, err));
    weft_builder_place(&b, s->n_chunks == 1 ? WEFT_PLACE_LINEAR : WEFT_PLACE_V);
    for (uint32_t r = 0; r < s->n_ranks; r++)
        for (size_t i = 0; i < s->per_rank; i++) {
            uint32_t id = s->best[0].order[r * s->per_rank + i], row = s->ops[id].row;
            weft_emit(&b, r, kinds[row / s->n_stages], row % s->n_stages, id % s->n_micros);
        }
    return weft_builder_finish(&b, out, err);
}
