/* A stage as entrenar, a reference system, describes it, and the message tags of
 * boostr, another one. */
#include "base/error.h"
#include "base/size.h"
#include "weft/reference.h"

enum weft_status weft_reference_stage_init(struct weft_reference_stage *out, size_t stage,
                                           size_t n_stages, size_t n_blocks, size_t n_micros,
                                           struct weft_error *err)
{
    if (n_micros < n_stages)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "need at least %zu micro-batches to fill pipeline, got %zu", n_stages,
                         n_micros);
    if (n_stages == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "0 stages; give at least 1");
    if (stage >= n_stages)
        return WEFT_FAIL(err, WEFT_USAGE, "stage %zu is out of range (expected 0 to %zu)",
                         stage, n_stages - 1);

    struct wf_range blocks = wf_range_part(n_blocks, n_stages, stage);
    double bubble = (double)(n_stages - 1) / (double)n_micros;
    *out = (struct weft_reference_stage){.block_start = blocks.begin,
                                         .block_end = blocks.end,
                                         .has_embedding = stage == 0,
                                         .has_lm_head = stage + 1 == n_stages,
                                         .bubble_fraction = bubble,
                                         .efficiency = 1 - bubble};
    return WEFT_OK;
}

enum weft_status weft_reference_activation_tag(uint64_t micro, bool backward, uint32_t base,
                                               uint32_t *out, struct weft_error *err)
{
    if (micro > (UINT64_MAX - 1) / 2)
        return WEFT_FAIL(err, WEFT_NUMERIC, "micro-batch id %llu overflows tag range",
                         (unsigned long long)micro);
    uint64_t tag = 2 * micro + backward;
    if (tag > UINT32_MAX)
        return WEFT_FAIL(err, WEFT_NUMERIC, "tag overflow for mb_id=%llu",
                         (unsigned long long)micro);
    if (tag + base > UINT32_MAX)
        return WEFT_FAIL(err, WEFT_NUMERIC, "tag overflow for mb_id=%llu base=%lu",
                         (unsigned long long)micro, (unsigned long)base);
    *out = (uint32_t)(tag + base);
    return WEFT_OK;
}
