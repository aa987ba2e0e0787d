/* Cross-entropy loss and its gradient, for one instruction set. */
#include <assert.h>
#include <math.h>

#include "base/math.h"
#include "compute/kern/fast/ops_priv.h"

/* Elements per fp32 sum of exponentials; the sums of these blocks are added in double. */
enum { SUM_BLOCK = 1024 };

/* Returns the maximum element, or NaN if an element is infinite.  Ignores NaN, whose
 * exponential makes the sum NaN anyway. */
static float row_max(const float *row, size_t cols)
{
    vec max[SUMS], min[SUMS];
    for (int k = 0; k < SUMS; k++)
        max[k] = min[k] = vec_set(row[0]);
    EACH_VEC_SUMMED(c, n, k, cols, {
        vec x = vec_first(f32_load(row, c, n), n, vec_set(row[0]));
        max[k] = vec_max(x, max[k]);
        min[k] = vec_min(x, min[k]);
    });
    float high = -INFINITY, low = INFINITY;
    for (int k = 0; k < SUMS; k++)
        for (int i = 0; i < VEC; i++) {
            high = max[k][i] > high ? max[k][i] : high;
            low = min[k][i] < low ? min[k][i] : low;
        }
    return isfinite(high) && isfinite(low) ? high : NAN;
}

VEC_INLINE vec exp_from(const float *row, float max, size_t c, size_t n)
{
    return vec_first(vec_exp(f32_load(row, c, n) - max), n, (vec){0});
}

static double sum_exp(const float *row, float max, size_t cols)
{
    double sum = 0;
    for (size_t at = 0; at < cols; at += SUM_BLOCK) {
        size_t len = cols - at < SUM_BLOCK ? cols - at : SUM_BLOCK;
        vec sums[SUMS] = {{0}};
        EACH_VEC_SUMMED(c, n, k, len, sums[k] += exp_from(row + at, max, c, n));
        sum += sum_groups(sums);
    }
    return sum;
}

static void fill_zero(struct wf_mat row, size_t col0, size_t col1)
{
    if (col0 < col1)
        memset(wf_mat_at(row, 0, col0).at, 0, (col1 - col0) * wf_dtype_size(row.type));
}

static void put(struct wf_mat row, size_t c, float value)
{
    row_store(row, c, 1, vec_set(value));
}

/* Computes one row and returns its loss. */
static double row_loss(struct wf_mat d, const float *row, size_t target, float scale,
                       size_t cols)
{
    float max = row_max(row, cols), at_target = row[target];
    double sum = sum_exp(row, max, cols);
    double loss = wf_math_log(sum) + ((double)max - at_target);
    if (d.at == NULL)
        return loss;
    float factor = (float)(scale / sum);
    EACH_VEC(c, n, cols, row_store(d, c, n, factor * vec_exp(f32_load(row, c, n) - max)));
    put(d, target,
        (float)(scale * wf_math_expm1(-loss))); /* p - 1, accurate also when p is near 1 */
    return loss;
}

void WF_KERN(wf_ops_cross_entropy)(double *losses, struct wf_mat dlogits, struct wf_mat logits,
                                   const int32_t *targets, float scale, size_t rows,
                                   size_t cols, size_t padded)
{
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat d = row_of(dlogits, r);
        assert(targets[r] < (int32_t)cols);
        bool counts = targets[r] >= 0;
        losses[r] =
            !counts ? 0
                    : row_loss(d, wf_mat_f32(logits, r, 0), (size_t)targets[r], scale, cols);
        if (d.at != NULL)
            fill_zero(d, counts ? cols : 0, padded > cols ? padded : cols);
    }
}
