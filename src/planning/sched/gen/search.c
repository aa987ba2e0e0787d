/* Sets up the problem of a search, computes the times of orders, and stores the best order of
 * each family. */
#include "planning/sched/gen/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "planning/sched/schedule_priv.h"

static enum weft_placement_kind place_kind(const struct wf_search_setup *setup)
{
    if (setup->place != WEFT_PLACEMENT_LINEAR)
        return setup->place;
    return setup->chunks == 1 ? WEFT_PLACEMENT_LINEAR : WEFT_PLACEMENT_V;
}

/* Fills rank_of and stage_of.  With every supported placement, each group of P consecutive
 * stages has exactly one stage on every rank. */
static void fill_stages(struct wf_search *s)
{
    wf_placement_fill(s->rank_of, s->n_ranks, s->n_stages, place_kind(&s->setup));
    for (uint32_t stage = 0; stage < s->n_stages; stage++)
        s->stage_of[(size_t)s->rank_of[stage] * s->n_chunks + stage / s->n_ranks] = stage;
}

static void fill_op(const struct wf_search *s, const struct weft_cost *cost, uint32_t stage,
                    uint32_t micro, enum wf_pass pass, struct wf_op *op)
{
    bool up = pass == WF_PASS_I; /* gradients pass from the last stage to the first */
    bool has_from = pass != WF_PASS_W && (up ? stage + 1 < s->n_stages : stage > 0);
    bool has_to = pass != WF_PASS_W && (up ? stage > 0 : stage + 1 < s->n_stages);
    uint32_t before = up ? stage + 1 : stage - 1, after = up ? stage - 1 : stage + 1;
    op->rank = s->rank_of[stage];
    op->row = pass * s->n_stages + stage;
    op->from = has_from ? wf_search_op_id(s, pass, before, micro) : WF_OP_NONE;
    op->to = has_to ? wf_search_op_id(s, pass, after, micro) : WF_OP_NONE;
    op->hop = has_from && s->rank_of[before] != op->rank
                  ? weft_cost_hop(cost, s->n_stages, 0, up ? stage : before, up)
                  : 0;
}

static void fill_ops(struct wf_search *s, const struct weft_gen_params *params)
{
    bool whole = s->setup.whole;
    for (uint32_t stage = 0; stage < s->n_stages; stage++) {
        struct weft_stage_cost t = weft_cost_stage(params->cost, stage);
        struct weft_stage_memory d = weft_memory_cost_stage(params->memory, stage);
        double times[3] = {t.f, whole ? t.b : t.i, t.w};
        double deltas[3] = {d.f, whole ? d.i + d.w : d.i, d.w};
        for (uint32_t pass = 0; pass < s->n_passes; pass++)
            for (uint32_t micro = 0; micro < s->n_micros; micro++) {
                struct wf_op *op = &s->ops[wf_search_op_id(s, pass, stage, micro)];
                fill_op(s, params->cost, stage, micro, pass, op);
                op->time = times[pass];
                op->delta = deltas[pass];
            }
    }
}

/* Returns the total time that a rank needs for the first `n_passes` passes of one micro. */
static double micro_time(const struct wf_search *s, uint32_t rank, uint32_t n_passes)
{
    double t = 0;
    for (uint32_t c = 0; c < s->n_chunks; c++)
        for (uint32_t p = 0; p < n_passes; p++)
            t += wf_search_stage_op(s, p, wf_search_stage(s, rank, c))->time;
    return t;
}

/* Returns the time from the start of a forward on stage r until stage r + 1 can start.  In every
 * placement, stages 0 to P - 1 are on ranks 0 to P - 1. */
static double next_rank_after(const struct wf_search *s, uint32_t r)
{
    return wf_search_stage_op(s, WF_PASS_F, r)->time +
           wf_search_stage_op(s, WF_PASS_F, r + 1)->hop;
}

/* Computes a lower bound of the score.  Rank r starts no earlier than the time at which the
 * first micro can reach it.  After that, rank r needs at least the time of its own work.  In
 * addition, before the last gradient returns to r, each later rank q must have finished all its
 * forwards and input gradients.  The work of q starts no earlier than the time at which the
 * first micro can reach q:
 *
 *     r   F                                      I W
 *     q     hop F F F I F I ... all of q's ... I hop
 */
static void fill_bound(struct wf_search *s)
{
    double span = 0, makespan = 0, start = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double best = s->n_micros * micro_time(s, r, s->n_passes), down = 0, back = 0;
        double last_w = s->n_passes == 3 ? wf_search_stage_op(s, WF_PASS_W, r)->time : 0;
        for (uint32_t q = r; q < s->n_ranks; q++) {
            double t = down + s->n_micros * micro_time(s, q, 2) + back + last_w;
            best = wf_double_max(best, t);
            if (q + 1 == s->n_ranks)
                break;
            down += next_rank_after(s, q);
            back += wf_search_stage_op(s, WF_PASS_I, q)->time +
                    wf_search_stage_op(s, WF_PASS_I, q)->hop;
        }
        span = best > span ? best : span;
        makespan = start + best > makespan ? start + best : makespan;
        if (r + 1 < s->n_ranks)
            start += next_rank_after(s, r);
    }
    bool by_span = s->minimize == WEFT_MINIMIZE_SPAN;
    s->bound = (struct wf_score){by_span ? span : makespan, by_span ? makespan : span, 0};
}

static bool allocate(struct wf_search *s)
{
    size_t n = s->n_ops, ranks = s->n_ranks;
    bool ok = true;

    for (uint32_t i = 0; i < WF_N_FAMILIES; i++) {
        s->best[i].score = WF_SCORE_INFEASIBLE;
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

enum weft_status wf_search_init(struct wf_search *s, const struct wf_search_setup *setup,
                                const struct weft_gen_params *params, struct weft_error *err)
{
    *s = (struct wf_search){
        .setup = *setup,
        .minimize = params->minimize,
        .n_ranks = params->ranks,
        .n_stages = params->ranks * setup->chunks,
        .n_micros = params->micros,
        .n_chunks = setup->chunks,
        .n_passes = setup->whole ? 2 : 3,
    };

    size_t per_rank, n;
    if (!wf_size_mul(s->n_micros, (size_t)s->n_chunks * s->n_passes, &per_rank) ||
        !wf_size_mul(per_rank, s->n_ranks, &n) || n >= WF_OP_NONE)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: too many actions to search (%u stages x %u micros); use fewer",
                         setup->name, s->n_stages, s->n_micros);
    s->per_rank = per_rank;
    s->n_ops = n;
    if (!allocate(s)) {
        wf_search_release(s);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory to search with %zu actions",
                         setup->name, n);
    }

    for (uint32_t r = 0; r < s->n_ranks; r++)
        s->limit[r] =
            params->memory == NULL ? 1e300 : weft_values_get(params->memory->limit, r, 1e300);
    fill_stages(s);
    fill_ops(s, params);
    fill_bound(s);
    return WEFT_OK;
}

void wf_search_release(struct wf_search *s)
{
    for (uint32_t i = 0; i < WF_N_FAMILIES; i++)
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
    *s = (struct wf_search){0};
}

double wf_search_peak(const struct wf_search *s, const uint32_t *row)
{
    double mem = 0, peak = 0;
    for (size_t i = 0; i < s->per_rank; i++) {
        mem += s->ops[row[i]].delta;
        peak = mem > peak ? mem : peak;
    }
    return peak;
}

/* Lists the actions of one micro after the other: for each micro all forwards, then the input
 * gradients in reverse stage order, each followed by its weight gradient.  No other order needs
 * less memory. */
static void sequential_order(const struct wf_search *s, uint32_t rank, uint32_t *row)
{
    size_t n = 0;
    for (uint32_t m = 0; m < s->n_micros; m++) {
        for (uint32_t c = 0; c < s->n_chunks; c++)
            row[n++] = wf_search_op_id(s, WF_PASS_F, wf_search_stage(s, rank, c), m);
        for (uint32_t c = s->n_chunks; c-- > 0;)
            for (uint32_t p = WF_PASS_I; p < s->n_passes; p++)
                row[n++] = wf_search_op_id(s, p, wf_search_stage(s, rank, c), m);
    }
}

void wf_search_cap_memory(struct wf_search *s, double chunks)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double largest = 0;
        for (uint32_t c = 0; c < s->n_chunks; c++) {
            double f = wf_search_stage_op(s, WF_PASS_F, wf_search_stage(s, r, c))->delta;
            largest = f > largest ? f : largest;
        }
        sequential_order(s, r, s->order);
        double cap = wf_double_max(chunks * largest, wf_search_peak(s, s->order));
        s->limit[r] = wf_double_min(s->limit[r], cap);
    }
}

enum weft_status wf_search_check_limits(struct wf_search *s, struct weft_error *err)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        uint32_t *row = s->order + r * s->per_rank;
        sequential_order(s, r, row);
        double needed = wf_search_peak(s, row);
        if (!wf_search_fits(s, r, needed))
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s: the memory limit of rank %u is too low for one micro at a "
                             "time (%g; expected at least %g)",
                             s->setup.name, r, s->limit[r], needed);
    }
    wf_search_try(s, WF_FAMILY_FIXED, s->order);
    return WEFT_OK;
}

/* Runs rank r until its list ends or it has to wait.  Pushes the ranks that become ready on the
 * stack `ready`. */
static void run_rank(struct wf_search *s, const uint32_t *row, uint32_t r, uint32_t *n_ready,
                     size_t *n_done)
{
    uint32_t i = s->pc[r];
    double t = s->rank_end[r];
    for (; i < s->per_rank; i++) {
        uint32_t id = row[i];
        const struct wf_op *op = &s->ops[id];
        if (op->from != WF_OP_NONE) {
            double sent = s->end[op->from];
            if (sent < 0) {
                s->waits_for[r] = op->from;
                break;
            }
            t = sent + op->hop > t ? sent + op->hop : t;
        }

        s->start[id] = t;
        t += op->time;
        s->end[id] = t;
        s->topo[(*n_done)++] = id;
        if (op->to != WF_OP_NONE) {
            uint32_t dependent = s->ops[op->to].rank;
            /* the waiting rank is never r, because r is running */
            if (s->waits_for[dependent] == id) {
                s->waits_for[dependent] = WF_OP_NONE;
                s->ready[(*n_ready)++] = dependent;
            }
        }
    }
    s->pc[r] = i;
    s->rank_end[r] = t;
}

bool wf_search_time(struct wf_search *s, const uint32_t *order)
{
    uint32_t n_ready = 0;
    size_t n_done = 0;
    s->n_timed++;

    for (size_t i = 0; i < s->n_ops; i++)
        s->end[i] = -1; /* not done */
    for (uint32_t r = s->n_ranks; r-- > 0;) {
        s->pc[r] = 0;
        s->rank_end[r] = 0;
        s->waits_for[r] = WF_OP_NONE;
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

struct wf_score wf_search_score(const struct wf_search *s)
{
    double span = 0, makespan = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double own = s->rank_end[r] - s->rank_start[r];
        span = own > span ? own : span;
        makespan = s->rank_end[r] > makespan ? s->rank_end[r] : makespan;
    }
    bool by_span = s->minimize == WEFT_MINIMIZE_SPAN;
    return (struct wf_score){by_span ? span : makespan, by_span ? makespan : span, 0};
}

/* Compares two times and treats nearly equal values as equal, because sums of the same times in
 * different orders may differ in the last bits. */
static int compare(double a, double b)
{
    double slack = 1e-9 * (a > b ? a : b);
    return a < b - slack ? -1 : a > b + slack;
}

int wf_score_compare(struct wf_score a, struct wf_score b)
{
    int c = compare(a.first, b.first);
    if (c == 0)
        c = compare(a.second, b.second);
    return c != 0 ? c : compare(a.peak, b.peak);
}

struct wf_score wf_search_try(struct wf_search *s, enum wf_family family, const uint32_t *order)
{
    struct wf_incumbent *best = &s->best[family];
    double peak = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double own = wf_search_peak(s, order + r * s->per_rank);
        if (!wf_search_fits(s, r, own))
            return WF_SCORE_INFEASIBLE;
        peak = own > peak ? own : peak;
    }
    if (!wf_search_time(s, order))
        return WF_SCORE_INFEASIBLE;

    struct wf_score score = wf_search_score(s);
    score.peak = peak;
    if (wf_score_compare(score, best->score) < 0) {
        best->score = score;
        memcpy(best->order, order, sizeof *order * s->n_ops);
    }
    return score;
}

bool wf_search_is_optimal(const struct wf_search *s, struct wf_score score)
{
    return compare(score.first, s->bound.first) <= 0 &&
           compare(score.second, s->bound.second) <= 0;
}

enum wf_family wf_search_best_family(const struct wf_search *s)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < WF_N_FAMILIES; i++)
        if (wf_score_compare(s->best[i].score, s->best[best].score) < 0)
            best = i;
    return (enum wf_family)best;
}

const struct wf_incumbent *wf_search_best(const struct wf_search *s)
{
    return &s->best[wf_search_best_family(s)];
}

enum weft_status
wf_search_try_generator(struct wf_search *s,
                        enum weft_status (*make)(const struct weft_gen_params *,
                                                 struct weft_schedule **, struct weft_error *),
                        const struct weft_gen_params *params, struct weft_error *err)
{
    struct weft_schedule *generated = NULL;
    WEFT_TRY(make(params, &generated, err));

    for (uint32_t r = 0; r < s->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(generated, r);
        assert(row.len == s->per_rank);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            enum wf_pass pass = a.kind == WEFT_ACT_F   ? WF_PASS_F
                                : a.kind == WEFT_ACT_I ? WF_PASS_I
                                                       : WF_PASS_W;
            s->order[r * s->per_rank + i] = wf_search_op_id(s, pass, a.stage, a.micro);
        }
    }
    weft_schedule_free(generated);
    wf_search_try(s, WF_FAMILY_FIXED, s->order);
    return WEFT_OK;
}

enum weft_status wf_search_finish(const struct wf_search *s, struct weft_schedule **out,
                                  struct weft_error *err)
{
    static const enum weft_act_kind split[] = {WEFT_ACT_F, WEFT_ACT_I, WEFT_ACT_W};
    static const enum weft_act_kind whole[] = {WEFT_ACT_F, WEFT_ACT_B};
    const enum weft_act_kind *kinds = s->setup.whole ? whole : split;
    const uint32_t *order = wf_search_best(s)->order;
    struct wf_builder b;
    struct wf_shape shape = {s->n_ranks, s->n_stages, s->n_micros, 1};
    WEFT_TRY(wf_builder_init(&b, s->setup.name, shape, s->n_passes, 0, err));
    wf_builder_place(&b, place_kind(&s->setup));
    for (uint32_t r = 0; r < s->n_ranks; r++)
        for (size_t i = 0; i < s->per_rank; i++) {
            uint32_t id = order[r * s->per_rank + i], row = s->ops[id].row;
            wf_builder_add(&b, r, kinds[row / s->n_stages], row % s->n_stages,
                           id % s->n_micros);
        }
    return wf_builder_finish(&b, out, err);
}
