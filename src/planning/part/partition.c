/* Partitions: verification, even splits, and explicit counts. */
#include "weft/part.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "planning/part/partition_priv.h"

void weft_partition_release(struct weft_partition *p)
{
    free(p->at);
    *p = (struct weft_partition){0};
}

static enum weft_status verify_stage(const struct weft_partition *p, uint32_t s, uint32_t next,
                                     struct weft_error *err)
{
    const struct weft_stage_range *stage = &p->at[s];
    if (stage->end_layer < stage->first_layer)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "stage %u ends at layer %u, before its first layer, %u", s,
                         stage->end_layer, stage->first_layer);
    if (stage->first_layer > next)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "stage %u starts at layer %u, but layer %u is on no earlier stage", s,
                         stage->first_layer, next);
    if (stage->first_layer < next)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "stage %u starts at layer %u, but the previous stage ends at layer %u",
                         s, stage->first_layer, next);

    if (stage->embedding != (s == 0))
        return WEFT_FAIL(err, WEFT_USAGE,
                         s == 0 ? "stage %u has no embedding: the first stage must have it"
                                : "stage %u has an embedding: only the first stage may have it",
                         s);
    if (stage->head != (s == p->n_stages - 1))
        return WEFT_FAIL(err, WEFT_USAGE,
                         stage->head ? "stage %u has a head: only the last stage may have it"
                                     : "stage %u has no head: the last stage must have it",
                         s);
    return WEFT_OK;
}

enum weft_status weft_partition_verify(const struct weft_partition *p, uint32_t n_layers,
                                       struct weft_error *err)
{
    if (p->n_stages == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "the partition has 0 stages; give at least 1");
    uint32_t next = 0;
    bool any_mtp = false;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        WEFT_TRY(verify_stage(p, s, next, err));
        if (any_mtp && (p->at[s].n_mtp > 0 || p->at[s].end_layer > next))
            return WEFT_FAIL(err, WEFT_USAGE,
                             "stage %u has layers, but an earlier stage has the layers for "
                             "multi-token prediction",
                             s);
        any_mtp = any_mtp || p->at[s].n_mtp > 0;
        next = p->at[s].end_layer;
    }
    if (next != n_layers)
        return WEFT_FAIL(err, WEFT_USAGE, "the stages have %u layers, the model has %u", next,
                         n_layers);
    return WEFT_OK;
}

enum weft_status wf_partition_check_sizes(uint32_t n_layers, uint32_t n_stages,
                                          struct weft_error *err)
{
    if (n_layers == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "there are 0 layers; give at least 1");
    if (n_stages == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "there are 0 stages; give at least 1");
    if (n_layers > WEFT_MAX_LAYERS)
        return WEFT_FAIL(err, WEFT_USAGE, "there are %u layers; give at most %d", n_layers,
                         WEFT_MAX_LAYERS);
    if (n_stages > WEFT_MAX_STAGES)
        return WEFT_FAIL(err, WEFT_USAGE, "there are %u stages; give at most %d", n_stages,
                         WEFT_MAX_STAGES);
    return WEFT_OK;
}

enum weft_status weft_partition_check_filled(uint32_t n_layers, uint32_t n_stages,
                                             struct weft_error *err)
{
    WEFT_TRY(wf_partition_check_sizes(n_layers, n_stages, err));
    if (n_stages > n_layers)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%u layer%s cannot fill %u stages; use at most %u stage%s (ranks x "
                         "chunks) or an explicit layout",
                         n_layers, wf_plural(n_layers), n_stages, n_layers,
                         wf_plural(n_layers));
    return WEFT_OK;
}

/* Allocates n_stages stages and marks the embedding and the head.  Does not set the layers. */
static enum weft_status alloc_stages(uint32_t n_stages, struct weft_partition *out,
                                     struct weft_error *err)
{
    struct weft_stage_range *at = calloc(n_stages, sizeof *at);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition of %u stages", n_stages);
    at[0].embedding = true;
    at[n_stages - 1].head = true;
    *out = (struct weft_partition){n_stages, at};
    return WEFT_OK;
}

static enum weft_status verify_result(struct weft_partition *result, uint32_t n_layers,
                                      struct weft_partition *out, struct weft_error *err)
{
    enum weft_status st = weft_partition_verify(result, n_layers, err);
    if (st == WEFT_OK)
        *out = *result;
    else
        weft_partition_release(result);
    return st;
}

enum weft_status wf_partition_init_ends(struct weft_partition *p, const uint32_t *ends,
                                        uint32_t n_stages, struct weft_error *err)
{
    struct weft_partition result = {0};
    WEFT_TRY(wf_partition_check_sizes(ends[n_stages - 1], n_stages, err));
    WEFT_TRY(alloc_stages(n_stages, &result, err));
    for (uint32_t s = 0; s < n_stages; s++) {
        result.at[s].first_layer = s == 0 ? 0 : ends[s - 1];
        result.at[s].end_layer = ends[s];
    }
    return verify_result(&result, ends[n_stages - 1], p, err);
}

enum weft_status weft_partition_init_even(struct weft_partition *p, uint32_t n_layers,
                                          uint32_t n_stages, struct weft_error *err)
{
    struct weft_partition result = {0};
    WEFT_TRY(wf_partition_check_sizes(n_layers, n_stages, err));
    WEFT_TRY(alloc_stages(n_stages, &result, err));
    for (uint32_t s = 0; s < n_stages; s++) {
        struct wf_range layers = wf_range_part(n_layers, n_stages, s);
        result.at[s].first_layer = (uint32_t)layers.begin;
        result.at[s].end_layer = (uint32_t)layers.end;
    }
    return verify_result(&result, n_layers, p, err);
}

enum weft_status weft_partition_init_counts(struct weft_partition *p, const uint32_t *counts,
                                            uint32_t n_stages, struct weft_error *err)
{
    WEFT_TRY(wf_partition_check_sizes(1, n_stages, err)); /* layers are checked below */
    uint32_t *ends = calloc(n_stages, sizeof *ends);
    if (ends == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition of %u stages", n_stages);

    enum weft_status st = WEFT_OK;
    uint64_t sum = 0;
    for (uint32_t s = 0; s < n_stages && st == WEFT_OK; s++) {
        sum += counts[s];
        if (sum > WEFT_MAX_LAYERS)
            st = WEFT_FAIL(err, WEFT_USAGE,
                           "the layers up to stage %u are %llu; give at most %d", s,
                           (unsigned long long)sum, WEFT_MAX_LAYERS);
        else
            ends[s] = (uint32_t)sum;
    }
    if (st == WEFT_OK)
        st = wf_partition_init_ends(p, ends, n_stages, err);
    free(ends);
    return st;
}

enum weft_status weft_split_ranges(size_t n_items, size_t n_parts, size_t *bounds,
                                   struct weft_error *err)
{
    if (n_parts == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "0 micros; give at least 1");
    if (n_items < n_parts)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "%zu sequence%s cannot fill %zu micros; use at most %zu, or a larger batch",
            n_items, wf_plural(n_items), n_parts, n_items);
    bounds[0] = 0;
    for (size_t k = 0; k < n_parts; k++)
        bounds[k + 1] = wf_range_part(n_items, n_parts, k).end;
    return WEFT_OK;
}
