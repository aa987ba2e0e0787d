/* The search for partitions in which a rank has several stages, which the budget of the rank
 * couples.
 *
 * Prices for the bytes of each rank remove the coupling (Lagrangian relaxation).  For given
 * prices, the dynamic program finds the best partition.  The cost of that partition minus the
 * price of all budgets is a lower bound for every partition within the budgets.  First,
 * subgradient steps raise the bound; they usually find a partition within the budgets.  Then a
 * depth-first search over the stages, which uses the table of the dynamic program as its bound,
 * decides the remaining cases or stops after a limited number of steps.
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/part/balance_priv.h"

enum { MAX_STEPS = 500000, MIN_ASCENTS = 8, MAX_ASCENTS = 80 };

/* The maximum work of the subgradient steps, counted in inner steps of the dynamic program. */
static const double ascent_work = 3e7;

struct wf_balance_search {
    struct wf_reach *r;          /* borrowed */
    const struct wf_problem *pr; /* borrowed */
    double *price, *best_price;  /* owned: (ranks) price per byte */
    double *a, *k;               /* owned: (stages) prices per byte of state, of activations */
    int64_t *small_state;        /* owned: (layers + 1) sums of the n smallest states */
    int64_t *small_act;          /* owned: (layers + 1) sums of the n smallest activations */
    int64_t *rest, *need;        /* owned: (ranks) remaining budget; minimum of later stages */
    uint32_t *ends, *best_ends;  /* owned: (stages) */
    double best;                 /* sum of squares of best_ends, or an upper bound */
    bool found, any, gave_up;
    size_t n_steps;
};

static int compare_bytes(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Sets sums[n] to the sum of the n smallest differences between consecutive elements of
 * `prefix`. */
static void sum_smallest(int64_t *sums, const int64_t *prefix, size_t n)
{
    sums[0] = 0;
    for (size_t k = 0; k < n; k++)
        sums[k + 1] = prefix[k + 1] - prefix[k];
    qsort(sums + 1, n, sizeof *sums, compare_bytes);
    for (size_t k = 0; k < n; k++)
        sums[k + 1] += sums[k];
}

enum weft_status wf_balance_search_new(struct wf_reach *r, struct wf_balance_search **out,
                                       struct weft_error *err)
{
    size_t n_stages = r->pr->n_stages, n_ranks = r->pr->owners.n_ranks, n = r->pr->n_layers;
    struct wf_balance_search *s = calloc(1, sizeof *s);
    if (s == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a search over %zu stages", n_stages);

    s->r = r;
    s->pr = r->pr;
    s->price = calloc(n_ranks, sizeof *s->price);
    s->best_price = calloc(n_ranks, sizeof *s->best_price);
    s->a = calloc(n_stages, sizeof *s->a);
    s->k = calloc(n_stages, sizeof *s->k);
    s->small_state = calloc(n + 1, sizeof *s->small_state);
    s->small_act = calloc(n + 1, sizeof *s->small_act);
    s->rest = calloc(n_ranks, sizeof *s->rest);
    s->need = calloc(n_ranks, sizeof *s->need);
    s->ends = calloc(n_stages, sizeof *s->ends);
    s->best_ends = calloc(n_stages, sizeof *s->best_ends);
    if (!s->price || !s->best_price || !s->a || !s->k || !s->small_state || !s->small_act ||
        !s->rest || !s->need || !s->ends || !s->best_ends) {
        wf_balance_search_free(s);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a search over %zu stages", n_stages);
    }

    sum_smallest(s->small_state, r->pr->state, n);
    sum_smallest(s->small_act, r->pr->act, n);
    *out = s;
    return WEFT_OK;
}

void wf_balance_search_free(struct wf_balance_search *s)
{
    if (s == NULL)
        return;
    free(s->price);
    free(s->best_price);
    free(s->a);
    free(s->k);
    free(s->small_state);
    free(s->small_act);
    free(s->rest);
    free(s->need);
    free(s->ends);
    free(s->best_ends);
    free(s);
}

static void keep_if_better(struct wf_balance_search *s, double squares)
{
    if (s->found && squares >= s->best)
        return;
    s->found = true;
    s->best = squares;
    for (uint32_t stage = 0; stage < s->pr->n_stages; stage++)
        s->best_ends[stage] = s->ends[stage];
}

/* Runs the dynamic program with these prices.  Sets s->ends and returns the lower bound. */
static double solve_priced(struct wf_balance_search *s, const double *price)
{
    const struct wf_owners *owners = &s->pr->owners;
    for (uint32_t stage = 0; stage < s->pr->n_stages; stage++) {
        s->a[stage] = s->k[stage] = 0;
        for (size_t h = owners->start[stage]; h < owners->start[stage + 1]; h++) {
            s->a[stage] += price[owners->at[h].rank];
            s->k[stage] += price[owners->at[h].rank] * (double)owners->at[h].in_flight;
        }
    }
    wf_reach_minimize(s->r, s->a, s->k, s->ends);
    double bound = s->r->cost[0];
    for (uint32_t rank = 0; rank < owners->n_ranks; rank++)
        bound -= price[rank] * (double)s->pr->budget[rank];
    return bound;
}

/* Raises the prices of ranks that exceed their budget and lowers all other prices.  The step
 * size is Polyak's, towards the best known cost.  pr->bytes contains the bytes of the last
 * partition. */
static void move_prices(struct wf_balance_search *s, double bound, double step_scale)
{
    const struct wf_problem *pr = s->pr;
    double norm = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t rank = 0; rank < pr->owners.n_ranks; rank++) {
            double scale = (double)(pr->budget[rank] > 1 ? pr->budget[rank] : 1);
            double over = (double)(pr->bytes[rank] - pr->budget[rank]) / scale;
            if (over <= 0 && s->price[rank] <= 0)
                continue;
            if (pass == 0) {
                norm += over * over;
                continue;
            }
            double step = step_scale * (s->best - bound) / norm;
            s->price[rank] = fmax(0, s->price[rank] + step * over / scale);
        }
}

static int ascent_steps(const struct wf_balance_search *s)
{
    const struct wf_problem *pr = s->pr;
    double work = 1;
    for (uint32_t stage = 0; stage < pr->n_stages; stage++) {
        uint32_t base = wf_problem_base(pr, stage);
        for (uint32_t x = 0; x < pr->width && base + x <= s->r->furthest[stage]; x++)
            work += s->r->end[(size_t)stage * pr->width + x] - (base + x);
    }
    return (int)fmin(MAX_ASCENTS, fmax(MIN_ASCENTS, ascent_work / work));
}

/* Runs the subgradient steps.  Returns true if the best partition is known, or if it is known
 * that no partition exists. */
static bool ascend(struct wf_balance_search *s)
{
    double best_bound = -INFINITY, step_scale = 1.5;
    int n = ascent_steps(s), n_stalled = 0;
    for (uint32_t rank = 0; rank < s->pr->owners.n_ranks; rank++)
        s->price[rank] = s->best_price[rank] = 0;

    for (int i = 0; i < n; i++) {
        double bound = solve_priced(s, s->price);
        if (wf_problem_excess(s->pr, s->ends) <= 0)
            keep_if_better(s, wf_problem_squares(s->pr, s->ends) +
                                  s->r->empty_cost * wf_problem_n_empty(s->pr, s->ends));
        if ((s->found && s->any) || bound >= s->best * (1 - WF_BALANCE_TOL))
            return true;

        if (bound > best_bound) {
            best_bound = bound;
            n_stalled = 0;
            for (uint32_t rank = 0; rank < s->pr->owners.n_ranks; rank++)
                s->best_price[rank] = s->price[rank];
        } else if (++n_stalled % 4 == 0) {
            step_scale *= 0.6;
        }
        move_prices(s, bound, step_scale);
    }
    return false;
}

static void walk(struct wf_balance_search *s, uint32_t stage, uint32_t first, double squares,
                 double slack);

/* Tries one end of a stage.  Returns false if this end, and therefore any later end, exceeds
 * the remaining budget of a rank.  `slack` is the price of all remaining budgets. */
static bool try_end(struct wf_balance_search *s, uint32_t stage, uint32_t first, uint32_t end,
                    double squares, double slack)
{
    const struct wf_problem *pr = s->pr;
    const struct wf_owner *begin = &pr->owners.at[pr->owners.start[stage]];
    const struct wf_owner *stop = &pr->owners.at[pr->owners.start[stage + 1]];
    size_t next = (size_t)(stage + 1) * pr->width + end - wf_problem_base(pr, stage + 1);
    double t = wf_problem_time(pr, stage, first, end);
    bool fits = true;

    for (const struct wf_owner *h = begin; h < stop; h++) {
        int64_t bytes = wf_problem_bytes(pr, h, first, end);
        s->rest[h->rank] -= bytes;
        s->need[h->rank] -= wf_problem_min_bytes(pr, stage, h);
        slack -= s->best_price[h->rank] * (double)bytes;
        fits = fits && s->rest[h->rank] >= s->need[h->rank];
    }

    squares += t * t + (end == first ? s->r->empty_cost : 0);
    if (fits && squares + s->r->cost[next] - slack < s->best * (1 - WF_BALANCE_TOL)) {
        s->ends[stage] = end;
        walk(s, stage + 1, end, squares, slack);
    }

    for (const struct wf_owner *h = begin; h < stop; h++) {
        s->rest[h->rank] += wf_problem_bytes(pr, h, first, end);
        s->need[h->rank] += wf_problem_min_bytes(pr, stage, h);
    }
    return fits;
}

/* Tries all ends of a stage, starting from the end that is best for the current prices. */
static void walk(struct wf_balance_search *s, uint32_t stage, uint32_t first, double squares,
                 double slack)
{
    const struct wf_problem *pr = s->pr;
    if (stage == pr->n_stages) {
        keep_if_better(s, squares);
        return;
    }
    size_t at = (size_t)stage * pr->width + first - wf_problem_base(pr, stage);
    if (isinf(s->r->cost[at]))
        return;

    uint32_t best = s->r->choice[at], stop = s->r->end[at] + 1, up = best, down = best;
    uint32_t begin = first + wf_problem_min_layers(pr, stage);
    while (up < stop || down > begin) {
        if (s->gave_up || (s->found && s->any))
            return;
        if (++s->n_steps > MAX_STEPS) {
            s->gave_up = true;
            return;
        }
        if (up < stop && !try_end(s, stage, first, up++, squares, slack))
            stop = up;
        if (down > begin)
            try_end(s, stage, first, --down, squares, slack);
    }
}

static void branch_and_bound(struct wf_balance_search *s)
{
    const struct wf_problem *pr = s->pr;
    double slack = 0;
    solve_priced(s, s->best_price);
    for (uint32_t rank = 0; rank < pr->owners.n_ranks; rank++) {
        s->rest[rank] = pr->budget[rank];
        s->need[rank] = pr->min_bytes[rank];
        slack += s->best_price[rank] * (double)pr->budget[rank];
    }
    walk(s, 0, 0, 0, slack);
}

/* Returns how many of the smallest layers fit on a rank with its minimum in_flight. */
static uint32_t layer_capacity(const struct wf_balance_search *s, uint32_t rank)
{
    const struct wf_problem *pr = s->pr;
    int64_t min_in_flight = INT64_MAX, extra = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t stage = 0; stage < pr->n_stages; stage++)
            for (size_t h = pr->owners.start[stage]; h < pr->owners.start[stage + 1]; h++) {
                int64_t in_flight = (int64_t)pr->owners.at[h].in_flight;
                if (pr->owners.at[h].rank != rank)
                    continue;
                if (pass == 0)
                    min_in_flight = in_flight < min_in_flight ? in_flight : min_in_flight;
                else if (wf_problem_min_layers(pr, stage)) /* in_flight of this stage */
                    extra += (in_flight - min_in_flight) * pr->min_act;
            }

    uint32_t low = 0, high = min_in_flight == INT64_MAX ? 0 : pr->n_layers;
    while (low < high) {
        uint32_t n = low + (high - low + 1) / 2;
        if (s->small_state[n] + min_in_flight * s->small_act[n] + extra <= pr->budget[rank])
            low = n;
        else
            high = n - 1;
    }
    return low;
}

/* Returns false if the number of layers exceeds the capacity of the ranks.  The bound by prices
 * allows fractions of layers, so this check decides most remaining cases with equal layers. */
static bool has_capacity(const struct wf_balance_search *s)
{
    const struct wf_owners *owners = &s->pr->owners;
    size_t n_owners = SIZE_MAX;
    uint64_t capacity = 0;
    for (uint32_t stage = 0; stage < s->pr->n_stages; stage++)
        n_owners = wf_size_min(n_owners, owners->start[stage + 1] - owners->start[stage]);
    for (uint32_t rank = 0; rank < owners->n_ranks; rank++)
        capacity += layer_capacity(s, rank);
    return capacity >= n_owners * (uint64_t)s->pr->n_layers;
}

/* Searches again if the best partition has empty stages.  Each empty stage then has a cost that
 * is just above the tolerance. */
static void penalize_empty(struct wf_balance_search *s)
{
    uint32_t n_empty = wf_problem_n_empty(s->pr, s->best_ends);
    if (n_empty == 0)
        return;
    s->r->empty_cost = 4 * WF_BALANCE_TOL * fmax(s->best, 1);
    s->best += s->r->empty_cost * n_empty;
    s->n_steps = 0;
    if (!ascend(s))
        branch_and_bound(s);
    s->r->empty_cost = 0;
}

bool wf_balance_search_run(struct wf_balance_search *s, double limit, bool any, uint32_t *ends,
                           bool *proven)
{
    if (!wf_reach_within(s->r, limit) || !has_capacity(s))
        return false;
    s->found = s->gave_up = false;
    s->any = any;
    s->n_steps = 0;

    /* No stage takes more than the limit or the total time, and all stages together take
     * n_stages units. */
    double n_stages = s->pr->n_stages;
    s->best = n_stages * fmin(limit, n_stages) * (1 + 1e-6) + 1e-6;
    if (!ascend(s))
        branch_and_bound(s);
    if (s->found && !any && !s->gave_up)
        penalize_empty(s);

    if (s->gave_up && !(s->found && any))
        *proven = false;
    if (s->found)
        for (uint32_t stage = 0; stage < s->pr->n_stages; stage++)
            ends[stage] = s->best_ends[stage];
    return s->found;
}
