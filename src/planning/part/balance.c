/* The balanced partition minimizes the bottleneck first and the sum of squared stage times
 * second.
 *
 * The bottleneck is found by bisection.  Each failure moves the lower bound to the next
 * possible time of a stage, so that the bisection ends at the exact value.  A dynamic program
 * then minimizes the sum of squares among the partitions that do not exceed the bottleneck.
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/part/balance_priv.h"
#include "planning/part/partition_priv.h"

struct balancer {
    struct wf_problem problem;
    struct wf_reach reach;
    struct wf_balance_search *search; /* owned; NULL unless limits couple stages */
    uint32_t *ends, *trial;           /* owned: (stages) the partition; a candidate */
    bool joint;                       /* true: check the stages of a rank together */
    bool proven;
};

/* Finds a partition in which every stage takes at most `limit`. */
static bool find(struct balancer *b, double limit, uint32_t *ends)
{
    if (!wf_reach_within(&b->reach, limit))
        return false;
    wf_reach_pick(&b->reach, ends);
    return !b->joint || wf_problem_excess(&b->problem, ends) <= 0 ||
           wf_balance_search_run(b->search, limit, true, ends, &b->proven);
}

/* Replaces b->ends, a partition within the limits, by a partition with the minimum bottleneck.
 * `low` is a lower bound of the bottleneck. */
static double lower_bottleneck(struct balancer *b, double low)
{
    double high = wf_problem_bottleneck(&b->problem, b->ends);
    while (low < high * (1 - WF_BALANCE_TOL)) {
        double middle = low + (high - low) / 2;
        if (!find(b, middle, b->trial)) {
            low = wf_reach_next_limit(&b->reach, middle);
            continue;
        }
        uint32_t *ends = b->trial;
        b->trial = b->ends;
        b->ends = ends;
        high = fmin(middle, wf_problem_bottleneck(&b->problem, ends));
    }
    return high * (1 + WF_BALANCE_TOL);
}

/* Finds the best partition if each stage is checked alone.  Returns false if there is no
 * partition. */
static bool balance_relaxed(struct balancer *b, double *bottleneck)
{
    b->joint = false;
    if (!find(b, INFINITY, b->ends))
        return false;
    *bottleneck = lower_bottleneck(b, 1);
    wf_reach_within(&b->reach, *bottleneck);
    wf_reach_minimize(&b->reach, NULL, NULL, b->ends);
    if (wf_problem_n_empty(&b->problem, b->ends) > 0) {
        /* Minimizes again with a small cost of empty stages, which only breaks ties. */
        b->reach.empty_cost =
            WF_BALANCE_EMPTY_TOL * fmax(wf_problem_squares(&b->problem, b->ends), 1);
        wf_reach_minimize(&b->reach, NULL, NULL, b->ends);
        b->reach.empty_cost = 0;
    }
    return true;
}

/* Splits the layers evenly.  If there are fewer layers than stages, the last stage has no
 * layers, and then also the first stage. */
static void split_evenly(struct balancer *b)
{
    uint32_t n_stages = b->problem.n_stages, n_layers = b->problem.n_layers;
    for (uint32_t s = 0; s < n_stages; s++)
        b->ends[s] = n_layers >= n_stages
                         ? (uint32_t)wf_range_part(n_layers, n_stages, s).end
                         : (uint32_t)wf_size_min(s + (n_layers + 1 == n_stages), n_layers);
}

static bool balance_joint(struct balancer *b, double low)
{
    b->joint = true;
    if (!find(b, INFINITY, b->ends)) {
        split_evenly(b); /* the search may have reached its limit of steps */
        if (wf_problem_excess(&b->problem, b->ends) > 0)
            return false;
    }
    double bottleneck = lower_bottleneck(b, low);
    /* If the search stops early, b->ends is unchanged and still within the limits. */
    wf_balance_search_run(b->search, bottleneck, false, b->ends, &b->proven);
    return true;
}

/* Returns the minimum number of bytes that must be added to every limit so that a partition
 * exists. */
static int64_t missing_bytes(struct balancer *b)
{
    struct wf_problem *pr = &b->problem;
    b->joint = pr->shared_budget;
    b->proven = true;
    split_evenly(b);
    int64_t low = 1, high = wf_problem_excess(pr, b->ends);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        wf_problem_relax(pr, middle);
        wf_reach_update(&b->reach);

        bool found = find(b, INFINITY, b->ends);
        wf_problem_relax(pr, -middle);
        if (found)
            high = wf_problem_excess(pr, b->ends);
        else
            low = middle + 1;
    }
    return high;
}

static enum weft_status fail_to_fit(struct balancer *b,
                                    const struct weft_rank_limits *rank_limits,
                                    struct weft_error *err)
{
    int64_t missing = missing_bytes(b);
    const char *kind = b->proven ? "the minimum is" : "a sufficient value is";
    uint32_t n_layers = b->problem.n_layers, n_stages = b->problem.n_stages;
    if (rank_limits->n_limits == 1)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "%u layers on %u stages do not fit into %zu bytes per rank: %s %llu bytes",
            n_layers, n_stages, rank_limits->limit_bytes[0], kind,
            (unsigned long long)rank_limits->limit_bytes[0] + (uint64_t)missing);
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%u layers on %u stages do not fit into the ranks' memory limits: %s %lld "
                     "bytes more on every rank",
                     n_layers, n_stages, kind, (long long)missing);
}

static enum weft_status balance(struct balancer *b, const struct weft_rank_limits *rank_limits,
                                struct weft_error *err)
{
    double bottleneck;
    b->proven = true;
    if (!balance_relaxed(b, &bottleneck))
        return fail_to_fit(b, rank_limits, err);
    if (wf_problem_excess(&b->problem, b->ends) <= 0)
        return WEFT_OK;
    if (!balance_joint(b, bottleneck * (1 - 2 * WF_BALANCE_TOL)))
        return fail_to_fit(b, rank_limits, err);
    return WEFT_OK;
}

static enum weft_status prepare(struct balancer *b, const struct weft_items *items,
                                uint32_t n_stages, const struct weft_rank_limits *rank_limits,
                                struct weft_error *err)
{
    WEFT_TRY(wf_problem_init(&b->problem, items, n_stages, rank_limits, err));
    WEFT_TRY(wf_reach_init(&b->reach, &b->problem, err));
    if (b->problem.shared_budget)
        WEFT_TRY(wf_balance_search_new(&b->reach, &b->search, err));
    b->ends = calloc(n_stages, sizeof *b->ends);
    b->trial = calloc(n_stages, sizeof *b->trial);
    if (b->ends == NULL || b->trial == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition of %u stages", n_stages);
    return WEFT_OK;
}

static void release(struct balancer *b)
{
    wf_balance_search_free(b->search);
    wf_reach_release(&b->reach);
    wf_problem_release(&b->problem);
    free(b->ends);
    free(b->trial);
}

/* Recomputes the bytes of each rank from the items and compares them with the limits. */
static enum weft_status check_limits(const struct weft_partition *p,
                                     const struct weft_items *items,
                                     const struct weft_rank_limits *rank_limits,
                                     struct weft_error *err)
{
    if (rank_limits == NULL || rank_limits->n_limits == 0)
        return WEFT_OK;

    uint32_t n_ranks =
        rank_limits->placement == NULL ? p->n_stages : rank_limits->placement->n_ranks;
    size_t *bytes = calloc(n_ranks, sizeof *bytes);
    if (bytes == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", n_ranks);

    enum weft_status st = weft_partition_rank_bytes(p, items, rank_limits, bytes, err);
    for (uint32_t r = 0; r < n_ranks && st == WEFT_OK; r++) {
        size_t limit = rank_limits->limit_bytes[rank_limits->n_limits == 1 ? 0 : r];
        if (bytes[r] > limit)
            st = WEFT_FAIL(err, WEFT_INTERNAL,
                           "rank %u has %zu bytes, more than its limit of %zu", r, bytes[r],
                           limit);
    }
    free(bytes);
    return st;
}

enum weft_status weft_partition_init_balanced(struct weft_partition *p,
                                              const struct weft_items *items, uint32_t n_stages,
                                              const struct weft_rank_limits *rank_limits,
                                              bool *proven, struct weft_error *err)
{
    struct balancer b = {0};
    struct weft_partition result = {0};
    enum weft_status st = prepare(&b, items, n_stages, rank_limits, err);
    if (st == WEFT_OK)
        st = balance(&b, rank_limits, err);
    if (st == WEFT_OK)
        st = wf_partition_init_ends(&result, b.ends, n_stages, err);
    if (st == WEFT_OK)
        st = check_limits(&result, items, rank_limits, err);

    if (st == WEFT_OK) {
        *p = result;
        if (proven != NULL)
            *proven = b.proven;
    } else {
        weft_partition_release(&result);
    }
    release(&b);
    return st;
}
