#include "planning/sched/gen/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "planning/sched/schedule_priv.h"

static enum weft_placement_kind place_kind(const struct weft_search_setup *setup)
{
    if (setup->place != WEFT_PLACE_LINEAR)
        return setup->place;
    return setup->chunks == 1 ? WEFT_PLACE_LINEAR : WEFT_PLACE_V;
}

/* Every rank has one stage in each P of them, whatever the placement. */
static void fill_stages(struct weft_search *s)
{
    weft_place_fill(s->rank_of, s->n_ranks, s->n_stages, place_kind(&s->setup));
    for (uint32_t stage = 0; stage < s->n_stages; stage++)
        s->stage_of[(size_t)s->rank_of[stage] * s->n_chunks + stage / s->n_ranks] = stage;
}

static void fill_op(const struct weft_search *s, uint32_t stage, uint32_t micro,
                    enum weft_pass pass, struct weft_op *op)
{
    bool up = pass == WEFT_PASS_I; /* gradients go from the last stage to the first */
    bool has_from = pass != WEFT_PASS_W && (up ? stage + 1 < s->n_stages : stage > 0);
    bool has_to = pass != WEFT_PASS_W && (up ? stage > 0 : stage + 1 < s->n_stages);
    uint32_t before = up ? stage + 1 : stage - 1, after = up ? stage - 1 : stage + 1;
    op->rank = s->rank_of[stage];
    op->row = pass * s->n_stages + stage;
    op->from = has_from ? weft_search_op(s, pass, before, micro) : WEFT_NO_OP;
    op->to = has_to ? weft_search_op(s, pass, after, micro) : WEFT_NO_OP;
    op->hop = has_from && s->rank_of[before] != op->rank ? s->hop : 0;
}

static void fill_ops(struct weft_search *s, const struct weft_params *params)
{
    bool whole = s->setup.whole;
    for (uint32_t stage = 0; stage < s->n_stages; stage++) {
        struct weft_stage_cost t = weft_cost_stage(params->cost, stage);
        struct weft_stage_memory d = weft_memory_stage(params->memory, stage);
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

/* Time of a rank for one micro in its first n passes. */
static double micro_time(const struct weft_search *s, uint32_t rank, uint32_t n_passes)
{
    double t = 0;
    for (uint32_t c = 0; c < s->n_chunks; c++)
        for (uint32_t p = 0; p < n_passes; p++)
            t += weft_search_first(s, p, weft_search_stage(s, rank, c))->time;
    return t;
}

/* What no order can beat.  Rank r starts no earlier than the first micro can reach it.  Then it
 * has its own work to do; and before the last gradient comes back to r, each rank q behind it
 * must have done all its forwards and gradients, which it cannot have begun before the first
 * micro reached q:
 *
 *     r   F                                      I W
 *     q     hop F F F I F I ... all of q's ... I hop
 */
static void fill_bound(struct weft_search *s)
{
    double span = 0, makespan = 0, start = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double best = s->n_micros * micro_time(s, r, s->n_passes), there = 0, back = 0;
        double last_w = s->n_passes == 3 ? weft_search_first(s, WEFT_PASS_W, r)->time : 0;
        for (uint32_t q = r; q < s->n_ranks; q++) {
            double t = there + s->n_micros * micro_time(s, q, 2) + back + last_w;
            best = weft_max(best, t);
            there += weft_search_first(s, WEFT_PASS_F, q)->time + s->hop;
            back += weft_search_first(s, WEFT_PASS_I, q)->time + s->hop;
        }
        span = best > span ? best : span;
        makespan = start + best > makespan ? start + best : makespan;
        start += weft_search_first(s, WEFT_PASS_F, r)->time + s->hop;
    }
    bool by_span = s->minimize == WEFT_MIN_SPAN;
    s->bound = (struct weft_score){by_span ? span : makespan, by_span ? makespan : span, 0};
}

static bool allocate(struct weft_search *s)
{
    size_t n = s->n_ops, ranks = s->n_ranks;
    bool ok = true;
    for (uint32_t i = 0; i < WEFT_N_FAMILIES; i++) {
        s->best[i].score = WEFT_NO_SCORE;
        s->best[i].order = malloc(sizeof *s->best[i].order * n);
        ok = ok && s->best[i].order != NULL;
    }
    s->rank_of = malloc(sizeof *s->rank_of * s->n_stages);
    s->stage_of = malloc(sizeof *s->stage_of * s->n_stages);
    s->limit = malloc(sizeof *s->limit * ranks);
    s->ops = malloc(sizeof *s->ops * n);
    s->start = malloc(sizeof *s->start * n);
    s->end = malloc(sizeof *s->end * n);
    s->topo = malloc(sizeof *s->topo * n);
    s->rank_start = malloc(sizeof *s->rank_start * ranks);
    s->rank_end = malloc(sizeof *s->rank_end * ranks);
    s->order = malloc(sizeof *s->order * n);
    s->pc = malloc(sizeof *s->pc * ranks);
    s->waits_for = malloc(sizeof *s->waits_for * ranks);
    s->ready = malloc(sizeof *s->ready * ranks);
    return ok && s->rank_of != NULL && s->stage_of != NULL && s->limit != NULL &&
           s->ops != NULL && s->start != NULL && s->end != NULL && s->topo != NULL &&
           s->rank_start != NULL && s->rank_end != NULL && s->order != NULL && s->pc != NULL &&
           s->waits_for != NULL && s->ready != NULL;
}

enum weft_status weft_search_init(struct weft_search *s, const struct weft_search_setup *setup,
                                  const struct weft_params *params, struct weft_error *err)
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
    if (!weft_size_mul(s->n_micros, (size_t)s->n_chunks * s->n_passes, &per_rank) ||
        !weft_size_mul(per_rank, s->n_ranks, &n) || n >= WEFT_NO_OP)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: %u stages x %u micros are too many to search: make them fewer",
                         setup->name, s->n_stages, s->n_micros);
    s->per_rank = per_rank;
    s->n_ops = n;
    if (!allocate(s)) {
        weft_search_release(s);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory to search with %zu actions",
                         setup->name, n);
    }
    for (uint32_t r = 0; r < s->n_ranks; r++)
        s->limit[r] =
            params->memory == NULL ? 1e300 : weft_value(params->memory->limit, r, 1e300);
    fill_stages(s);
    fill_ops(s, params);
    fill_bound(s);
    return WEFT_OK;
}

void weft_search_release(struct weft_search *s)
{
    for (uint32_t i = 0; i < WEFT_N_FAMILIES; i++)
        free(s->best[i].order);
    free(s->rank_of);
    free(s->stage_of);
    free(s->limit);
    free(s->ops);
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

void weft_search_cap(struct weft_search *s, double chunks)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double most = 0;
        for (uint32_t c = 0; c < s->n_chunks; c++) {
            double f = weft_search_first(s, WEFT_PASS_F, weft_search_stage(s, r, c))->delta;
            most = f > most ? f : most;
        }
        one_by_one(s, r, s->order);
        double cap = weft_max(chunks * most, weft_search_peak(s, s->order));
        s->limit[r] = weft_min(s->limit[r], cap);
    }
}

enum weft_status weft_search_check_limits(struct weft_search *s, struct weft_error *err)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        uint32_t *row = s->order + r * s->per_rank;
        one_by_one(s, r, row);
        double least = weft_search_peak(s, row);
        if (!weft_search_fits(s, r, least))
            return WEFT_FAIL(
                err, WEFT_USAGE,
                "%s: rank %u has a memory limit of %g, too little for one micro at "
                "a time: give it at least %g",
                s->setup.name, r, s->limit[r], least);
    }
    weft_search_try(s, WEFT_FAMILY_HAND, s->order);
    return WEFT_OK;
}

/* Runs rank r from where it stands until it ends or has to wait; ranks that it wakes are pushed
 * on `ready`. */
static void run_rank(struct weft_search *s, const uint32_t *row, uint32_t r, uint32_t *n_ready,
                     size_t *n_done)
{
    uint32_t i = s->pc[r];
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
        t += op->time;
        s->end[id] = t;
        s->topo[(*n_done)++] = id;
        if (op->to != WEFT_NO_OP) {
            uint32_t heir = s->ops[op->to].rank;
            if (s->waits_for[heir] == id) { /* never r itself: it does not wait */
                s->waits_for[heir] = WEFT_NO_OP;
                s->ready[(*n_ready)++] = heir;
            }
        }
    }
    s->pc[r] = i;
    s->rank_end[r] = t;
}

bool weft_search_time(struct weft_search *s, const uint32_t *order)
{
    uint32_t n_ready = 0;
    size_t n_done = 0;
    s->n_timed++;
    for (size_t i = 0; i < s->n_ops; i++)
        s->end[i] = -1; /* not yet */
    for (uint32_t r = s->n_ranks; r-- > 0;) {
        s->pc[r] = 0;
        s->rank_end[r] = 0;
        s->waits_for[r] = WEFT_NO_OP;
        s->ready[n_ready++] = r;
    }
    while (n_ready > 0) {
        uint32_t r = s->ready[--n_ready];
        run_rank(s, order + r * s->per_rank, r, &n_ready, &n_done);
    }
    if (n_done < s->n_ops)
        return false;
    for (uint32_t r = 0; r < s->n_ranks; r++)
        s->rank_start[r] = s->start[order[r * s->per_rank]];
    return true;
}

struct weft_score weft_search_score(const struct weft_search *s)
{
    double span = 0, makespan = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double own = s->rank_end[r] - s->rank_start[r];
        span = own > span ? own : span;
        makespan = s->rank_end[r] > makespan ? s->rank_end[r] : makespan;
    }
    bool by_span = s->minimize == WEFT_MIN_SPAN;
    return (struct weft_score){by_span ? span : makespan, by_span ? makespan : span, 0};
}

/* Sums of the same times in another order may differ in the last bits; that does not count. */
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

struct weft_score weft_search_try(struct weft_search *s, enum weft_family family,
                                  const uint32_t *order)
{
    struct weft_found *best = &s->best[family];
    double peak = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double own = weft_search_peak(s, order + r * s->per_rank);
        if (!weft_search_fits(s, r, own))
            return WEFT_NO_SCORE;
        peak = own > peak ? own : peak;
    }
    if (!weft_search_time(s, order))
        return WEFT_NO_SCORE;
    struct weft_score score = weft_search_score(s);
    score.peak = peak;
    if (weft_score_compare(score, best->score) < 0) {
        best->score = score;
        memcpy(best->order, order, sizeof *order * s->n_ops);
    }
    return score;
}

bool weft_search_is_perfect(const struct weft_search *s, struct weft_score score)
{
    return compare(score.first, s->bound.first) <= 0 &&
           compare(score.second, s->bound.second) <= 0;
}

const struct weft_found *weft_search_best(const struct weft_search *s)
{
    const struct weft_found *best = &s->best[0];
    for (uint32_t i = 1; i < WEFT_N_FAMILIES; i++)
        if (weft_score_compare(s->best[i].score, best->score) < 0)
            best = &s->best[i];
    return best;
}

enum weft_status weft_search_try_made(struct weft_search *s,
                                      enum weft_status (*make)(const struct weft_params *,
                                                               struct weft_schedule **,
                                                               struct weft_error *),
                                      const struct weft_params *params, struct weft_error *err)
{
    struct weft_schedule *made = NULL;
    struct weft_params plain = *params;
    plain.idle_hints = false;
    WEFT_TRY(make(&plain, &made, err));
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(made, r);
        assert(row.len == s->per_rank);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            enum weft_pass pass = a.kind == WEFT_ACT_F   ? WEFT_PASS_F
                                  : a.kind == WEFT_ACT_I ? WEFT_PASS_I
                                                         : WEFT_PASS_W;
            s->order[r * s->per_rank + i] = weft_search_op(s, pass, a.stage, a.micro);
        }
    }
    weft_schedule_free(made);
    weft_search_try(s, WEFT_FAMILY_HAND, s->order);
    return WEFT_OK;
}

enum weft_status weft_search_finish(const struct weft_search *s, struct weft_schedule **out,
                                    struct weft_error *err)
{
    static const enum weft_kind split[] = {WEFT_ACT_F, WEFT_ACT_I, WEFT_ACT_W};
    static const enum weft_kind whole[] = {WEFT_ACT_F, WEFT_ACT_B};
    const enum weft_kind *kinds = s->setup.whole ? whole : split;
    const uint32_t *order = weft_search_best(s)->order;
    struct weft_builder b;
    struct weft_shape shape = {s->n_ranks, s->n_stages, s->n_micros, 1};
    WEFT_TRY(weft_builder_init(&b, s->setup.name, shape, s->n_passes, 0, err));
    weft_builder_place(&b, place_kind(&s->setup));
    for (uint32_t r = 0; r < s->n_ranks; r++)
        for (size_t i = 0; i < s->per_rank; i++) {
            uint32_t id = order[r * s->per_rank + i], row = s->ops[id].row;
            weft_emit(&b, r, kinds[row / s->n_stages], row % s->n_stages, id % s->n_micros);
        }
    return weft_builder_finish(&b, out, err);
}
