/* Kernels on pairs of bf16 (WEFT_PACK_BF16_PAIRS), for AVX-512.  The file
 * that includes it defines PAIR_DOT(acc, a, b): acc + a.even * b.even + a.odd * b.odd in each of
 * 16 lanes; on machines with the instruction for it that is what it is, and a test has a slow
 * one. */
#ifndef KERN_GEMM_PAIRS_H
#define KERN_GEMM_PAIRS_H

#include <immintrin.h>

#include "kern/fast/vec.h"
#include "kern/gemm_kernel.h"

enum { PAIR_NV = WEFT_PANEL / 16, PAIR_AHEAD = 4 };

static inline void pair_sum(__m512 acc[WEFT_STRIP][PAIR_NV], const uint32_t *strip,
                            const uint32_t *panel, size_t pairs)
{
    for (size_t i = 0; i < pairs; i++) {
        const uint32_t *b = panel + i * WEFT_PANEL, *x = strip + i * WEFT_STRIP;
        __m512i row[PAIR_NV];
        for (int j = 0; j < PAIR_NV; j++) {
            row[j] = _mm512_loadu_si512(b + j * 16);
            __builtin_prefetch(b + PAIR_AHEAD * WEFT_PANEL + j * 16, 0, 3);
        }
#pragma GCC unroll 8
        for (int r = 0; r < WEFT_STRIP; r++) {
            __m512i a = _mm512_set1_epi32((int)x[r]);
#pragma GCC unroll 4
            for (int j = 0; j < PAIR_NV; j++)
                acc[r][j] = PAIR_DOT(acc[r][j], a, row[j]);
        }
    }
}

/* Adds 64 floats to the sink.  A whole row of fresh exact sums goes past the caches. */
static inline bool pair_row(const struct weft_ops *ops, struct weft_sink sink,
                            const __m512 *acc, size_t cols)
{
    if (sink.exact == NULL || cols != WEFT_PANEL || (uintptr_t)sink.exact % 64 != 0) {
        float part[WEFT_PANEL];
        memcpy(part, acc, sizeof part);
        return ops->sink_add(sink, part, cols);
    }
    __m512i bad = _mm512_setzero_si512();
    const __m256 unit = _mm256_set1_ps(0x1p50f);
#pragma GCC unroll 8
    for (int h = 0; h < 2 * PAIR_NV; h++) {
        __m256 half = h % 2 == 0 ? _mm512_castps512_ps256(acc[h / 2])
                                 : _mm512_extractf32x8_ps(acc[h / 2], 1);
        __m512i sum = _mm512_cvtps_epi64(_mm256_mul_ps(half, unit));
        __m512i *at = (__m512i *)(sink.exact + h * 8);
        bad = _mm512_or_si512(bad, _mm512_xor_si512(sum, _mm512_add_epi64(sum, sum)));
        if (sink.fresh) {
            _mm512_stream_si512(at, sum);
            continue;
        }
        sum = _mm512_add_epi64(sum, _mm512_load_si512(at));
        bad = _mm512_or_si512(bad, _mm512_xor_si512(sum, _mm512_add_epi64(sum, sum)));
        _mm512_store_si512(at, sum);
    }
    return _mm512_movepi64_mask(bad) != 0;
}

static bool pair_sink(const struct weft_ops *ops, struct weft_sink sink, size_t ld,
                      const void *strip, const void *panel, size_t k, size_t rows, size_t cols)
{
    __m512 acc[WEFT_STRIP][PAIR_NV];
    bool bad = false;
    for (int r = 0; r < WEFT_STRIP; r++)
        for (int j = 0; j < PAIR_NV; j++)
            acc[r][j] = _mm512_setzero_ps();
    if (!sink.fresh && sink.exact != NULL)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c += 8)
                __builtin_prefetch(sink.exact + r * ld + c, 1, 2);
    pair_sum(acc, strip, panel, (k + 1) / 2);
#pragma GCC unroll 8
    for (size_t r = 0; r < WEFT_STRIP; r++) {
        if (r >= rows)
            break;
        struct weft_sink at = sink;
        if (at.exact != NULL)
            at.exact += r * ld;
        else
            at.fast += r * ld;
        bad |= pair_row(ops, at, acc[r], cols);
    }
    return bad;
}

/* The pairs of 32 bits lie in a plain row of bf16 as they are needed. */
static inline __m512i pair_at(const weft_bf16 *row, size_t i)
{
    uint32_t two;
    memcpy(&two, row + 2 * i, sizeof two);
    return _mm512_set1_epi32((int)two);
}

static inline void pair_sum_rows(__m512 acc[WEFT_STRIP][PAIR_NV],
                                 const weft_bf16 *const ar[WEFT_STRIP], const uint32_t *panel,
                                 size_t k)
{
    const weft_bf16 *a0 = ar[0], *a1 = ar[1], *a2 = ar[2], *a3 = ar[3], *a4 = ar[4],
                    *a5 = ar[5];
    for (size_t i = 0; i < k / 2; i++) {
        const uint32_t *b = panel + i * WEFT_PANEL;
        __m512i row[PAIR_NV];
        const __m512i x[WEFT_STRIP] = {pair_at(a0, i), pair_at(a1, i), pair_at(a2, i),
                                       pair_at(a3, i), pair_at(a4, i), pair_at(a5, i)};
        for (int j = 0; j < PAIR_NV; j++) {
            row[j] = _mm512_loadu_si512(b + j * 16);
            __builtin_prefetch(b + PAIR_AHEAD * WEFT_PANEL + j * 16, 0, 3);
        }
#pragma GCC unroll 8
        for (int r = 0; r < WEFT_STRIP; r++)
#pragma GCC unroll 4
            for (int j = 0; j < PAIR_NV; j++)
                acc[r][j] = PAIR_DOT(acc[r][j], x[r], row[j]);
    }
    if (k % 2 != 0) /* the last one has no partner */
        for (int r = 0; r < WEFT_STRIP; r++)
            for (int j = 0; j < PAIR_NV; j++)
                acc[r][j] = PAIR_DOT(acc[r][j], _mm512_set1_epi32(ar[r][k - 1]),
                                     _mm512_loadu_si512(panel + k / 2 * WEFT_PANEL + j * 16));
}

static inline void pair_put(struct weft_mat c, size_t r, const __m512 *acc, const float *bias,
                            struct weft_mat add)
{
#pragma GCC unroll 4
    for (size_t j = 0; j < PAIR_NV; j++) {
        vec v = (vec)acc[j];
        if (bias != NULL)
            v += vec_load(bias + j * 16);
        if (add.at != NULL)
            v += vec_load(weft_mat_f32(add, r, j * 16));
        if (c.type == WEFT_F32)
            vec_store(weft_mat_f32(c, r, j * 16), v);
        else
            vec_store_bf16(weft_mat_bf16(c, r, j * 16), v);
    }
}

static void pair_put_part(struct weft_mat c, size_t r, const __m512 *acc, const float *bias,
                          struct weft_mat add, size_t cols)
{
    float sums[WEFT_PANEL];
    memcpy(sums, acc, sizeof sums);
    for (size_t j = 0; j < cols; j++) {
        float v = sums[j] + (bias != NULL ? bias[j] : 0.0f);
        if (add.at != NULL)
            v += *weft_mat_f32(add, r, j);
        if (c.type == WEFT_F32)
            *weft_mat_f32(c, r, j) = v;
        else
            *weft_mat_bf16(c, r, j) = vec_to_bf16(vec_set(v))[0];
    }
}

static void pair_tile_rows(struct weft_mat c, const void *a, size_t lda, const void *panel,
                           size_t k, const float *bias, struct weft_mat add, size_t rows,
                           size_t cols)
{
    const weft_bf16 *ar[WEFT_STRIP];
    __m512 acc[WEFT_STRIP][PAIR_NV];
#pragma GCC unroll 8
    for (size_t r = 0; r < WEFT_STRIP; r++) {
        ar[r] = (const weft_bf16 *)a + (r < rows ? r : rows - 1) * lda;
#pragma GCC unroll 4
        for (int j = 0; j < PAIR_NV; j++)
            acc[r][j] = _mm512_setzero_ps();
    }
    pair_sum_rows(acc, ar, panel, k);
#pragma GCC unroll 8
    for (size_t r = 0; r < WEFT_STRIP; r++) {
        if (r >= rows)
            break;
        if (cols == WEFT_PANEL)
            pair_put(c, r, acc[r], bias, add);
        else
            pair_put_part(c, r, acc[r], bias, add, cols);
    }
}

/* Row k and row k + 1 of a column as one number; a row past the end is zero. */
static inline uint32_t pair_of(struct weft_mat m, size_t row, size_t col, size_t k)
{
    uint32_t even = *weft_mat_bf16(m, row, col);
    uint32_t odd = row + 1 < k ? *weft_mat_bf16(m, row + 1, col) : 0;
    return even | odd << 16;
}

static inline void pair_rows(uint32_t *to, struct weft_mat m, size_t row, size_t cols, size_t k)
{
    size_t c = 0;
    for (; c + 16 <= cols && row + 1 < k; c += 16) {
        __m512i even = _mm512_cvtepu16_epi32(
            _mm256_loadu_si256((const __m256i *)weft_mat_bf16(m, row, c)));
        __m512i odd = _mm512_cvtepu16_epi32(
            _mm256_loadu_si256((const __m256i *)weft_mat_bf16(m, row + 1, c)));
        _mm512_storeu_si512(to + c, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
    }
    for (; c < cols; c++)
        to[c] = pair_of(m, row, c, k);
}

static void pair_pack_strips(void *strips, struct weft_mat a, size_t m, size_t k)
{
    size_t pairs = (k + 1) / 2;
    uint32_t *out = strips;
    for (size_t i = 0; i < pairs; i++)
        for (size_t m0 = 0; m0 < m; m0 += 16 * WEFT_STRIP) {
            uint32_t row[16 * WEFT_STRIP] = {0};
            size_t n = m - m0 < 16 * WEFT_STRIP ? m - m0 : 16 * WEFT_STRIP;
            pair_rows(row, weft_mat_at(a, 0, m0), 2 * i, n, k);
            for (size_t s = 0; s * WEFT_STRIP < n; s++)
                memcpy(out + (m0 / WEFT_STRIP + s) * pairs * WEFT_STRIP + i * WEFT_STRIP,
                       row + s * WEFT_STRIP, WEFT_STRIP * sizeof *row);
        }
}

static void pair_pack_panel(void *panel, struct weft_mat b, size_t cols, size_t k)
{
    uint32_t *out = panel;
    for (size_t i = 0; 2 * i < k; i++, out += WEFT_PANEL) {
        pair_rows(out, b, 2 * i, cols, k);
        for (size_t c = cols; c < WEFT_PANEL; c++)
            out[c] = 0;
    }
}

static inline uint32_t pair_floats(float even, float odd)
{
    float two[16] = {even, odd};
    vec_u16 h = vec_to_bf16(vec_load(two));
    return (uint32_t)h[0] | (uint32_t)h[1] << 16;
}

static uint32_t *pair_packed_row(const struct weft_packed *b, size_t row, size_t p)
{
    size_t chunk = weft_pack_chunk(b->k);
    size_t k0 = row / chunk * chunk;
    return (uint32_t *)weft_packed_at(b, k0, p) + (row - k0) / 2 * WEFT_PANEL;
}

/* Two rows of 16 fp32 as pairs. */
static inline __m512i pair_vectors(const float *even, const float *odd)
{
    __m512i lo = _mm512_cvtepu16_epi32((__m256i)vec_to_bf16(vec_load(even)));
    __m512i hi = odd == NULL ? _mm512_setzero_si512()
                             : _mm512_cvtepu16_epi32((__m256i)vec_to_bf16(vec_load(odd)));
    return _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16));
}

static void pair_pack_same(const struct weft_packed *b, const float *w, size_t cols,
                           size_t row0, size_t row1)
{
    for (size_t r = row0; r < row1; r += 2)
        for (size_t c = 0; c < cols; c += 16) {
            uint32_t *to = pair_packed_row(b, r, c / WEFT_PANEL) + c % WEFT_PANEL;
            const float *even = w + r * cols + c, *odd = r + 1 < row1 ? even + cols : NULL;
            if (cols - c >= 16) {
                _mm512_storeu_si512(to, pair_vectors(even, odd));
                continue;
            }
            for (size_t j = 0; j < cols - c; j++)
                to[j] = pair_floats(even[j], odd != NULL ? odd[j] : 0.0f);
        }
}

static void pair_pack_turned(const struct weft_packed *b, const float *w, size_t cols,
                             size_t row0, size_t row1)
{
    for (size_t c = 0; c < cols; c += 2) {
        uint32_t *to = pair_packed_row(b, c, row0 / WEFT_PANEL);
        for (size_t r = row0; r < row1; r++)
            to[r - row0] =
                pair_floats(w[r * cols + c], c + 1 < cols ? w[r * cols + c + 1] : 0.0f);
    }
}

static void pair_pack_weight(const struct weft_packed *same, const struct weft_packed *turned,
                             const float *w, size_t rows, size_t cols, size_t row0, size_t row1)
{
    (void)rows;
    if (same != NULL)
        pair_pack_same(same, w, cols, row0, row1);
    if (turned != NULL)
        pair_pack_turned(turned, w, cols, row0, row1);
}

#endif
