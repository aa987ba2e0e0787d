/* The functions of compute/kern/ops.h for one set of instructions.
 *
 * How far they may be from the reference, as the tests have it.  A result is off by at most the
 * bound times (its own size + that of the largest one of the matrix, or of what cancelled in it);
 * stored as bf16, it may also be the neighbour of the right number.
 *
 *     embed, add, convert, scatter, sink_add       nothing: the same bits
 *     exact_merge, exact_value, sum_squares        nothing, and the same for all instructions
 *     AdamW                                        3e-7
 *     rope, activations, column_sums, dlogits      1e-6, as is the loss relative to itself
 *     norms, forward and backward                  2e-6
 *     mixing, forward and backward                 4e-6
 */
#ifndef COMPUTE_KERN_FAST_OPS_PRIV_H
#define COMPUTE_KERN_FAST_OPS_PRIV_H

#include "compute/kern/fast/rows.h"
#include "compute/kern/ops.h"

void WEFT_KERN(weft_ops_embed)(struct weft_mat x, const float *wte, const int32_t *ids,
                               const float *wpe, const int32_t *positions, size_t rows,
                               size_t cols);
bool WEFT_KERN(weft_ops_scatter)(struct weft_sink sink, size_t table_cols, const int32_t *ids,
                                 struct weft_mat dx, size_t rows, size_t col0, size_t col1);
void WEFT_KERN(weft_ops_rope)(struct weft_mat x, const float *cosines, const float *sines,
                              const int32_t *positions, bool back, size_t rows, size_t heads,
                              size_t head);

void WEFT_KERN(weft_ops_layernorm_forward)(struct weft_mat out, float *mean, float *rstd,
                                           struct weft_mat x, const float *w, const float *b,
                                           float eps, size_t rows, size_t cols);
void WEFT_KERN(weft_ops_layernorm_backward)(struct weft_mat dx, struct weft_mat past,
                                            struct weft_mat keep, float *dw, float *db,
                                            struct weft_mat dy, struct weft_mat x,
                                            const float *mean, const float *rstd,
                                            const float *w, size_t rows, size_t cols);
void WEFT_KERN(weft_ops_rmsnorm_forward)(struct weft_mat out, float *rstd, struct weft_mat x,
                                         const float *w, float eps, size_t rows, size_t cols);
void WEFT_KERN(weft_ops_rmsnorm_backward)(struct weft_mat dx, struct weft_mat past,
                                          struct weft_mat keep, float *dw, struct weft_mat dy,
                                          struct weft_mat x, const float *rstd, const float *w,
                                          size_t rows, size_t cols);

void WEFT_KERN(weft_ops_gelu_forward)(struct weft_mat out, struct weft_mat pre, size_t rows,
                                      size_t cols);
void WEFT_KERN(weft_ops_gelu_backward)(struct weft_mat dpre, struct weft_mat dy,
                                       struct weft_mat pre, size_t rows, size_t cols);
void WEFT_KERN(weft_ops_swiglu_forward)(struct weft_mat out, struct weft_mat gate,
                                        struct weft_mat up, size_t rows, size_t cols);
void WEFT_KERN(weft_ops_swiglu_backward)(struct weft_mat dgate, struct weft_mat dup,
                                         struct weft_mat dy, struct weft_mat gate,
                                         struct weft_mat up, size_t rows, size_t cols);

void WEFT_KERN(weft_ops_cross_entropy)(double *losses, struct weft_mat dlogits,
                                       struct weft_mat logits, const int32_t *targets,
                                       float scale, size_t rows, size_t cols, size_t padded);

void WEFT_KERN(weft_ops_mix_forward)(struct weft_mat h, float *alpha, float *rstd,
                                     const struct weft_mat *v, size_t n, const float *q,
                                     const float *g, float eps, size_t rows, size_t cols);
void WEFT_KERN(weft_ops_mix_backward)(const struct weft_mat *dv, float *dq, float *dg,
                                      struct weft_mat dh, const float *alpha, const float *rstd,
                                      const struct weft_mat *v, size_t n, const float *q,
                                      const float *g, size_t rows, size_t cols);

void WEFT_KERN(weft_ops_convert)(struct weft_mat out, struct weft_mat x, size_t rows,
                                 size_t cols);
void WEFT_KERN(weft_ops_add)(struct weft_mat out, struct weft_mat a, struct weft_mat b,
                             size_t rows, size_t cols);
void WEFT_KERN(weft_ops_column_sums)(float *sums, struct weft_mat x, size_t rows, size_t cols);
size_t WEFT_KERN(weft_ops_find_bad)(struct weft_mat x, size_t rows, size_t cols);

bool WEFT_KERN(weft_ops_sink_add)(struct weft_sink sink, const float *x, size_t n);
bool WEFT_KERN(weft_ops_exact_merge)(int64_t *a, const int64_t *b, size_t n);
void WEFT_KERN(weft_ops_exact_value)(float *out, const int64_t *sums, size_t n);
double WEFT_KERN(weft_ops_sum_squares)(const int64_t *exact, const float *fast, size_t n);
void WEFT_KERN(weft_ops_adamw)(float *w, float *m, float *v, const int64_t *exact,
                               const float *fast, size_t n, const struct weft_adamw *how);

#endif
