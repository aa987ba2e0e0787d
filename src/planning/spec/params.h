/* Parameter counts of the items of a model. */
#ifndef PLANNING_SPEC_PARAMS_H
#define PLANNING_SPEC_PARAMS_H

#include <stddef.h>

#include "weft/spec.h"

struct wf_param_counts {
    size_t embedding, layer, head; /* a tied weight counts in embedding and head */
    size_t layer_matrices;         /* the part of `layer` that belongs to matrices */
    size_t shared;                 /* size of the tied weight, or 0 */
};

/* Checks a model and counts the parameters of its items. */
enum weft_status wf_model_item_params(const struct weft_model *model,
                                      struct wf_param_counts *out, struct weft_error *err);

/* Returns the number of blocks, including the embedding, of a checked model with block
 * residuals; 0 for models without block attention residuals. */
static inline uint32_t wf_model_n_blocks(const struct weft_model *m)
{
    uint32_t k = m->residual_block_layers;
    return k == 0 ? 0 : 1 + m->layers / k + (m->layers % k != 0);
}

#endif
