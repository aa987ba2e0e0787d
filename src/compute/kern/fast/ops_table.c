#include "compute/kern/fast/ops_priv.h"

extern const struct weft_ops WEFT_KERN(weft_ops_table);

const struct weft_ops WEFT_KERN(weft_ops_table) = {
    .embed = WEFT_KERN(weft_ops_embed),
    .scatter = WEFT_KERN(weft_ops_scatter),
    .layernorm_forward = WEFT_KERN(weft_ops_layernorm_forward),
    .layernorm_backward = WEFT_KERN(weft_ops_layernorm_backward),
    .rmsnorm_forward = WEFT_KERN(weft_ops_rmsnorm_forward),
    .rmsnorm_backward = WEFT_KERN(weft_ops_rmsnorm_backward),
    .rope = WEFT_KERN(weft_ops_rope),
    .gelu_forward = WEFT_KERN(weft_ops_gelu_forward),
    .gelu_backward = WEFT_KERN(weft_ops_gelu_backward),
    .swiglu_forward = WEFT_KERN(weft_ops_swiglu_forward),
    .swiglu_backward = WEFT_KERN(weft_ops_swiglu_backward),
    .cross_entropy = WEFT_KERN(weft_ops_cross_entropy),
    .mix_forward = WEFT_KERN(weft_ops_mix_forward),
    .mix_backward = WEFT_KERN(weft_ops_mix_backward),
    .convert = WEFT_KERN(weft_ops_convert),
    .add = WEFT_KERN(weft_ops_add),
    .column_sums = WEFT_KERN(weft_ops_column_sums),
    .sink_add = WEFT_KERN(weft_ops_sink_add),
    .exact_merge = WEFT_KERN(weft_ops_exact_merge),
    .exact_value = WEFT_KERN(weft_ops_exact_value),
    .sum_squares = WEFT_KERN(weft_ops_sum_squares),
    .adamw = WEFT_KERN(weft_ops_adamw),
    .find_bad = WEFT_KERN(weft_ops_find_bad),
};
