/* The table of compute/kern/ops.h for one instruction set. */
#include "compute/kern/fast/ops_priv.h"

extern const struct wf_ops WF_KERN(wf_ops_table);

const struct wf_ops WF_KERN(wf_ops_table) = {
    .embed = WF_KERN(wf_ops_embed),
    .scatter = WF_KERN(wf_ops_scatter),
    .layernorm_forward = WF_KERN(wf_ops_layernorm_forward),
    .layernorm_backward = WF_KERN(wf_ops_layernorm_backward),
    .rmsnorm_forward = WF_KERN(wf_ops_rmsnorm_forward),
    .rmsnorm_backward = WF_KERN(wf_ops_rmsnorm_backward),
    .rope = WF_KERN(wf_ops_rope),
    .gelu_forward = WF_KERN(wf_ops_gelu_forward),
    .gelu_backward = WF_KERN(wf_ops_gelu_backward),
    .swiglu_forward = WF_KERN(wf_ops_swiglu_forward),
    .swiglu_backward = WF_KERN(wf_ops_swiglu_backward),
    .cross_entropy = WF_KERN(wf_ops_cross_entropy),
    .mix_forward = WF_KERN(wf_ops_mix_forward),
    .mix_backward = WF_KERN(wf_ops_mix_backward),
    .convert = WF_KERN(wf_ops_convert),
    .add = WF_KERN(wf_ops_add),
    .column_sums = WF_KERN(wf_ops_column_sums),
    .sink_add = WF_KERN(wf_ops_sink_add),
    .exact_merge = WF_KERN(wf_ops_exact_merge),
    .exact_to_f32 = WF_KERN(wf_ops_exact_to_f32),
    .sum_squares = WF_KERN(wf_ops_sum_squares),
    .adamw = WF_KERN(wf_ops_adamw),
    .find_nonfinite = WF_KERN(wf_ops_find_nonfinite),
};
