#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/part/balance_priv.h"
#include "planning/part/partition_priv.h"

/* Sums of bytes stay below this, so that differences and sums of them never overflow. */
static const int64_t max_bytes = INT64_C(1) << 60;

static double item_time(const struct weft_item *item)
{
    return item->f + item->i + item->w;
}

static enum weft_status sum_times(struct weft_problem *pr, const struct weft_items *items,
                                  struct weft_error *err)
{
    double total = 0;
    for (size_t k = 0; k < items->n; k++)
        total += item_time(&items->at[k]);
    if (!isfinite(total))
        return WEFT_FAIL(err, WEFT_USAGE, "the times of all items overflow: use a larger unit");
    double unit = total > 0 ? total / pr->n_stages : 1;
    double sum =
        0; /* summed first, divided then: whole numbers stay exact as long as they can */
    for (uint32_t k = 0; k < pr->n_layers; k++) {
        pr->time[k] = sum / unit;
        sum += item_time(&items->at[k + 1]);
    }
    pr->time[pr->n_layers] = sum / unit;
    pr->time_first = item_time(&items->at[0]) / unit;
    pr->time_last = item_time(&items->at[items->n - 1]) / unit;
    return WEFT_OK;
}

static enum weft_status check_bytes(const struct weft_items *items, uint64_t most_in_flight,
                                    struct weft_error *err)
{
    size_t sum = 0, saved;
    for (size_t k = 0; k < items->n; k++)
        if (!weft_size_mul(items->at[k].act_bytes, most_in_flight, &saved) ||
            !weft_size_add(sum, saved, &sum) ||
            !weft_size_add(sum, items->at[k].state_bytes, &sum) || sum > (size_t)max_bytes)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "the bytes of all items with %llu micros in flight are too many",
                             (unsigned long long)most_in_flight);
    return WEFT_OK;
}

static enum weft_status sum_bytes(struct weft_problem *pr, const struct weft_items *items,
                                  struct weft_error *err)
{
    uint64_t most = 1;
    for (size_t k = 0; k < pr->holds.start[pr->n_stages]; k++)
        if (pr->holds.at[k].in_flight > most)
            most = pr->holds.at[k].in_flight;
    WEFT_TRY(check_bytes(items, most, err));
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

static void take_item(struct weft_problem *pr, const struct weft_item *item, uint32_t stage)
{
    for (size_t k = pr->holds.start[stage]; k < pr->holds.start[stage + 1]; k++) {
        const struct weft_hold *h = &pr->holds.at[k];
        pr->budget[h->rank] -=
            (int64_t)item->state_bytes + (int64_t)h->in_flight * (int64_t)item->act_bytes;
    }
}

static void set_budgets(struct weft_problem *pr, const struct weft_items *items,
                        const struct weft_holding *holding)
{
    for (uint32_t r = 0; r < pr->holds.n_ranks; r++) {
        size_t limit = holding->limit_bytes[holding->n_limits == 1 ? 0 : r];
        pr->budget[r] = limit < (size_t)max_bytes ? (int64_t)limit : max_bytes;
        if (weft_holds_both_ends(&pr->holds, r))
            pr->budget[r] += (int64_t)items->shared_bytes;
    }
    take_item(pr, &items->at[0], 0);
    take_item(pr, &items->at[items->n - 1], pr->n_stages - 1);
    for (uint32_t s = 0; s < pr->n_stages; s++)
        for (size_t k = pr->holds.start[s]; k < pr->holds.start[s + 1]; k++) {
            const struct weft_hold *h = &pr->holds.at[k];
            pr->coupled |= pr->bytes[h->rank]++ > 0; /* borrowed as a count of stages */
            pr->least[h->rank] += weft_problem_least_bytes(pr, s, h);
        }
}

static enum weft_status allocate(struct weft_problem *pr, struct weft_error *err)
{
    size_t n = (size_t)pr->n_layers + 1, n_ranks = pr->holds.n_ranks;
    pr->time = calloc(n, sizeof *pr->time);
    pr->state = calloc(n, sizeof *pr->state);
    pr->act = calloc(n, sizeof *pr->act);
    pr->budget = calloc(n_ranks, sizeof *pr->budget);
    pr->least = calloc(n_ranks, sizeof *pr->least);
    pr->bytes = calloc(n_ranks, sizeof *pr->bytes);
    if (!pr->time || !pr->state || !pr->act || !pr->budget || !pr->least || !pr->bytes)
        return WEFT_FAIL(err, WEFT_NOMEM, "%u layers on %zu ranks", pr->n_layers, n_ranks);
    return WEFT_OK;
}

static enum weft_status check_sizes(uint32_t n_layers, uint32_t n_stages,
                                    struct weft_error *err)
{
    WEFT_TRY(weft_partition_check_sizes(n_layers, n_stages, err));
    if (n_layers + 2 < n_stages)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%u layer%s cannot fill the %u stages between the first and the last: "
                         "use at most %u stages (ranks x chunks) or an explicit layout",
                         n_layers, n_layers == 1 ? "" : "s", n_stages - 2, n_layers + 2);
    if (n_layers > WEFT_MAX_BALANCED_LAYERS)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%u layers are too many to balance: give at most %d, or split evenly",
                         n_layers, WEFT_MAX_BALANCED_LAYERS);
    return WEFT_OK;
}

enum weft_status weft_problem_init(struct weft_problem *pr, const struct weft_items *items,
                                   uint32_t n_stages, const struct weft_holding *holding,
                                   struct weft_error *err)
{
    *pr = (struct weft_problem){0};
    WEFT_TRY(weft_items_check(items, err));
    pr->n_layers = weft_items_n_layers(items);
    pr->n_stages = n_stages;
    WEFT_TRY(check_sizes(pr->n_layers, n_stages, err));
    pr->width = pr->n_layers - weft_problem_base(pr, n_stages) + 1;
    WEFT_TRY(weft_holds_init(&pr->holds, holding, n_stages, err));
    WEFT_TRY(allocate(pr, err));
    WEFT_TRY(sum_times(pr, items, err));
    pr->limited = holding != NULL && holding->n_limits > 0;
    if (pr->limited) {
        WEFT_TRY(sum_bytes(pr, items, err));
        set_budgets(pr, items, holding);
    }
    return WEFT_OK;
}

void weft_problem_release(struct weft_problem *pr)
{
    weft_holds_release(&pr->holds);
    free(pr->time);
    free(pr->state);
    free(pr->act);
    free(pr->budget);
    free(pr->least);
    free(pr->bytes);
    *pr = (struct weft_problem){0};
}

void weft_problem_relax(struct weft_problem *pr, int64_t more)
{
    for (uint32_t r = 0; r < pr->holds.n_ranks; r++)
        pr->budget[r] += more;
}

double weft_problem_bottleneck(const struct weft_problem *pr, const uint32_t *ends)
{
    double most = 0;
    for (uint32_t s = 0; s < pr->n_stages; s++)
        most = fmax(most, weft_problem_time(pr, s, s == 0 ? 0 : ends[s - 1], ends[s]));
    return most;
}

double weft_problem_squares(const struct weft_problem *pr, const uint32_t *ends)
{
    double sum = 0;
    for (uint32_t s = 0; s < pr->n_stages; s++) {
        double t = weft_problem_time(pr, s, s == 0 ? 0 : ends[s - 1], ends[s]);
        sum += t * t;
    }
    return sum;
}

uint32_t weft_problem_n_empty(const struct weft_problem *pr, const uint32_t *ends)
{
    uint32_t n = ends[0] == 0;
    for (uint32_t s = 1; s < pr->n_stages; s++)
        n += ends[s] == ends[s - 1];
    return n;
}

int64_t weft_problem_excess(const struct weft_problem *pr, const uint32_t *ends)
{
    if (!pr->limited)
        return 0;
    uint32_t n_ranks = pr->holds.n_ranks;
    for (uint32_t r = 0; r < n_ranks; r++)
        pr->bytes[r] = 0;
    for (uint32_t s = 0; s < pr->n_stages; s++)
        for (size_t k = pr->holds.start[s]; k < pr->holds.start[s + 1]; k++) {
            const struct weft_hold *h = &pr->holds.at[k];
            pr->bytes[h->rank] += weft_problem_bytes(pr, h, s == 0 ? 0 : ends[s - 1], ends[s]);
        }
    int64_t most = INT64_MIN;
    for (uint32_t r = 0; r < n_ranks; r++)
        if (pr->bytes[r] - pr->budget[r] > most)
            most = pr->bytes[r] - pr->budget[r];
    return most;
}
