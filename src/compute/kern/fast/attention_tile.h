/* The products of attention.  All of them multiply scalars of one operand, broadcast to a
 * vector, by vectors of the other, and keep a tile of sums in registers:
 *
 *     scores     s[key][query]  = sum over c       of k[key][c]     * qt[c][query]
 *     by keys    o[query][c]   += sum over keys    of s[key][query] * v[key][c]
 *     by queries g[key][c]     += sum over queries of s[key][query] * x[query][c]
 *
 * Scores are stored by keys.  The softmax of a query then runs down its lane, without sums
 * across a vector, and both later products read their vectors from the matrices as they are.
 * Only the queries are transposed, once per block.
 *
 * In a block on the diagonal, scores with key > query are computed only in vectors that the
 * diagonal crosses.  They are never added to sums: the product 0 * NaN would propagate a NaN of
 * a key to queries that do not attend to that key. */
#ifndef COMPUTE_KERN_FAST_ATTENTION_TILE_H
#define COMPUTE_KERN_FAST_ATTENTION_TILE_H

#include <stdbool.h>

#include "compute/kern/fast/attention_math.h"

enum { SEGMENT = ATTENTION_SEGMENT };

/* A tile of `cols` <= WIDEST vectors has TALL(cols) rows, as many as the registers hold beside
 * one row of vectors, or SHORT rows. */
#if defined(__AVX512F__)
enum { WIDEST = 4 };
#define TALL(cols) ((cols) == 4 ? 6 : (cols) == 3 ? 8 : 12)
#elif defined(__AVX2__)
enum { WIDEST = 2 };
#define TALL(cols) ((cols) == 2 ? 6 : 8)
#else
enum { WIDEST = 1 };
#define TALL(cols) ((cols) == 1 ? 4 : 0)
#endif
enum { TALLEST = 12, SHORT = 4 };

/* Returns the number of rows of the next tile.  `remaining`, a multiple of SHORT, is the number
 * of rows left. */
ALWAYS_INLINE int tile_rows(const int cols, size_t remaining)
{
    const size_t tall = TALL(cols);
    bool fits = remaining >= 2 * tall || (remaining >= tall && (remaining - tall) % SHORT == 0);
    return fits ? (int)tall : SHORT;
}

/* Returns the width of the next tile in vectors.  `remaining` is the number of vectors left.
 * Five vectors are divided into 3 + 2, which is faster than 4 + 1. */
static inline size_t tile_cols(size_t remaining)
{
    if (remaining > WIDEST)
        return WIDEST > 3 && remaining == WIDEST + 1 ? WIDEST - 1 : WIDEST;
    return remaining;
}

/* Calls call() with `cols` as a constant, so that the compiler can unroll its loops. */
#if defined(__AVX512F__)
#define FOR_COLS(cols, call)                                                                   \
    ((cols) == 4 ? call(4) : (cols) == 3 ? call(3) : (cols) == 2 ? call(2) : call(1))
#elif defined(__AVX2__)
#define FOR_COLS(cols, call) ((cols) == 2 ? call(2) : call(1))
#else
#define FOR_COLS(cols, call) call(1)
#endif

typedef vec tile[TALLEST][WIDEST];

/* Adds a(i, k) * b(k, j) for k < n to t[i][j]: a(i, k) is a[i * a_row + k * a_step]. */
ALWAYS_INLINE void multiply(const int rows, const int cols, tile t, const float *a,
                            size_t a_row, size_t a_step, const float *b, size_t ldb, size_t n)
{
    for (size_t k = 0; k < n; k++, a += a_step, b += ldb) {
        vec x[WIDEST];
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++)
            x[j] = vec_load(b + j * VEC);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vec y = vec_set(a[(size_t)i * a_row]);
#pragma GCC unroll 4
            for (int j = 0; j < cols; j++)
                t[i][j] = vec_fma(y, x[j], t[i][j]);
        }
    }
}

/* Adds the products of one k, as multiply() does, to the rows [begin, end) only. */
ALWAYS_INLINE void multiply_some(const int begin, const int end, const int cols, tile t,
                                 const float *a, size_t a_row, const float *b)
{
#pragma GCC unroll 12
    for (int i = begin; i < end; i++)
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++)
            t[i][j] = vec_fma(vec_set(a[(size_t)i * a_row]), vec_load(b + j * VEC), t[i][j]);
}

ALWAYS_INLINE void tile_store(const int rows, const int cols, float *to, size_t ld, tile t)
{
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++)
            vec_store(to + (size_t)i * ld + j * VEC, t[i][j]);
}

/* Loads t from `from`.  If `scales` is not NULL, multiplies each row by its element of
 * `scales`. */
ALWAYS_INLINE void tile_load(const int rows, const int cols, tile t, const float *from,
                             size_t ld, const float *scales)
{
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++) {
            t[i][j] = vec_load(from + (size_t)i * ld + j * VEC);
            if (scales != NULL)
                t[i][j] *= scales[i];
        }
}

/* -- prefetching --------------------------------------------------------------------------- */

/* Matrices do not fit into the near caches, and a head is a short piece of each row, so loads
 * would wait for one row after the other.  Each tile therefore prefetches a few rows of the
 * next block, which arrive while it multiplies. */
enum { PREFETCH_MAX = 8, PREFETCH_ROWS = 4 };

struct prefetch {
    struct {
        const char *at;
        size_t stride, bytes, rows;
    } of[PREFETCH_MAX];
    int n;
};

/* Adds the rows of a matrix to those that are prefetched. */
static inline void prefetch_add(struct prefetch *a, struct wf_mat m, size_t rows, size_t head)
{
    size_t size = wf_dtype_size(m.type);
    a->of[a->n].at = m.at;
    a->of[a->n].stride = m.ld * size;
    a->of[a->n].bytes = head * size;
    a->of[a->n].rows = rows;
    a->n += rows > 0;
}

/* Prefetches some rows.  Matrices are processed in reverse order of their addition. */
static inline void prefetch_issue(struct prefetch *a)
{
    for (int i = 0; i < PREFETCH_ROWS && a->n > 0; i++) {
        const char *at = a->of[a->n - 1].at;
        for (size_t b = 0; b < a->of[a->n - 1].bytes; b += 64)
            __builtin_prefetch(at + b, 0, 2);
        a->of[a->n - 1].at = at + a->of[a->n - 1].stride;
        a->n -= --a->of[a->n - 1].rows == 0;
    }
}

/* -- scores -------------------------------------------------------------------------------- */

struct scores {
    float *s;        /* (keys, SEGMENT) */
    const float *k;  /* (keys, ld) */
    const float *qt; /* (head, SEGMENT) */
    size_t ld, head;
    struct prefetch *prefetch;
};

ALWAYS_INLINE void scores_tile(const int rows, const int cols, const struct scores *p,
                               size_t row, size_t col)
{
    tile t = {{{0}}};
    multiply(rows, cols, t, p->k + row * p->ld, p->ld, 1, p->qt + col, SEGMENT, p->head);
    tile_store(rows, cols, p->s + row * SEGMENT + col, SEGMENT, t);
}

ALWAYS_INLINE void scores_panel(const int cols, const struct scores *p, size_t row, size_t end,
                                size_t col)
{
    while (row < end) {
        int rows = tile_rows(cols, end - row);
        prefetch_issue(p->prefetch);
        if (rows == TALL(cols))
            scores_tile(TALL(cols), cols, p, row, col);
        else
            scores_tile(SHORT, cols, p, row, col);
        row += (size_t)rows;
    }
}

/* Computes the scores of the keys [row, end) with the query vectors [col, cols). */
static void scores_of(const struct scores *p, size_t row, size_t end, size_t col, size_t cols)
{
#define PANEL(n) scores_panel(n, p, row, end, col *VEC)
    for (size_t n; col < cols; col += n) {
        n = tile_cols(cols - col);
        FOR_COLS(n, PANEL);
    }
#undef PANEL
}

/* Computes the scores of a block.  `keys` must be a multiple of SHORT. */
static void scores_segment(const struct scores *p, bool diagonal, size_t keys, size_t queries)
{
    size_t cols = (queries + VEC - 1) / VEC;
    if (!diagonal) {
        scores_of(p, 0, keys, 0, cols);
        return;
    }
    for (size_t row = 0; row < keys; row += VEC)
        scores_of(p, row, row + VEC < keys ? row + VEC : keys, row / VEC, cols);
}

/* -- products with scores ------------------------------------------------------------------ */

struct tile_product {
    float *out;          /* (rows, ld) */
    const float *s;      /* (keys, SEGMENT) */
    const float *x;      /* (terms, ld) */
    const float *scales; /* product by keys: the factor of each query's sums so far, or NULL */
    size_t ld;
    size_t rows;  /* a multiple of SHORT */
    size_t terms; /* number of terms of each sum */
    bool diagonal;
    struct prefetch *prefetch;
};

ALWAYS_INLINE void by_keys_tile(const int rows, const int cols, const struct tile_product *p,
                                size_t row, size_t col)
{
    tile t;
    float *out = p->out + row * p->ld + col;
    const float *s = p->s + row, *x = p->x + col;
    if (p->scales != NULL)
        tile_load(rows, cols, t, out, p->ld, p->scales + row);
    else
        tile_load(rows, cols, t, out, p->ld, NULL);
    /* Number of keys that all queries of the tile attend to. */
    size_t all = p->diagonal ? row + 1 : p->terms;
    multiply(rows, cols, t, s, 1, SEGMENT, x, p->ld, all);
    if (p->diagonal)
#pragma GCC unroll 12
        for (int i = 1; i < rows; i++) {
            size_t k = row + (size_t)i;
            multiply_some(i, rows, cols, t, s + k * SEGMENT, 1, x + k * p->ld);
        }
    tile_store(rows, cols, out, p->ld, t);
}

ALWAYS_INLINE void by_queries_tile(const int rows, const int cols, const struct tile_product *p,
                                   size_t row, size_t col)
{
    tile t;
    float *out = p->out + row * p->ld + col;
    const float *s = p->s + row * SEGMENT, *x = p->x + col;
    size_t first = 0; /* first query that attends to all keys of the tile */
    tile_load(rows, cols, t, out, p->ld, NULL);
    if (p->diagonal) {
#pragma GCC unroll 12
        for (int i = 0; i < rows - 1; i++) {
            size_t k = row + (size_t)i;
            multiply_some(0, i + 1, cols, t, s + k, SEGMENT, x + k * p->ld);
        }
        first = row + (size_t)rows - 1;
    }
    if (first < p->terms)
        multiply(rows, cols, t, s + first, SEGMENT, 1, x + first * p->ld, p->ld,
                 p->terms - first);
    tile_store(rows, cols, out, p->ld, t);
}

/* Both products visit their tiles in the same order: one panel of columns after the other, so
 * that a panel of x stays in the cache for all rows. */
#define BY_KIND(kind)                                                                          \
    ALWAYS_INLINE void kind##_panel(const int cols, const struct tile_product *p, size_t col)  \
    {                                                                                          \
        size_t row = 0;                                                                        \
        while (row < p->rows) {                                                                \
            int rows = tile_rows(cols, p->rows - row);                                         \
            prefetch_issue(p->prefetch);                                                       \
            if (rows == TALL(cols))                                                            \
                kind##_tile(TALL(cols), cols, p, row, col);                                    \
            else                                                                               \
                kind##_tile(SHORT, cols, p, row, col);                                         \
            row += (size_t)rows;                                                               \
        }                                                                                      \
    }

BY_KIND(by_keys)
BY_KIND(by_queries)
#undef BY_KIND

static void by_keys(const struct tile_product *p, size_t head)
{
#define PANEL(n) by_keys_panel(n, p, col *VEC)
    size_t cols = (head + VEC - 1) / VEC;
    for (size_t col = 0, n; col < cols; col += n) {
        n = tile_cols(cols - col);
        FOR_COLS(n, PANEL);
    }
#undef PANEL
}

static void by_queries(const struct tile_product *p, size_t head)
{
#define PANEL(n) by_queries_panel(n, p, col *VEC)
    size_t cols = (head + VEC - 1) / VEC;
    for (size_t col = 0, n; col < cols; col += n) {
        n = tile_cols(cols - col);
        FOR_COLS(n, PANEL);
    }
#undef PANEL
}

#endif
