#include "compute/kern/gemm.h"

#include "compute/kern/ref/ops_priv.h"

void weft_product_ref(size_t rows, size_t n, size_t k, struct weft_mat a, struct weft_mat b,
                      const float *bias, struct weft_mat add, struct weft_mat c)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t i = 0; i < k; i++)
                sum += weft_ref_get(a, r, i) * weft_ref_get(b, i, j);
            if (bias != NULL)
                sum += bias[j];
            if (add.at != NULL)
                sum += *weft_mat_f32(add, r, j);
            weft_ref_put(c, r, j, sum);
        }
}

void weft_outer_ref(float *c, struct weft_mat a, size_t m, struct weft_mat b, size_t n,
                    size_t k)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t t = 0; t < k; t++)
                sum += weft_ref_get(a, t, i) * weft_ref_get(b, t, j);
            c[i * n + j] = (float)sum;
        }
}
