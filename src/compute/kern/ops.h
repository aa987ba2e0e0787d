/* Everything a transformer computes that is neither a matrix product (compute/kern/gemm.h) nor
 * attention (compute/kern/attention.h).
 *
 *     const struct wf_ops *ops = wf_ops();        the fastest table that this machine supports
 *     ops->gelu_forward(out, pre, rows, cols);
 *
 * wf_ops_ref is the reference: plain C with sums in double, slow and obvious.  Tests compare
 * the fast tables with it.  Every function runs in the calling thread on the rows it is given;
 * callers divide rows (or columns, where documented) into pieces of a fixed size.  Matrices may
 * be fp32 or bf16 unless a comment states "f32"; arithmetic is fp32.  An output may alias an
 * input only where documented.  All numbers of rows and columns are valid. */
#ifndef COMPUTE_KERN_OPS_H
#define COMPUTE_KERN_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/kern/isa.h"
#include "compute/tensor/tensor.h"

enum {
    WF_EXACT_BITS = 50,     /* the unit of exact sums is 2^-50 */
    WF_NORM_SEGMENT = 4096, /* maximum number of elements per sum_squares() */
    WF_MAX_MIX = 256,       /* maximum number of vectors in a block-residual mix */
};

/* The destination of a parameter's gradient.  Exactly one of the two pointers is set.  A
 * contribution is rounded once to a multiple of 2^-50 and added as an integer.  |contribution|
 * and |sum| must stay below 2^12; functions return true if a value is out of this range, NaN or
 * infinite. */
struct wf_sink {
    int64_t *exact;
    float *fast; /* plain fp32 sums in the order of the calls; the range is that of fp32 */
    /* Overwrite the previous content, which is undefined, instead of adding to it. */
    bool fresh;
    /* The gradient has a single contribution, which is stored in `fast`.  The sink is fresh
     * except in scatter.  The contribution is rounded and checked like a contribution to an
     * exact sum.  The rounded value is representable in fp32, so it equals the exact sum in
     * half the bytes. */
    bool single;
};

/* Returns the sink that starts at element `at`. */
static inline struct wf_sink wf_sink_at(struct wf_sink sink, size_t at)
{
    if (sink.exact != NULL)
        sink.exact += at;
    else
        sink.fast += at;
    return sink;
}

struct wf_adamw {
    float lr, beta1, beta2, eps;
    float decay; /* weight decay; 0 for tensors without weight decay */
    /* 1 - beta1^t and 1 - beta2^t, where t is the number of the step, from 1. */
    float correct1, correct2;
    /* Gradients are first multiplied by this factor (gradient clipping). */
    float scale;
};

struct wf_ops {
    /* x[r] = wte[ids[r]] + wpe[positions[r]]; without positions if wpe is NULL.  x: f32.  Both
     * tables have rows of `cols` floats. */
    void (*embed)(struct wf_mat x, const float *wte, const int32_t *ids, const float *wpe,
                  const int32_t *positions, size_t rows, size_t cols);

    /* Row ids[r] of the sink's table (rows of `table_cols`) += dx[r] for r = 0, 1, ..., in
     * columns [col0, col1) only, so that ranges of columns can run in parallel.  dx: f32.  Each
     * row is a separate contribution.  The sink must not be fresh.  If sink.single is set, dx
     * must contain all rows of the step, and the present content must be the only other
     * contribution.  The exact sum of both is rounded to fp32.  (Intended for few rows: the
     * time is quadratic in the number of rows.) */
    bool (*scatter)(struct wf_sink sink, size_t table_cols, const int32_t *ids,
                    struct wf_mat dx, size_t rows, size_t col0, size_t col1);

    /* out = (x - mean) * rstd * w + b, where rstd = 1 / sqrt(variance + eps).  Also stores the
     * mean and rstd of each row.  x: f32. */
    void (*layernorm_forward)(struct wf_mat out, float *mean, float *rstd, struct wf_mat x,
                              const float *w, const float *b, float eps, size_t rows,
                              size_t cols);
    /* dx = residual + the gradient of x.  residual.at may be NULL (nothing is added), and dx
     * may be residual.  If copy.at is set, the original residual is stored there; copy may be
     * x.  dw and db (cols floats each) are set to the sums over these rows.  dx, residual, x:
     * f32. */
    void (*layernorm_backward)(struct wf_mat dx, struct wf_mat residual, struct wf_mat copy,
                               float *dw, float *db, struct wf_mat dy, struct wf_mat x,
                               const float *mean, const float *rstd, const float *w,
                               size_t rows, size_t cols);

    /* out = x * rstd * w, rstd = 1 / sqrt(mean of squares + eps). */
    void (*rmsnorm_forward)(struct wf_mat out, float *rstd, struct wf_mat x, const float *w,
                            float eps, size_t rows, size_t cols);
    void (*rmsnorm_backward)(struct wf_mat dx, struct wf_mat residual, struct wf_mat copy,
                             float *dw, struct wf_mat dy, struct wf_mat x, const float *rstd,
                             const float *w, size_t rows, size_t cols);

    /* Rotates each head of each row in place: the pair (i, i + head/2) by the angle whose
     * cosine and sine are cosines[positions[r] * head/2 + i] and sines[...].  `inverse` rotates
     * in the other direction, which is also the gradient. */
    void (*rope)(struct wf_mat x, const float *cosines, const float *sines,
                 const int32_t *positions, bool inverse, size_t rows, size_t heads,
                 size_t head);

    /* GELU in its tanh form.  out may be pre; dpre may be pre or dy. */
    void (*gelu_forward)(struct wf_mat out, struct wf_mat pre, size_t rows, size_t cols);
    void (*gelu_backward)(struct wf_mat dpre, struct wf_mat dy, struct wf_mat pre, size_t rows,
                          size_t cols);

    /* out = gate * sigmoid(gate) * up.  dgate may be gate, dup may be up; neither may be dy. */
    void (*swiglu_forward)(struct wf_mat out, struct wf_mat gate, struct wf_mat up, size_t rows,
                           size_t cols);
    void (*swiglu_backward)(struct wf_mat dgate, struct wf_mat dup, struct wf_mat dy,
                            struct wf_mat gate, struct wf_mat up, size_t rows, size_t cols);

    /* losses[r] = log(sum exp logits[r]) - logits[r][targets[r]], and dlogits[r] = scale *
     * (softmax(logits[r]) - one at the target).  A target of -1 gives loss 0 and a row of
     * zeros.  If dlogits.at is NULL, only losses are computed.  dlogits may be logits.  Columns
     * cols .. padded of dlogits are set to zero.  logits: f32. */
    void (*cross_entropy)(double *losses, struct wf_mat dlogits, struct wf_mat logits,
                          const int32_t *targets, float scale, size_t rows, size_t cols,
                          size_t padded);

    /* Block attention residuals, for each row:
     *     s_j = q . (v_j * rstd_j * g),  rstd_j = 1 / sqrt(mean of squares of v_j + eps)
     *     alpha = softmax(s),  h = sum_j alpha_j v_j
     * alpha and rstd: (rows, n) floats, stored for the backward.  v: n matrices, f32, n <=
     * WF_MAX_MIX.  h: f32. */
    void (*mix_forward)(struct wf_mat h, float *alpha, float *rstd, const struct wf_mat *v,
                        size_t n, const float *q, const float *g, float eps, size_t rows,
                        size_t cols);
    /* Sets dv[j] (f32) to the gradient of v_j for these rows.  dq and dg (cols floats) are set
     * to the sums over these rows.  dh: f32. */
    void (*mix_backward)(const struct wf_mat *dv, float *dq, float *dg, struct wf_mat dh,
                         const float *alpha, const float *rstd, const struct wf_mat *v,
                         size_t n, const float *q, const float *g, size_t rows, size_t cols);

    /* out = x, converted to out's type. */
    void (*convert)(struct wf_mat out, struct wf_mat x, size_t rows, size_t cols);
    /* out = a + b; out may be a or b.  f32. */
    void (*add)(struct wf_mat out, struct wf_mat a, struct wf_mat b, size_t rows, size_t cols);
    /* sums[c] = sum over rows of x[r][c]. */
    void (*column_sums)(float *sums, struct wf_mat x, size_t rows, size_t cols);

    /* sink[i] (+)= x[i].  Returns true if a sum left the range. */
    bool (*sink_add)(struct wf_sink sink, const float *x, size_t n);
    /* a[i] += b[i] for exact sums.  Returns true if a sum left the range. */
    bool (*exact_merge)(int64_t *a, const int64_t *b, size_t n);
    /* out[i] = sums[i] as fp32, rounded once. */
    void (*exact_to_f32)(float *out, const int64_t *sums, size_t n);
    /* Returns the sum of squares of the gradient as fp32, summed in double; n <=
     * WF_NORM_SEGMENT.  Exactly one of exact and fast is not NULL. */
    double (*sum_squares)(const int64_t *exact, const float *fast, size_t n);
    /* One step of AdamW.  Exactly one of exact and fast is not NULL.
     *     g = gradient * scale;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
     *     w = w (1 - lr decay) - lr (m / correct1) / (sqrt(v / correct2) + eps).
     */
    void (*adamw)(float *w, float *m, float *v, const int64_t *exact, const float *fast,
                  size_t n, const struct wf_adamw *how);

    /* Returns the index (row * cols + col) of the first non-finite element; SIZE_MAX if there
     * is none. */
    size_t (*find_nonfinite)(struct wf_mat x, size_t rows, size_t cols);
};

/* Returns the table for the instruction set in use. */
const struct wf_ops *wf_ops(void);
extern const struct wf_ops wf_ops_ref;

/* Returns the table for one instruction set, for tests and benchmarks; NULL if the machine or
 * the build does not support it.  AVX512_BF16 uses the table of AVX512. */
const struct wf_ops *wf_ops_of(enum wf_isa isa);

#endif
