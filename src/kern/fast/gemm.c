#include "kern/gemm_kernel.h"

#include <stdalign.h>

#include "kern/fast/vec.h"

#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif

/* Columns that the registers hold for a strip of rows: a whole panel with 32 registers of 16
 * floats, a quarter of it with 16 registers of 8. */
enum { COLS = VEC == 16 ? WEFT_PANEL : 16, NV = COLS / VEC };

/* Rows of a panel ahead of the one in use that are asked for: a panel lies in the second-level
 * cache, and a step takes about 12 cycles. */
enum { AHEAD = 8 };

typedef vec tile[WEFT_STRIP][NV];

static inline void prefetch_row(const float *row)
{
    for (int j = 0; j < COLS; j += 16)
        __builtin_prefetch(row + j, 0, 3);
}

/* acc = sum over k of a[r][k] * panel[k][c]; the strip's rows at ar[0 .. 5]. */
static inline void sum_rows(tile acc, const float *const ar[WEFT_STRIP], const float *panel,
                            size_t k)
{
    const float *a0 = ar[0], *a1 = ar[1], *a2 = ar[2], *a3 = ar[3], *a4 = ar[4], *a5 = ar[5];
#pragma GCC unroll 4
    for (size_t i = 0; i < k; i++) {
        const float *b = panel + i * WEFT_PANEL;
        const float x[WEFT_STRIP] = {a0[i], a1[i], a2[i], a3[i], a4[i], a5[i]};
        vec row[NV];
        for (int j = 0; j < NV; j++)
            row[j] = vec_load(b + j * VEC);
        prefetch_row(b + AHEAD * WEFT_PANEL);
#pragma GCC unroll 8
        for (int r = 0; r < WEFT_STRIP; r++)
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++)
                acc[r][j] += vec_set(x[r]) * row[j];
    }
}

/* The same for a packed strip. */
static inline void sum_strip(tile acc, const float *strip, const float *panel, size_t k)
{
#pragma GCC unroll 4
    for (size_t i = 0; i < k; i++) {
        const float *b = panel + i * WEFT_PANEL;
        const float *x = strip + i * WEFT_STRIP;
        vec row[NV];
        for (int j = 0; j < NV; j++)
            row[j] = vec_load(b + j * VEC);
        prefetch_row(b + AHEAD * WEFT_PANEL);
#pragma GCC unroll 8
        for (int r = 0; r < WEFT_STRIP; r++)
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++)
                acc[r][j] += vec_set(x[r]) * row[j];
    }
}

static inline void clear(tile acc)
{
#pragma GCC unroll 8
    for (int r = 0; r < WEFT_STRIP; r++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++)
            acc[r][j] = (vec){0};
}

/* A row of a tile to where it belongs; all columns are there. */
static inline void put_row(struct weft_mat c, size_t r, size_t col, const vec *acc,
                           const float *bias, struct weft_mat add)
{
    for (int j = 0; j < NV; j++) {
        size_t at = col + (size_t)j * VEC;
        vec v = acc[j];
        if (bias != NULL)
            v += vec_load(bias + at);
        if (add.at != NULL)
            v += vec_load(weft_mat_f32(add, r, at));
        if (c.type == WEFT_F32)
            vec_store(weft_mat_f32(c, r, at), v);
        else
            vec_store_bf16(weft_mat_bf16(c, r, at), v);
    }
}

static void put_part(struct weft_mat c, size_t r, size_t col, const float *acc,
                     const float *bias, struct weft_mat add, size_t cols)
{
    for (size_t j = 0; j < cols; j++) {
        float v = acc[j];
        if (bias != NULL)
            v += bias[col + j];
        if (add.at != NULL)
            v += *weft_mat_f32(add, r, col + j);
        if (c.type == WEFT_F32) {
            *weft_mat_f32(c, r, col + j) = v;
        } else {
            vec_u16 h = vec_to_bf16(vec_set(v));
            *weft_mat_bf16(c, r, col + j) = h[0];
        }
    }
}

static void tile_rows(struct weft_mat c, const void *a, size_t lda, const void *panel, size_t k,
                      const float *bias, struct weft_mat add, size_t rows, size_t cols)
{
    const float *ar[WEFT_STRIP];
    for (size_t r = 0; r < WEFT_STRIP; r++) /* rows that are not there are not kept either */
        ar[r] = (const float *)a + (r < rows ? r : rows - 1) * lda;
    for (size_t col = 0; col < cols; col += COLS) {
        tile acc;
        clear(acc);
        sum_rows(acc, ar, (const float *)panel + col, k);
        if (cols - col >= COLS) {
            for (size_t r = 0; r < rows; r++)
                put_row(c, r, col, acc[r], bias, add);
            continue;
        }
        float part[COLS];
        for (size_t r = 0; r < rows; r++) {
            memcpy(part, acc[r], sizeof part);
            put_part(c, r, col, part, bias, add, cols - col);
        }
    }
}

static struct weft_sink sink_at(struct weft_sink sink, size_t at)
{
    if (sink.exact != NULL)
        sink.exact += at;
    else
        sink.fast += at;
    return sink;
}

#if defined(__AVX512DQ__)

/* Eight floats as whole multiples of 2^-50.  What does not fit, NaN too, becomes the least
 * integer, which out_of_range() finds. */
static inline __m512i exact_of(__m256 x)
{
    return _mm512_cvtps_epi64(_mm256_mul_ps(x, _mm256_set1_ps(0x1p50f)));
}

/* The sign bit is set in those of magnitude 2^62 or more. */
static inline __m512i out_of_range(__m512i x)
{
    return _mm512_xor_si512(x, _mm512_add_epi64(x, x));
}

/* Adds a whole tile to the exact sums from the registers. */
static bool sink_exact(int64_t *sum, size_t ld, bool fresh, tile acc)
{
    __m512i bad = _mm512_setzero_si512();
    /* Sums that are only written go past the caches: they are not read before the step ends. */
    bool stream = fresh && (uintptr_t)sum % 64 == 0 && ld % 8 == 0;
#pragma GCC unroll 8
    for (int r = 0; r < WEFT_STRIP; r++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) {
            int64_t *at = sum + (size_t)r * ld + j * VEC;
            __m512 v = (__m512)acc[r][j];
            __m512i lo = exact_of(_mm512_castps512_ps256(v));
            __m512i hi = exact_of(_mm512_extractf32x8_ps(v, 1));
            bad = _mm512_or_si512(bad, _mm512_or_si512(out_of_range(lo), out_of_range(hi)));
            if (stream) {
                _mm512_stream_si512((__m512i *)at, lo);
                _mm512_stream_si512((__m512i *)(at + 8), hi);
                continue;
            }
            if (!fresh) {
                lo = _mm512_add_epi64(lo, _mm512_loadu_si512(at));
                hi = _mm512_add_epi64(hi, _mm512_loadu_si512(at + 8));
                bad = _mm512_or_si512(bad, _mm512_or_si512(out_of_range(lo), out_of_range(hi)));
            }
            _mm512_storeu_si512(at, lo);
            _mm512_storeu_si512(at + 8, hi);
        }
    return _mm512_movepi64_mask(bad) != 0;
}

static bool sink_whole(struct weft_sink sink, size_t ld, tile acc)
{
    if (sink.exact != NULL)
        return sink_exact(sink.exact, ld, sink.fresh, acc);
    bool stream = sink.fresh && (uintptr_t)sink.fast % 64 == 0 && ld % 16 == 0;
#pragma GCC unroll 8
    for (int r = 0; r < WEFT_STRIP; r++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) {
            float *at = sink.fast + (size_t)r * ld + j * VEC;
            if (stream)
                _mm512_stream_ps(at, (__m512)acc[r][j]);
            else
                vec_store(at, sink.fresh ? acc[r][j] : acc[r][j] + vec_load(at));
        }
    return false;
}

enum { HAS_WHOLE = 1 };

#else

static bool sink_whole(struct weft_sink sink, size_t ld, tile acc)
{
    (void)sink, (void)ld, (void)acc;
    return false;
}

enum { HAS_WHOLE = 0 };

#endif

static void prefetch_sink(struct weft_sink sink, size_t ld, size_t rows)
{
    const char *at = sink.exact != NULL ? (const char *)sink.exact : (const char *)sink.fast;
    size_t size = sink.exact != NULL ? 8 : 4;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < WEFT_PANEL * size; c += 64)
            __builtin_prefetch(at + r * ld * size + c, 1, 2);
}

static bool put_sink(const struct weft_ops *ops, struct weft_sink sink, size_t ld, tile acc,
                     size_t rows, size_t cols)
{
    if (HAS_WHOLE && rows == WEFT_STRIP && cols >= COLS)
        return sink_whole(sink, ld, acc);
    bool bad = false;
    for (size_t r = 0; r < rows; r++) {
        float part[COLS];
        memcpy(part, acc[r], sizeof part);
        bad |= ops->sink_add(sink_at(sink, r * ld), part, cols < COLS ? cols : COLS);
    }
    return bad;
}

static bool tile_sink(const struct weft_ops *ops, struct weft_sink sink, size_t ld,
                      const void *strip, const void *panel, size_t k, size_t rows, size_t cols)
{
    bool bad = false;
    if (!sink.fresh && rows == WEFT_STRIP && cols == WEFT_PANEL)
        prefetch_sink(sink, ld, rows);
    for (size_t col = 0; col < cols; col += COLS) {
        tile acc;
        clear(acc);
        sum_strip(acc, strip, (const float *)panel + col, k);
        bad |= put_sink(ops, sink_at(sink, col), ld, acc, rows, cols - col);
    }
    return bad;
}

/* -- packing ------------------------------------------------------------------------------- */

static inline float element(struct weft_mat m, size_t r, size_t c)
{
    if (m.type == WEFT_F32)
        return *weft_mat_f32(m, r, c);
    uint32_t bits = (uint32_t)*weft_mat_bf16(m, r, c) << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void pack_strips(void *strips, struct weft_mat a, size_t m, size_t k)
{
    size_t whole = m / WEFT_STRIP, strip = k * WEFT_STRIP;
    float *out = strips;
    for (size_t i = 0; i < k; i++)
        for (size_t s = 0; s * WEFT_STRIP < m; s++) {
            float *to = out + s * strip + i * WEFT_STRIP;
            /* Eight floats at once: the last two are written again by the next row.  Not so in
             * a strip's last row, nor where the source ends. */
            if (s < whole && i + 1 < k && s * WEFT_STRIP + 8 <= m) {
                if (a.type == WEFT_F32) {
                    memcpy(to, weft_mat_f32(a, i, s * WEFT_STRIP), 8 * sizeof(float));
                } else {
                    const weft_bf16 *from = weft_mat_bf16(a, i, s * WEFT_STRIP);
                    uint32_t wide[8];
                    for (int j = 0; j < 8; j++)
                        wide[j] = (uint32_t)from[j] << 16;
                    memcpy(to, wide, sizeof wide);
                }
                continue;
            }
            for (size_t j = 0; j < WEFT_STRIP; j++) {
                size_t col = s * WEFT_STRIP + j;
                to[j] = col < m ? element(a, i, col) : 0.0f;
            }
        }
}

static void pack_panel(void *panel, struct weft_mat b, size_t cols, size_t k)
{
    float *out = panel;
    for (size_t i = 0; i < k; i++, out += WEFT_PANEL) {
        if (cols == WEFT_PANEL) {
            for (int j = 0; j < WEFT_PANEL; j += VEC)
                vec_store(out + j, b.type == WEFT_F32
                                       ? vec_load(weft_mat_f32(b, i, (size_t)j))
                                       : vec_load_bf16(weft_mat_bf16(b, i, (size_t)j)));
            continue;
        }
        for (size_t j = 0; j < WEFT_PANEL; j++)
            out[j] = j < cols ? element(b, i, j) : 0.0f;
    }
}

static inline vec as_stored(vec x, enum weft_pack_form form)
{
    return form == WEFT_PACK_F32 ? x : vec_from_bf16(vec_to_bf16(x));
}

/* Where element (row, 0) of the factor's panel p lies; fp32 forms. */
static float *packed_row(const struct weft_packed *b, size_t row, size_t p)
{
    size_t chunk = weft_pack_chunk(b->k);
    size_t k0 = row / chunk * chunk;
    return (float *)weft_packed_at(b, k0, p) + (row - k0) * WEFT_PANEL;
}

static void pack_same(const struct weft_packed *b, const float *w, size_t cols, size_t row0,
                      size_t row1)
{
    for (size_t r = row0; r < row1; r++)
        for (size_t c = 0; c < cols; c += WEFT_PANEL) {
            float *to = packed_row(b, r, c / WEFT_PANEL);
            size_t n = cols - c < WEFT_PANEL ? cols - c : WEFT_PANEL;
            for (size_t j = 0; j < WEFT_PANEL; j += VEC) {
                size_t have = j < n ? n - j : 0;
                vec x = have >= VEC ? vec_load(w + r * cols + c + j)
                        : have > 0  ? vec_load_part(w + r * cols + c + j, have)
                                    : (vec){0};
                vec_store(to + j, as_stored(x, b->form));
            }
        }
}

static void pack_turned(const struct weft_packed *b, const float *w, size_t cols, size_t row0,
                        size_t row1)
{
    /* Eight columns at a time: what is read is used while it is in the cache. */
    for (size_t c0 = 0; c0 < cols; c0 += 16) {
        size_t n = cols - c0 < 16 ? cols - c0 : 16;
        for (size_t r = row0; r < row0 + WEFT_PANEL; r += VEC) {
            alignas(64) float block[16][VEC];
            for (size_t i = 0; i < VEC; i++)
                for (size_t j = 0; j < n; j++)
                    block[j][i] = r + i < row1 ? w[(r + i) * cols + c0 + j] : 0.0f;
            for (size_t j = 0; j < n; j++)
                vec_store(packed_row(b, c0 + j, row0 / WEFT_PANEL) + (r - row0),
                          as_stored(vec_load(block[j]), b->form));
        }
    }
}

static void pack_weight(const struct weft_packed *same, const struct weft_packed *turned,
                        const float *w, size_t rows, size_t cols, size_t row0, size_t row1)
{
    (void)rows;
    if (same != NULL)
        pack_same(same, w, cols, row0, row1);
    if (turned != NULL)
        pack_turned(turned, w, cols, row0, row1);
}

extern const struct weft_gemm_kernel WEFT_KERN(weft_gemm_kernel);
const struct weft_gemm_kernel WEFT_KERN(weft_gemm_kernel) = {
    .rows = tile_rows,
    .sink = tile_sink,
    .pack_strips = pack_strips,
    .pack_panel = pack_panel,
    .pack_weight = pack_weight,
};
