/* Embedding, rotary positions and element-wise functions of matrices, for one instruction
 * set. */
#include <math.h>

#include "compute/kern/fast/ops_priv.h"

VEC_INLINE void embed_one(float *x, const float *token, const float *position, size_t c,
                          size_t n)
{
    vec sum = f32_load(token, c, n);
    if (position != NULL)
        sum += f32_load(position, c, n);
    f32_store(x, c, n, sum);
}

void WF_KERN(wf_ops_embed)(struct wf_mat x, const float *wte, const int32_t *ids,
                           const float *wpe, const int32_t *positions, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        float *to = wf_mat_f32(x, r, 0);
        const float *token = wte + (size_t)ids[r] * cols;
        const float *position = wpe == NULL ? NULL : wpe + (size_t)positions[r] * cols;
        EACH_VEC(c, n, cols, embed_one(to, token, position, c, n));
    }
}

/* Rotates columns i .. i + n of the two halves of one head. */
VEC_INLINE void rotate_one(struct wf_mat x, size_t half, const float *cosines,
                           const float *sines, bool inverse, size_t i, size_t n)
{
    vec cosine = f32_load(cosines, i, n), sine = f32_load(sines, i, n);
    if (inverse)
        sine = -sine;
    vec a = row_load(x, i, n), b = row_load(x, half + i, n);
    row_store(x, i, n, vec_fms(a, cosine, b * sine));
    row_store(x, half + i, n, vec_fma(b, cosine, a * sine));
}

void WF_KERN(wf_ops_rope)(struct wf_mat x, const float *cosines, const float *sines,
                          const int32_t *positions, bool inverse, size_t rows, size_t heads,
                          size_t head)
{
    size_t half = head / 2;
    for (size_t r = 0; r < rows; r++) {
        const float *cosine = cosines + (size_t)positions[r] * half;
        const float *sine = sines + (size_t)positions[r] * half;
        for (size_t h = 0; h < heads; h++) {
            struct wf_mat at = wf_mat_at(x, r, h * head);
            EACH_VEC(i, n, half, rotate_one(at, half, cosine, sine, inverse, i, n));
        }
    }
}

void WF_KERN(wf_ops_convert)(struct wf_mat out, struct wf_mat x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat to = row_of(out, r), from = row_of(x, r);
        EACH_VEC(c, n, cols, row_store(to, c, n, row_load(from, c, n)));
    }
}

void WF_KERN(wf_ops_add)(struct wf_mat out, struct wf_mat a, struct wf_mat b, size_t rows,
                         size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        float *to = wf_mat_f32(out, r, 0);
        const float *x = wf_mat_f32(a, r, 0), *y = wf_mat_f32(b, r, 0);
        EACH_VEC(c, n, cols, f32_store(to, c, n, f32_load(x, c, n) + f32_load(y, c, n)));
    }
}

/* Adds four rows at a time, which divides the number of loads and stores of the sums by
 * four. */
VEC_INLINE void sum_four(float *sums, const struct wf_mat *x, size_t c, size_t n)
{
    vec low = row_load(x[0], c, n) + row_load(x[1], c, n);
    vec high = row_load(x[2], c, n) + row_load(x[3], c, n);
    f32_store(sums, c, n, f32_load(sums, c, n) + (low + high));
}

void WF_KERN(wf_ops_column_sums)(float *sums, struct wf_mat x, size_t rows, size_t cols)
{
    if (cols > 0)
        memset(sums, 0, cols * sizeof *sums);
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const struct wf_mat at[4] = {row_of(x, r), row_of(x, r + 1), row_of(x, r + 2),
                                     row_of(x, r + 3)};
        EACH_VEC(c, n, cols, sum_four(sums, at, c, n));
    }
    for (; r < rows; r++) {
        struct wf_mat at = row_of(x, r);
        EACH_VEC(c, n, cols, f32_store(sums, c, n, f32_load(sums, c, n) + row_load(at, c, n)));
    }
}

static float element(struct wf_mat x, size_t c)
{
    return row_load(x, c, 1)[0];
}

/* Returns the column of the first non-finite element of a row.  The row must have such an
 * element. */
static size_t find_nonfinite_column(struct wf_mat x)
{
    size_t c = 0;
    while (isfinite(element(x, c)))
        c++;
    return c;
}

size_t WF_KERN(wf_ops_find_nonfinite)(struct wf_mat x, size_t rows, size_t cols)
{
    const int32_t largest = 0x7f7fffff; /* bits of the largest finite number */
    for (size_t r = 0; r < rows; r++) {
        struct wf_mat at = row_of(x, r);
        vec_i32 bad = {0};
        EACH_VEC(c, n, cols, bad |= (vec_i32)vec_abs(row_load(at, c, n)) > largest);
        if (vec_any(bad))
            return r * cols + find_nonfinite_column(at);
    }
    return SIZE_MAX;
}
