/* The balanced partition as a problem on prefix sums. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "planning/part/balance_priv.h"
#include "planning/part/partition_priv.h"

/* Maximum for sums of bytes.  Sums and differences of two such sums never overflow. */
static const int64_t max_bytes = INT64_C(1) << 60;

static double item_time(const struct weft_item *item)
{
    return item->f + item->i + item->w;
}

static enum weft_status sum_times(struct wf_problem *pr, const struct weft_items *items,
                                  struct weft_error *err)
{
    double total = 0;
    for (size_t k = 0; k < items->n; k++)
        total += item_time(&items->at[k]);
    if (!isfinite(total))
        return WEFT_FAIL(err, WEFT_USAGE, "the times of all items overflow; use a larger unit");

    double unit = total > 0 ? total / pr->n_stages : 1;
    double sum = 0; /* divided only after summing, so that sums of whole numbers are exact */
    for (uint32_t k = 0; k < pr->n_layers; k++) {
        pr->time[k] = sum / unit;
        sum += item_time(&items->at[k + 1]);
    }
    pr->time[pr->n_layers] = sum / unit;
    pr->time_first = item_time(&items->at[0]) / unit;
    pr->time_last = item_time(&items->at[items->n - 1]) / unit;
    return WEFT_OK;
}

static enum weft_status check_bytes(const struct weft_items *items, uint64_t max_in_flight,
                                    struct weft_error *err)
{
    size_t sum = 0, saved;
    for (size_t k = 0; k < items->n; k++)
        if (!wf_size_mul(items->at[k].act_bytes, max_in_flight, &saved) ||
            !wf_size_add(sum, saved, &sum) ||
            !wf_size_add(sum, items->at[k].state_bytes, &sum) || sum > (size_t)max_bytes)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "the bytes of all items overflow with %llu micros in flight",
                             (unsigned long long)max_in_flight);
    return WEFT_OK;
}

static enum weft_status sum_bytes(struct wf_problem *pr, const struct weft_items *items,
                                  struct weft_error *err)
{
    uint64_t max_in_flight = 1;
    for (size_t k = 0; k < pr->owners.start[pr->n_stages]; k++)
        if (pr->owners.at[k].in_flight > max_in_flight)
            max_in_flight = pr->owners.at[k].in_flight;
    WEFT_TRY(check_bytes(items, max_in_flight, err));

    pr->min_state = pr->min_act = max_bytes;
    for (uint32_t k = 0; k < pr->n_layers; k++) {
        int64_t state = (int64_t)items->at[k + 1].state_bytes;
        int64_t act = (int64_t)items->at[k + 1].act_bytes;
        pr->state[k + 1] = pr->state[k] + state;
        pr->act[k + 1] = pr->act[k] + act;
        pr->min_state = state < pr->min_state ? state : pr->min_state;
        pr->min_act = act < pr->min_act ? act : pr->min_act;
    }
    return WEFT_OK;
}

static void subtract_item(struct wf_problem *pr, const struct weft_item *item, uint32_t stage)
{
    for (size_t k = pr->owners.start[stage]; k < pr->owners.start[stage + 1]; k++) {
        const struct wf_owner *h = &pr->owners.at[k];
        pr->budget[h->rank] -=
            (int64_t)item->state_bytes + (int64_t)h->in_flight * (int64_t)item->act_bytes;
    }
}

static void set_budgets(struct wf_problem *pr, const struct weft_items *items,
                        const struct weft_rank_limits *rank_limits)
{
    for (uint32_t r = 0; r < pr->owners.n_ranks; r++) {
        size_t limit = rank_limits->limit_bytes[rank_limits->n_limits == 1 ? 0 : r];
        pr->budget[r] = limit < (size_t)max_bytes ? (int64_t)limit : max_bytes;
        if (wf_owners_first_and_last(&pr->owners, r))
            pr->budget[r] += (int64_t)items->shared_bytes;
        if (rank_limits->fixed_bytes != NULL)
            pr->budget[r] -= (int64_t)wf_size_min(rank_limits->fixed_bytes[r], max_bytes);
    }
    subtract_item(pr, &items->at[0], 0);
    subtract_item(pr, &items->at[items->n - 1], pr->n_stages - 1);

    for (uint32_t s = 0; s < pr->n_stages; s++)
        for (size_t k = pr->owners.start[s]; k < pr->owners.start[s + 1]; k++) {
            const struct wf_owner *h = &pr->owners.at[k];
            pr->shared_budget |= pr->bytes[h->rank]++ > 0; /* counts stages here */
            pr->min_bytes[h->rank] += wf_problem_min_bytes(pr, s, h);
        }
}

static enum weft_status allocate(struct wf_problem *pr, struct weft_error *err)
{
    size_t n = (size_t)pr->n_layers + 1, n_ranks = pr->owners.n_ranks;
    pr->time = calloc(n, sizeof *pr->time);
    pr->state = calloc(n, sizeof *pr->state);
    pr->act = calloc(n, sizeof *pr->act);
    pr->budget = calloc(n_ranks, sizeof *pr->budget);
    pr->min_bytes = calloc(n_ranks, sizeof *pr->min_bytes);
    pr->bytes = calloc(n_ranks, sizeof *pr->bytes);
    if (!pr->time || !pr->state || !pr->act || !pr->budget || !pr->min_bytes || !pr->bytes)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u layers on %zu ranks", pr->n_layers,
                         n_ranks);
    return WEFT_OK;
}

static enum weft_status check_sizes(uint32_t n_layers, uint32_t n_stages,
                                    struct weft_error *err)
{
    WEFT_TRY(wf_partition_check_sizes(n_layers, n_stages, err));
    if (n_layers + 2 < n_stages)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%u layer%s cannot fill the %u stages between the first and the last; "
                         "use at most %u stages (ranks x chunks) or an explicit layout",
                         n_layers, wf_plural(n_layers), n_stages - 2, n_layers + 2);
    if (n_layers > WEFT_MAX_BALANCED_LAYERS)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "%u layers are too many for a balanced partition; give at most %d, or use "
            "an even one",
            n_layers, WEFT_MAX_BALANCED_LAYERS);
    return WEFT_OK;
}

enum weft_status wf_problem_init(struct wf_problem *pr, const struct weft_items *items,
                                 uint32_t n_stages, const struct weft_rank_limits *rank_limits,
                                 struct weft_error *err)
{
    *pr = (struct wf_problem){0};
    WEFT_TRY(weft_items_check(items, err));
    pr->n_layers = weft_items_n_layers(items);
    pr->n_stages = n_stages;
    WEFT_TRY(check_sizes(pr->n_layers, n_stages, err));

    pr->width = pr->n_layers - wf_problem_base(pr, n_stages) + 1;
    WEFT_TRY(wf_owners_init(&pr->owners, rank_limits, n_stages, err));
    WEFT_TRY(allocate(pr, err));
    WEFT_TRY(sum_times(pr, items, err));

    pr->limited = rank_limits != NULL && rank_limits->n_limits > 0;
    if (pr->limited) {
        WEFT_TRY(sum_bytes(pr, items, err));
        set_budgets(pr, items, rank_limits);
    }
    return WEFT_OK;
}

void wf_problem_release(struct wf_problem *pr)
{
    wf_owners_release(&pr->owners);
    free(pr->time);
    free(pr->state);
    free(pr->act);
    free(pr->budget);
    free(pr->min_bytes);
    free(pr->bytes);
    *pr = (struct wf_problem){0};
}

void wf_problem_relax(struct wf_problem *pr, int64_t more)
{
    for (uint32_t r = 0; r < pr->owners.n_ranks; r++)
        pr->budget[r] += more;
}

double wf_problem_bottleneck(const struct wf_problem *pr, const uint32_t *ends)
{
    double slowest = 0;
    for (uint32_t s = 0; s < pr->n_stages; s++)
        slowest = fmax(slowest, wf_problem_time(pr, s, s == 0 ? 0 : ends[s - 1], ends[s]));
    return slowest;
}

double wf_problem_squares(const struct wf_problem *pr, const uint32_t *ends)
{
    double sum = 0;
    for (uint32_t s = 0; s < pr->n_stages; s++) {
        double t = wf_problem_time(pr, s, s == 0 ? 0 : ends[s - 1], ends[s]);
        sum += t * t;
    }
    return sum;
}

uint32_t wf_problem_n_empty(const struct wf_problem *pr, const uint32_t *ends)
{
    uint32_t n = ends[0] == 0;
    for (uint32_t s = 1; s < pr->n_stages; s++)
        n += ends[s] == ends[s - 1];
    return n;
}

int64_t wf_problem_excess(const struct wf_problem *pr, const uint32_t *ends)
{
    if (!pr->limited)
        return 0;
    uint32_t n_ranks = pr->owners.n_ranks;
    for (uint32_t r = 0; r < n_ranks; r++)
        pr->bytes[r] = 0;
    for (uint32_t s = 0; s < pr->n_stages; s++)
        for (size_t k = pr->owners.start[s]; k < pr->owners.start[s + 1]; k++) {
            const struct wf_owner *h = &pr->owners.at[k];
            pr->bytes[h->rank] += wf_problem_bytes(pr, h, s == 0 ? 0 : ends[s - 1], ends[s]);
        }

    int64_t excess = INT64_MIN;
    for (uint32_t r = 0; r < n_ranks; r++)
        if (pr->bytes[r] - pr->budget[r] > excess)
            excess = pr->bytes[r] - pr->budget[r];
    return excess;
}
