/* Reference GELU and SwiGLU, in double. */
#include <math.h>

#include "compute/kern/ref/ops_priv.h"

static const double gelu_slope = 0.79788456080286535588; /* sqrt(2 / pi) */
static const double gelu_cubic = 0.044715;

/* Returns the argument of GELU's tanh. */
static double gelu_inner(double x)
{
    return gelu_slope * (x + gelu_cubic * x * x * x);
}

void wf_ref_gelu_forward(struct wf_mat out, struct wf_mat pre, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double x = wf_ref_get(pre, r, c);
            wf_ref_put(out, r, c, 0.5 * x * (1 + tanh(gelu_inner(x))));
        }
}

void wf_ref_gelu_backward(struct wf_mat dpre, struct wf_mat dy, struct wf_mat pre, size_t rows,
                          size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double x = wf_ref_get(pre, r, c), t = tanh(gelu_inner(x));
            double slope = gelu_slope * (1 + 3 * gelu_cubic * x * x);
            double d = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
            wf_ref_put(dpre, r, c, wf_ref_get(dy, r, c) * d);
        }
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

void wf_ref_swiglu_forward(struct wf_mat out, struct wf_mat gate, struct wf_mat up, size_t rows,
                           size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double x = wf_ref_get(gate, r, c);
            wf_ref_put(out, r, c, x * sigmoid(x) * wf_ref_get(up, r, c));
        }
}

void wf_ref_swiglu_backward(struct wf_mat dgate, struct wf_mat dup, struct wf_mat dy,
                            struct wf_mat gate, struct wf_mat up, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double x = wf_ref_get(gate, r, c), u = wf_ref_get(up, r, c);
            double d = wf_ref_get(dy, r, c), s = sigmoid(x);
            wf_ref_put(dgate, r, c, d * u * s * (1 + x * (1 - s)));
            wf_ref_put(dup, r, c, d * x * s);
        }
}
