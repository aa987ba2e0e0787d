/* Everything a transformer computes that is neither a matrix product (compute/kern/gemm.h) nor attention
 * (compute/kern/attention.h).
 *
 *     const struct wf_ops *ops = wf_ops();        the best that this machine can run
 *     ops->gelu_forward(out, pre, rows, cols);
 *
 * wf_ops_ref is the same in plain C with sums in double: slow, obvious, and what the fast ones
 * are tested against.  Every function runs in its caller's thread on the rows it is given;
 * callers cut rows (or columns, where it says so) into pieces of a fixed size.  Matrices may be
 * fp32 or bf16 unless their comment says "f32"; inside everything is fp32.  Outputs may be the
 * same matrix as an input only where it says so.  Any number of rows and columns is right. */
#ifndef COMPUTE_KERN_OPS_H
#define COMPUTE_KERN_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/tensor/tensor.h"

enum {
    WF_EXACT_BITS = 50,     /* exact sums count in units of 2^-50 */
    WF_NORM_SEGMENT = 4096, /* elements whose squares are summed in one go */
    WF_MAX_MIX = 256,       /* vectors that one block-residual mix can have */
};

/* Where a parameter's gradient goes.  Exactly one of the two pointers is set.  A contribution is
 * rounded once to a multiple of 2^-50 and added as an integer; |contribution| and |sum| must
 * stay below 2^12, and what does not (NaN and infinity included) is reported by a `true`. */
struct wf_sink {
    int64_t *exact;
    float *fast; /* plain fp32 sums, in the order of the calls; their range is all of fp32 */
    bool fresh;  /* write, do not add: what was there before is garbage */
    /* The only contribution, into `fast`, fresh but in scatter: rounded and checked like those of
     * exact sums.  What that gives has no more digits than fp32, so it is the exact sum in half the
     * bytes. */
    bool only;
};

/* The same from element `at` on. */
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
    float decay;              /* weight decay; 0 for tensors that have none */
    float correct1, correct2; /* 1 - beta1^t, 1 - beta2^t, t counting from 1 */
    float scale;              /* every gradient is multiplied by this first: clipping */
};

struct wf_ops {
    /* x[r] = wte[ids[r]] + wpe[positions[r]]; wpe NULL: without.  x: f32; tables have rows of
     * `cols` floats. */
    void (*embed)(struct wf_mat x, const float *wte, const int32_t *ids, const float *wpe,
                  const int32_t *positions, size_t rows, size_t cols);

    /* Row ids[r] of the sink's table (rows of `table_cols`) += dx[r] for r = 0, 1, ...; only the
     * columns [col0, col1), so that pieces of columns can run side by side.  dx: f32.  Each row
     * is a contribution of its own.  The sink must not be fresh.  `only`: all rows of the step
     * are here, and what is there already is the one other contribution; their exact sum is
     * rounded to fp32 (for few rows: each looks for its like among all). */
    bool (*scatter)(struct wf_sink sink, size_t table_cols, const int32_t *ids,
                    struct wf_mat dx, size_t rows, size_t col0, size_t col1);

    /* out = (x - mean) * rstd * w + b, and the row's mean and 1 / sqrt(variance + eps).  x: f32. */
    void (*layernorm_forward)(struct wf_mat out, float *mean, float *rstd, struct wf_mat x,
                              const float *w, const float *b, float eps, size_t rows,
                              size_t cols);
    /* dx = past + the gradient of x; past.at may be NULL (nothing is added), and dx may be past.
     * If keep.at is set, `past` as it came in is also stored there; keep may be x.  dw and db
     * (cols floats each) get the sums over these rows, and are written, not added to.
     * dx, past, x: f32. */
    void (*layernorm_backward)(struct wf_mat dx, struct wf_mat past, struct wf_mat keep,
                               float *dw, float *db, struct wf_mat dy, struct wf_mat x,
                               const float *mean, const float *rstd, const float *w,
                               size_t rows, size_t cols);

    /* out = x * rstd * w, rstd = 1 / sqrt(mean of squares + eps). */
    void (*rmsnorm_forward)(struct wf_mat out, float *rstd, struct wf_mat x, const float *w,
                            float eps, size_t rows, size_t cols);
    void (*rmsnorm_backward)(struct wf_mat dx, struct wf_mat past, struct wf_mat keep,
                             float *dw, struct wf_mat dy, struct wf_mat x, const float *rstd,
                             const float *w, size_t rows, size_t cols);

    /* Turns each head of each row in place: the pair (i, i + head/2) by the angle whose cosine
     * and sine are cosines[positions[r] * head/2 + i], sines[...].  `back` turns the other way,
     * which is also the gradient. */
    void (*rope)(struct wf_mat x, const float *cosines, const float *sines,
                 const int32_t *positions, bool back, size_t rows, size_t heads, size_t head);

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
     * (softmax(logits[r]) - one at the target).  A target of -1: loss 0 and a row of zeros.
     * dlogits.at NULL: losses only; dlogits may be logits.  Columns cols .. padded of dlogits
     * are set to zero.  logits: f32. */
    void (*cross_entropy)(double *losses, struct wf_mat dlogits, struct wf_mat logits,
                          const int32_t *targets, float scale, size_t rows, size_t cols,
                          size_t padded);

    /* Block attention residuals, for each row:
     *     s_j = q . (v_j * rstd_j * g),  rstd_j = 1 / sqrt(mean of squares of v_j + eps)
     *     alpha = softmax(s),  h = sum_j alpha_j v_j
     * alpha and rstd: (rows, n) floats, kept for the backward.  v: n matrices, f32, n <=
     * WF_MAX_MIX.  h: f32. */
    void (*mix_forward)(struct wf_mat h, float *alpha, float *rstd, const struct wf_mat *v,
                        size_t n, const float *q, const float *g, float eps, size_t rows,
                        size_t cols);
    /* dv[j] (f32) = the gradient of v_j from these rows, written, not added.  dq and dg (cols
     * floats) get the sums over these rows, written.  dh: f32. */
    void (*mix_backward)(const struct wf_mat *dv, float *dq, float *dg, struct wf_mat dh,
                         const float *alpha, const float *rstd, const struct wf_mat *v,
                         size_t n, const float *q, const float *g, size_t rows, size_t cols);

    /* out = x with out's type. */
    void (*convert)(struct wf_mat out, struct wf_mat x, size_t rows, size_t cols);
    /* out = a + b; out may be a or b.  f32. */
    void (*add)(struct wf_mat out, struct wf_mat a, struct wf_mat b, size_t rows, size_t cols);
    /* sums[c] = sum over rows of x[r][c], written.  */
    void (*column_sums)(float *sums, struct wf_mat x, size_t rows, size_t cols);

    /* sink[i] (+)= x[i].  True when some sum left the range. */
    bool (*sink_add)(struct wf_sink sink, const float *x, size_t n);
    /* a[i] += b[i] for exact sums. */
    bool (*exact_merge)(int64_t *a, const int64_t *b, size_t n);
    /* out[i] = the sum as fp32, rounded once. */
    void (*exact_to_f32)(float *out, const int64_t *sums, size_t n);
    /* Sum of squares of the gradient as fp32, in double; n <= WF_NORM_SEGMENT.  Exactly one of
     * the two is not NULL. */
    double (*sum_squares)(const int64_t *exact, const float *fast, size_t n);
    /* One step of AdamW.  Exactly one of exact, fast is not NULL.  g = gradient * scale;
     * m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
     * w = w (1 - lr decay) - lr (m / correct1) / (sqrt(v / correct2) + eps). */
    void (*adamw)(float *w, float *m, float *v, const int64_t *exact, const float *fast,
                  size_t n, const struct wf_adamw *how);

    /* The index (row * cols + col) of the first element that is NaN or infinite; SIZE_MAX when
     * there is none. */
    size_t (*find_nonfinite)(struct wf_mat x, size_t rows, size_t cols);
};

const struct wf_ops *wf_ops(void);
extern const struct wf_ops wf_ops_ref;

/* For tests and benchmarks: the table compiled for one set of instructions, NULL when the machine
 * or the build lacks it.  AVX512_BF16 has AVX512's. */
#include "compute/kern/isa.h"
const struct wf_ops *wf_ops_of(enum wf_isa isa);

#endif
