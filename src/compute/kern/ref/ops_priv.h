/* What the parts of the reference share: elements as double, whatever their type. */
#ifndef COMPUTE_KERN_REF_OPS_PRIV_H
#define COMPUTE_KERN_REF_OPS_PRIV_H

#include "compute/kern/ops.h"

/* Element (r, c); zero when the matrix is absent. */
double weft_ref_get(struct weft_mat m, size_t r, size_t c);
/* Rounds to the matrix's type, to nearest, ties to even.  Nothing when it is absent. */
void weft_ref_put(struct weft_mat m, size_t r, size_t c, double value);

void weft_ref_embed(struct weft_mat x, const float *wte, const int32_t *ids, const float *wpe,
                    const int32_t *positions, size_t rows, size_t cols);
bool weft_ref_scatter(struct weft_sink sink, size_t table_cols, const int32_t *ids,
                      struct weft_mat dx, size_t rows, size_t col0, size_t col1);
void weft_ref_rope(struct weft_mat x, const float *cosines, const float *sines,
                   const int32_t *positions, bool back, size_t rows, size_t heads, size_t head);

void weft_ref_layernorm_forward(struct weft_mat out, float *mean, float *rstd,
                                struct weft_mat x, const float *w, const float *b, float eps,
                                size_t rows, size_t cols);
void weft_ref_layernorm_backward(struct weft_mat dx, struct weft_mat past, struct weft_mat keep,
                                 float *dw, float *db, struct weft_mat dy, struct weft_mat x,
                                 const float *mean, const float *rstd, const float *w,
                                 size_t rows, size_t cols);
void weft_ref_rmsnorm_forward(struct weft_mat out, float *rstd, struct weft_mat x,
                              const float *w, float eps, size_t rows, size_t cols);
void weft_ref_rmsnorm_backward(struct weft_mat dx, struct weft_mat past, struct weft_mat keep,
                               float *dw, struct weft_mat dy, struct weft_mat x,
                               const float *rstd, const float *w, size_t rows, size_t cols);

void weft_ref_gelu_forward(struct weft_mat out, struct weft_mat pre, size_t rows, size_t cols);
void weft_ref_gelu_backward(struct weft_mat dpre, struct weft_mat dy, struct weft_mat pre,
                            size_t rows, size_t cols);
void weft_ref_swiglu_forward(struct weft_mat out, struct weft_mat gate, struct weft_mat up,
                             size_t rows, size_t cols);
void weft_ref_swiglu_backward(struct weft_mat dgate, struct weft_mat dup, struct weft_mat dy,
                              struct weft_mat gate, struct weft_mat up, size_t rows,
                              size_t cols);

void weft_ref_cross_entropy(double *losses, struct weft_mat dlogits, struct weft_mat logits,
                            const int32_t *targets, float scale, size_t rows, size_t cols,
                            size_t padded);

void weft_ref_mix_forward(struct weft_mat h, float *alpha, float *rstd,
                          const struct weft_mat *v, size_t n, const float *q, const float *g,
                          float eps, size_t rows, size_t cols);
void weft_ref_mix_backward(const struct weft_mat *dv, float *dq, float *dg, struct weft_mat dh,
                           const float *alpha, const float *rstd, const struct weft_mat *v,
                           size_t n, const float *q, const float *g, size_t rows, size_t cols);

void weft_ref_convert(struct weft_mat out, struct weft_mat x, size_t rows, size_t cols);
void weft_ref_add(struct weft_mat out, struct weft_mat a, struct weft_mat b, size_t rows,
                  size_t cols);
void weft_ref_column_sums(float *sums, struct weft_mat x, size_t rows, size_t cols);
size_t weft_ref_find_bad(struct weft_mat x, size_t rows, size_t cols);

bool weft_ref_sink_add(struct weft_sink sink, const float *x, size_t n);
bool weft_ref_exact_merge(int64_t *a, const int64_t *b, size_t n);
void weft_ref_exact_value(float *out, const int64_t *sums, size_t n);
double weft_ref_sum_squares(const int64_t *exact, const float *fast, size_t n);
void weft_ref_adamw(float *w, float *m, float *v, const int64_t *exact, const float *fast,
                    size_t n, const struct weft_adamw *how);

#endif
