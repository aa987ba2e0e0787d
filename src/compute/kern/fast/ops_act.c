/* GELU and SwiGLU, for one instruction set.
 *
 * Both are x times a sigmoid, since (1 + tanh u) / 2 = sigmoid(2 u), and a sigmoid is one
 * exponential and one division.  Nothing cancels: neither at small |x|, where tanh would be the
 * difference of two numbers near 1, nor at large negative x, where 1 + tanh would cancel. */
#include "compute/kern/fast/ops_priv.h"

static const float gelu_slope2 = 1.5957691216057308f; /* 2 sqrt(2 / pi) */
static const float gelu_cubic = 0.044715f;

VEC_INLINE vec sigmoid(vec x)
{
    return 1.0f / (1.0f + vec_exp(-x));
}

/* sigmoid(x) and sigmoid(-x), each accurate when it is small. */
struct sigmoids {
    vec positive, negative;
};

VEC_INLINE struct sigmoids sigmoid_both(vec x)
{
    vec small = vec_exp(-vec_abs(x)); /* never overflows */
    vec large = 1.0f / (1.0f + small);
    small *= large;
    vec_i32 up = x > 0;
    return (struct sigmoids){vec_select(up, large, small), vec_select(up, small, large)};
}

/* Returns twice the argument of tanh. */
VEC_INLINE vec gelu_inner2(vec x, vec square)
{
    const vec cubic = vec_set(gelu_slope2 * gelu_cubic);
    return x * vec_fma(square, cubic, vec_set(gelu_slope2));
}

VEC_INLINE vec gelu(vec x)
{
    return x * sigmoid(gelu_inner2(x, x * x));
}

VEC_INLINE vec gelu_derivative(vec x)
{
    vec square = x * x;
    struct sigmoids s = sigmoid_both(gelu_inner2(x, square));
    const vec cubic = vec_set(3 * gelu_slope2 * gelu_cubic);
    vec slope = vec_fma(square, cubic, vec_set(gelu_slope2));
    return vec_fma(x * slope, s.positive * s.negative, s.positive);
}

void WF_KERN(wf_ops_gelu_forward)(struct wf_mat out, struct wf_mat pre, size_t rows,
                                  size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat to = row_of(out, r), from = row_of(pre, r);
        EACH_VEC(c, n, cols, row_store(to, c, n, gelu(row_load(from, c, n))));
    }
}

VEC_INLINE void gelu_back_one(struct wf_mat dpre, struct wf_mat dy, struct wf_mat pre, size_t c,
                              size_t n)
{
    vec d = gelu_derivative(row_load(pre, c, n));
    row_store(dpre, c, n, d * row_load(dy, c, n));
}

void WF_KERN(wf_ops_gelu_backward)(struct wf_mat dpre, struct wf_mat dy, struct wf_mat pre,
                                   size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat to = row_of(dpre, r), d = row_of(dy, r), from = row_of(pre, r);
        EACH_VEC(c, n, cols, gelu_back_one(to, d, from, c, n));
    }
}

VEC_INLINE void swiglu_one(struct wf_mat out, struct wf_mat gate, struct wf_mat up, size_t c,
                           size_t n)
{
    vec x = row_load(gate, c, n);
    row_store(out, c, n, x * sigmoid(x) * row_load(up, c, n));
}

void WF_KERN(wf_ops_swiglu_forward)(struct wf_mat out, struct wf_mat gate, struct wf_mat up,
                                    size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat to = row_of(out, r), g = row_of(gate, r), u = row_of(up, r);
        EACH_VEC(c, n, cols, swiglu_one(to, g, u, c, n));
    }
}

VEC_INLINE void swiglu_back_one(struct wf_mat dgate, struct wf_mat dup, struct wf_mat dy,
                                struct wf_mat gate, struct wf_mat up, size_t c, size_t n)
{
    vec x = row_load(gate, c, n), u = row_load(up, c, n), d = row_load(dy, c, n);
    struct sigmoids s = sigmoid_both(x);
    vec scaled = d * s.positive;
    row_store(dgate, c, n, scaled * u * vec_fma(x, s.negative, vec_set(1.0f)));
    row_store(dup, c, n, scaled * x);
}

void WF_KERN(wf_ops_swiglu_backward)(struct wf_mat dgate, struct wf_mat dup, struct wf_mat dy,
                                     struct wf_mat gate, struct wf_mat up, size_t rows,
                                     size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat dg = row_of(dgate, r), du = row_of(dup, r), d = row_of(dy, r);
        struct wf_mat g = row_of(gate, r), u = row_of(up, r);
        EACH_VEC(c, n, cols, swiglu_back_one(dg, du, d, g, u, c, n));
    }
}
