/* Product kernels on pairs of bf16 (WF_PACK_BF16_PAIRS), for AVX-512.  The including file
 * defines PAIR_DOT(acc, a, b): (acc + a.odd * b.odd) + a.even * b.even in each of 16 lanes.
 * gemm_bf16.c uses the machine instruction; a test emulates it. */
#ifndef COMPUTE_KERN_GEMM_PAIRS_H
#define COMPUTE_KERN_GEMM_PAIRS_H

#include <immintrin.h>
#include <stdalign.h>

#include "compute/kern/fast/exact.h"
#include "compute/kern/fast/transpose.h"
#include "compute/kern/fast/vec.h"
#include "compute/kern/gemm_kernel.h"

enum { PAIR_NV = WF_PANEL / 16, PAIR_PREFETCH = 8 };

/* Adds the product of one pair of columns of A, given in x, and one row of pairs of B to
 * acc. */
VEC_INLINE void pair_step(__m512 acc[WF_STRIP][PAIR_NV], const uint32_t x[WF_STRIP],
                          const uint32_t *b)
{
    __m512i row[PAIR_NV];
    for (int j = 0; j < PAIR_NV; j++) {
        row[j] = _mm512_loadu_si512(b + j * 16);
        __builtin_prefetch(b + PAIR_PREFETCH * WF_PANEL + j * 16, 0, 3);
    }
#pragma GCC unroll 8
    for (int r = 0; r < WF_STRIP; r++) {
        __m512i a = _mm512_set1_epi32((int)x[r]);
#pragma GCC unroll 3
        for (int j = 0; j < PAIR_NV; j++)
            acc[r][j] = PAIR_DOT(acc[r][j], a, row[j]);
    }
}

VEC_INLINE void pair_clear(__m512 acc[WF_STRIP][PAIR_NV])
{
#pragma GCC unroll 8
    for (int r = 0; r < WF_STRIP; r++)
#pragma GCC unroll 3
        for (int j = 0; j < PAIR_NV; j++)
            acc[r][j] = _mm512_setzero_ps();
}

/* A buffer for the sums of a tile, between the registers and the destination. */
typedef float pair_tile[WF_STRIP][WF_PANEL];

VEC_INLINE void pair_save(pair_tile out, __m512 acc[WF_STRIP][PAIR_NV])
{
#pragma GCC unroll 8
    for (int r = 0; r < WF_STRIP; r++)
#pragma GCC unroll 3
        for (int j = 0; j < PAIR_NV; j++)
            _mm512_store_ps(&out[r][j * 16], acc[r][j]);
}

static __attribute__((noinline)) void pair_sum_strip(pair_tile out, const uint32_t *strip,
                                                     const uint32_t *panel, size_t pairs,
                                                     const struct wf_prefetch *prefetch)
{
    __m512 acc[WF_STRIP][PAIR_NV];
    pair_clear(acc);
    size_t part = pairs / WF_PREFETCH_PIECES + 1;
    for (size_t piece = 0; pairs > 0; piece++) {
        wf_prefetch_issue(prefetch, piece);
        size_t n = pairs < part ? pairs : part;
        pairs -= n;
        for (; n > 0; n--, strip += WF_STRIP, panel += WF_PANEL)
            pair_step(acc, strip, panel);
    }
    pair_save(out, acc);
}

/* Returns pair i of a plain row of bf16, which already has the layout of 32-bit pairs. */
VEC_INLINE uint32_t pair_at(const wf_bf16 *row, size_t i)
{
    uint32_t two;
    memcpy(&two, row + 2 * i, sizeof two);
    return two;
}

static __attribute__((noinline)) void pair_sum_rows(pair_tile out,
                                                    const wf_bf16 *const ar[WF_STRIP],
                                                    const uint32_t *panel, size_t k,
                                                    const struct wf_prefetch *prefetch)
{
    const wf_bf16 *a0 = ar[0], *a1 = ar[1], *a2 = ar[2], *a3 = ar[3], *a4 = ar[4], *a5 = ar[5],
                  *a6 = ar[6], *a7 = ar[7];
    __m512 acc[WF_STRIP][PAIR_NV];
    pair_clear(acc);
    size_t pairs = k / 2, part = pairs / WF_PREFETCH_PIECES + 1;
    for (size_t i = 0, piece = 0; i < pairs; piece++) {
        wf_prefetch_issue(prefetch, piece);
        size_t end = pairs - i < part ? pairs : i + part;
        for (; i < end; i++, panel += WF_PANEL) {
            const uint32_t x[WF_STRIP] = {pair_at(a0, i), pair_at(a1, i), pair_at(a2, i),
                                          pair_at(a3, i), pair_at(a4, i), pair_at(a5, i),
                                          pair_at(a6, i), pair_at(a7, i)};
            pair_step(acc, x, panel);
        }
    }

    if (k % 2 != 0) { /* the last column has no second column to pair with */
        const uint32_t x[WF_STRIP] = {a0[k - 1], a1[k - 1], a2[k - 1], a3[k - 1],
                                      a4[k - 1], a5[k - 1], a6[k - 1], a7[k - 1]};
        pair_step(acc, x, panel);
    }
    pair_save(out, acc);
}

/* Adds a row of sums to the sink.  A whole row of fresh exact sums bypasses the caches. */
static inline bool pair_row(const struct wf_ops *ops, struct wf_sink sink, const float *x,
                            size_t cols)
{
    if (sink.exact == NULL || cols != WF_PANEL || (uintptr_t)sink.exact % 64 != 0)
        return ops->sink_add(sink, x, cols);
    __m512i bad = _mm512_setzero_si512();
#pragma GCC unroll 6
    for (int j = 0; j < WF_PANEL; j += 8) {
        __m512i sum =
            _mm512_cvtps_epi64(_mm256_mul_ps(_mm256_load_ps(x + j), _mm256_set1_ps(0x1p50f)));
        __m512i *at = (__m512i *)(sink.exact + j);
        bad = _mm512_or_si512(bad, (__m512i)exact_out_of_range((vec_half_u64)sum));
        if (sink.fresh) {
            _mm512_stream_si512(at, sum);
            continue;
        }
        sum = _mm512_add_epi64(sum, _mm512_load_si512(at));
        bad = _mm512_or_si512(bad, (__m512i)exact_out_of_range((vec_half_u64)sum));
        _mm512_store_si512(at, sum);
    }
    return _mm512_movepi64_mask(bad) != 0;
}

static bool pair_sink(const struct wf_ops *ops, struct wf_sink sink, size_t ld,
                      const void *strip, const void *panel, size_t k, size_t rows, size_t cols,
                      const struct wf_prefetch *prefetch)
{
    alignas(64) pair_tile sums;
    bool bad = false;
    bool whole = rows == WF_STRIP && cols == WF_PANEL;
    struct wf_prefetch here = whole ? wf_prefetch_with_sink(prefetch, &sink, ld) : *prefetch;
    pair_sum_strip(sums, strip, panel, (k + 1) / 2, &here);
    for (size_t r = 0; r < rows; r++)
        bad |= pair_row(ops, wf_sink_at(sink, r * ld), sums[r], cols);
    return bad;
}

static inline void pair_put(struct wf_mat c, size_t r, size_t j, size_t n, vec v,
                            const float *bias, struct wf_mat add)
{
    if (bias != NULL)
        v += n < VEC ? vec_load_part(bias + j, n) : vec_load(bias + j);
    if (add.at != NULL) {
        const float *at = wf_mat_f32(add, r, j);
        v += n < VEC ? vec_load_part(at, n) : vec_load(at);
    }
    if (c.type == WF_DTYPE_F32 && n < VEC)
        vec_store_part(wf_mat_f32(c, r, j), v, n);
    else if (c.type == WF_DTYPE_F32)
        vec_store(wf_mat_f32(c, r, j), v);
    else if (n < VEC)
        vec_store_part_bf16(wf_mat_bf16(c, r, j), v, n);
    else
        vec_store_bf16(wf_mat_bf16(c, r, j), v);
}

static void pair_strip_rows(struct wf_mat c, const void *a, size_t lda, const void *panel,
                            size_t k, const float *bias, struct wf_mat add, size_t rows,
                            size_t cols, const struct wf_prefetch *prefetch)
{
    alignas(64) pair_tile sums;
    const wf_bf16 *ar[WF_STRIP];
    /* Row pointers past the end point to the last row; the sums of these rows are discarded. */
    for (size_t r = 0; r < WF_STRIP; r++)
        ar[r] = (const wf_bf16 *)a + (r < rows ? r : rows - 1) * lda;
    struct wf_prefetch here = {.at = prefetch->at, .lines = prefetch->lines};
    if (rows == WF_STRIP) {
        here.out = c.at;
        here.out_ld = c.ld * wf_dtype_size(c.type);
        here.out_lines = cols * wf_dtype_size(c.type) / 64;
    }
    pair_sum_rows(sums, ar, panel, k, &here);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < cols; j += VEC)
            pair_put(c, r, j, cols - j, vec_load(&sums[r][j]), bias, add);
}

static void pair_panel_rows(struct wf_mat c, const void *a, size_t lda, const void *panel,
                            size_t k, const float *bias, struct wf_mat add, size_t rows,
                            size_t cols, struct wf_prefetch prefetch)
{
    for (size_t r = 0; r < rows; r += WF_STRIP, wf_prefetch_advance(&prefetch))
        pair_strip_rows(wf_mat_at(c, r, 0), (const wf_bf16 *)a + r * lda, lda, panel, k, bias,
                        add.at != NULL ? wf_mat_at(add, r, 0) : add,
                        rows - r < WF_STRIP ? rows - r : WF_STRIP, cols, &prefetch);
}

/* Returns the elements of rows `row` and row + 1 of a column as one pair.  A row past the end
 * counts as zero. */
static inline uint32_t pair_of(struct wf_mat m, size_t row, size_t col, size_t k)
{
    uint32_t even = *wf_mat_bf16(m, row, col);
    uint32_t odd = row + 1 < k ? *wf_mat_bf16(m, row + 1, col) : 0;
    return even | odd << 16;
}

static inline void pair_rows(uint32_t *to, struct wf_mat m, size_t row, size_t cols, size_t k)
{
    size_t c = 0;
    for (; c + 16 <= cols && row + 1 < k; c += 16) {
        __m512i even =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)wf_mat_bf16(m, row, c)));
        __m512i odd = _mm512_cvtepu16_epi32(
            _mm256_loadu_si256((const __m256i *)wf_mat_bf16(m, row + 1, c)));
        _mm512_storeu_si512(to + c, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
    }
    for (; c < cols; c++)
        to[c] = pair_of(m, row, c, k);
}

static void pair_pack_strips(void *strips, struct wf_mat a, size_t m, size_t k)
{
    size_t pairs = (k + 1) / 2;
    size_t strip = wf_strip_bytes(k, WF_PACK_BF16_PAIRS) / sizeof(uint32_t);
    uint32_t *out = strips;
    for (size_t i = 0; i < pairs; i++)
        for (size_t m0 = 0; m0 < m; m0 += 16 * WF_STRIP) {
            uint32_t row[16 * WF_STRIP] = {0};
            size_t n = m - m0 < 16 * WF_STRIP ? m - m0 : 16 * WF_STRIP;
            pair_rows(row, wf_mat_at(a, 0, m0), 2 * i, n, k);
            for (size_t s = 0; s * WF_STRIP < n; s++)
                memcpy(out + (m0 / WF_STRIP + s) * strip + i * WF_STRIP, row + s * WF_STRIP,
                       WF_STRIP * sizeof *row);
        }
}

static void pair_pack_panel(void *panel, struct wf_mat b, size_t cols, size_t k)
{
    uint32_t *out = panel;
    for (size_t i = 0; 2 * i < k; i++, out += WF_PANEL) {
        pair_rows(out, b, 2 * i, cols, k);
        for (size_t c = cols; c < WF_PANEL; c++)
            out[c] = 0;
    }
}

static inline uint32_t pair_floats(float even, float odd)
{
    float two[16] = {even, odd};
    vec_u16 h = vec_to_bf16(vec_load(two));
    return (uint32_t)h[0] | (uint32_t)h[1] << 16;
}

static uint32_t *pair_packed_row(const struct wf_packed *b, size_t row, size_t p)
{
    size_t k_slice = wf_pack_k_slice(b->k);
    size_t k0 = row / k_slice * k_slice;
    return (uint32_t *)wf_packed_at(b, k0, p) + (row - k0) / 2 * WF_PANEL;
}

/* Returns two rows of 16 fp32 as pairs; `odd` may be NULL. */
static inline __m512i pair_vectors(const float *even, const float *odd)
{
    __m512i lo = _mm512_cvtepu16_epi32((__m256i)vec_to_bf16(vec_load(even)));
    __m512i hi = odd == NULL ? _mm512_setzero_si512()
                             : _mm512_cvtepu16_epi32((__m256i)vec_to_bf16(vec_load(odd)));
    return _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16));
}

static void pair_pack_direct(const struct wf_packed *b, const float *w, size_t cols,
                             size_t row0, size_t row1)
{
    for (size_t r = row0; r < row1; r += 2)
        for (size_t c = 0; c < cols; c += 16) {
            uint32_t *to = pair_packed_row(b, r, c / WF_PANEL) + c % WF_PANEL;
            const float *even = w + r * cols + c, *odd = r + 1 < row1 ? even + cols : NULL;
            if (cols - c >= 16) {
                _mm512_storeu_si512(to, pair_vectors(even, odd));
                continue;
            }
            for (size_t j = 0; j < cols - c; j++)
                to[j] = pair_floats(even[j], odd != NULL ? odd[j] : 0.0f);
        }
}

/* Returns up to 32 floats of a row as bf16, two per 32-bit number.  After transposition, each
 * of these numbers is a pair of a column. */
static inline vec pair_row_of(const float *from, size_t n)
{
    vec low = n < 16 ? vec_load_part(from, n) : vec_load(from);
    vec high = n >= 32  ? vec_load(from + 16)
               : n > 16 ? vec_load_part(from + 16, n - 16)
                        : (vec){0};
    __m256i a = (__m256i)vec_to_bf16(low), b = (__m256i)vec_to_bf16(high);
    return (vec)_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

static void pair_pack_transposed(const struct wf_packed *b, const float *w, size_t cols,
                                 size_t row0, size_t row1)
{
    for (size_t c = 0; c < cols; c += 32)
        for (size_t r = row0; r < row1; r += 16) {
            size_t n = cols - c < 32 ? cols - c : 32;
            vec block[16];
            for (size_t i = 0; i < 16; i++)
                block[i] = r + i < row1 ? pair_row_of(w + (r + i) * cols + c, n) : (vec){0};
            vec_transpose(block);
            uint32_t *to = pair_packed_row(b, c, r / WF_PANEL) + r % WF_PANEL;
            for (size_t j = 0; 2 * j < n; j++)
                vec_store((float *)to + j * WF_PANEL, block[j]);
        }
}

static void pair_pack_weight(const struct wf_packed *direct, const struct wf_packed *transposed,
                             const float *w, size_t rows, size_t cols, size_t row0, size_t row1)
{
    (void)rows;
    if (direct != NULL)
        pair_pack_direct(direct, w, cols, row0, row1);
    if (transposed != NULL)
        pair_pack_transposed(transposed, w, cols, row0, row1);
}

#endif
