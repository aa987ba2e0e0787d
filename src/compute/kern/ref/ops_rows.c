/* Access to elements of matrices, and the reference of element-wise functions. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "compute/kern/ref/ops_priv.h"

static float from_bf16(wf_bf16 half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static wf_bf16 to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (wf_bf16)(bits >> 16 | 0x40); /* stays NaN without the low half */
    uint32_t low = bits & 0xffff, high = bits >> 16;
    bool up = low > 0x8000 || (low == 0x8000 && high % 2 == 1);
    return (wf_bf16)(high + up);
}

double wf_ref_get(struct wf_mat m, size_t r, size_t c)
{
    if (m.at == NULL)
        return 0;
    return m.type == WF_DTYPE_F32 ? *wf_mat_f32(m, r, c) : from_bf16(*wf_mat_bf16(m, r, c));
}

void wf_ref_put(struct wf_mat m, size_t r, size_t c, double value)
{
    if (m.at == NULL)
        return;
    if (m.type == WF_DTYPE_F32)
        *wf_mat_f32(m, r, c) = (float)value;
    else
        *wf_mat_bf16(m, r, c) = to_bf16((float)value);
}

void wf_ref_embed(struct wf_mat x, const float *wte, const int32_t *ids, const float *wpe,
                  const int32_t *positions, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double sum = wte[(size_t)ids[r] * cols + c];
            if (wpe != NULL)
                sum += wpe[(size_t)positions[r] * cols + c];
            wf_ref_put(x, r, c, sum);
        }
}

bool wf_ref_scatter(struct wf_sink sink, size_t table_cols, const int32_t *ids,
                    struct wf_mat dx, size_t rows, size_t col0, size_t col1)
{
    assert(!sink.fresh);
    bool bad = false;
    for (size_t c = col0; sink.single && c < col1; c++)
        for (size_t r = 0; r < rows; r++) {
            float *table = &sink.fast[(size_t)ids[r] * table_cols + c];
            int64_t sum = 0;
            size_t before = 0;
            while (ids[before] != ids[r])
                before++;
            if (before < r) /* the first row with the same id has already added this row */
                continue;
            bad |= wf_ref_sink_add((struct wf_sink){.exact = &sum}, table, 1);
            for (size_t i = r; i < rows; i++)
                if (ids[i] == ids[r])
                    bad |= wf_ref_sink_add((struct wf_sink){.exact = &sum},
                                           wf_mat_f32(dx, i, c), 1);
            wf_ref_exact_to_f32(table, &sum, 1);
        }

    for (size_t r = 0; r < rows && !sink.single; r++) {
        size_t at = (size_t)ids[r] * table_cols + col0;
        struct wf_sink row = {.exact = sink.exact != NULL ? sink.exact + at : NULL,
                              .fast = sink.fast != NULL ? sink.fast + at : NULL};
        bad |= wf_ref_sink_add(row, wf_mat_f32(dx, r, col0), col1 - col0);
    }
    return bad;
}

void wf_ref_rope(struct wf_mat x, const float *cosines, const float *sines,
                 const int32_t *positions, bool inverse, size_t rows, size_t heads, size_t head)
{
    size_t half = head / 2;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < heads * half; i++) {
            size_t angle = (size_t)positions[r] * half + i % half;
            size_t c = i / half * head + i % half;
            double cosine = cosines[angle], sine = inverse ? -sines[angle] : sines[angle];
            double a = wf_ref_get(x, r, c), b = wf_ref_get(x, r, c + half);
            wf_ref_put(x, r, c, a * cosine - b * sine);
            wf_ref_put(x, r, c + half, b * cosine + a * sine);
        }
}

void wf_ref_convert(struct wf_mat out, struct wf_mat x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            wf_ref_put(out, r, c, wf_ref_get(x, r, c));
}

void wf_ref_add(struct wf_mat out, struct wf_mat a, struct wf_mat b, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            wf_ref_put(out, r, c, wf_ref_get(a, r, c) + wf_ref_get(b, r, c));
}

void wf_ref_column_sums(float *sums, struct wf_mat x, size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++)
            sum += wf_ref_get(x, r, c);
        sums[c] = (float)sum;
    }
}

size_t wf_ref_find_nonfinite(struct wf_mat x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            if (!isfinite(wf_ref_get(x, r, c)))
                return r * cols + c;
    return SIZE_MAX;
}
