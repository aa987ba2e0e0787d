/* The table of reference functions. */
#include "compute/kern/ref/ops_priv.h"

const struct wf_ops wf_ops_ref = {
    .embed = wf_ref_embed,
    .scatter = wf_ref_scatter,
    .layernorm_forward = wf_ref_layernorm_forward,
    .layernorm_backward = wf_ref_layernorm_backward,
    .rmsnorm_forward = wf_ref_rmsnorm_forward,
    .rmsnorm_backward = wf_ref_rmsnorm_backward,
    .rope = wf_ref_rope,
    .gelu_forward = wf_ref_gelu_forward,
    .gelu_backward = wf_ref_gelu_backward,
    .swiglu_forward = wf_ref_swiglu_forward,
    .swiglu_backward = wf_ref_swiglu_backward,
    .cross_entropy = wf_ref_cross_entropy,
    .mix_forward = wf_ref_mix_forward,
    .mix_backward = wf_ref_mix_backward,
    .convert = wf_ref_convert,
    .add = wf_ref_add,
    .column_sums = wf_ref_column_sums,
    .sink_add = wf_ref_sink_add,
    .exact_merge = wf_ref_exact_merge,
    .exact_to_f32 = wf_ref_exact_to_f32,
    .sum_squares = wf_ref_sum_squares,
    .adamw = wf_ref_adamw,
    .find_nonfinite = wf_ref_find_nonfinite,
};
