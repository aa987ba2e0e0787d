/* Builds instances: times in ticks, rows, and the precedences that memory implies. */
#include "planning/tune/instance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/sched/cost_check.h"

#define MAX_COST 1e300

/* Memory that one micro occupies in a chain: v[0] = 0 before its forward, v[1] from the
 * forward to I, v[2] from I to W, v[3] after W. */
struct footprint {
    double v[4];
    double any, started, back; /* minimum of v[0..3], of v[1..3] and of v[2..3] */
    double time[3];
};

enum { MAX_NEEDS = 1 << 24, GRID_BITS = 30 };

/* -- costs -------------------------------------------------------------------------------- */

static enum weft_status check_input(const struct weft_bound_input *in, struct weft_error *err)
{
    const struct weft_placement *p = in->placement;
    static const struct weft_cost no_cost;
    static const struct weft_memory_cost no_memory;
    const struct weft_cost *c = in->cost == NULL ? &no_cost : in->cost;
    const struct weft_memory_cost *m = in->memory == NULL ? &no_memory : in->memory;
    if (p->n_ranks == 0 || p->n_stages == 0 || p->n_micros == 0 || p->n_pipes == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "a bound needs at least one rank, stage, micro and pipe (got %u, %u, "
                         "%u, %u)",
                         p->n_ranks, p->n_stages, p->n_micros, p->n_pipes);
    for (size_t i = 0; i < (size_t)p->n_pipes * p->n_stages; i++)
        if (p->rank_of[i] >= p->n_ranks)
            return WEFT_FAIL(err, WEFT_USAGE, "rank %u is out of range (%u ranks)",
                             p->rank_of[i], p->n_ranks);

    const struct {
        struct weft_values values;
        struct wf_values_rule rule;
    } lists[] = {
        {c->f, {"cost F", p->n_stages, "stage", 0, MAX_COST}},
        {c->i, {"cost I", p->n_stages, "stage", 0, MAX_COST}},
        {c->w, {"cost W", p->n_stages, "stage", 0, MAX_COST}},
        {c->b, {"cost B", p->n_stages, "stage", 0, MAX_COST}},
        {c->fb, {"cost FB", p->n_stages, "stage", 0, MAX_COST}},
        {{&c->hop, 1}, {"cost C", 1, "hop", 0, MAX_COST}},
        {m->f, {"mem F", p->n_stages, "stage", -MAX_COST, MAX_COST}},
        {m->i, {"mem I", p->n_stages, "stage", -MAX_COST, MAX_COST}},
        {m->w, {"mem W", p->n_stages, "stage", -MAX_COST, MAX_COST}},
        {m->limit, {"mem-limit", p->n_ranks, "rank", 0, MAX_COST}},
    };
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        WEFT_TRY(wf_values_check(lists[i].values, &lists[i].rule, err));
    return weft_cost_check(in->cost, NULL, p->n_ranks, p->n_stages, p->n_micros, err);
}

/* Computes the times and the memory of a stage such that they are lower bounds for all
 * allowed schedules.
 *
 * Whole and split backwards: a whole backward counts as I followed by W.  W is shortened if
 * the whole backward is faster than I and W together.  If the memory after W is less than
 * the memory after I, it is used for both.
 *
 * Pairs: F and B together take at least FB, so F counts as FB minus the longest B. */
static void stage_footprint(const struct weft_bound_input *in, uint32_t stage,
                            struct footprint *h)
{
    struct weft_stage_cost t = weft_cost_stage(in->cost, stage);
    struct weft_stage_memory d = weft_memory_cost_stage(in->memory, stage);
    double i = t.i, w = t.w, v2 = d.f + d.i, v3 = d.f + d.i + d.w;
    if (in->backwards == WEFT_BACKWARD_WHOLE) {
        i = t.b;
        w = 0;
        v2 = v3;
    } else if (in->backwards == WEFT_BACKWARD_ANY) {
        i = fmin(i, t.b);
        w = fmin(w, t.b - i);
        v2 = fmin(v2, v3);
    }

    if (in->pairs && in->cost != NULL && in->cost->fb.n > 0) {
        double longest = 0;
        for (uint32_t s = 0; s < in->placement->n_stages; s++)
            longest = fmax(longest, weft_cost_stage(in->cost, s).b);
        t.f = fmin(t.f, fmax(0, weft_values_get(in->cost->fb, stage, 0) - longest));
    }
    *h = (struct footprint){.v = {0, d.f, v2, v3}, .time = {t.f, i, w}};
    h->back = fmin(v2, v3);
    h->started = fmin(d.f, h->back);
    h->any = fmin(0, h->started);
}

/* -- ticks -------------------------------------------------------------------------------- */

static bool is_whole(double x, double scale)
{
    double y = x * scale;
    return y < 0x1p50 && fabs(y - round(y)) <= 8 * 0x1p-53 * y;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Chooses the length of a tick for the given times, such that sums of ticks are exact in a
 * double. */
static void choose_tick(struct wf_instance *x, const double *times, size_t n, double sum)
{
    double longest = 0;
    for (size_t i = 0; i < n; i++)
        longest = fmax(longest, times[i]);

    for (double scale = 1; scale <= 1e6; scale *= 10) {
        int64_t common = 0;
        size_t i = 0;
        while (i < n && is_whole(times[i], scale))
            common = gcd((int64_t)round(times[i++] * scale), common);
        if (i < n || common == 0 || sum * scale / (double)common > 0x1p52)
            continue;
        x->tick = (double)common / scale;
        x->exact = true;
        return;
    }

    x->exact = longest == 0;
    x->tick = longest == 0 ? 1 : fmax(longest / (1 << GRID_BITS), sum / 0x1p52);
}

static int64_t to_ticks(const struct wf_instance *x, double time)
{
    return (int64_t)(x->exact ? round(time / x->tick) : floor(time / x->tick));
}

/* Returns the delay of the results that a row needs. */
static double hop_before(const struct wf_instance *x, const struct weft_cost *cost,
                         const struct wf_row *row)
{
    if (row->from == WF_NO_ROW || x->rows[row->from].rank == row->rank)
        return 0;
    uint32_t stage = row->chain % x->n_stages, pipe = row->chain / x->n_stages;
    bool up = row->pass == WF_ROW_I;
    return weft_cost_hop(cost, x->n_stages, pipe, up ? stage : stage - 1, up);
}

static enum weft_status fill_times(struct wf_instance *x, const struct footprint *footprints,
                                   const struct weft_cost *cost, uint32_t n_micros,
                                   struct weft_error *err)
{
    size_t n = 0;
    double *times = malloc(sizeof *times * ((size_t)x->n_stages * 3 + x->n_rows));
    if (times == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a bound");

    double longest = 0, sum = 0;
    for (uint32_t i = 0; i < x->n_rows; i++) {
        double hop = hop_before(x, cost, &x->rows[i]);
        longest = fmax(longest, hop);
        times[n++] = hop;
    }
    sum = longest * (2.0 * x->n_stages + n_micros);
    for (uint32_t s = 0; s < x->n_stages; s++)
        for (uint32_t p = 0; p < 3; p++) {
            times[n++] = footprints[s].time[p];
            sum += footprints[s].time[p] * n_micros;
        }
    choose_tick(x, times, n, sum);

    for (uint32_t i = 0; i < x->n_rows; i++) {
        struct wf_row *row = &x->rows[i];
        row->time = to_ticks(x, footprints[row->chain % x->n_stages].time[row->pass]);
        row->hop = to_ticks(x, hop_before(x, cost, row));
    }
    free(times);
    return WEFT_OK;
}

/* -- rows --------------------------------------------------------------------------------- */

static void fill_row(struct wf_instance *x, const struct weft_placement *place,
                     const struct footprint *footprints, uint32_t id, uint32_t n)
{
    uint32_t chain = id / x->n_passes, pass = id % x->n_passes, stage = chain % x->n_stages;
    bool up = pass == WF_ROW_I, last = stage + 1 == x->n_stages, first = stage == 0;
    uint32_t after = wf_instance_row(x, chain + 1, pass);
    uint32_t before = wf_instance_row(x, chain - 1, pass);

    x->rows[id] = (struct wf_row){
        .chain = chain,
        .pass = pass,
        .rank = place->rank_of[chain],
        .n = n,
        .from = up      ? (last ? WF_NO_ROW : after)
                : first ? WF_NO_ROW
                        : before,
        .to = up     ? (first ? WF_NO_ROW : before)
              : last ? WF_NO_ROW
                     : after,
        .first = x->n_ops,
        .delta = footprints[stage].v[pass + 1] - footprints[stage].v[pass],
    };
    if (pass == WF_ROW_W)
        x->rows[id].from = x->rows[id].to = WF_NO_ROW;
    x->n_ops += n;
}

static void fill_rows(struct wf_instance *x, const struct weft_placement *place,
                      const struct footprint *footprints)
{
    for (uint32_t id = 0; id < x->n_rows; id++) {
        uint64_t pipe = id / x->n_passes / x->n_stages;
        uint64_t begin = pipe * place->n_micros / place->n_pipes;
        uint64_t end = (pipe + 1) * place->n_micros / place->n_pipes;
        fill_row(x, place, footprints, id, (uint32_t)(end - begin));
    }

    for (uint32_t id = 0; id < x->n_rows; id++)
        x->rank_first[x->rows[id].rank + 1]++;
    for (uint32_t r = 0; r < x->n_ranks; r++)
        x->rank_first[r + 1] += x->rank_first[r];

    uint32_t *fill = x->need_n; /* scratch; need_n gets its own values later */
    memset(fill, 0, sizeof *fill * x->n_ranks);
    for (uint32_t id = 0; id < x->n_rows; id++) {
        struct wf_row *row = &x->rows[id];
        row->local = fill[row->rank]++;
        x->rank_rows[x->rank_first[row->rank] + row->local] = id;
        x->rank_ops[row->rank] += row->n;
    }
}

uint32_t wf_instance_first_row(const struct wf_instance *x, uint32_t rank)
{
    if (x->n_pipes > 1 || wf_instance_n_rows(x, rank) == 0)
        return WF_NO_ROW;
    return x->rank_rows[x->rank_first[rank]];
}

/* -- consequences of memory --------------------------------------------------------------- */

/* Returns true if memory is within a limit.  The comparison has a tolerance, because a bound
 * must not depend on the last bit. */
static bool fits(double mem, double limit)
{
    return mem <= limit + 1e-9 * fmax(1, limit);
}

/* Memory sums over the other chains of a rank. */
struct others {
    /* sums over earlier chains of the same pipe */
    double v1_before, started_before, any_before;
    double back_after, any_after; /* sums over later chains of the same pipe */
    double elsewhere;             /* minimum memory of the chains of all other pipes */
};

static struct others sum_others(const struct wf_instance *x, const struct footprint *footprints,
                                uint32_t chain)
{
    struct others o = {0};
    uint32_t rank = x->rows[wf_instance_row(x, chain, 0)].rank;
    for (uint32_t i = x->rank_first[rank]; i < x->rank_first[rank + 1]; i++) {
        const struct wf_row *row = &x->rows[x->rank_rows[i]];
        const struct footprint *h = &footprints[row->chain % x->n_stages];
        if (row->pass != WF_ROW_F || row->chain == chain)
            continue;

        if (row->chain / x->n_stages != chain / x->n_stages) {
            o.elsewhere += row->n * h->any;
        } else if (row->chain < chain) {
            o.v1_before += h->v[1];
            o.started_before += h->started;
            o.any_before += h->any;
        } else {
            o.back_after += h->back;
            o.any_after += h->any;
        }
    }
    return o;
}

/* Computes how many I and W of a chain must be done before the chain's k-th forward starts.
 *
 * Assume that a of the chain's I are done.  Then micros a..k occupy v1 of this chain.  They
 * also occupy v1 of earlier chains of the rank, because they have passed these chains and
 * their gradients reach this chain first.  Micros below a occupy at least the minimum of v2
 * and v3 in this chain and in later chains.  Micros above k occupy nothing in this chain and
 * in later chains.  If the sum exceeds the limit, a is too small.
 *
 * Assume that b of the chain's W are done, with any number of I.  Micro k occupies v1 in
 * this chain and in earlier chains.  Micros b..k-1 occupy the minimum of v1 and v2 in this
 * chain.  Micros below b occupy v3.
 *
 * The numbers never decrease with k, because forwards run in order. */
static void set_forward_needs(struct wf_instance *x, const struct footprint *footprints,
                              uint32_t chain)
{
    const struct wf_row *f = &x->rows[wf_instance_row(x, chain, WF_ROW_F)];
    const struct footprint *h = &footprints[chain % x->n_stages];
    struct others o = sum_others(x, footprints, chain);
    double limit = x->limit[f->rank], n = f->n, a = 0, b = 0;
    double open = h->v[1] + o.v1_before + o.any_after;
    double closed = h->back + o.started_before + o.back_after;

    for (uint32_t k = 0; k < f->n; k++) {
        double rest = (n - 1 - k) * o.any_before + o.elsewhere;
        while (a <= k && !fits((k + 1 - a) * open + a * closed + rest, limit))
            a++;

        double here = h->v[1] + o.v1_before + k * (o.started_before + o.any_after) + rest;
        double kept = fmin(h->v[1], h->v[2]);
        while (x->n_passes == 3 && b <= k && !fits(here + (k - b) * kept + b * h->v[3], limit))
            b++;

        if (a > k || b > k) {
            x->impossible = true;
            return;
        }
        x->need_i[f->first + k] = (uint32_t)fmax(a, b);
        x->need_w[f->first + k] = (uint32_t)b;
    }
}

/* Computes how many W of a chain must be done before the chain's k-th I starts.  If b of
 * them are done, micros b..k occupy v2, micros below b occupy v3, and micros above k occupy
 * nothing or v1. */
static void set_gradient_needs(struct wf_instance *x, const struct footprint *footprints,
                               uint32_t chain)
{
    const struct wf_row *i = &x->rows[wf_instance_row(x, chain, WF_ROW_I)];
    const struct footprint *h = &footprints[chain % x->n_stages];
    struct others o = sum_others(x, footprints, chain);
    double limit = x->limit[i->rank], b = 0;
    for (uint32_t k = 0; k < i->n && x->n_passes == 3; k++) {
        double above = i->n - 1 - k;
        double rest = above * (fmin(0, h->v[1]) + o.any_before + o.any_after) + o.v1_before +
                      k * o.started_before + (k + 1) * o.back_after + o.elsewhere;
        while (b <= k && !fits(rest + (k + 1 - b) * h->v[2] + b * h->v[3], limit))
            b++;
        if (b > k) {
            x->impossible = true;
            return;
        }
        x->need_w[i->first + k] = (uint32_t)b;
    }
}

/* Propagates needs between stages.  A forward follows the forwards of the same micro on
 * earlier stages, so it also has the needs of these forwards.  If an I must be done on a
 * stage, it must also be done on all later stages. */
static void propagate_needs(struct wf_instance *x)
{
    for (uint32_t c = 0; c < x->n_chains; c++) {
        const struct wf_row *f = &x->rows[wf_instance_row(x, c, WF_ROW_F)];
        if (f->from == WF_NO_ROW)
            continue;
        const uint32_t *before = x->need_i + x->rows[f->from].first;
        for (uint32_t k = 0; k < f->n; k++)
            if (x->need_i[f->first + k] < before[k])
                x->need_i[f->first + k] = before[k];
    }
}

/* -- precedences of a rank ---------------------------------------------------------------- */

/* Returns how many actions of row b must be done before the k-th action of row a.  Both rows
 * have the same pipe and rank. */
static uint32_t need_direct(const struct wf_instance *x, const struct wf_row *a,
                            const struct wf_row *b, uint32_t k)
{
    size_t f = x->rows[wf_instance_row(x, b->chain, WF_ROW_F)].first + k;
    size_t i = x->rows[wf_instance_row(x, b->chain, WF_ROW_I)].first + k;
    uint32_t own = x->need_i[x->rows[wf_instance_row(x, a->chain, WF_ROW_F)].first + k];
    bool here = a->chain == b->chain, after = b->chain > a->chain;
    if (here && a->pass == b->pass)
        return k;

    switch (b->pass) {
    case WF_ROW_F:
        return a->pass != WF_ROW_F || (!here && !after) ? k + 1 : own;
    case WF_ROW_I:
        if (a->pass == WF_ROW_F)
            return here || after ? own : x->need_i[f];
        return after || (here && a->pass == WF_ROW_W) ? k + 1 : x->need_i[f];
    default: {
        uint32_t n = a->pass == WF_ROW_F && after ? 0 : x->need_w[f];
        bool through = a->pass == WF_ROW_W ? here || after : a->pass == WF_ROW_I && after;
        if ((through || (here && a->pass == WF_ROW_I)) && x->need_w[i] > n)
            n = x->need_w[i];
        return n;
    }
    }
}

/* Computes the transitive closure of `before`. */
static void close_before(const struct wf_instance *x, uint32_t rank, uint32_t *before)
{
    uint32_t rows = wf_instance_n_rows(x, rank);
    for (uint32_t c = 0; c < rows; c++)
        for (uint32_t a = 0; a < rows; a++) {
            const uint32_t *ac = before + wf_instance_need(x, rank, a, c);
            uint32_t n = x->rows[x->rank_rows[x->rank_first[rank] + a]].n;
            for (uint32_t b = 0; b < rows; b++) {
                uint32_t *ab = before + wf_instance_need(x, rank, a, b);
                const uint32_t *cb = before + wf_instance_need(x, rank, c, b);
                for (uint32_t k = 0; k < n; k++)
                    if (ac[k] > 0 && cb[ac[k] - 1] > ab[k])
                        ab[k] = cb[ac[k] - 1];
            }
        }
}

void wf_instance_close(const struct wf_instance *x, uint32_t rank, uint32_t *before,
                       uint32_t *after)
{
    uint32_t rows = wf_instance_n_rows(x, rank);
    const uint32_t *ids = x->rank_rows + x->rank_first[rank];
    close_before(x, rank, before);
    for (uint32_t i = 0; i < rows * rows; i++) {
        const struct wf_row *a = &x->rows[ids[i / rows]], *b = &x->rows[ids[i % rows]];
        const uint32_t *ba = before + wf_instance_need(x, rank, i % rows, i / rows);
        uint32_t *ab = after + wf_instance_need(x, rank, i / rows, i % rows), t = 0;
        /* the t-th action of b is the first that follows the k-th action of a */
        for (uint32_t k = 0; k < a->n; k++) {
            while (t < b->n && ba[t] <= k)
                t++;
            ab[k] = b->n - t;
        }
    }
}

static void fill_needs_of(struct wf_instance *x, uint32_t rank)
{
    uint32_t rows = wf_instance_n_rows(x, rank);
    const uint32_t *ids = x->rank_rows + x->rank_first[rank];
    for (uint32_t i = 0; i < rows * rows; i++) {
        const struct wf_row *a = &x->rows[ids[i / rows]], *b = &x->rows[ids[i % rows]];
        uint32_t *need = x->need_before + wf_instance_need(x, rank, i / rows, i % rows);
        bool same = a->chain / x->n_stages == b->chain / x->n_stages;
        for (uint32_t k = 0; k < a->n; k++)
            need[k] = same ? need_direct(x, a, b, k) : 0;
    }
    close_before(x, rank, x->need_before);
    wf_instance_close(x, rank, x->need_before, x->need_after);
}

static bool fill_needs(struct wf_instance *x)
{
    size_t n = 0;
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        size_t rows = wf_instance_n_rows(x, r);
        x->need_first[r] = n;
        x->need_n[r] = 0;
        for (uint32_t i = x->rank_first[r]; i < x->rank_first[r + 1]; i++)
            if (x->rows[x->rank_rows[i]].n > x->need_n[r])
                x->need_n[r] = x->rows[x->rank_rows[i]].n;
        n += rows * rows * x->need_n[r];
        if (n > MAX_NEEDS)
            return true;
    }

    x->n_needs = n;
    x->need_before = malloc(sizeof *x->need_before * (n + 1));
    x->need_after = malloc(sizeof *x->need_after * (n + 1));
    if (x->need_before == NULL || x->need_after == NULL)
        return false;
    for (uint32_t r = 0; r < x->n_ranks; r++)
        fill_needs_of(x, r);
    return true;
}

/* -- the instance ---------------------------------------------------------------------------- */

static bool allocate(struct wf_instance *x, size_t n_ops)
{
    x->limit = malloc(sizeof *x->limit * x->n_ranks);
    x->rows = calloc(x->n_rows, sizeof *x->rows);
    x->row_of = malloc(sizeof *x->row_of * n_ops);
    x->rank_first = calloc((size_t)x->n_ranks + 1, sizeof *x->rank_first);
    x->rank_rows = malloc(sizeof *x->rank_rows * x->n_rows);
    x->rank_ops = calloc(x->n_ranks, sizeof *x->rank_ops);
    x->need_i = calloc(n_ops, sizeof *x->need_i);
    x->need_w = calloc(n_ops, sizeof *x->need_w);
    x->need_first = malloc(sizeof *x->need_first * x->n_ranks);
    x->need_n = malloc(sizeof *x->need_n * x->n_ranks);
    return x->limit != NULL && x->rows != NULL && x->row_of != NULL && x->rank_first != NULL &&
           x->rank_rows != NULL && x->rank_ops != NULL && x->need_i != NULL &&
           x->need_w != NULL && x->need_first != NULL && x->need_n != NULL;
}

void wf_instance_release(struct wf_instance *x)
{
    free(x->limit);
    free(x->rows);
    free(x->row_of);
    free(x->rank_first);
    free(x->rank_rows);
    free(x->rank_ops);
    free(x->need_i);
    free(x->need_w);
    free(x->need_before);
    free(x->need_after);
    free(x->need_first);
    free(x->need_n);
    *x = (struct wf_instance){0};
}

static enum weft_status fill(struct wf_instance *x, const struct weft_bound_input *in,
                             const struct footprint *footprints, struct weft_error *err)
{
    const struct weft_placement *place = in->placement;
    bool limited = in->memory != NULL && in->memory->limit.n > 0;
    for (uint32_t r = 0; r < x->n_ranks; r++)
        x->limit[r] = limited ? weft_values_get(in->memory->limit, r, 0) : HUGE_VAL;
    fill_rows(x, place, footprints);

    WEFT_TRY(fill_times(x, footprints, in->cost, place->n_micros, err));
    for (uint32_t i = 0; i < x->n_rows; i++)
        for (uint32_t k = 0; k < x->rows[i].n; k++)
            x->row_of[x->rows[i].first + k] = i;

    for (uint32_t c = 0; c < x->n_chains && limited && !x->impossible; c++) {
        set_forward_needs(x, footprints, c);
        if (!x->impossible)
            set_gradient_needs(x, footprints, c);
    }
    propagate_needs(x);
    if (!fill_needs(x))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a bound over %zu actions", x->n_ops);
    return WEFT_OK;
}

enum weft_status wf_instance_init(struct wf_instance *x, const struct weft_bound_input *in,
                                  struct weft_error *err)
{
    WEFT_TRY(check_input(in, err));
    const struct weft_placement *place = in->placement;
    uint32_t passes = in->backwards == WEFT_BACKWARD_WHOLE ? 2 : 3;
    size_t n_ops;
    if (!wf_size_mul((size_t)place->n_stages * passes, place->n_micros, &n_ops) ||
        (uint64_t)place->n_stages * place->n_pipes * passes > UINT32_MAX / 2 ||
        n_ops > (size_t)1 << 31)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "too many actions for a bound (%u stages x %u micros)",
                         place->n_stages, place->n_micros);

    *x = (struct wf_instance){
        .n_ranks = place->n_ranks,
        .n_stages = place->n_stages,
        .n_pipes = place->n_pipes,
        .n_chains = place->n_pipes * place->n_stages,
        .n_passes = passes,
        .n_rows = place->n_pipes * place->n_stages * passes,
    };

    struct footprint *footprints = malloc(sizeof *footprints * place->n_stages);
    enum weft_status st = WEFT_OK;
    if (footprints == NULL || !allocate(x, n_ops))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a bound over %zu actions", n_ops);
    for (uint32_t s = 0; st == WEFT_OK && s < place->n_stages; s++)
        stage_footprint(in, s, &footprints[s]);
    if (st == WEFT_OK)
        st = fill(x, in, footprints, err);
    free(footprints);
    if (st != WEFT_OK)
        wf_instance_release(x);
    return st;
}
