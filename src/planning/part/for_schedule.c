/* Balanced partitions within the memory limits of the ranks of a schedule. */
#include "planning/part/for_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/part/planned_bytes.h"
#include "planning/sched/slots.h"
#include "weft/timing.h"

/* The limits in the form of the balanced partition, which knows only bytes per item. */
struct limited {
    const struct weft_schedule *schedule;
    const struct weft_placement *place;
    uint32_t replicas;
    uint32_t *in_flight;            /* owned: (n_pipes, n_stages) */
    size_t *fixed;                  /* owned: (n_ranks) */
    struct wf_stage_counts *counts; /* owned: (n_stages), of the current rank */
    struct weft_items items;        /* owned */
};

static enum weft_status allocate(struct limited *l, const struct weft_items *items,
                                 struct weft_error *err)
{
    size_t n = l->place->n_stages;
    l->in_flight = calloc(n * l->place->n_pipes, sizeof *l->in_flight);
    l->fixed = calloc(l->place->n_ranks, sizeof *l->fixed);
    l->counts = calloc(n, sizeof *l->counts);
    l->items = *items;
    l->items.at = malloc(items->n * sizeof *items->at);
    if (!l->in_flight || !l->fixed || !l->counts || !l->items.at)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition of %zu stages", n);
    memcpy(l->items.at, items->at, items->n * sizeof *items->at);
    return WEFT_OK;
}

static void release(struct limited *l)
{
    free(l->in_flight);
    free(l->fixed);
    free(l->counts);
    weft_items_release(&l->items);
}

/* Adds up the bytes of a rank that do not depend on the partition.  Also stores in *split the
 * largest number of micros between I and W. */
static enum weft_status count_fixed(struct limited *l, uint32_t rank, size_t max_work,
                                    uint32_t *split, struct weft_error *err)
{
    const struct weft_items *items = &l->items;
    uint32_t last = l->place->n_stages - 1;
    bool ok = true;
    WEFT_TRY(wf_rank_counts(l->schedule, rank, l->counts, err));
    for (uint32_t s = 0; ok && s <= last; s++) {
        if (l->counts[s].stored == 0)
            continue;

        size_t *sum = &l->fixed[rank], buffers;
        size_t n = wf_rank_buffers(l->place, weft_schedule_is_forward_only(l->schedule), rank,
                                   s, l->counts[s].open);
        *split = l->counts[s].split > *split ? l->counts[s].split : *split;
        ok = wf_size_mul(items->boundary_bytes, n, &buffers) &&
             wf_size_add(*sum, buffers, sum) && wf_size_add(*sum, items->stage_bytes, sum) &&
             wf_size_add(*sum, items->at[1].scratch_bytes, sum) &&
             wf_size_add(*sum, max_work, sum) &&
             wf_size_add(*sum, s == last ? items->at[items->n - 1].scratch_bytes : 0, sum);
    }

    if (!ok)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u: the bytes of its stages overflow", rank);
    return WEFT_OK;
}

/* Expresses all memory by the bytes of items and the fixed bytes of ranks. */
static enum weft_status prepare(struct limited *l, struct weft_error *err)
{
    struct weft_items *items = &l->items;
    uint32_t split = 0, n_members = l->place->n_pipes * l->replicas;
    size_t max_work = 0;
    for (size_t k = 0; k < items->n; k++)
        max_work = wf_size_max(max_work, items->at[k].work_bytes);
    WEFT_TRY(weft_schedule_in_flight(l->schedule, l->in_flight, err));
    for (uint32_t r = 0; r < l->place->n_ranks; r++)
        WEFT_TRY(count_fixed(l, r, max_work, &split, err));

    /* Each stage has its own copy of a tied weight. */
    if (l->place->n_stages > 1)
        items->shared_bytes = 0;
    for (size_t k = 0; k < items->n; k++) {
        struct weft_item *item = &items->at[k];
        size_t others = item->state.moments - item->state.moments / n_members, work;
        if (!wf_size_mul(item->work_bytes, split, &work) ||
            !wf_size_add(item->state_bytes - others, work, &item->state_bytes))
            return WEFT_FAIL(err, WEFT_USAGE, "the bytes of all items overflow");
    }
    return WEFT_OK;
}

/* The partition without limits, and the bytes of its largest rank. */
struct unlimited {
    struct weft_partition partition;
    size_t max_bytes;
    bool fits;
};

static bool fits(const struct wf_planned_bytes *b, const size_t *limit_bytes, size_t n_limits)
{
    for (uint32_t r = 0; r < b->n_ranks; r++)
        if (b->total[r] > limit_bytes[n_limits == 1 ? 0 : r])
            return false;
    return true;
}

/* Makes the partition without limits.  Most often it fits, and its memory is known exactly.
 * The caller releases out->partition. */
static enum weft_status balance_unlimited(struct unlimited *out, const struct weft_items *items,
                                          const struct limited *l, const size_t *limit_bytes,
                                          size_t n_limits, struct weft_error *err)
{
    struct unlimited u;
    struct wf_planned_bytes bytes;
    uint32_t n_stages = l->place->n_stages;
    WEFT_TRY(weft_partition_init_balanced(&u.partition, items, n_stages, NULL, NULL, err));
    enum weft_status st =
        wf_planned_bytes_init(&bytes, l->schedule, &u.partition, items, l->replicas, err);
    if (st != WEFT_OK) {
        weft_partition_release(&u.partition);
        return st;
    }
    u.fits = fits(&bytes, limit_bytes, n_limits);
    u.max_bytes = wf_planned_bytes_max(bytes.total, bytes.n_ranks);
    wf_planned_bytes_release(&bytes);
    *out = u;
    return WEFT_OK;
}

/* Balances within limits. */
static enum weft_status balance_limited(struct weft_partition *out, const struct limited *l,
                                        const size_t *limit_bytes, size_t n_limits,
                                        struct weft_error *err)
{
    const struct weft_rank_limits limits = {l->place, l->in_flight, limit_bytes, n_limits,
                                            l->fixed};
    return weft_partition_init_balanced(out, &l->items, l->place->n_stages, &limits, NULL, err);
}

/* Replaces the message about a limit that is too small if the partition without limits needs
 * less than that message says. */
static enum weft_status fail_to_fit(const struct limited *l, const struct unlimited *u,
                                    const size_t *limit_bytes, size_t n_limits,
                                    struct weft_error *err)
{
    struct weft_partition p;
    if (err == NULL || n_limits != 1)
        return WEFT_USAGE;
    if (balance_limited(&p, l, &u->max_bytes, 1, NULL) == WEFT_OK) {
        weft_partition_release(&p);
        return WEFT_USAGE;
    }
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%u layers on %u stages do not fit into %zu bytes per rank: a sufficient "
                     "value is %zu bytes",
                     weft_items_n_layers(&l->items), l->place->n_stages, limit_bytes[0],
                     u->max_bytes);
}

enum weft_status wf_partition_init_limited(struct weft_partition *out,
                                           const struct weft_items *items,
                                           const struct weft_schedule *s, uint32_t replicas,
                                           const size_t *limit_bytes, size_t n_limits,
                                           struct weft_error *err)
{
    struct limited l = {
        .schedule = s, .place = weft_schedule_placement(s), .replicas = replicas};
    struct unlimited u = {0};
    if (n_limits == 0)
        return weft_partition_init_balanced(out, items, l.place->n_stages, NULL, NULL, err);
    if (n_limits == 1 || n_limits == l.place->n_ranks)
        WEFT_TRY(balance_unlimited(&u, items, &l, limit_bytes, n_limits, err));
    if (u.fits) {
        *out = u.partition;
        return WEFT_OK;
    }

    enum weft_status st = allocate(&l, items, err);
    if (st == WEFT_OK)
        st = prepare(&l, err);
    if (st == WEFT_OK) {
        st = balance_limited(out, &l, limit_bytes, n_limits, err);
        if (st == WEFT_USAGE && u.max_bytes > 0)
            st = fail_to_fit(&l, &u, limit_bytes, n_limits, err);
    }
    weft_partition_release(&u.partition);
    release(&l);
    return st;
}
