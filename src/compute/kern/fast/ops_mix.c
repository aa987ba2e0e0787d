/* Block attention residuals, for one instruction set.  With p = q * g and d_j = p . v_j, the
 * score is s_j = rstd_j d_j; the gradient of s_j is alpha_j (dh . v_j - sum_k alpha_k dh .
 * v_k). */
#include <assert.h>
#include <math.h>

#include "base/math.h"
#include "compute/kern/fast/ops_priv.h"

struct two_sums {
    float a, b;
};

/* Returns p . v and v . v. */
static struct two_sums score_sums(const float *v, const float *q, const float *g, size_t cols)
{
    vec dots[SUMS] = {{0}}, squares[SUMS] = {{0}};
    EACH_VEC_SUMMED(c, n, k, cols, {
        vec x = f32_load(v, c, n);
        dots[k] = vec_fma(x, f32_load(q, c, n) * f32_load(g, c, n), dots[k]);
        squares[k] = vec_fma(x, x, squares[k]);
    });
    return (struct two_sums){sum_groups(dots), sum_groups(squares)};
}

/* Returns p . v and dh . v. */
static struct two_sums gradient_sums(const float *v, const float *dh, const float *q,
                                     const float *g, size_t cols)
{
    vec dots[SUMS] = {{0}}, gradients[SUMS] = {{0}};
    EACH_VEC_SUMMED(c, n, k, cols, {
        vec x = f32_load(v, c, n);
        dots[k] = vec_fma(x, f32_load(q, c, n) * f32_load(g, c, n), dots[k]);
        gradients[k] = vec_fma(x, f32_load(dh, c, n), gradients[k]);
    });
    return (struct two_sums){sum_groups(dots), sum_groups(gradients)};
}

/* Replaces s by its softmax, computed in double, which costs little for so few numbers. */
static void softmax(float *s, size_t n)
{
    double max = -INFINITY, sum = 0, e[WF_MAX_MIX];
    for (size_t j = 0; j < n; j++)
        max = s[j] > max ? s[j] : max;
    for (size_t j = 0; j < n; j++)
        sum += e[j] = wf_math_exp(s[j] - max);
    for (size_t j = 0; j < n; j++)
        s[j] = (float)(e[j] / sum);
}

VEC_INLINE void mix_one(float *h, const float *const *v, const float *alpha, size_t n_mixed,
                        size_t c, size_t n)
{
    vec sum = {0};
    for (size_t j = 0; j < n_mixed; j++)
        sum = vec_fma(vec_set(alpha[j]), f32_load(v[j], c, n), sum);
    f32_store(h, c, n, sum);
}

/* Computes h = sum of alpha_j v_j, four vectors at a time, since each v is a separate
 * stream. */
static void mix_row(float *h, const float *const *v, const float *alpha, size_t n, size_t cols)
{
    size_t c = 0;
    for (; c + 4 * VEC <= cols; c += 4 * VEC) {
        vec a = {0}, b = {0}, d = {0}, e = {0};
        for (size_t j = 0; j < n; j++) {
            const float *x = v[j] + c;
            const vec weight = vec_set(alpha[j]);
            a = vec_fma(weight, vec_load(x), a);
            b = vec_fma(weight, vec_load(x + VEC), b);
            d = vec_fma(weight, vec_load(x + 2 * VEC), d);
            e = vec_fma(weight, vec_load(x + 3 * VEC), e);
        }
        vec_store(h + c, a);
        vec_store(h + c + VEC, b);
        vec_store(h + c + 2 * VEC, d);
        vec_store(h + c + 3 * VEC, e);
    }
    for (; c < cols; c += VEC)
        mix_one(h, v, alpha, n, c, cols - c < VEC ? cols - c : VEC);
}

void WF_KERN(wf_ops_mix_forward)(struct wf_mat h, float *alpha, float *rstd,
                                 const struct wf_mat *v, size_t n, const float *q,
                                 const float *g, float eps, size_t rows, size_t cols)
{
    assert(n <= WF_MAX_MIX);
    const float *at[WF_MAX_MIX];
    for (size_t r = 0; r < rows; r++, alpha += n, rstd += n) {
        for (size_t j = 0; j < n; j++) {
            at[j] = wf_mat_f32(v[j], r, 0);
            struct two_sums sums = score_sums(at[j], q, g, cols);
            rstd[j] = 1 / sqrtf(sums.b / (float)cols + eps);
            alpha[j] = rstd[j] * sums.a;
        }
        softmax(alpha, n);
        mix_row(wf_mat_f32(h, r, 0), at, alpha, n, cols);
    }
}

/* One of a row's vectors in the backward: dv = alpha dh + p_factor p - v_factor v, and p_factor
 * v is added to t. */
struct mix_term {
    const float *v;
    float *dv;
    float alpha, p_factor, v_factor;
};

static void score_gradients(struct mix_term *m, size_t n, const float *dh, const float *rstd,
                            const float *q, const float *g, size_t cols)
{
    double mean = 0;
    for (size_t j = 0; j < n; j++) {
        struct two_sums sums = gradient_sums(m[j].v, dh, q, g, cols);
        m[j].v_factor = sums.a; /* temporarily p . v */
        m[j].p_factor = sums.b; /* temporarily the gradient of alpha */
        mean += (double)m[j].alpha * sums.b;
    }
    for (size_t j = 0; j < n; j++) {
        float ds = (float)(m[j].alpha * (m[j].p_factor - mean));
        m[j].p_factor = ds * rstd[j];
        m[j].v_factor *= m[j].p_factor * rstd[j] * rstd[j] / (float)cols;
    }
}

VEC_INLINE void unmix_one(const struct mix_term *m, size_t n_mixed, float *t, const float *dh,
                          const float *q, const float *g, size_t c, size_t n)
{
    vec p = f32_load(q, c, n) * f32_load(g, c, n), d = f32_load(dh, c, n);
    vec sum = f32_load(t, c, n);
    for (size_t j = 0; j < n_mixed; j++) {
        vec x = f32_load(m[j].v, c, n);
        vec p_factor = vec_set(m[j].p_factor);
        vec through_score = vec_fms(p_factor, p, m[j].v_factor * x);
        f32_store(m[j].dv, c, n, vec_fma(vec_set(m[j].alpha), d, through_score));
        sum = vec_fma(p_factor, x, sum);
    }
    f32_store(t, c, n, sum);
}

/* t = sum of p_factor_j v_j over rows and j is stored in dq until the end: dq = g * t, dg = q *
 * t. */
VEC_INLINE void finish_one(float *dq, float *dg, const float *q, const float *g, size_t c,
                           size_t n)
{
    vec t = f32_load(dq, c, n);
    f32_store(dg, c, n, t * f32_load(q, c, n));
    f32_store(dq, c, n, t * f32_load(g, c, n));
}

void WF_KERN(wf_ops_mix_backward)(const struct wf_mat *dv, float *dq, float *dg,
                                  struct wf_mat dh, const float *alpha, const float *rstd,
                                  const struct wf_mat *v, size_t n, const float *q,
                                  const float *g, size_t rows, size_t cols)
{
    assert(n <= WF_MAX_MIX);
    struct mix_term m[WF_MAX_MIX];
    if (cols > 0)
        memset(dq, 0, cols * sizeof *dq);
    for (size_t r = 0; r < rows; r++) {
        const float *d = wf_mat_f32(dh, r, 0);
        for (size_t j = 0; j < n; j++) {
            m[j].v = wf_mat_f32(v[j], r, 0);
            m[j].dv = wf_mat_f32(dv[j], r, 0);
            m[j].alpha = alpha[r * n + j];
        }
        score_gradients(m, n, d, rstd + r * n, q, g, cols);
        EACH_VEC(c, k, cols, unmix_one(m, n, dq, d, q, g, c, k));
    }
    EACH_VEC(c, k, cols, finish_one(dq, dg, q, g, c, k));
}
