/* Sums over the stages of a partition and over their ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/part/owners.h"
#include "weft/part.h"

/* Returns the number of items of a stage; the first item is items->at[*first]. */
static size_t stage_items(const struct weft_stage_range *stage, size_t *first)
{
    *first = stage->embedding ? 0 : (size_t)stage->first_layer + 1;
    return (size_t)stage->end_layer + 1 + stage->head - *first;
}

static enum weft_status add_item(struct weft_stage_sums *sums, uint32_t s,
                                 const struct weft_item *item, struct weft_error *err)
{
    sums->f[s] += item->f;
    sums->i[s] += item->i;
    sums->w[s] += item->w;
    if (!wf_size_add(sums->state_bytes[s], item->state_bytes, &sums->state_bytes[s]) ||
        !wf_size_add(sums->act_bytes[s], item->act_bytes, &sums->act_bytes[s]))
        return WEFT_FAIL(err, WEFT_USAGE, "stage %u: the bytes of its items overflow", s);
    return WEFT_OK;
}

static enum weft_status sum_stage(struct weft_stage_sums *sums, uint32_t s,
                                  const struct weft_stage_range *stage,
                                  const struct weft_items *items, struct weft_error *err)
{
    size_t first, n = stage_items(stage, &first);
    for (size_t k = first; k < first + n; k++)
        WEFT_TRY(add_item(sums, s, &items->at[k], err));
    for (uint32_t k = 0; k < stage->n_mtp; k++) /* each costs as much as the last layer */
        WEFT_TRY(add_item(sums, s, &items->at[weft_items_n_layers(items)], err));
    if (stage->embedding && stage->head)
        sums->state_bytes[s] -= items->shared_bytes;
    return WEFT_OK;
}

enum weft_status weft_stage_sums_init(struct weft_stage_sums *sums,
                                      const struct weft_partition *p,
                                      const struct weft_items *items, struct weft_error *err)
{
    WEFT_TRY(weft_items_check(items, err));
    WEFT_TRY(weft_partition_verify(p, weft_items_n_layers(items), err));
    size_t n = p->n_stages;
    struct weft_stage_sums result = {
        .n_stages = p->n_stages,
        .f = calloc(n, sizeof *result.f),
        .i = calloc(n, sizeof *result.i),
        .w = calloc(n, sizeof *result.w),
        .state_bytes = calloc(n, sizeof *result.state_bytes),
        .act_bytes = calloc(n, sizeof *result.act_bytes),
    };

    enum weft_status st = WEFT_OK;
    if (!result.f || !result.i || !result.w || !result.state_bytes || !result.act_bytes)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the sums of %zu stages", n);
    for (uint32_t s = 0; s < p->n_stages && st == WEFT_OK; s++)
        st = sum_stage(&result, s, &p->at[s], items, err);
    if (st == WEFT_OK)
        *sums = result;
    else
        weft_stage_sums_release(&result);
    return st;
}

void weft_stage_sums_release(struct weft_stage_sums *sums)
{
    free(sums->f);
    free(sums->i);
    free(sums->w);
    free(sums->state_bytes);
    free(sums->act_bytes);
    *sums = (struct weft_stage_sums){0};
}

struct weft_cost weft_stage_sums_cost(const struct weft_stage_sums *sums)
{
    return (struct weft_cost){
        .f = {sums->f, sums->n_stages},
        .i = {sums->i, sums->n_stages},
        .w = {sums->w, sums->n_stages},
    };
}

static enum weft_status add_rank_bytes(const struct weft_stage_sums *sums,
                                       const struct wf_owners *owners, size_t *out,
                                       struct weft_error *err)
{
    for (uint32_t s = 0; s < owners->n_stages; s++)
        for (size_t k = owners->start[s]; k < owners->start[s + 1]; k++) {
            const struct wf_owner *h = &owners->at[k];
            size_t *sum = &out[h->rank], saved;
            if (!wf_size_mul(sums->act_bytes[s], h->in_flight, &saved) ||
                !wf_size_add(*sum, saved, sum) || !wf_size_add(*sum, sums->state_bytes[s], sum))
                return WEFT_FAIL(err, WEFT_USAGE, "rank %u: the bytes of its stages overflow",
                                 h->rank);
        }
    return WEFT_OK;
}

enum weft_status weft_partition_rank_bytes(const struct weft_partition *p,
                                           const struct weft_items *items,
                                           const struct weft_rank_limits *rank_limits,
                                           size_t *out, struct weft_error *err)
{
    struct weft_stage_sums sums = {0};
    struct wf_owners owners = {0};
    size_t *bytes = NULL;
    enum weft_status st = weft_stage_sums_init(&sums, p, items, err);
    if (st == WEFT_OK)
        st = wf_owners_init(&owners, rank_limits, p->n_stages, err);
    if (st == WEFT_OK && (bytes = calloc(owners.n_ranks, sizeof *bytes)) == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", owners.n_ranks);
    if (st == WEFT_OK && rank_limits != NULL && rank_limits->fixed_bytes != NULL)
        memcpy(bytes, rank_limits->fixed_bytes, owners.n_ranks * sizeof *bytes);
    if (st == WEFT_OK)
        st = add_rank_bytes(&sums, &owners, bytes, err);

    if (st == WEFT_OK)
        for (uint32_t r = 0; r < owners.n_ranks; r++) /* sum_stage() handles a single stage */
            out[r] = bytes[r] - (p->n_stages > 1 && wf_owners_first_and_last(&owners, r)
                                     ? items->shared_bytes
                                     : 0);
    free(bytes);
    wf_owners_release(&owners);
    weft_stage_sums_release(&sums);
    return st;
}
