/* Reference matrix products, in double. */
#include "compute/kern/gemm.h"

#include "compute/kern/ref/ops_priv.h"

void wf_gemm_ref(size_t rows, size_t n, size_t k, struct wf_mat a, struct wf_mat b,
                 const float *bias, struct wf_mat add, struct wf_mat c)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t i = 0; i < k; i++)
                sum += wf_ref_get(a, r, i) * wf_ref_get(b, i, j);
            if (bias != NULL)
                sum += bias[j];
            if (add.at != NULL)
                sum += *wf_mat_f32(add, r, j);
            wf_ref_put(c, r, j, sum);
        }
}

void wf_wgrad_ref(float *c, struct wf_mat a, size_t m, struct wf_mat b, size_t n, size_t k)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t t = 0; t < k; t++)
                sum += wf_ref_get(a, t, i) * wf_ref_get(b, t, j);
            c[i * n + j] = (float)sum;
        }
}
