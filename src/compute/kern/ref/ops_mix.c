/* Reference block attention residuals, in double.  With p = q * g and d_j = p . v_j, the score
 * is s_j = rstd_j d_j. */
#include <assert.h>
#include <math.h>

#include "compute/kern/ref/ops_priv.h"

static void softmax(double *s, size_t n)
{
    double max = -INFINITY, sum = 0;
    for (size_t j = 0; j < n; j++)
        max = fmax(max, s[j]);
    for (size_t j = 0; j < n; j++)
        sum += s[j] = exp(s[j] - max);
    for (size_t j = 0; j < n; j++)
        s[j] /= sum;
}

void wf_ref_mix_forward(struct wf_mat h, float *alpha, float *rstd, const struct wf_mat *v,
                        size_t n, const float *q, const float *g, float eps, size_t rows,
                        size_t cols)
{
    assert(n <= WF_MAX_MIX);
    double s[WF_MAX_MIX];
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < n; j++) {
            double squares = 0, dot = 0;
            for (size_t c = 0; c < cols; c++) {
                double x = wf_ref_get(v[j], r, c);
                squares += x * x;
                dot += x * q[c] * g[c];
            }
            double scale = 1 / sqrt(squares / (double)cols + eps);
            s[j] = scale * dot;
            rstd[r * n + j] = (float)scale;
        }

        softmax(s, n);
        for (size_t j = 0; j < n; j++)
            alpha[r * n + j] = (float)s[j];
        for (size_t c = 0; c < cols; c++) {
            double sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += s[j] * wf_ref_get(v[j], r, c);
            wf_ref_put(h, r, c, sum);
        }
    }
}

/* Computes dots[j] = p . v_j and ds[j] = the gradient of s_j, for one row. */
static void score_gradients(double *dots, double *ds, struct wf_mat dh, const float *alpha,
                            const struct wf_mat *v, size_t n, const float *q, const float *g,
                            size_t r, size_t cols)
{
    double mean = 0;
    for (size_t j = 0; j < n; j++) {
        dots[j] = ds[j] = 0;
        for (size_t c = 0; c < cols; c++) {
            double x = wf_ref_get(v[j], r, c);
            dots[j] += x * q[c] * g[c];
            ds[j] += x * wf_ref_get(dh, r, c); /* temporarily the gradient of alpha_j */
        }
        mean += alpha[r * n + j] * ds[j];
    }
    for (size_t j = 0; j < n; j++)
        ds[j] = alpha[r * n + j] * (ds[j] - mean);
}

/* Computes dq = g * t and dg = q * t, where t is the sum of ds_j rstd_j v_j over rows and j.
 * Processes some columns at a time, to keep the sums in double on the stack. */
static void parameter_gradients(float *dq, float *dg, struct wf_mat dh, const float *alpha,
                                const float *rstd, const struct wf_mat *v, size_t n,
                                const float *q, const float *g, size_t rows, size_t cols)
{
    enum { COLS = 512 };
    double dots[WF_MAX_MIX], ds[WF_MAX_MIX];
    for (size_t c0 = 0; c0 < cols; c0 += COLS) {
        double t[COLS] = {0};
        size_t c1 = cols - c0 < COLS ? cols : c0 + COLS;
        for (size_t r = 0; r < rows; r++) {
            score_gradients(dots, ds, dh, alpha, v, n, q, g, r, cols);
            for (size_t j = 0; j < n; j++)
                for (size_t c = c0; c < c1; c++)
                    t[c - c0] += ds[j] * rstd[r * n + j] * wf_ref_get(v[j], r, c);
        }
        for (size_t c = c0; c < c1; c++) {
            dq[c] = (float)(g[c] * t[c - c0]);
            dg[c] = (float)(q[c] * t[c - c0]);
        }
    }
}

void wf_ref_mix_backward(const struct wf_mat *dv, float *dq, float *dg, struct wf_mat dh,
                         const float *alpha, const float *rstd, const struct wf_mat *v,
                         size_t n, const float *q, const float *g, size_t rows, size_t cols)
{
    assert(n <= WF_MAX_MIX);
    double dots[WF_MAX_MIX], ds[WF_MAX_MIX];
    for (size_t r = 0; r < rows; r++) {
        score_gradients(dots, ds, dh, alpha, v, n, q, g, r, cols);
        for (size_t j = 0; j < n; j++) {
            double scale = rstd[r * n + j];
            double v_factor = scale * scale * scale * dots[j] / (double)cols;
            for (size_t c = 0; c < cols; c++) {
                double x = wf_ref_get(v[j], r, c);
                double d = alpha[r * n + j] * wf_ref_get(dh, r, c) +
                           ds[j] * (scale * q[c] * g[c] - v_factor * x);
                wf_ref_put(dv[j], r, c, d);
            }
        }
    }
    parameter_gradients(dq, dg, dh, alpha, rstd, v, n, q, g, rows, cols);
}
