#include "kern/gemm.h"

#include <string.h>

static float value(struct weft_mat m, size_t r, size_t c)
{
    if (m.type == WEFT_F32)
        return *weft_mat_f32(m, r, c);
    uint32_t bits = (uint32_t)*weft_mat_bf16(m, r, c) << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* To nearest, ties to even. */
static weft_bf16 narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (weft_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void weft_product_ref(size_t rows, size_t n, size_t k, struct weft_mat a, struct weft_mat b,
                      const float *bias, struct weft_mat add, struct weft_mat c)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t i = 0; i < k; i++)
                sum += (double)value(a, r, i) * value(b, i, j);
            if (bias != NULL)
                sum += bias[j];
            if (add.at != NULL)
                sum += *weft_mat_f32(add, r, j);
            if (c.type == WEFT_F32)
                *weft_mat_f32(c, r, j) = (float)sum;
            else
                *weft_mat_bf16(c, r, j) = narrow((float)sum);
        }
}

void weft_outer_ref(float *c, struct weft_mat a, size_t m, struct weft_mat b, size_t n,
                    size_t k)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t t = 0; t < k; t++)
                sum += (double)value(a, t, i) * value(b, t, j);
            c[i * n + j] = (float)sum;
        }
}
