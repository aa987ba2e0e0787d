/* Reference cross-entropy loss, in double. */
#include <math.h>

#include "compute/kern/ref/ops_priv.h"

/* Returns log(sum exp row), or NaN if the row has a NaN or an infinity. */
static double log_sum_exp(struct wf_mat logits, size_t r, size_t cols)
{
    double max = -INFINITY, sum = 0;
    for (size_t c = 0; c < cols; c++) {
        double x = wf_ref_get(logits, r, c);
        if (!isfinite(x))
            return NAN;
        max = x > max ? x : max;
    }
    for (size_t c = 0; c < cols; c++)
        sum += exp(wf_ref_get(logits, r, c) - max);
    return max + log(sum);
}

void wf_ref_cross_entropy(double *losses, struct wf_mat dlogits, struct wf_mat logits,
                          const int32_t *targets, float scale, size_t rows, size_t cols,
                          size_t padded)
{
    for (size_t r = 0; r < rows; r++) {
        bool counts = targets[r] >= 0;
        double all = log_sum_exp(logits, r, cols);
        losses[r] = counts ? all - wf_ref_get(logits, r, (size_t)targets[r]) : 0;
        for (size_t c = 0; c < cols; c++) {
            double one = (size_t)targets[r] == c;
            double d = scale * (exp(wf_ref_get(logits, r, c) - all) - one);
            wf_ref_put(dlogits, r, c, counts ? d : 0);
        }
        for (size_t c = cols; c < padded; c++)
            wf_ref_put(dlogits, r, c, 0);
    }
}
