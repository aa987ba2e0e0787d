/* Computes lower bounds of makespan and span by formulas, by Jackson's preemptive schedule
 * and by destructive bounds. */
#include "weft/bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/tune/bound_forward.h"
#include "planning/tune/closed_form.h"
#include "planning/tune/propagate.h"
#include "weft/timing.h"

/* Maximum number of narrowing rounds per assumed time, maximum number of actions for
 * destructive bounds, and number of action visits at effort 1. */
enum { ROUNDS = 40, MAX_OPS = 1 << 20 };
static const double full_work = 2e7;

const char *weft_bound_name(enum weft_bound_kind kind)
{
    static const char *const names[] = {
#define NAME(name, text, help) text,
        WEFT_BOUND_MAP(NAME)
#undef NAME
    };
    return names[kind];
}

/* State of destructive bounds.  The method assumes a time and narrows the windows of the
 * actions.  If an action cannot run, the assumed time is too short. */
struct refuter {
    const struct wf_instance *x;
    struct wf_windows w;
    int64_t *head, *tail; /* owned: (n_ops), windows that are valid for every makespan */
    uint32_t rank;        /* the rank whose span is assumed; used for the span only */
};

/* Returns true if a makespan (or span) of at most t is proven impossible. */
typedef bool (*refute_fn)(struct refuter *d, int64_t t);

static bool refute_makespan(struct refuter *d, int64_t t)
{
    struct wf_windows *w = &d->w;
    memcpy(w->est, d->head, sizeof *w->est * d->x->n_ops);
    for (size_t i = 0; i < d->x->n_ops; i++)
        w->lct[i] = t - d->tail[i];
    w->span = 0;
    w->use_memory = true;
    wf_windows_invalidate(w);
    return !wf_windows_narrow(w, ROUNDS);
}

/* Assumes that the rank d->rank starts at time 0.  Other ranks may start earlier, but every
 * rank must finish within the span. */
static bool refute_span(struct refuter *d, int64_t t)
{
    struct wf_windows *w = &d->w;
    const struct wf_row *first = &d->x->rows[wf_instance_first_row(d->x, d->rank)];
    for (size_t i = 0; i < d->x->n_ops; i++) {
        w->est[i] = -WF_FAR;
        w->lct[i] = WF_FAR;
    }
    w->est[first->first] = 0;
    w->lct[first->first] = first->time;
    w->span = t;
    w->use_memory = true;
    wf_windows_invalidate(w);
    return !wf_windows_narrow(w, ROUNDS);
}

/* Raises the proven bound `lo` as long as longer times can be refuted: first in doubling
 * steps, then by bisection.  `hi` is a time that is known to be possible, or 0 if none is
 * known. */
static int64_t raise_bound(struct refuter *d, refute_fn refute, int64_t lo, int64_t hi)
{
    int64_t step = 1, upper = hi > 0 ? hi : WF_FAR;
    int64_t coarse = d->x->exact && lo < 100000 ? 1 : lo / 100000 + 1;

    while (lo < upper && d->w.work < d->w.max_work) {
        int64_t t = lo + (step - 1) * coarse;
        t = t >= upper ? lo + (upper - lo) / 2 : t;
        if (t >= upper)
            break;
        if (!refute(d, t)) {
            upper = t;
            break;
        }
        lo = t + 1;
        step *= 2;
    }

    while (upper - lo >= coarse && d->w.work < d->w.max_work) {
        int64_t t = lo + (upper - lo) / 2;
        if (t < upper && refute(d, t))
            lo = t + 1;
        else
            upper = t;
    }
    return lo;
}

/* Computes the windows from both ends of the schedule, without a deadline. */
static void find_heads(struct refuter *d)
{
    for (size_t i = 0; i < d->x->n_ops; i++) {
        d->w.est[i] = 0;
        d->w.lct[i] = WF_FAR;
    }
    wf_windows_invalidate(&d->w);
    wf_windows_narrow(&d->w, ROUNDS);

    memcpy(d->head, d->w.est, sizeof *d->head * d->x->n_ops);
    for (size_t i = 0; i < d->x->n_ops; i++) {
        d->w.lct[i] -= WF_FAR;
        d->tail[i] = -d->w.lct[i];
    }
}

static int64_t longest_path(const struct wf_instance *x, const struct refuter *d)
{
    int64_t longest = 0;
    for (size_t i = 0; i < x->n_ops; i++) {
        int64_t t = d->head[i] + x->rows[x->row_of[i]].time + d->tail[i];
        longest = t > longest ? t : longest;
    }
    return longest;
}

static int64_t best_of(const int64_t *each, size_t n)
{
    int64_t best = 0;
    for (size_t i = 0; i < n; i++)
        best = each[i] > best ? each[i] : best;
    return best;
}

/* Returns a time that is known to be possible, in ticks, or 0 if none is known. */
static int64_t ceiling(const struct wf_instance *x, double time)
{
    return time > 0 && time < HUGE_VAL ? (int64_t)ceil(time / x->tick * (1 - 1e-9)) : 0;
}

/* Raises the bound of the span, one rank at a time, until the work limit is reached.  Ranks
 * with the longest span by formula come first. */
static int64_t raise_span(struct refuter *d, struct wf_closed_form *c, int64_t lo, int64_t hi)
{
    const struct wf_instance *x = d->x;
    if (x->n_pipes > 1)
        return lo;
    for (uint32_t i = 0; i < x->n_ranks && d->w.work < d->w.max_work; i++) {
        uint32_t best = 0;
        for (uint32_t r = 1; r < x->n_ranks; r++)
            if (c->rank_span[r] > c->rank_span[best])
                best = r;
        c->rank_span[best] = -1;
        if (wf_instance_first_row(x, best) == WF_NO_ROW)
            continue;
        d->rank = best;
        lo = raise_bound(d, refute_span, lo, hi);
    }
    return lo;
}

static enum weft_status bound_destructive(const struct wf_instance *x,
                                          const struct weft_bound_input *in,
                                          struct wf_closed_form *c, struct weft_error *err)
{
    struct refuter d = {.x = x};
    enum weft_status st = wf_windows_init(&d.w, x, err);
    if (st != WEFT_OK)
        return st;
    d.head = malloc(sizeof *d.head * x->n_ops);
    d.tail = malloc(sizeof *d.tail * x->n_ops);
    if (d.head == NULL || d.tail == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a bound over %zu actions", x->n_ops);
        goto done;
    }

    double work = full_work * (in->effort == 0 ? 1 : in->effort);
    d.w.max_work = work / 2;
    find_heads(&d);
    int64_t preemptive = wf_windows_preemptive(&d.w), path = longest_path(x, &d);
    c->makespan[WEFT_BOUND_PREEMPTIVE] = preemptive > path ? preemptive : path;

    d.w.max_work = d.w.work + work / 2;
    c->makespan[WEFT_BOUND_DESTRUCTIVE] =
        raise_bound(&d, refute_makespan, best_of(c->makespan, WEFT_N_BOUNDS),
                    ceiling(x, in->known_makespan));

    d.w.max_work = d.w.work + work / 2;
    c->span[WEFT_BOUND_DESTRUCTIVE] =
        raise_span(&d, c, best_of(c->span, WEFT_N_BOUNDS), ceiling(x, in->known_span));
done:
    free(d.head);
    free(d.tail);
    wf_windows_release(&d.w);
    return st;
}

/* Converts bounds from ticks to the units of the costs.  If several bounds are equal, the
 * first of them is reported. */
static void collect_bounds(const struct wf_instance *x, const struct wf_closed_form *c,
                           struct weft_bounds *out)
{
    for (int i = 0; i < WEFT_N_BOUNDS; i++) {
        out->each_makespan[i] = (double)c->makespan[i] * x->tick;
        out->each_span[i] = (double)c->span[i] * x->tick;
        if (out->each_makespan[i] > out->makespan) {
            out->makespan = out->each_makespan[i];
            out->makespan_by = (enum weft_bound_kind)i;
        }
        if (out->each_span[i] > out->span) {
            out->span = out->each_span[i];
            out->span_by = (enum weft_bound_kind)i;
        }
    }
}

enum weft_status weft_bounds_compute(const struct weft_bound_input *in, struct weft_bounds *out,
                                     struct weft_error *err)
{
    struct wf_instance x;
    struct wf_closed_form c = {0};
    WEFT_TRY(wf_instance_init(&x, in, err));
    struct weft_bounds bounds = {.impossible = x.impossible};
    enum weft_status st = wf_closed_form_init(&c, &x, err);
    if (st == WEFT_OK && !x.impossible && in->effort >= 0 && x.n_ops <= MAX_OPS)
        st = bound_destructive(&x, in, &c, err);
    if (st == WEFT_OK) {
        collect_bounds(&x, &c, &bounds);
        *out = bounds;
    }
    wf_closed_form_release(&c);
    wf_instance_release(&x);
    return st;
}

/* -- for a schedule ----------------------------------------------------------------------- */

static void detect_backwards(const struct weft_schedule *s, struct weft_bound_input *in)
{
    bool whole = false, split = false;
    for (uint32_t r = 0; r < in->placement->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        for (size_t i = 0; i < row.len; i++) {
            whole = whole || row.at[i].kind == WEFT_ACT_B;
            split = split || row.at[i].kind == WEFT_ACT_I;
            in->pairs = in->pairs || row.at[i].paired;
        }
    }
    in->backwards = !split  ? WEFT_BACKWARD_WHOLE
                    : whole ? WEFT_BACKWARD_ANY
                            : WEFT_BACKWARD_SPLIT;
}

enum weft_status weft_bounds_of(const struct weft_schedule *s, const struct weft_cost *cost,
                                const struct weft_memory_cost *memory, double effort,
                                struct weft_bounds *out, struct weft_error *err)
{
    struct weft_bound_input in = {
        .placement = weft_schedule_placement(s), .cost = cost, .effort = effort};
    struct weft_memory_cost limits = {0};
    struct weft_metrics m;
    if (weft_schedule_is_forward_only(s))
        return wf_bounds_forward(s, cost, out, err);
    detect_backwards(s, &in);
    WEFT_TRY(weft_metrics_init(&m, s, cost, memory, err));

    if (memory != NULL)
        limits = *memory;
    if (limits.limit.n == 0)
        limits.limit = (struct weft_values){m.peak_mem, m.n_ranks};
    in.memory = &limits;
    in.known_makespan = m.makespan;
    in.known_span = m.span;
    enum weft_status st = weft_bounds_compute(&in, out, err);
    weft_metrics_release(&m);
    return st;
}
