#include "compute/kern/gemm_kernel.h"

#include <math.h>
#include <stdalign.h>

#include "compute/kern/fast/exact.h"
#include "compute/kern/fast/transpose.h"
#include "compute/kern/fast/vec.h"

#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif

/* What the registers hold of C: 8 x 3 of 32 vectors leave room for a row of B and for an element
 * of A; 4 x 3 do just so among 16, and 4 x 2 where a product needs a register of its own.  Each
 * step loads as many vectors and elements as the tile is wide and high: square ones load least,
 * and a core that can load two numbers while it multiplies two often does not get them. */
#if defined(__AVX512F__)
enum { ROWS = WF_STRIP, NV = 3 };
#elif defined(__AVX2__)
enum { ROWS = WF_STRIP / 2, NV = 3 };
#else
enum { ROWS = WF_STRIP / 2, NV = 2 };
#endif
enum { COLS = NV * VEC, UNROLL = 4 };

/* Where the factors of a sum lie.  Rows of A: each group of four has a pointer, and the others of
 * the group lie one, two and three row lengths further, so that few registers hold addresses. */
struct operands {
    const float *a, *a4; /* a strip has the first only */
    size_t lda, lda3;
    const float *b;
};

enum operand_form {
    OPERAND_ROWS,  /* A by its rows */
    OPERAND_STRIP, /* A packed, element (r, i) at a[i * WF_STRIP + r] */
};

/* acc += x * y.  Left to itself the compiler lets sums wander from register to register, by moves
 * that take the place of multiplications. */
VEC_INLINE void multiply_add(vec *acc, vec x, vec y)
{
#if defined(__FMA__)
    __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(*acc) : "v"(x), "v"(y));
#else
    *acc += x * y;
#endif
}

VEC_INLINE float a_element(const struct operands *w, int r, int step, enum operand_form kind)
{
    if (kind != OPERAND_ROWS)
        return w->a[step * WF_STRIP + r];
    const float *group = r < 4 ? w->a : w->a4;
    size_t row = r % 4 == 0 ? 0 : r % 4 == 1 ? w->lda : r % 4 == 2 ? 2 * w->lda : w->lda3;
    return group[row + (size_t)step];
}

/* acc += column i + step of A times row i + step of B.  It does not ask for what follows: the panel
 * is one stream, which processors see by themselves, and each request would take the place of a
 * load. */
VEC_INLINE void add_step(vec acc[ROWS][NV], const struct operands *w, int step, int rows,
                         enum operand_form kind)
{
    const float *b = w->b + step * WF_PANEL;
    vec row[NV];
    for (int j = 0; j < NV; j++)
        row[j] = vec_load(b + j * VEC);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        vec x = vec_set(a_element(w, r, step, kind));
        for (int j = 0; j < NV; j++)
            multiply_add(&acc[r][j], x, row[j]);
    }
}

VEC_INLINE void advance(struct operands *w, int steps, enum operand_form kind)
{
    size_t a_step = kind == OPERAND_ROWS ? 1 : WF_STRIP;
    w->a += (size_t)steps * a_step;
    if (kind == OPERAND_ROWS)
        w->a4 += steps;
    w->b += steps * WF_PANEL;
    /* Without this the compiler makes a pointer of every address and runs out of registers. */
    __asm__("" : "+r"(w->a), "+r"(w->b));
    if (kind == OPERAND_ROWS)
        __asm__("" : "+r"(w->a4), "+r"(w->lda), "+r"(w->lda3));
}

/* acc[r][c] = sum over k of A[r][k] B[k][c], in the order of k.  On the way it asks for what is
 * needed prefetch, a little at a time: a burst would hold up the factors. */
VEC_INLINE void sum(vec acc[ROWS][NV], struct operands w, size_t k,
                    const struct wf_prefetch *prefetch, int rows, enum operand_form kind)
{
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < NV; j++)
            acc[r][j] = (vec){0};
    w.lda3 = 3 * w.lda;
    size_t blocks = k / UNROLL, part = blocks / WF_PREFETCH_PIECES + 1;
    for (size_t piece = 0; blocks > 0; piece++) {
        wf_prefetch_issue(prefetch, piece);
        size_t n = blocks < part ? blocks : part;
        blocks -= n;
        do {
#pragma GCC unroll 4
            for (int step = 0; step < UNROLL; step++)
                add_step(acc, &w, step, rows, kind);
            advance(&w, UNROLL, kind);
        } while (--n > 0);
    }
    for (k %= UNROLL; k > 0; k--) {
        add_step(acc, &w, 0, rows, kind);
        advance(&w, 1, kind);
    }
}

VEC_INLINE void keep_sums(float *out, const struct operands *w, size_t k,
                          const struct wf_prefetch *prefetch, int rows, enum operand_form kind)
{
    vec acc[ROWS][NV];
    sum(acc, *w, k, prefetch, rows, kind);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < NV; j++)
            vec_store(out + r * WF_PANEL + j * VEC, acc[r][j]);
}

/* One function for each shape: in a larger one the accumulators do not stay in registers. */
#define SUM(name, rows, kind)                                                                  \
    static __attribute__((noinline)) void name(float *out, const struct operands *w, size_t k, \
                                               const struct wf_prefetch *prefetch)             \
    {                                                                                          \
        keep_sums(out, w, k, prefetch, rows, kind);                                            \
    }
SUM(sum_rows, ROWS, OPERAND_ROWS)
#if defined(__AVX512F__)
SUM(sum_rows_4, 4, OPERAND_ROWS)
#endif
SUM(sum_rows_2, 2, OPERAND_ROWS)
SUM(sum_rows_1, 1, OPERAND_ROWS)
SUM(sum_strip, ROWS, OPERAND_STRIP)

/* Sums as many rows as there are, up to `rows`, and says how many. */
static size_t sum_some_rows(float *out, const struct operands *w, size_t k,
                            const struct wf_prefetch *prefetch, size_t rows)
{
    if (rows >= ROWS)
        return sum_rows(out, w, k, prefetch), ROWS;
#if defined(__AVX512F__)
    if (rows >= 4)
        return sum_rows_4(out, w, k, prefetch), 4;
#endif
    if (rows >= 2)
        return sum_rows_2(out, w, k, prefetch), 2;
    return sum_rows_1(out, w, k, prefetch), 1;
}

static const struct wf_prefetch nothing;

/* -- products ------------------------------------------------------------------------------ */

/* Where a whole tile of fp32 ends: C, and what is added to it (NULL: nothing). */
struct epilogue {
    float *c;
    size_t ldc;
    const float *bias, *add;
    size_t ld_add;
};

/* Straight from the registers. */
VEC_INLINE void put_sums(const struct epilogue *e, const struct operands *w, size_t k,
                         const struct wf_prefetch *prefetch, bool bias, bool add)
{
    vec acc[ROWS][NV];
    sum(acc, *w, k, prefetch, ROWS, OPERAND_ROWS);
#pragma GCC unroll 8
    for (size_t r = 0; r < ROWS; r++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++) {
            vec x = acc[r][j];
            if (bias)
                x += vec_load(e->bias + j * VEC);
            if (add)
                x += vec_load(e->add + r * e->ld_add + j * VEC);
            vec_store(e->c + r * e->ldc + j * VEC, x);
        }
}

#define PUT(name, bias, add)                                                                   \
    static __attribute__((noinline)) void name(const struct epilogue *e,                       \
                                               const struct operands *w, size_t k,             \
                                               const struct wf_prefetch *prefetch)             \
    {                                                                                          \
        put_sums(e, w, k, prefetch, bias, add);                                                \
    }
PUT(put_plain, false, false)
PUT(put_bias, true, false)
PUT(put_add, false, true)
PUT(put_both, true, true)

typedef void put_fn(const struct epilogue *e, const struct operands *w, size_t k,
                    const struct wf_prefetch *prefetch);

VEC_INLINE void move(struct epilogue *e, struct operands *w, ptrdiff_t rows, ptrdiff_t cols)
{
    e->c += rows * (ptrdiff_t)e->ldc + cols;
    e->bias += e->bias != NULL ? cols : 0;
    e->add += e->add != NULL ? rows * (ptrdiff_t)e->ld_add + cols : 0;
    w->a += rows * (ptrdiff_t)w->lda;
    w->a4 += rows * (ptrdiff_t)w->lda;
    w->b += cols;
}

/* Whole strips of a whole panel.  What changes from one tile to the next is just moved on: the less
 * there is between two sums, the sooner the second begins. */
static void put_strips(struct epilogue e, struct operands w, size_t k, size_t rows,
                       struct wf_prefetch prefetch)
{
    put_fn *put = e.bias != NULL  ? e.add != NULL ? put_both : put_bias
                  : e.add != NULL ? put_add
                                  : put_plain;
    for (size_t r = 0; r < rows; r += WF_STRIP) {
        const struct wf_prefetch *ask = &prefetch;
        for (int up = 0; up < WF_STRIP; up += ROWS) {
            for (int left = 0; left < WF_PANEL; left += COLS) {
                put(&e, &w, k, ask);
                ask = &nothing;
                move(&e, &w, 0, COLS);
            }
            move(&e, &w, ROWS, -(ptrdiff_t)WF_PANEL);
        }
        prefetch.out += WF_STRIP * prefetch.out_ld;
        wf_prefetch_advance(&prefetch);
    }
}

/* All others: the sums of a tile between the registers and where they belong.  They stay in the
 * first-level cache: the loops above need not know what becomes of them. */
typedef float tile[WF_STRIP][WF_PANEL];

VEC_INLINE void put_vec(struct wf_mat c, size_t r, size_t j, size_t n, vec v, const float *bias,
                        struct wf_mat add)
{
    if (n >= VEC) {
        if (bias != NULL)
            v += vec_load(bias + j);
        if (add.at != NULL)
            v += vec_load(wf_mat_f32(add, r, j));
        if (c.type == WF_DTYPE_F32)
            vec_store(wf_mat_f32(c, r, j), v);
        else
            vec_store_bf16(wf_mat_bf16(c, r, j), v);
        return;
    }
    if (bias != NULL)
        v += vec_load_part(bias + j, n);
    if (add.at != NULL)
        v += vec_load_part(wf_mat_f32(add, r, j), n);
    if (c.type == WF_DTYPE_F32)
        vec_store_part(wf_mat_f32(c, r, j), v, n);
    else
        vec_store_part_bf16(wf_mat_bf16(c, r, j), v, n);
}

static void put(struct wf_mat c, tile sums, const float *bias, struct wf_mat add, size_t rows,
                size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < cols; j += VEC)
            put_vec(c, r, j, cols - j, vec_load(&sums[r][j]), bias, add);
}

/* Fewer rows than a strip has, or columns, or another type. */
static void tile_part(struct wf_mat c, const float *a, size_t lda, const float *panel, size_t k,
                      const float *bias, struct wf_mat add, size_t rows, size_t cols,
                      const struct wf_prefetch *prefetch)
{
    alignas(64) tile sums;
    for (size_t r = 0; r < rows;) {
        const float *row = a + r * lda;
        size_t done = 0;
        for (size_t col = 0; col < cols; col += COLS) {
            /* Of the addresses of rows that are not there nothing is read. */
            struct operands w = {.a = row, .a4 = row + 4 * lda, .lda = lda, .b = panel + col};
            done = sum_some_rows(&sums[r][col], &w, k, r + col == 0 ? prefetch : &nothing,
                                 rows - r);
        }
        r += done;
    }
    put(c, sums, bias, add, rows, cols);
}

static void panel_rows(struct wf_mat c, const void *a, size_t lda, const void *panel, size_t k,
                       const float *bias, struct wf_mat add, size_t rows, size_t cols,
                       struct wf_prefetch prefetch)
{
    size_t size = wf_dtype_size(c.type), r = 0;
    prefetch.out = c.at;
    prefetch.out_ld = c.ld * size;
    prefetch.out_lines = cols * size / 64;
    if (cols == WF_PANEL && c.type == WF_DTYPE_F32) {
        const float *top = a;
        struct operands w = {.a = top, .a4 = top + 4 * lda, .lda = lda, .b = panel};
        struct epilogue e = {
            .c = c.at, .ldc = c.ld, .bias = bias, .add = add.at, .ld_add = add.ld};
        r = rows - rows % WF_STRIP;
        put_strips(e, w, k, r, prefetch);
    }
    for (; r < rows; r += WF_STRIP) {
        size_t n = rows - r < WF_STRIP ? rows - r : WF_STRIP;
        struct wf_prefetch here = prefetch;
        here.at += r / WF_STRIP * WF_PREFETCH_PIECES * prefetch.lines * 64;
        here.out += r * prefetch.out_ld;
        here.out_lines = n < WF_STRIP ? 0 : prefetch.out_lines;
        tile_part(wf_mat_at(c, r, 0), (const float *)a + r * lda, lda, panel, k, bias,
                  add.at != NULL ? wf_mat_at(add, r, 0) : add, n, cols, &here);
    }
}

/* -- packing ------------------------------------------------------------------------------- */

/* n elements of a row as fp32; those past them are zero. */
VEC_INLINE vec load_row(struct wf_mat m, size_t r, size_t c, size_t n)
{
    if (n >= VEC)
        return m.type == WF_DTYPE_F32 ? vec_load(wf_mat_f32(m, r, c))
                                      : vec_load_bf16(wf_mat_bf16(m, r, c));
    return m.type == WF_DTYPE_F32 ? vec_load_part(wf_mat_f32(m, r, c), n)
                                  : vec_load_part_bf16(wf_mat_bf16(m, r, c), n);
}

enum { STRIP_ROWS = 16 }; /* packed before the next strip: their source is read once */

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

/* The last strip, of fewer columns. */
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

static void pack_strips(void *strips, struct wf_mat a, size_t m, size_t k)
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

static void pack_panel(void *panel, struct wf_mat b, size_t cols, size_t k)
{
    float *out = panel;
    for (size_t i = 0; i < k; i++, out += WF_PANEL)
        for (size_t j = 0; j < WF_PANEL; j += VEC)
            vec_store(out + j, j < cols ? load_row(b, i, j, cols - j) : (vec){0});
}

/* Packed weights are read again when the update of all others is done: a large matrix goes past
 * the caches, which saves reading what is overwritten. */
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

static inline vec as_stored(vec x, enum wf_pack_form form)
{
    return form == WF_PACK_F32 ? x : vec_from_bf16(vec_to_bf16(x));
}

/* Where element (row, 0) of the factor's panel p lies; fp32 forms. */
static float *packed_row(const struct wf_packed *b, size_t row, size_t p)
{
    size_t k_slice = wf_pack_k_slice(b->k);
    size_t k0 = row / k_slice * k_slice;
    return (float *)wf_packed_at(b, k0, p) + (row - k0) * WF_PANEL;
}

/* Rows of one k_slice: to the same place in every panel. */
static void pack_same(const struct wf_packed *b, const float *w, size_t cols, size_t row0,
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

/* Elements [r, r + VEC) x [c, c + VEC) of w, or as many as there are, transposed. */
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
    /* No k_slice ends among these: their length is a multiple of any vector's, or k. */
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

static void pack_weight(const struct wf_packed *same, const struct wf_packed *transposed,
                        const float *w, size_t rows, size_t cols, size_t row0, size_t row1)
{
    (void)rows;
    if (same != NULL)
        pack_same(same, w, cols, row0, row1);
    if (transposed != NULL)
        pack_transposed(transposed, w, cols, row0, row1);
}

/* -- gradients of weights ------------------------------------------------------------------ */

#if defined(__AVX512DQ__)

enum sink_kind {
    SINK_FAST_NEW,
    SINK_FAST_ADD,
    SINK_ONLY,
    SINK_EXACT_NEW,
    SINK_EXACT_ADD,
};

/* What has gone wrong with a tile: the largest |x| of contributions, whose bits are greater for
 * infinity and NaN than for any number, and sums that have left the range, in their sign. */
struct range_flags {
    __m512i most, sums;
};

VEC_INLINE void note_size(struct range_flags *range_flags, __m512 x)
{
    __m512i size = _mm512_and_si512((__m512i)x, _mm512_set1_epi32(0x7fffffff));
    range_flags->most = _mm512_max_epu32(range_flags->most, size);
}

/* Eight contributions in units to their sums. */
VEC_INLINE void exact_put(int64_t *sum, __m256 x, bool add, struct range_flags *range_flags)
{
    __m512i v = _mm512_cvtps_epi64(x);
    if (!add) {
        _mm512_stream_si512((__m512i *)sum, v);
        return;
    }
    v = _mm512_add_epi64(v, _mm512_load_si512(sum));
    range_flags->sums =
        _mm512_or_si512(range_flags->sums, (__m512i)exact_out_of_range((vec_half_u64)v));
    _mm512_store_si512(sum, v);
}

/* Sixteen contributions.  What is only written goes past the caches: it is not read before the
 * step ends. */
VEC_INLINE void sink_put(void *to, size_t at, __m512 x, enum sink_kind kind,
                         struct range_flags *range_flags)
{
    float *fast = (float *)to + at;
    int64_t *exact = (int64_t *)to + at;
    if (kind == SINK_FAST_ADD)
        x = _mm512_add_ps(x, _mm512_load_ps(fast));
    if (kind == SINK_ONLY || kind == SINK_EXACT_NEW || kind == SINK_EXACT_ADD)
        x = _mm512_mul_ps(x, _mm512_set1_ps(0x1p50f));
    note_size(range_flags, x);
    switch (kind) {
    case SINK_FAST_ADD:
        _mm512_store_ps(fast, x);
        break;
    case SINK_ONLY: /* adding zero takes the sign from zero */
        x = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        x = _mm512_fmadd_ps(x, _mm512_set1_ps(0x1p-50f), _mm512_setzero_ps());
        _mm512_stream_ps(fast, x);
        break;
    case SINK_EXACT_NEW:
    case SINK_EXACT_ADD:
        exact_put(exact, _mm512_castps512_ps256(x), kind == SINK_EXACT_ADD, range_flags);
        exact_put(exact + 8, _mm512_extractf32x8_ps(x, 1), kind == SINK_EXACT_ADD, range_flags);
        break;
    default:
        _mm512_stream_ps(fast, x);
    }
}

/* A whole tile straight from the registers.  True when something is out of range: 2^12 in units,
 * or infinity. */
VEC_INLINE bool sink_sums(void *to, size_t ld, const struct operands *w, size_t k,
                          const struct wf_prefetch *prefetch, enum sink_kind kind)
{
    vec acc[ROWS][NV];
    struct range_flags range_flags = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    sum(acc, *w, k, prefetch, ROWS, OPERAND_STRIP);
#pragma GCC unroll 8
    for (size_t r = 0; r < ROWS; r++)
#pragma GCC unroll 3
        for (size_t j = 0; j < NV; j++)
            sink_put(to, r * ld + j * VEC, (__m512)acc[r][j], kind, &range_flags);
    bool fast = kind == SINK_FAST_NEW || kind == SINK_FAST_ADD;
    __m512 least = _mm512_set1_ps(fast ? INFINITY : 0x1p62f);
    return _mm512_cmpge_epu32_mask(range_flags.most, (__m512i)least) != 0 ||
           (kind == SINK_EXACT_ADD && _mm512_movepi64_mask(range_flags.sums) != 0);
}

#define SINK(name, kind)                                                                       \
    static __attribute__((noinline)) bool name(void *to, size_t ld, const struct operands *w,  \
                                               size_t k, const struct wf_prefetch *prefetch)   \
    {                                                                                          \
        return sink_sums(to, ld, w, k, prefetch, kind);                                        \
    }
SINK(sink_fast_new, SINK_FAST_NEW)
SINK(sink_fast_add, SINK_FAST_ADD)
SINK(sink_only, SINK_ONLY)
SINK(sink_exact_new, SINK_EXACT_NEW)
SINK(sink_exact_add, SINK_EXACT_ADD)

typedef bool sink_fn(void *to, size_t ld, const struct operands *w, size_t k,
                     const struct wf_prefetch *prefetch);

/* NULL when rows of the sink do not begin with cache lines. */
static sink_fn *find_sink(const struct wf_sink *sink, size_t ld)
{
    if ((uintptr_t)(sink->exact != NULL ? (void *)sink->exact : (void *)sink->fast) % 64 != 0)
        return NULL;
    if (sink->exact != NULL)
        return ld % 8 != 0 ? NULL : sink->fresh ? sink_exact_new : sink_exact_add;
    if (ld % 16 != 0)
        return NULL;
    return sink->only ? sink_only : sink->fresh ? sink_fast_new : sink_fast_add;
}

#endif

static bool tile_sink(const struct wf_ops *ops, struct wf_sink sink, size_t ld,
                      const void *strip, const void *panel, size_t k, size_t rows, size_t cols,
                      const struct wf_prefetch *prefetch)
{
    alignas(64) tile sums;
    bool bad = false, whole = rows == WF_STRIP && cols == WF_PANEL;
    struct wf_prefetch here = whole ? wf_prefetch_with_sink(prefetch, &sink, ld) : *prefetch;
#if defined(__AVX512DQ__)
    sink_fn *direct = whole ? find_sink(&sink, ld) : NULL;
    if (direct != NULL) {
        struct operands w = {.a = strip, .b = panel};
        return direct(sink.exact != NULL ? (void *)sink.exact : (void *)sink.fast, ld, &w, k,
                      &here);
    }
#endif
    for (size_t r = 0; r < rows; r += ROWS)
        for (size_t col = 0; col < cols; col += COLS) {
            struct operands w = {.a = (const float *)strip + r,
                                 .b = (const float *)panel + col};
            sum_strip(&sums[r][col], &w, k, r + col == 0 ? &here : &nothing);
        }
    for (size_t r = 0; r < rows; r++)
        bad |= ops->sink_add(wf_sink_at(sink, r * ld), sums[r], cols);
    return bad;
}

extern const struct wf_gemm_kernel WF_KERN(wf_gemm_kernel);
const struct wf_gemm_kernel WF_KERN(wf_gemm_kernel) = {
    .rows = panel_rows,
    .sink = tile_sink,
    .pack_strips = pack_strips,
    .pack_panel = pack_panel,
    .pack_weight = pack_weight,
};
