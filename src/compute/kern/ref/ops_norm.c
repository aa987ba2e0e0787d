/* Reference LayerNorm and RMSNorm, in double.  With z = (x - mean) * rstd (mean 0 for RMSNorm)
 * and e = dy * w, both backwards are
 *
 *     dx = rstd * (e - [mean of e, LayerNorm only] - z * mean of e z)
 */
#include <math.h>

#include "compute/kern/ref/ops_priv.h"

void wf_ref_layernorm_forward(struct wf_mat out, float *mean, float *rstd, struct wf_mat x,
                              const float *w, const float *b, float eps, size_t rows,
                              size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        double sum = 0, squares = 0;
        for (size_t c = 0; c < cols; c++)
            sum += wf_ref_get(x, r, c);
        double mean_x = sum / (double)cols;
        for (size_t c = 0; c < cols; c++)
            squares += pow(wf_ref_get(x, r, c) - mean_x, 2);
        double scale = 1 / sqrt(squares / (double)cols + eps);
        for (size_t c = 0; c < cols; c++)
            wf_ref_put(out, r, c, (wf_ref_get(x, r, c) - mean_x) * scale * w[c] + b[c]);
        mean[r] = (float)mean_x;
        rstd[r] = (float)scale;
    }
}

void wf_ref_rmsnorm_forward(struct wf_mat out, float *rstd, struct wf_mat x, const float *w,
                            float eps, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        double squares = 0;
        for (size_t c = 0; c < cols; c++)
            squares += pow(wf_ref_get(x, r, c), 2);
        double scale = 1 / sqrt(squares / (double)cols + eps);
        for (size_t c = 0; c < cols; c++)
            wf_ref_put(out, r, c, wf_ref_get(x, r, c) * scale * w[c]);
        rstd[r] = (float)scale;
    }
}

static double row_mean(const float *mean, size_t r)
{
    return mean != NULL ? mean[r] : 0;
}

/* Computes dw[c] and db[c], before `copy` overwrites x. */
static void parameters_backward(float *dw, float *db, struct wf_mat dy, struct wf_mat x,
                                const float *mean, const float *rstd, size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c++) {
        double dw_sum = 0, db_sum = 0;
        for (size_t r = 0; r < rows; r++) {
            double d = wf_ref_get(dy, r, c);
            dw_sum += d * (wf_ref_get(x, r, c) - row_mean(mean, r)) * rstd[r];
            db_sum += d;
        }
        dw[c] = (float)dw_sum;
        if (db != NULL)
            db[c] = (float)db_sum;
    }
}

/* Implements both backwards.  `mean` and `db` are NULL for RMSNorm. */
static void norm_backward(struct wf_mat dx, struct wf_mat residual, struct wf_mat copy,
                          float *dw, float *db, struct wf_mat dy, struct wf_mat x,
                          const float *mean, const float *rstd, const float *w, size_t rows,
                          size_t cols)
{
    parameters_backward(dw, db, dy, x, mean, rstd, rows, cols);
    for (size_t r = 0; r < rows; r++) {
        double e_sum = 0, ez_sum = 0;
        for (size_t c = 0; c < cols; c++) {
            double e = wf_ref_get(dy, r, c) * w[c];
            e_sum += mean != NULL ? e : 0;
            ez_sum += e * (wf_ref_get(x, r, c) - row_mean(mean, r)) * rstd[r];
        }
        for (size_t c = 0; c < cols; c++) {
            double e = wf_ref_get(dy, r, c) * w[c];
            double z = (wf_ref_get(x, r, c) - row_mean(mean, r)) * rstd[r];
            double before = wf_ref_get(residual, r, c);
            double d = rstd[r] * (e - e_sum / (double)cols - z * ez_sum / (double)cols);
            wf_ref_put(copy, r, c, before);
            wf_ref_put(dx, r, c, before + d);
        }
    }
}

void wf_ref_layernorm_backward(struct wf_mat dx, struct wf_mat residual, struct wf_mat copy,
                               float *dw, float *db, struct wf_mat dy, struct wf_mat x,
                               const float *mean, const float *rstd, const float *w,
                               size_t rows, size_t cols)
{
    norm_backward(dx, residual, copy, dw, db, dy, x, mean, rstd, w, rows, cols);
}

void wf_ref_rmsnorm_backward(struct wf_mat dx, struct wf_mat residual, struct wf_mat copy,
                             float *dw, struct wf_mat dy, struct wf_mat x, const float *rstd,
                             const float *w, size_t rows, size_t cols)
{
    norm_backward(dx, residual, copy, dw, NULL, dy, x, NULL, rstd, w, rows, cols);
}
