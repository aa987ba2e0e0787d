/* The activations of the two kinds of MLP. */
#include <math.h>

#include "compute/kern/ref/ops_priv.h"

static const double gelu_slope = 0.79788456080286535588; /* sqrt(2 / pi) */
static const double gelu_cubic = 0.044715;

/* tanh of this is how far GELU has opened. */
static double gelu_inner(double x)
{
    return gelu_slope * (x + gelu_cubic * x * x * x);
}

void weft_ref_gelu_forward(struct weft_mat out, struct weft_mat pre, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double x = weft_ref_get(pre, r, c);
            weft_ref_put(out, r, c, 0.5 * x * (1 + tanh(gelu_inner(x))));
        }
}

void weft_ref_gelu_backward(struct weft_mat dpre, struct weft_mat dy, struct weft_mat pre,
                            size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double x = weft_ref_get(pre, r, c), t = tanh(gelu_inner(x));
            double slope = gelu_slope * (1 + 3 * gelu_cubic * x * x);
            double d = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
            weft_ref_put(dpre, r, c, weft_ref_get(dy, r, c) * d);
        }
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

void weft_ref_swiglu_forward(struct weft_mat out, struct weft_mat gate, struct weft_mat up,
                             size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double x = weft_ref_get(gate, r, c);
            weft_ref_put(out, r, c, x * sigmoid(x) * weft_ref_get(up, r, c));
        }
}

void weft_ref_swiglu_backward(struct weft_mat dgate, struct weft_mat dup, struct weft_mat dy,
                              struct weft_mat gate, struct weft_mat up, size_t rows,
                              size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double x = weft_ref_get(gate, r, c), u = weft_ref_get(up, r, c);
            double d = weft_ref_get(dy, r, c), s = sigmoid(x);
            weft_ref_put(dgate, r, c, d * u * s * (1 + x * (1 - s)));
            weft_ref_put(dup, r, c, d * x * s);
        }
}
