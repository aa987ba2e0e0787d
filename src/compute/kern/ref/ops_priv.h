/* The reference functions of compute/kern/ops.h, and access to elements of either type as
 * double. */
#ifndef COMPUTE_KERN_REF_OPS_PRIV_H
#define COMPUTE_KERN_REF_OPS_PRIV_H

#include "compute/kern/ops.h"

/* Returns element (r, c), or zero if the matrix is absent. */
double wf_ref_get(struct wf_mat m, size_t r, size_t c);
/* Stores a value rounded to the matrix's type, to nearest, ties to even.  Does nothing if the
 * matrix is absent. */
void wf_ref_put(struct wf_mat m, size_t r, size_t c, double value);

void wf_ref_embed(struct wf_mat x, const float *wte, const int32_t *ids, const float *wpe,
                  const int32_t *positions, size_t rows, size_t cols);
bool wf_ref_scatter(struct wf_sink sink, size_t table_cols, const int32_t *ids,
                    struct wf_mat dx, size_t rows, size_t col0, size_t col1);
void wf_ref_rope(struct wf_mat x, const float *cosines, const float *sines,
                 const int32_t *positions, bool inverse, size_t rows, size_t heads,
                 size_t head);

void wf_ref_layernorm_forward(struct wf_mat out, float *mean, float *rstd, struct wf_mat x,
                              const float *w, const float *b, float eps, size_t rows,
                              size_t cols);
void wf_ref_layernorm_backward(struct wf_mat dx, struct wf_mat residual, struct wf_mat copy,
                               float *dw, float *db, struct wf_mat dy, struct wf_mat x,
                               const float *mean, const float *rstd, const float *w,
                               size_t rows, size_t cols);
void wf_ref_rmsnorm_forward(struct wf_mat out, float *rstd, struct wf_mat x, const float *w,
                            float eps, size_t rows, size_t cols);
void wf_ref_rmsnorm_backward(struct wf_mat dx, struct wf_mat residual, struct wf_mat copy,
                             float *dw, struct wf_mat dy, struct wf_mat x, const float *rstd,
                             const float *w, size_t rows, size_t cols);

void wf_ref_gelu_forward(struct wf_mat out, struct wf_mat pre, size_t rows, size_t cols);
void wf_ref_gelu_backward(struct wf_mat dpre, struct wf_mat dy, struct wf_mat pre, size_t rows,
                          size_t cols);
void wf_ref_swiglu_forward(struct wf_mat out, struct wf_mat gate, struct wf_mat up, size_t rows,
                           size_t cols);
void wf_ref_swiglu_backward(struct wf_mat dgate, struct wf_mat dup, struct wf_mat dy,
                            struct wf_mat gate, struct wf_mat up, size_t rows, size_t cols);

void wf_ref_cross_entropy(double *losses, struct wf_mat dlogits, struct wf_mat logits,
                          const int32_t *targets, float scale, size_t rows, size_t cols,
                          size_t padded);

void wf_ref_mix_forward(struct wf_mat h, float *alpha, float *rstd, const struct wf_mat *v,
                        size_t n, const float *q, const float *g, float eps, size_t rows,
                        size_t cols);
void wf_ref_mix_backward(const struct wf_mat *dv, float *dq, float *dg, struct wf_mat dh,
                         const float *alpha, const float *rstd, const struct wf_mat *v,
                         size_t n, const float *q, const float *g, size_t rows, size_t cols);

void wf_ref_convert(struct wf_mat out, struct wf_mat x, size_t rows, size_t cols);
void wf_ref_add(struct wf_mat out, struct wf_mat a, struct wf_mat b, size_t rows, size_t cols);
void wf_ref_column_sums(float *sums, struct wf_mat x, size_t rows, size_t cols);
size_t wf_ref_find_nonfinite(struct wf_mat x, size_t rows, size_t cols);

bool wf_ref_sink_add(struct wf_sink sink, const float *x, size_t n);
bool wf_ref_exact_merge(int64_t *a, const int64_t *b, size_t n);
void wf_ref_exact_to_f32(float *out, const int64_t *sums, size_t n);
double wf_ref_sum_squares(const int64_t *exact, const float *fast, size_t n);
void wf_ref_adamw(float *w, float *m, float *v, const int64_t *exact, const float *fast,
                  size_t n, const struct wf_adamw *how);

#endif
