/* The possible ends of each stage, and the partition with the minimum sum of squares among
 * them.
 *
 * If a stage may have a number of layers, it may also have fewer layers.  Each start therefore
 * has a maximum end, which never decreases when the start increases.  A two-pointer scan finds
 * all maximum ends.
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/part/balance_priv.h"

enum { FIRST, MIDDLE, LAST };

static int stage_kind(const struct wf_problem *pr, uint32_t s)
{
    return s == 0 ? FIRST : s == pr->n_stages - 1 ? LAST : MIDDLE;
}

/* Returns the time that a stage of this kind (first, middle, last) takes without layers. */
static double fixed_time(const struct wf_problem *pr, int kind)
{
    double first = kind == FIRST ? pr->time_first : 0;
    return kind == LAST || (kind == FIRST && pr->n_stages == 1) ? first + pr->time_last : first;
}

enum weft_status wf_reach_init(struct wf_reach *r, const struct wf_problem *pr,
                               struct weft_error *err)
{
    size_t w = pr->width, cells = (size_t)pr->n_stages * w, n = (size_t)pr->n_layers + 1;
    *r = (struct wf_reach){.pr = pr};

    for (int kind = FIRST; kind <= LAST; kind++)
        r->by_time[kind] = calloc(n, sizeof *r->by_time[kind]);
    if (pr->limited)
        r->by_memory = calloc(cells, sizeof *r->by_memory);
    r->end = calloc(cells, sizeof *r->end);
    r->last = calloc(cells + w, sizeof *r->last);
    r->furthest = calloc(pr->n_stages, sizeof *r->furthest);
    r->cost = calloc(cells + w, sizeof *r->cost);
    r->choice = calloc(cells, sizeof *r->choice);
    r->scratch = calloc(w, sizeof *r->scratch);
    r->min_after = calloc(w, sizeof *r->min_after);

    if (!r->by_time[FIRST] || !r->by_time[MIDDLE] || !r->by_time[LAST] ||
        (pr->limited && !r->by_memory) || !r->end || !r->last || !r->furthest || !r->cost ||
        !r->choice || !r->scratch || !r->min_after)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to balance %u layers on %u stages",
                         pr->n_layers, pr->n_stages);
    wf_reach_update(r);
    return WEFT_OK;
}

void wf_reach_release(struct wf_reach *r)
{
    for (int kind = FIRST; kind <= LAST; kind++)
        free(r->by_time[kind]);
    free(r->by_memory);
    free(r->end);
    free(r->last);
    free(r->furthest);
    free(r->cost);
    free(r->choice);
    free(r->scratch);
    free(r->min_after);
    *r = (struct wf_reach){0};
}

static uint32_t last_position(const struct wf_problem *pr, uint32_t s)
{
    return wf_problem_base(pr, s) + pr->width - 1;
}

/* Lowers the maximum ends of a stage to the budget of one of its ranks, while the other stages
 * of that rank have their minimum size. */
static void bound_by_rank(struct wf_reach *r, uint32_t s, const struct wf_owner *h)
{
    const struct wf_problem *pr = r->pr;
    int64_t available =
        pr->budget[h->rank] - pr->min_bytes[h->rank] + wf_problem_min_bytes(pr, s, h);
    uint32_t *row = &r->by_memory[(size_t)s * pr->width];
    uint32_t end = 0, max_end = last_position(pr, s + 1);
    for (uint32_t x = 0; x < pr->width; x++) {
        uint32_t first = wf_problem_base(pr, s) + x;
        end = end < first ? first : end;
        while (end < max_end && wf_problem_bytes(pr, h, first, end + 1) <= available)
            end++;
        row[x] = end < row[x] ? end : row[x];
    }
}

void wf_reach_update(struct wf_reach *r)
{
    const struct wf_problem *pr = r->pr;
    if (!pr->limited)
        return;
    r->infeasible = false;
    for (uint32_t rank = 0; rank < pr->owners.n_ranks; rank++)
        r->infeasible |= pr->budget[rank] < pr->min_bytes[rank];
    for (uint32_t s = 0; s < pr->n_stages; s++) {
        for (uint32_t x = 0; x < pr->width; x++)
            r->by_memory[(size_t)s * pr->width + x] = last_position(pr, s + 1);
        for (size_t k = pr->owners.start[s]; k < pr->owners.start[s + 1]; k++)
            bound_by_rank(r, s, &pr->owners.at[k]);
    }
}

static void bound_by_time(struct wf_reach *r, int kind, double limit)
{
    const struct wf_problem *pr = r->pr;
    double fixed = fixed_time(pr, kind);
    uint32_t end = 0;
    for (uint32_t first = 0; first <= pr->n_layers; first++) {
        end = end < first ? first : end;
        while (end < pr->n_layers && pr->time[end + 1] - pr->time[first] + fixed <= limit)
            end++;
        r->by_time[kind][first] = end;
    }
}

/* Sets the maximum ends of stage s, and marks the starts from which a partition can be
 * completed.  `after` is the row of the next stage. */
static void fill_row(struct wf_reach *r, uint32_t s, const uint32_t *after)
{
    const struct wf_problem *pr = r->pr;
    size_t at = (size_t)s * pr->width;
    const uint32_t *by_time = r->by_time[stage_kind(pr, s)];
    const uint32_t base = wf_problem_base(pr, s), base_after = wf_problem_base(pr, s + 1);
    const uint32_t min_layers = wf_problem_min_layers(pr, s),
                   max_end = last_position(pr, s + 1);
    uint32_t latest = WF_UNREACHABLE;
    for (uint32_t x = 0; x < pr->width; x++) {
        uint32_t first = base + x, end = by_time[first] < max_end ? by_time[first] : max_end;
        if (r->by_memory != NULL && r->by_memory[at + x] < end)
            end = r->by_memory[at + x];
        r->end[at + x] = end;
        if (end >= first + min_layers) {
            uint32_t next = after[end - base_after];
            if (next != WF_UNREACHABLE && next >= first + min_layers)
                latest = first;
        }
        r->last[at + x] = latest;
    }
}

bool wf_reach_within(struct wf_reach *r, double limit)
{
    const struct wf_problem *pr = r->pr;
    for (int kind = FIRST; kind <= LAST; kind++)
        bound_by_time(r, kind, limit);
    if (r->infeasible || fixed_time(pr, FIRST) > limit || fixed_time(pr, LAST) > limit)
        return false; /* the embedding or the head alone exceeds the limit */

    uint32_t *row = &r->last[(size_t)pr->n_stages * pr->width];
    for (uint32_t x = 0; x < pr->width; x++) /* after the last stage all layers are used */
        row[x] = x == pr->width - 1 ? pr->n_layers : WF_UNREACHABLE;
    for (uint32_t s = pr->n_stages; s-- > 0;) {
        fill_row(r, s, row);
        row -= pr->width;
        if (row[pr->width - 1] == WF_UNREACHABLE)
            return false;
    }
    if (row[0] != 0)
        return false;

    for (uint32_t s = 0, start = 0; s < pr->n_stages; s++) {
        r->furthest[s] = start;
        start = r->end[(size_t)s * pr->width + start - wf_problem_base(pr, s)];
    }
    return true;
}

void wf_reach_pick(const struct wf_reach *r, uint32_t *ends)
{
    const struct wf_problem *pr = r->pr;
    uint32_t first = 0;
    for (uint32_t s = 0; s < pr->n_stages; s++) {
        size_t at = (size_t)s * pr->width;
        uint32_t end = r->end[at + first - wf_problem_base(pr, s)];
        first = ends[s] = r->last[at + pr->width + end - wf_problem_base(pr, s + 1)];
    }
}

double wf_reach_next_limit(const struct wf_reach *r, double limit)
{
    const struct wf_problem *pr = r->pr;
    double next = INFINITY;
    for (int kind = FIRST; kind <= LAST; kind++) {
        double fixed = fixed_time(pr, kind);
        next = fixed > limit ? fmin(next, fixed) : next;
        for (uint32_t first = 0; first < pr->n_layers; first++) {
            uint32_t end = r->by_time[kind][first];
            double t =
                end == pr->n_layers ? INFINITY : pr->time[end + 1] - pr->time[first] + fixed;
            next = t > limit ? fmin(next, t) : next;
        }
    }
    return next;
}

/* Returns the minimum of scratch[end] + squared time over begin <= end < stop.  Stores the
 * largest end that has this minimum, up to rounding.  The time of a stage increases with its
 * end.  Once the squared time plus the minimum cost of later stages is too large, no later end
 * is better. */
static double min_cost(const struct wf_reach *r, const double *time, double fixed,
                       uint32_t begin, uint32_t stop, uint32_t *choice)
{
    double lowest = INFINITY, enough = INFINITY;
    uint32_t end = begin;
    for (; end < stop; end++) {
        double t = time[end] + fixed, cost = r->scratch[end] + t * t;
        if (r->min_after[end] + t * t > enough)
            break;
        if (cost < lowest) {
            lowest = cost;
            enough = cost + cost * WF_BALANCE_SQUARES_TOL;
        }
    }
    while (end-- > begin) {
        double t = time[end] + fixed;
        if (r->scratch[end] + t * t <= enough)
            break;
    }
    *choice = end;
    return lowest;
}

/* Computes one stage of the dynamic program.  `a` and `k` are the prices per byte of state and
 * of activations. */
static void minimize_row(struct wf_reach *r, uint32_t s, double a, double k)
{
    const struct wf_problem *pr = r->pr;
    const size_t at = (size_t)s * pr->width;
    const double *after = &r->cost[at + pr->width];
    const double fixed = fixed_time(pr, stage_kind(pr, s));
    const double empty_cost = wf_problem_min_layers(pr, s) == 0 ? r->empty_cost : 0;
    const uint32_t base = wf_problem_base(pr, s), base_after = wf_problem_base(pr, s + 1);
    uint32_t earliest = pr->width;
    for (uint32_t x = pr->width; x-- > 0;) {
        uint32_t end = base_after + x;
        r->scratch[x] = after[x] + a * (double)pr->state[end] + k * (double)pr->act[end];
        r->min_after[x] = r->scratch[x];
        if (x + 1 < pr->width && r->min_after[x + 1] < r->scratch[x])
            r->min_after[x] = r->min_after[x + 1];
        earliest = isinf(after[x]) ? earliest : x;
    }

    for (uint32_t x = 0; x < pr->width; x++) {
        uint32_t first = base + x, begin = x > earliest ? x : earliest;
        uint32_t stop = r->end[at + x] + 1 - base_after, choice;
        r->cost[at + x] = INFINITY;
        if (r->last[at + x] != first || first > r->furthest[s] || begin >= stop)
            continue;
        double saved = r->scratch[x];
        r->scratch[x] += empty_cost; /* a stage that ends at x is empty */
        double lowest =
            min_cost(r, &pr->time[base_after], fixed - pr->time[first], begin, stop, &choice);
        r->scratch[x] = saved;
        r->choice[at + x] = base_after + choice;
        r->cost[at + x] = lowest - a * (double)pr->state[first] - k * (double)pr->act[first];
    }
}

void wf_reach_minimize(struct wf_reach *r, const double *a, const double *k, uint32_t *ends)
{
    const struct wf_problem *pr = r->pr;
    double *row = &r->cost[(size_t)pr->n_stages * pr->width];
    for (uint32_t x = 0; x < pr->width; x++)
        row[x] = x == pr->width - 1 ? 0 : INFINITY;
    for (uint32_t s = pr->n_stages; s-- > 0;)
        minimize_row(r, s, a == NULL ? 0 : a[s], k == NULL ? 0 : k[s]);
    uint32_t first = 0;
    for (uint32_t s = 0; s < pr->n_stages; s++)
        first = ends[s] = r->choice[(size_t)s * pr->width + first - wf_problem_base(pr, s)];
}
