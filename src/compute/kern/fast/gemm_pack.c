/* Packing of matrices into panels and strips of fp32, for the kernels of fast/gemm.c. */
#include "compute/kern/fast/gemm_pack.h"

#include "compute/kern/fast/transpose.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

/* Loads n elements of a row as fp32.  The other elements of the vector are zero. */
VEC_INLINE vec load_row(struct wf_mat m, size_t r, size_t c, size_t n)
{
    if (n >= VEC)
        return m.type == WF_DTYPE_F32 ? vec_load(wf_mat_f32(m, r, c))
                                      : vec_load_bf16(wf_mat_bf16(m, r, c));
    return m.type == WF_DTYPE_F32 ? vec_load_part(wf_mat_f32(m, r, c), n)
                                  : vec_load_part_bf16(wf_mat_bf16(m, r, c), n);
}

/* Number of rows that are packed into one strip before the next strip, so that the source is
 * read only once. */
enum { STRIP_ROWS = 16 };

typedef float strip_row __attribute__((vector_size(4 * WF_STRIP)));
typedef uint32_t strip_bits __attribute__((vector_size(4 * WF_STRIP)));
typedef wf_bf16 strip_row_bf16 __attribute__((vector_size(2 * WF_STRIP)));

VEC_INLINE void pack_strip_row(float *to, struct wf_mat a, size_t i)
{
    if (a.type == WF_DTYPE_F32) {
        memcpy(to, wf_mat_f32(a, i, 0), sizeof(strip_row));
        return;
    }
    strip_row_bf16 narrow;
    memcpy(&narrow, wf_mat_bf16(a, i, 0), sizeof narrow);
    strip_bits wide = __builtin_convertvector(narrow, strip_bits) << 16;
    memcpy(to, &wide, sizeof wide);
}

/* Packs a row of the last strip, which has fewer columns. */
static void pack_strip_part(float *to, struct wf_mat a, size_t i, size_t cols)
{
    struct wf_mat row = wf_mat_at(a, i, 0);
    for (size_t j = 0; j < WF_STRIP; j++) {
        uint32_t bits = 0;
        if (j < cols && a.type == WF_DTYPE_F32)
            memcpy(&bits, wf_mat_f32(row, 0, j), sizeof bits);
        else if (j < cols)
            bits = (uint32_t)*wf_mat_bf16(row, 0, j) << 16;
        memcpy(to + j, &bits, sizeof bits);
    }
}

void WF_KERN(wf_gemm_pack_strips)(void *strips, struct wf_mat a, size_t m, size_t k)
{
    size_t strip = wf_strip_bytes(k, WF_PACK_F32) / sizeof(float);
    for (size_t i0 = 0; i0 < k; i0 += STRIP_ROWS) {
        size_t i1 = i0 + STRIP_ROWS < k ? i0 + STRIP_ROWS : k;
        float *to = strips;
        for (size_t col = 0; col < m; col += WF_STRIP, to += strip) {
            struct wf_mat from = wf_mat_at(a, 0, col);
            for (size_t i = i0; i < i1; i++)
                if (m - col >= WF_STRIP)
                    pack_strip_row(to + i * WF_STRIP, from, i);
                else
                    pack_strip_part(to + i * WF_STRIP, from, i, m - col);
        }
    }
}

void WF_KERN(wf_gemm_pack_panel)(void *panel, struct wf_mat b, size_t cols, size_t k)
{
    float *out = panel;
    for (size_t i = 0; i < k; i++, out += WF_PANEL)
        for (size_t j = 0; j < WF_PANEL; j += VEC)
            vec_store(out + j, j < cols ? load_row(b, i, j, cols - j) : (vec){0});
}

/* Packed weights are read again only after all weights are updated.  A large matrix bypasses
 * the caches, which saves reading the lines that are overwritten. */
enum { LARGE = 1 << 20 };

VEC_INLINE void put_packed(float *to, vec x, bool large)
{
#if defined(__AVX512F__)
    if (large && (uintptr_t)to % 64 == 0) {
        _mm512_stream_ps(to, (__m512)x);
        return;
    }
#endif
    (void)large;
    vec_store(to, x);
}

static inline vec as_stored(vec x, enum wf_pack form)
{
    return form == WF_PACK_F32 ? x : vec_from_bf16(vec_to_bf16(x));
}

/* Returns the address of element (row, 0) of panel p; fp32 forms only. */
static float *packed_row(const struct wf_packed *b, size_t row, size_t p)
{
    size_t k_slice = wf_pack_k_slice(b->k);
    size_t k0 = row / k_slice * k_slice;
    return (float *)wf_packed_at(b, k0, p) + (row - k0) * WF_PANEL;
}

/* Packs rows of one k slice, to the same offset in every panel. */
static void pack_direct(const struct wf_packed *b, const float *w, size_t cols, size_t row0,
                        size_t row1)
{
    bool large = b->k * b->n >= LARGE;
    for (size_t c = 0; c < cols; c += WF_PANEL) {
        size_t p = c / WF_PANEL;
        for (size_t r = row0; r < row1; r++) {
            float *to = packed_row(b, r, p);
            for (size_t j = 0; j < WF_PANEL; j += VEC) {
                size_t at = c + j;
                vec x = at + VEC <= cols ? vec_load(w + r * cols + at)
                        : at < cols      ? vec_load_part(w + r * cols + at, cols - at)
                                         : (vec){0};
                put_packed(to + j, as_stored(x, b->form), large);
            }
        }
    }
}

/* Packs the transpose of elements [r, r + VEC) x [c, c + VEC) of w, or as many as exist. */
VEC_INLINE void pack_transposed_tile(const struct wf_packed *b, const float *w, size_t cols,
                                     size_t c, size_t n, size_t r, size_t row1)
{
    vec block[VEC];
#pragma GCC unroll 16
    for (size_t i = 0; i < VEC; i++) {
        const float *from = w + (r + i) * cols + c;
        block[i] = r + i >= row1 ? (vec){0}
                   : n == VEC    ? vec_load(from)
                                 : vec_load_part(from, n);
    }
    vec_transpose(block);
    /* No k slice ends within these rows: the length of a slice is k or a multiple of every
     * vector width. */
    float *to = packed_row(b, c, r / WF_PANEL) + r % WF_PANEL;
#pragma GCC unroll 16
    for (size_t j = 0; j < VEC; j++)
        if (j < n)
            put_packed(to + j * WF_PANEL, as_stored(block[j], b->form), b->k * b->n >= LARGE);
}

static void pack_transposed(const struct wf_packed *b, const float *w, size_t cols, size_t row0,
                            size_t row1)
{
    for (size_t c = 0; c < cols; c += VEC)
        for (size_t r = row0; r < row1; r += VEC) {
            if (cols - c >= VEC && row1 - r >= VEC)
                pack_transposed_tile(b, w, cols, c, VEC, r, SIZE_MAX);
            else
                pack_transposed_tile(b, w, cols, c, cols - c < VEC ? cols - c : VEC, r, row1);
        }
}

void WF_KERN(wf_gemm_pack_weight)(const struct wf_packed *direct,
                                  const struct wf_packed *transposed, const float *w,
                                  size_t rows, size_t cols, size_t row0, size_t row1)
{
    (void)rows;
    if (direct != NULL)
        pack_direct(direct, w, cols, row0, row1);
    if (transposed != NULL)
        pack_transposed(transposed, w, cols, row0, row1);
}
