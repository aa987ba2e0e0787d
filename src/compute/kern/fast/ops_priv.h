/* The functions of compute/kern/ops.h for one instruction set.
 *
 * The tests check these error bounds relative to the reference.  The error of a result is at
 * most the bound times (its own magnitude + that of the largest element of the matrix, or of
 * the terms that cancelled).  A result stored as bf16 may also be the adjacent number.
 *
 *     embed, add, convert, scatter, sink_add       bit-identical
 *     exact_merge, exact_to_f32, sum_squares       bit-identical for all instruction sets
 *     AdamW                                        3e-7
 *     rope, activations, column_sums, dlogits      1e-6, also the loss relative to itself
 *     norms, forward and backward                  2e-6
 *     mixing, forward and backward                 4e-6
 */
#ifndef COMPUTE_KERN_FAST_OPS_PRIV_H
#define COMPUTE_KERN_FAST_OPS_PRIV_H

#include "compute/kern/fast/rows.h"
#include "compute/kern/ops.h"

void WF_KERN(wf_ops_embed)(struct wf_mat x, const float *wte, const int32_t *ids,
                           const float *wpe, const int32_t *positions, size_t rows,
                           size_t cols);
bool WF_KERN(wf_ops_scatter)(struct wf_sink sink, size_t table_cols, const int32_t *ids,
                             struct wf_mat dx, size_t rows, size_t col0, size_t col1);
void WF_KERN(wf_ops_rope)(struct wf_mat x, const float *cosines, const float *sines,
                          const int32_t *positions, bool inverse, size_t rows, size_t heads,
                          size_t head);

void WF_KERN(wf_ops_layernorm_forward)(struct wf_mat out, float *mean, float *rstd,
                                       struct wf_mat x, const float *w, const float *b,
                                       float eps, size_t rows, size_t cols);
void WF_KERN(wf_ops_layernorm_backward)(struct wf_mat dx, struct wf_mat residual,
                                        struct wf_mat copy, float *dw, float *db,
                                        struct wf_mat dy, struct wf_mat x, const float *mean,
                                        const float *rstd, const float *w, size_t rows,
                                        size_t cols);
void WF_KERN(wf_ops_rmsnorm_forward)(struct wf_mat out, float *rstd, struct wf_mat x,
                                     const float *w, float eps, size_t rows, size_t cols);
void WF_KERN(wf_ops_rmsnorm_backward)(struct wf_mat dx, struct wf_mat residual,
                                      struct wf_mat copy, float *dw, struct wf_mat dy,
                                      struct wf_mat x, const float *rstd, const float *w,
                                      size_t rows, size_t cols);

void WF_KERN(wf_ops_gelu_forward)(struct wf_mat out, struct wf_mat pre, size_t rows,
                                  size_t cols);
void WF_KERN(wf_ops_gelu_backward)(struct wf_mat dpre, struct wf_mat dy, struct wf_mat pre,
                                   size_t rows, size_t cols);
void WF_KERN(wf_ops_swiglu_forward)(struct wf_mat out, struct wf_mat gate, struct wf_mat up,
                                    size_t rows, size_t cols);
void WF_KERN(wf_ops_swiglu_backward)(struct wf_mat dgate, struct wf_mat dup, struct wf_mat dy,
                                     struct wf_mat gate, struct wf_mat up, size_t rows,
                                     size_t cols);

void WF_KERN(wf_ops_cross_entropy)(double *losses, struct wf_mat dlogits, struct wf_mat logits,
                                   const int32_t *targets, float scale, size_t rows,
                                   size_t cols, size_t padded);

void WF_KERN(wf_ops_mix_forward)(struct wf_mat h, float *alpha, float *rstd,
                                 const struct wf_mat *v, size_t n, const float *q,
                                 const float *g, float eps, size_t rows, size_t cols);
void WF_KERN(wf_ops_mix_backward)(const struct wf_mat *dv, float *dq, float *dg,
                                  struct wf_mat dh, const float *alpha, const float *rstd,
                                  const struct wf_mat *v, size_t n, const float *q,
                                  const float *g, size_t rows, size_t cols);

void WF_KERN(wf_ops_convert)(struct wf_mat out, struct wf_mat x, size_t rows, size_t cols);
void WF_KERN(wf_ops_add)(struct wf_mat out, struct wf_mat a, struct wf_mat b, size_t rows,
                         size_t cols);
void WF_KERN(wf_ops_column_sums)(float *sums, struct wf_mat x, size_t rows, size_t cols);
size_t WF_KERN(wf_ops_find_nonfinite)(struct wf_mat x, size_t rows, size_t cols);

bool WF_KERN(wf_ops_sink_add)(struct wf_sink sink, const float *x, size_t n);
bool WF_KERN(wf_ops_exact_merge)(int64_t *a, const int64_t *b, size_t n);
void WF_KERN(wf_ops_exact_to_f32)(float *out, const int64_t *sums, size_t n);
double WF_KERN(wf_ops_sum_squares)(const int64_t *exact, const float *fast, size_t n);
void WF_KERN(wf_ops_adamw)(float *w, float *m, float *v, const int64_t *exact,
                           const float *fast, size_t n, const struct wf_adamw *how);

#endif
