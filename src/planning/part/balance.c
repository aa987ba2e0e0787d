/* The balanced partition: least bottleneck first, then the most even.
 *
 * The bottleneck is found by bisection.  Each failure moves the lower bound to the next time
 * that a stage can take at all, so that it ends on the exact value.  The dynamic program then
 * evens out among the partitions that do not exceed it.
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/part/balance_priv.h"
#include "planning/part/partition_priv.h"

struct balancer {
    struct weft_problem problem;
    struct weft_reach reach;
    struct weft_balance_search *search; /* owned; NULL until limits tie stages together */
    uint32_t *ends, *trial;             /* owned: (stages) the partition; one that is tried */
    bool tied;                          /* look at the stages of a rank together */
    bool proven;
};

/* Finds some partition with stages of at most `limit`. */
static bool find(struct balancer *b, double limit, uint32_t *ends)
{
    if (!weft_reach_within(&b->reach, limit))
        return false;
    weft_reach_any(&b->reach, ends);
    return !b->tied || weft_problem_excess(&b->problem, ends) <= 0 ||
           weft_balance_search_run(b->search, limit, true, ends, &b->proven);
}

/* b->ends fits; makes it one with the least bottleneck, which is at least `least`. */
static double lower_bottleneck(struct balancer *b, double least)
{
    double most = weft_problem_bottleneck(&b->problem, b->ends);
    while (least < most * (1 - WEFT_BALANCE_TIE)) {
        double middle = least + (most - least) / 2;
        if (!find(b, middle, b->trial)) {
            least = weft_reach_next(&b->reach, middle);
            continue;
        }
        uint32_t *ends = b->trial;
        b->trial = b->ends;
        b->ends = ends;
        most = fmin(middle, weft_problem_bottleneck(&b->problem, ends));
    }
    return most * (1 + WEFT_BALANCE_TIE);
}

/* The best by looking at each stage alone; false when there is none. */
static bool balance_untied(struct balancer *b, double *bottleneck)
{
    b->tied = false;
    if (!find(b, INFINITY, b->ends))
        return false;
    *bottleneck = lower_bottleneck(b, 1);
    weft_reach_within(&b->reach, *bottleneck);
    weft_reach_even_out(&b->reach, NULL, NULL, b->ends);
    if (weft_problem_n_empty(&b->problem, b->ends) > 0) {
        /* Empty stages must be worth it: once more, at a price that only breaks ties. */
        b->reach.empty_cost =
            WEFT_BALANCE_EMPTY * fmax(weft_problem_squares(&b->problem, b->ends), 1);
        weft_reach_even_out(&b->reach, NULL, NULL, b->ends);
        b->reach.empty_cost = 0;
    }
    return true;
}

/* With too few layers for all stages, the last goes without, then the first. */
static void split_evenly(struct balancer *b)
{
    uint32_t n_stages = b->problem.n_stages, n_layers = b->problem.n_layers;
    for (uint32_t s = 0; s < n_stages; s++)
        b->ends[s] = n_layers >= n_stages
                         ? (uint32_t)weft_range_part(n_layers, n_stages, s).end
                         : (uint32_t)weft_size_min(s + (n_layers + 1 == n_stages), n_layers);
}

static bool balance_tied(struct balancer *b, double least)
{
    b->tied = true;
    if (!find(b, INFINITY, b->ends)) {
        split_evenly(b); /* the search may have given up on what is plain to see */
        if (weft_problem_excess(&b->problem, b->ends) > 0)
            return false;
    }
    double bottleneck = lower_bottleneck(b, least);
    /* Gives up at worst: then b->ends stays what it was, which fits. */
    weft_balance_search_run(b->search, bottleneck, false, b->ends, &b->proven);
    return true;
}

/* The least number of bytes that, given to every rank, makes some partition fit. */
static int64_t missing_bytes(struct balancer *b)
{
    struct weft_problem *pr = &b->problem;
    b->tied = pr->coupled;
    b->proven = true;
    split_evenly(b);
    int64_t least = 1, most = weft_problem_excess(pr, b->ends);
    while (least < most) {
        int64_t middle = least + (most - least) / 2;
        weft_problem_relax(pr, middle);
        weft_reach_update(&b->reach);
        bool found = find(b, INFINITY, b->ends);
        weft_problem_relax(pr, -middle);
        if (found)
            most = weft_problem_excess(pr, b->ends);
        else
            least = middle + 1;
    }
    return most;
}

static enum weft_status fail_to_fit(struct balancer *b, const struct weft_holding *holding,
                                    struct weft_error *err)
{
    int64_t missing = missing_bytes(b);
    const char *sure = b->proven ? "the least that would do is" : "enough would be";
    uint32_t n_layers = b->problem.n_layers, n_stages = b->problem.n_stages;
    if (holding->n_limits == 1)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "%u layers on %u stages do not fit into %zu bytes a rank: %s %llu bytes", n_layers,
            n_stages, holding->limit_bytes[0], sure,
            (unsigned long long)holding->limit_bytes[0] + (uint64_t)missing);
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%u layers on %u stages do not fit into the ranks' memory limits: %s %lld "
                     "bytes more on every rank",
                     n_layers, n_stages, sure, (long long)missing);
}

static enum weft_status balance(struct balancer *b, const struct weft_holding *holding,
                                struct weft_error *err)
{
    double bottleneck;
    b->proven = true;
    if (!balance_untied(b, &bottleneck))
        return fail_to_fit(b, holding, err);
    if (weft_problem_excess(&b->problem, b->ends) <= 0)
        return WEFT_OK;
    if (!balance_tied(b, bottleneck * (1 - 2 * WEFT_BALANCE_TIE)))
        return fail_to_fit(b, holding, err);
    return WEFT_OK;
}

static enum weft_status prepare(struct balancer *b, const struct weft_items *items,
                                uint32_t n_stages, const struct weft_holding *holding,
                                struct weft_error *err)
{
    WEFT_TRY(weft_problem_init(&b->problem, items, n_stages, holding, err));
    WEFT_TRY(weft_reach_init(&b->reach, &b->problem, err));
    if (b->problem.coupled)
        WEFT_TRY(weft_balance_search_new(&b->reach, &b->search, err));
    b->ends = calloc(n_stages, sizeof *b->ends);
    b->trial = calloc(n_stages, sizeof *b->trial);
    if (b->ends == NULL || b->trial == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "a partition of %u stages", n_stages);
    return WEFT_OK;
}

static void release(struct balancer *b)
{
    weft_balance_search_free(b->search);
    weft_reach_release(&b->reach);
    weft_problem_release(&b->problem);
    free(b->ends);
    free(b->trial);
}

/* Counts the bytes again, from the items: limits are kept, not only believed to be. */
static enum weft_status check_limits(const struct weft_partition *p,
                                     const struct weft_items *items,
                                     const struct weft_holding *holding, struct weft_error *err)
{
    if (holding == NULL || holding->n_limits == 0)
        return WEFT_OK;
    uint32_t n_ranks = holding->placement == NULL ? p->n_stages : holding->placement->n_ranks;
    size_t *bytes = calloc(n_ranks, sizeof *bytes);
    if (bytes == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "bytes of %u ranks", n_ranks);
    enum weft_status st = weft_partition_rank_bytes(p, items, holding, bytes, err);
    for (uint32_t r = 0; r < n_ranks && st == WEFT_OK; r++) {
        size_t limit = holding->limit_bytes[holding->n_limits == 1 ? 0 : r];
        if (bytes[r] > limit)
            st = WEFT_FAIL(err, WEFT_INTERNAL, "rank %u would hold %zu bytes of %zu", r,
                           bytes[r], limit);
    }
    free(bytes);
    return st;
}

enum weft_status weft_partition_init_balanced(struct weft_partition *p,
                                              const struct weft_items *items, uint32_t n_stages,
                                              const struct weft_holding *holding, bool *proven,
                                              struct weft_error *err)
{
    struct balancer b = {0};
    struct weft_partition made = {0};
    enum weft_status st = prepare(&b, items, n_stages, holding, err);
    if (st == WEFT_OK)
        st = balance(&b, holding, err);
    if (st == WEFT_OK)
        st = weft_partition_init_ends(&made, b.ends, n_stages, err);
    if (st == WEFT_OK)
        st = check_limits(&made, items, holding, err);
    if (st == WEFT_OK) {
        *p = made;
        if (proven != NULL)
            *proven = b.proven;
    } else {
        weft_partition_release(&made);
    }
    release(&b);
    return st;
}
