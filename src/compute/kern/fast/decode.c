/* The kernels of compute/kern/decode.h for one instruction set: dot products that stream
 * through weights, and the attention of one query. */
#include "compute/kern/decode_priv.h"

#include <math.h>

#include "compute/kern/fast/rows.h"

extern const struct wf_decode_ops WF_KERN(wf_decode_ops);

/* A dot product has four groups of WIDE partial sums, so that an addition does not wait for the
 * previous one.  Rows are processed one at a time, so that memory is read sequentially.
 * Several vectors share the loads of a row: as many as there are registers for their sums. */
#ifdef __AVX512F__
enum { VECTORS = 4 };
#else
enum { VECTORS = 2 };
#endif

VEC_INLINE vec weight_load(const void *row, enum wf_dtype type, size_t c)
{
    return type == WF_DTYPE_F32 ? vec_load((const float *)row + c)
                                : vec_load_bf16((const wf_bf16 *)row + c);
}

VEC_INLINE vec weight_load_part(const void *row, enum wf_dtype type, size_t c, size_t n)
{
    return type == WF_DTYPE_F32 ? vec_load_part((const float *)row + c, n)
                                : vec_load_part_bf16((const wf_bf16 *)row + c, n);
}

/* Adds the product of VEC columns from c on to partial sums, for n vectors. */
VEC_INLINE void dot_step(vec *sums, const void *row, enum wf_dtype type, const float *x,
                         size_t x_ld, size_t c, const int n)
{
    vec w = weight_load(row, type, c);
#pragma GCC unroll 4
    for (int t = 0; t < n; t++)
        sums[t] = vec_fma(w, vec_load(x + t * x_ld + c), sums[t]);
}

/* Like dot_step(), for the last k - c columns, which are fewer than VEC. */
VEC_INLINE void dot_rest(vec *sums, const void *row, enum wf_dtype type, const float *x,
                         size_t x_ld, size_t c, size_t k, const int n)
{
    vec w = weight_load_part(row, type, c, k - c);
#pragma GCC unroll 4
    for (int t = 0; t < n; t++)
        sums[t] = vec_fma(w, vec_load_part(x + t * x_ld + c, k - c), sums[t]);
}

/* Computes the partial sums `first` .. `end` of PARTS vectors, for n vectors. */
VEC_INLINE void dot_parts(vec parts[PARTS][VECTORS], const int first, const int end,
                          const void *row, enum wf_dtype type, const float *x, size_t x_ld,
                          size_t k, const int n)
{
    vec s[GROUPS][PARTS][VECTORS] = {{{{0}}}};
    size_t c = 0;
    for (; c + GROUPS * WIDE <= k; c += GROUPS * WIDE)
#pragma GCC unroll 4
        for (int g = 0; g < GROUPS; g++)
#pragma GCC unroll 4
            for (int i = first; i < end; i++)
                dot_step(s[g][i], row, type, x, x_ld, c + (size_t)(g * WIDE + i * VEC), n);
    for (; c + WIDE <= k; c += WIDE) {
#pragma GCC unroll 4
        for (int i = first; i < end; i++)
            dot_step(s[0][i], row, type, x, x_ld, c + (size_t)(i * VEC), n);
    }

#pragma GCC unroll 4
    for (int i = first; i < end; i++) {
        size_t at = c + (size_t)(i * VEC);
        if (at + VEC <= k)
            dot_step(s[1][i], row, type, x, x_ld, at, n);
        else if (at < k)
            dot_rest(s[1][i], row, type, x, x_ld, at, k, n);
#pragma GCC unroll 4
        for (int t = 0; t < n; t++)
            parts[i][t] = (s[0][i][t] + s[1][i][t]) + (s[2][i][t] + s[3][i][t]);
    }
}

/* Computes sums[t] = row . x[t] for n vectors.  n and type are compile-time constants.  There
 * are not enough registers for all partial sums of several vectors, so these read the row,
 * which is in the first-level cache, once for each part. */
VEC_INLINE void dot(float *sums, const void *row, enum wf_dtype type, const float *x,
                    size_t x_ld, size_t k, const int n)
{
    vec parts[PARTS][VECTORS];
    if (n == 1) {
        dot_parts(parts, 0, PARTS, row, type, x, x_ld, k, n);
    } else {
#pragma GCC unroll 4
        for (int i = 0; i < PARTS; i++)
            dot_parts(parts, i, i + 1, row, type, x, x_ld, k, n);
    }
#pragma GCC unroll 4
    for (int t = 0; t < n; t++) {
        vec all[PARTS];
#pragma GCC unroll 4
        for (int i = 0; i < PARTS; i++)
            all[i] = parts[i][t];
        sums[t] = wide_sum(all);
    }
}

VEC_INLINE void rows_of(const struct wf_gemv *g, enum wf_dtype type, size_t row0, size_t row1,
                        size_t t0, const int n)
{
    float sums[VECTORS];
    for (size_t r = row0; r < row1; r++) {
        const char *row = (const char *)g->w.at + r * g->w.ld * wf_dtype_size(type);
        dot(sums, row, type, g->x + t0 * g->x_ld, g->x_ld, g->k, n);
        for (int t = 0; t < n; t++) {
            float y = sums[t];
            size_t at = (t0 + (size_t)t) * g->y_ld + r;
            if (g->bias != NULL)
                y += g->bias[r];
            if (g->add != NULL)
                y += g->add[at];
            g->y[at] = y;
        }
    }
}

VEC_INLINE void gemv_type(const struct wf_gemv *g, enum wf_dtype type, size_t row0, size_t row1)
{
    size_t t = 0;
    for (; t + VECTORS <= g->n; t += VECTORS)
        rows_of(g, type, row0, row1, t, VECTORS);
    for (; t < g->n; t++)
        rows_of(g, type, row0, row1, t, 1);
}

static void gemv(const struct wf_gemv *g, size_t row0, size_t row1)
{
    if (g->w.type == WF_DTYPE_F32)
        gemv_type(g, WF_DTYPE_F32, row0, row1);
    else
        gemv_type(g, WF_DTYPE_BF16, row0, row1);
}

/* -- attention ----------------------------------------------------------------------------- */

static float scores_of(const struct wf_attend *a)
{
    float max = -INFINITY;
    for (size_t i = 0; i < a->n; i++) {
        dot(&a->scores[i], a->k + i * a->head, WF_DTYPE_F32, a->q, 0, a->head, 1);
        a->scores[i] *= a->scale;
        max = a->scores[i] > max ? a->scores[i] : max;
    }
    return max;
}

/* Replaces each score by exp(score - max) and returns the sum of the results. */
static float exponentials(float *scores, size_t n, float max)
{
    vec sums[PARTS] = {{0}};
    for (size_t at = 0; at < n; at += WIDE)
#pragma GCC unroll 4
        for (int i = 0; i < PARTS; i++) {
            size_t c = at + (size_t)i * VEC, some = c + VEC <= n ? VEC : n - c;
            if (c >= n)
                break;
            vec e = vec_exp(f32_load(scores, c, some) - max);
            f32_store(scores, c, some, e);
            sums[i] += vec_first(e, some, (vec){0});
        }
    return wide_sum(sums);
}

/* Computes the weighted sum of values for n whole vectors of columns, or for one vector of
 * `part` columns, starting at column c. */
VEC_INLINE void values_of(const struct wf_attend *a, float weight, size_t c, const int n,
                          size_t part)
{
    vec s[GROUPS];
    for (int j = 0; j < n; j++)
        s[j] = (vec){0};
    for (size_t i = 0; i < a->n; i++) {
        const float *v = a->v + i * a->head + c;
        vec p = vec_set(a->scores[i]);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++)
            s[j] =
                vec_fma(p, part == VEC ? vec_load(v + j * VEC) : vec_load_part(v, part), s[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < n; j++)
        f32_store(a->out, c + j * VEC, part, s[j] * weight);
}

static void attend(const struct wf_attend *a)
{
    float sum = exponentials(a->scores, a->n, scores_of(a));
    size_t c = 0;
    for (; c + GROUPS * VEC <= a->head; c += GROUPS * VEC)
        values_of(a, 1 / sum, c, GROUPS, VEC);
    for (; c + VEC <= a->head; c += VEC)
        values_of(a, 1 / sum, c, 1, VEC);
    if (c < a->head)
        values_of(a, 1 / sum, c, 1, a->head - c);
}

const struct wf_decode_ops WF_KERN(wf_decode_ops) = {gemv, attend};
