/* The inner loops of products and weight gradients on fp32, for one instruction set.  The
 * including file defines PAIRED.
 *
 * If it is false, each element of a product is summed in the order of k.  If it is true, the
 * factors are bf16, and the order is that of the machine instruction vdpbf16ps
 * (kern/gemm_bf16.c), so that the results have the same bits: k = 1, 0, 3, 2, 5, 4, ...  The
 * last column of an odd number pairs with zeros. */
#ifndef COMPUTE_KERN_FAST_GEMM_LOOPS_H
#define COMPUTE_KERN_FAST_GEMM_LOOPS_H

#include <math.h>
#include <stdalign.h>

#include "compute/kern/fast/exact.h"
#include "compute/kern/fast/gemm_pack.h"
#include "compute/kern/fast/vec.h"
#include "compute/kern/gemm_kernel.h"

#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif

/* The tile of C that the registers hold.  A tile of 8 x 3 vectors, with 32 vector registers,
 * leaves registers for a row of B and an element of A.  With 16 registers the tile has 4 x 3
 * vectors, or 4 x 2 if each multiplication needs a register for its result.  Each step loads as
 * many vectors and elements as the tile is wide and high.  Square tiles need the fewest loads
 * per multiplication, and cores often cannot sustain two loads per two multiplications. */
#if defined(__AVX512F__)
enum { ROWS = WF_STRIP, NV = 3 };
#elif defined(__AVX2__)
enum { ROWS = WF_STRIP / 2, NV = 3 };
#else
enum { ROWS = WF_STRIP / 2, NV = 2 };
#endif
enum { COLS = NV * VEC, UNROLL = 4 };

/* The factors of a sum.  For rows of A, each group of four rows has a pointer; the other rows
 * of the group are one, two and three row lengths further, so that few registers hold
 * addresses. */
struct operands {
    const float *a, *a4; /* a strip uses only `a` */
    size_t lda, lda3;
    const float *b;
};

enum operand_form {
    OPERAND_ROWS,  /* A as plain rows */
    OPERAND_STRIP, /* A packed: element (r, i) at a[i * WF_STRIP + r] */
};

/* Computes acc += x * y.  Without the assembler statement the compiler moves sums between
 * registers, and these moves replace multiplications. */
VEC_INLINE void multiply_add(vec *acc, vec x, vec y)
{
#if defined(__FMA__)
    __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(*acc) : "v"(x), "v"(y));
#else
    *acc = PAIRED ? vec_fma_flushed(x, y, *acc) : vec_fma(x, y, *acc);
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

/* Adds column i + step of A times row i + step of B.  Does not prefetch the panel: it is one
 * stream, which processors detect, and each prefetch would take the slot of a load. */
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
    /* Without this statement the compiler keeps one pointer per address and runs out of
     * registers. */
    __asm__("" : "+r"(w->a), "+r"(w->b));
    if (kind == OPERAND_ROWS)
        __asm__("" : "+r"(w->a4), "+r"(w->lda), "+r"(w->lda3));
}

/* Adds the last k < UNROLL columns of A times rows of B. */
VEC_INLINE void add_rest(vec acc[ROWS][NV], struct operands *w, size_t k, int rows,
                         enum operand_form kind)
{
    if (PAIRED && k >= 2) {
        add_step(acc, w, 1, rows, kind);
        add_step(acc, w, 0, rows, kind);
        advance(w, 2, kind);
        k -= 2;
    }
    /* Adding the zeros of an incomplete pair turns -0 into +0. */
    if (PAIRED && k > 0)
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < NV; j++)
                multiply_add(&acc[r][j], (vec){0}, (vec){0});
    for (; k > 0; k--) {
        add_step(acc, w, 0, rows, kind);
        advance(w, 1, kind);
    }
}

/* acc[r][c] = sum over k of A[r][k] B[k][c].  Meanwhile issues the prefetches, a few at a time,
 * since a burst would delay the loads of the factors. */
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
                add_step(acc, &w, PAIRED ? step ^ 1 : step, rows, kind);
            advance(&w, UNROLL, kind);
        } while (--n > 0);
    }

    add_rest(acc, &w, k % UNROLL, rows, kind);
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

/* One function per shape: in a larger function the accumulators do not stay in registers. */
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

/* Computes the sums of at most `rows` rows and returns the number of rows computed. */
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

static const struct wf_prefetch no_prefetch;

/* -- products ------------------------------------------------------------------------------ */

/* The destination of a whole fp32 tile: C, and the values to add (NULL: nothing is added). */
struct epilogue {
    float *c;
    size_t ldc;
    const float *bias, *add;
    size_t ld_add;
};

/* Writes a tile straight from the registers. */
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

VEC_INLINE void move_tile(struct epilogue *e, struct operands *w, ptrdiff_t rows,
                          ptrdiff_t cols)
{
    e->c += rows * (ptrdiff_t)e->ldc + cols;
    e->bias += e->bias != NULL ? cols : 0;
    e->add += e->add != NULL ? rows * (ptrdiff_t)e->ld_add + cols : 0;
    w->a += rows * (ptrdiff_t)w->lda;
    w->a4 += rows * (ptrdiff_t)w->lda;
    w->b += cols;
}

/* Computes whole strips of a whole panel.  Pointers are only advanced from one tile to the
 * next: the less work between two sums, the earlier the second one starts. */
static void put_strips(struct epilogue e, struct operands w, size_t k, size_t rows,
                       struct wf_prefetch prefetch)
{
    put_fn *put = e.bias != NULL  ? e.add != NULL ? put_both : put_bias
                  : e.add != NULL ? put_add
                                  : put_plain;
    for (size_t r = 0; r < rows; r += WF_STRIP) {
        const struct wf_prefetch *issue = &prefetch;
        for (int row = 0; row < WF_STRIP; row += ROWS) {
            for (int col = 0; col < WF_PANEL; col += COLS) {
                put(&e, &w, k, issue);
                issue = &no_prefetch;
                move_tile(&e, &w, 0, COLS);
            }
            move_tile(&e, &w, ROWS, -(ptrdiff_t)WF_PANEL);
        }
        prefetch.out += WF_STRIP * prefetch.out_ld;
        wf_prefetch_advance(&prefetch);
    }
}

/* A buffer for the sums of all other tiles, between the registers and the destination.  The
 * buffer stays in the first-level cache. */
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

/* Computes a tile that has fewer rows or columns than a whole tile, or that is not fp32. */
static void tile_part(struct wf_mat c, const float *a, size_t lda, const float *panel, size_t k,
                      const float *bias, struct wf_mat add, size_t rows, size_t cols,
                      const struct wf_prefetch *prefetch)
{
    alignas(64) tile sums;
    for (size_t r = 0; r < rows;) {
        const float *row = a + r * lda;
        size_t done = 0;
        for (size_t col = 0; col < cols; col += COLS) {
            /* Addresses of rows past the end are not accessed. */
            struct operands w = {.a = row, .a4 = row + 4 * lda, .lda = lda, .b = panel + col};
            done = sum_some_rows(&sums[r][col], &w, k, r + col == 0 ? prefetch : &no_prefetch,
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

/* -- gradients of weights ------------------------------------------------------------------ */

#if defined(__AVX512DQ__)

enum sink_kind {
    SINK_FAST_NEW,
    SINK_FAST_ADD,
    SINK_SINGLE,
    SINK_EXACT_NEW,
    SINK_EXACT_ADD,
};

/* Range violations of a tile: the maximum |x| of contributions as bits, which are greater for
 * infinity and NaN than for any number, and, in the sign bits, sums that have left the range.
 */
struct range_flags {
    __m512i max_bits, sums;
};

VEC_INLINE void note_magnitude(struct range_flags *range_flags, __m512 x)
{
    __m512i size = _mm512_and_si512((__m512i)x, _mm512_set1_epi32(0x7fffffff));
    range_flags->max_bits = _mm512_max_epu32(range_flags->max_bits, size);
}

/* Adds eight contributions, in units of 2^-50, to their sums. */
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

/* Adds sixteen contributions.  Stores of fresh sums bypass the caches, since the sums are not
 * read before the end of the step. */
VEC_INLINE void sink_put(void *to, size_t at, __m512 x, enum sink_kind kind,
                         struct range_flags *range_flags)
{
    float *fast = (float *)to + at;
    int64_t *exact = (int64_t *)to + at;
    if (kind == SINK_FAST_ADD)
        x = _mm512_add_ps(x, _mm512_load_ps(fast));
    if (kind == SINK_SINGLE || kind == SINK_EXACT_NEW || kind == SINK_EXACT_ADD)
        x = _mm512_mul_ps(x, _mm512_set1_ps(0x1p50f));
    note_magnitude(range_flags, x);

    switch (kind) {
    case SINK_FAST_ADD:
        _mm512_store_ps(fast, x);
        break;
    case SINK_SINGLE: /* adding zero turns -0 into +0 */
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

/* Adds a whole tile to the sink straight from the registers.  Returns true if a value is out of
 * range: 2^12 in units of 2^-50, or infinity. */
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
    __m512 limit = _mm512_set1_ps(fast ? INFINITY : 0x1p62f);
    return _mm512_cmpge_epu32_mask(range_flags.max_bits, (__m512i)limit) != 0 ||
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
SINK(sink_single, SINK_SINGLE)
SINK(sink_exact_new, SINK_EXACT_NEW)
SINK(sink_exact_add, SINK_EXACT_ADD)

typedef bool sink_fn(void *to, size_t ld, const struct operands *w, size_t k,
                     const struct wf_prefetch *prefetch);

/* Returns the function for this sink, or NULL if the rows of the sink are not aligned to cache
 * lines. */
static sink_fn *find_sink(const struct wf_sink *sink, size_t ld)
{
    if ((uintptr_t)(sink->exact != NULL ? (void *)sink->exact : (void *)sink->fast) % 64 != 0)
        return NULL;
    if (sink->exact != NULL)
        return ld % 8 != 0 ? NULL : sink->fresh ? sink_exact_new : sink_exact_add;
    if (ld % 16 != 0)
        return NULL;
    return sink->single ? sink_single : sink->fresh ? sink_fast_new : sink_fast_add;
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
            sum_strip(&sums[r][col], &w, k, r + col == 0 ? &here : &no_prefetch);
        }

    for (size_t r = 0; r < rows; r++)
        bad |= ops->sink_add(wf_sink_at(sink, r * ld), sums[r], cols);
    return bad;
}

/* The value of the including file's struct wf_gemm_kernel. */
#define GEMM_KERNEL                                                                            \
    {                                                                                          \
        .rows = panel_rows, .sink = tile_sink, .pack_strips = WF_KERN(wf_gemm_pack_strips),    \
        .pack_panel = WF_KERN(wf_gemm_pack_panel),                                             \
        .pack_weight = WF_KERN(wf_gemm_pack_weight),                                           \
    }

#endif
