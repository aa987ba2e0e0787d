/* LayerNorm and RMSNorm, for one instruction set.  Each row is read two or three times and
 * stays in the first-level cache.  The formulas are in compute/kern/ref/ops_norm.c. */
#include <math.h>

#include "compute/kern/fast/ops_priv.h"

VEC_INLINE float row_sum(struct wf_mat x, size_t cols)
{
    vec sums[SUMS] = {{0}};
    EACH_VEC_SUMMED(c, n, k, cols, sums[k] += row_load(x, c, n));
    return sum_groups(sums);
}

VEC_INLINE vec add_square(vec sum, struct wf_mat x, float mean_x, size_t c, size_t n)
{
    vec deviation = vec_first(row_load(x, c, n) - mean_x, n, (vec){0});
    return vec_fma(deviation, deviation, sum);
}

VEC_INLINE float row_squares(struct wf_mat x, float mean_x, size_t cols)
{
    vec sums[SUMS] = {{0}};
    EACH_VEC_SUMMED(c, n, k, cols, sums[k] = add_square(sums[k], x, mean_x, c, n));
    return sum_groups(sums);
}

VEC_INLINE void scale_one(struct wf_mat out, struct wf_mat x, float mean_x, float scale,
                          const float *w, const float *b, size_t c, size_t n)
{
    vec z = (row_load(x, c, n) - mean_x) * scale, factor = f32_load(w, c, n);
    row_store(out, c, n, b != NULL ? vec_fma(z, factor, f32_load(b, c, n)) : z * factor);
}

void WF_KERN(wf_ops_layernorm_forward)(struct wf_mat out, float *mean, float *rstd,
                                       struct wf_mat x, const float *w, const float *b,
                                       float eps, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat to = row_of(out, r), from = row_of(x, r);
        float mean_x = row_sum(from, cols) / (float)cols;
        float scale = 1 / sqrtf(row_squares(from, mean_x, cols) / (float)cols + eps);
        EACH_VEC(c, n, cols, scale_one(to, from, mean_x, scale, w, b, c, n));
        mean[r] = mean_x;
        rstd[r] = scale;
    }
}

void WF_KERN(wf_ops_rmsnorm_forward)(struct wf_mat out, float *rstd, struct wf_mat x,
                                     const float *w, float eps, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat to = row_of(out, r), from = row_of(x, r);
        float scale = 1 / sqrtf(row_squares(from, 0, cols) / (float)cols + eps);
        EACH_VEC(c, n, cols, scale_one(to, from, 0, scale, w, NULL, c, n));
        rstd[r] = scale;
    }
}

/* One row of a backward.  db and e_mean are used by LayerNorm only. */
struct back_row {
    struct wf_mat dx, residual, copy, dy, x;
    const float *w;
    float *dw, *db;
    float mean_x, scale;   /* the row's mean and rstd */
    float e_mean, ez_mean; /* means of e = dy * w and of e * z, where z = (x - mean) * rstd */
};

/* Adds to the row's two sums and to the gradients of the parameters. */
VEC_INLINE void back_sums(const struct back_row *b, vec *e_sum, vec *ez_sum, size_t c, size_t n)
{
    vec dy = row_load(b->dy, c, n);
    vec z = (row_load(b->x, c, n) - b->mean_x) * b->scale;
    vec e = dy * f32_load(b->w, c, n);
    *ez_sum = vec_fma(e, z, *ez_sum);
    f32_store(b->dw, c, n, vec_fma(dy, z, f32_load(b->dw, c, n)));
    if (b->db != NULL) {
        *e_sum += e;
        f32_store(b->db, c, n, f32_load(b->db, c, n) + dy);
    }
}

VEC_INLINE void back_one(const struct back_row *b, size_t c, size_t n)
{
    vec e = row_load(b->dy, c, n) * f32_load(b->w, c, n) - b->e_mean;
    vec z = (row_load(b->x, c, n) - b->mean_x) * b->scale;
    vec d = vec_fnma(z, vec_set(b->ez_mean), e);
    vec before = {0};
    if (b->residual.at != NULL)
        before = row_load(b->residual, c, n);
    if (b->copy.at != NULL)
        row_store(b->copy, c, n, before);
    row_store(b->dx, c, n, before + b->scale * d);
}

VEC_INLINE void back_row(struct back_row *b, size_t cols)
{
    vec e_sums[SUMS] = {{0}}, ez_sums[SUMS] = {{0}};
    EACH_VEC_SUMMED(c, n, k, cols, back_sums(b, &e_sums[k], &ez_sums[k], c, n));
    b->e_mean = sum_groups(e_sums) / (float)cols;
    b->ez_mean = sum_groups(ez_sums) / (float)cols;
    EACH_VEC(c, n, cols, back_one(b, c, n));
}

void WF_KERN(wf_ops_layernorm_backward)(struct wf_mat dx, struct wf_mat residual,
                                        struct wf_mat copy, float *dw, float *db,
                                        struct wf_mat dy, struct wf_mat x, const float *mean,
                                        const float *rstd, const float *w, size_t rows,
                                        size_t cols)
{
    if (cols > 0) {
        memset(dw, 0, cols * sizeof *dw);
        memset(db, 0, cols * sizeof *db);
    }
    for (size_t r = 0; r < rows; r++) {
        struct back_row b = {row_of(dx, r),
                             row_of(residual, r),
                             row_of(copy, r),
                             row_of(dy, r),
                             row_of(x, r),
                             w,
                             dw,
                             db,
                             mean[r],
                             rstd[r],
                             0,
                             0};
        back_row(&b, cols);
    }
}

void WF_KERN(wf_ops_rmsnorm_backward)(struct wf_mat dx, struct wf_mat residual,
                                      struct wf_mat copy, float *dw, struct wf_mat dy,
                                      struct wf_mat x, const float *rstd, const float *w,
                                      size_t rows, size_t cols)
{
    if (cols > 0)
        memset(dw, 0, cols * sizeof *dw);
    for (size_t r = 0; r < rows; r++) {
        struct back_row b = {row_of(dx, r),
                             row_of(residual, r),
                             row_of(copy, r),
                             row_of(dy, r),
                             row_of(x, r),
                             w,
                             dw,
                             NULL,
                             0,
                             rstd[r],
                             0,
                             0};
        back_row(&b, cols);
    }
}
