/* Matrix products.
 *
 * A product C = A B has its right factor packed: in panels of WF_PANEL columns, each panel row
 * after row, so that the innermost loop reads one stream.
 *
 *            n                         panel 0      panel 1
 *        +--------+                   k rows of     k rows of       columns past n are zero
 *      k |   B    |     becomes       48 columns    48 columns
 *        +--------+
 *
 * A factor with many rows is packed slice by slice along k (wf_pack_k_slice()), each slice as
 * above, so that a panel of it and rows of A fit into a second-level cache.  Weights are packed
 * once per step and used by every micro-batch.  Products run tile by tile.  One thread computes
 * a tile, and each element has one order of summation, so the result does not depend on the
 * number of threads.
 *
 * The gradient of a weight is a sum over tokens, C (+)= A^T B, into a wf_sink: a finished tile
 * is added to the exact sums straight from the registers. */
#ifndef COMPUTE_KERN_GEMM_H
#define COMPUTE_KERN_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/kern/isa.h"
#include "compute/kern/ops.h"
#include "compute/kern/pool.h"
#include "compute/tensor/tensor.h"
#include "weft/status.h"

enum {
    WF_PANEL = 48,
    /* The maximum number of tokens in one contribution to a weight's gradient.  A longer
     * micro-batch adds several contributions. */
    WF_WGRAD_TOKENS = 1024,
};

/* Row ranges of wf_pack_rows() start at multiples of this. */
enum { WF_PACK_ROWS = 16 };

/* -- packed factors ------------------------------------------------------------------------ */

/* The memory layout of a panel's elements. */
enum wf_pack {
    WF_PACK_F32,
    /* Elements are rounded to bf16 but stored as fp32, for machines without bf16 dot
     * products. */
    WF_PACK_BF16_AS_F32,
    /* bf16; the elements of two consecutive rows of a column are adjacent. */
    WF_PACK_BF16_PAIRS,
};

struct wf_packed {
    /* `k` may exceed the number of rows of the matrix; the additional rows are zero. */
    size_t k, n;
    enum wf_pack form;
    void *at; /* borrowed */
};

/* Returns the form that this machine uses for factors of this type. */
enum wf_pack wf_pack_form(enum wf_dtype type);
/* Returns the bytes of a packed (k, n) factor. */
size_t wf_packed_bytes(size_t k, size_t n, enum wf_pack form);
/* Returns the number of rows per slice of a factor with k rows.  A factor with few rows has a
 * single slice. */
static inline size_t wf_pack_k_slice(size_t k)
{
    return k <= 1024 ? k : 768;
}
/* Returns panel p, whose first column is p * WF_PANEL, of the slice that starts with row k0. */
void *wf_packed_at(const struct wf_packed *b, size_t k0, size_t p);

/* Packs rows [row0, row1) of a plain (rows, cols) matrix w, both as the factor W itself
 * (`direct`, k >= rows) and as its transpose (`transposed`, k = cols).  Either may be NULL.
 * row0 must be a multiple of WF_PACK_ROWS.  row1 must be, too, unless it equals `rows`.  The
 * function does not write the packed rows past the last row of w; the caller must have zeroed
 * them. */
void wf_pack_rows(const struct wf_packed *direct, const struct wf_packed *transposed,
                  const float *w, size_t rows, size_t cols, size_t row0, size_t row1);

/* -- products ------------------------------------------------------------------------------ */

struct wf_gemm;

/* The properties of a product that are fixed before it runs. */
struct wf_gemm_shape {
    size_t n, k;
    enum wf_dtype type; /* type of A: fp32 or bf16 */
    size_t lda;
    enum wf_dtype c_type;
    size_t ldc;
    bool bias; /* the product adds a row vector */
    bool add;  /* the product adds a matrix; this matrix and C are fp32 */
};

/* Creates the tilings and the workers' scratch memory for products with any of the given row
 * counts.  The caller frees *out with wf_gemm_free().  Returns WEFT_NOMEM if memory runs out.
 */
enum weft_status wf_gemm_new(const struct wf_gemm_shape *shape, const size_t *row_counts,
                             size_t n_row_counts, struct wf_pool *pool, struct wf_gemm **out,
                             struct weft_error *err);
void wf_gemm_free(struct wf_gemm *p); /* NULL is allowed */
/* Returns the size of the scratch memory in bytes. */
size_t wf_gemm_bytes(const struct wf_gemm *p);
/* Returns wf_gemm_bytes() of a product that wf_gemm_new() would create for a pool of `threads`
 * threads. */
size_t wf_gemm_count_bytes(const struct wf_gemm_shape *shape, const size_t *row_counts,
                           size_t n_row_counts, unsigned threads);

/* Called once rows [row0, row1) x columns [col0, col1) of C are complete, by the worker that
 * has them in its cache. */
typedef void wf_tile_fn(void *arg, size_t row0, size_t row1, size_t col0, size_t col1,
                        unsigned worker);

struct wf_gemm_args {
    size_t rows; /* one of the row counts of wf_gemm_new() */
    struct wf_mat a;
    const struct wf_packed *b;
    const float *bias; /* n floats; used if shape.bias is set */
    struct wf_mat add; /* used if shape.add is set; may be C itself */
    struct wf_mat c;
    wf_tile_fn *after; /* or NULL */
    void *after_arg;
};

/* Runs the product on all threads of the pool.  The pool must have the same number of threads
 * as the pool passed to wf_gemm_new(). */
void wf_gemm_run(struct wf_gemm *p, struct wf_pool *pool, const struct wf_gemm_args *args);

/* -- gradients of weights ------------------------------------------------------------------ */

struct wf_wgrad;

/* Creates scratch memory for products A^T B over at most max_k rows, with at most max_n columns
 * of B.  The caller frees *out with wf_wgrad_free().  Returns WEFT_NOMEM if memory runs out. */
enum weft_status wf_wgrad_new(size_t max_k, size_t max_n, enum wf_dtype type,
                              struct wf_pool *pool, struct wf_wgrad **out,
                              struct weft_error *err);
void wf_wgrad_free(struct wf_wgrad *o); /* NULL is allowed */
/* Returns the size of the scratch memory in bytes. */
size_t wf_wgrad_bytes(const struct wf_wgrad *o);
/* Returns wf_wgrad_bytes() of what wf_wgrad_new() would create for a pool of `threads`
 * threads. */
size_t wf_wgrad_count_bytes(size_t max_k, size_t max_n, enum wf_dtype type, unsigned threads);

/* Computes sink (m, n) (+)= A^T B, with A (k, m) and B (k, n) of the type given to
 * wf_wgrad_new().  Every WF_WGRAD_TOKENS rows are a separate contribution.  Returns true if a
 * sum left the range (compute/kern/ops.h). */
bool wf_wgrad_run(struct wf_wgrad *o, struct wf_pool *pool, struct wf_sink sink,
                  struct wf_mat a, size_t m, struct wf_mat b, size_t n, size_t k);

/* -- plain C, sums in double, for tests ---------------------------------------------------- */

/* Computes c = a b (+ bias) (+ add); b (k, n) is fp32. */
void wf_gemm_ref(size_t rows, size_t n, size_t k, struct wf_mat a, struct wf_mat b,
                 const float *bias, struct wf_mat add, struct wf_mat c);
/* Computes c (m, n) = a^T b. */
void wf_wgrad_ref(float *c, struct wf_mat a, size_t m, struct wf_mat b, size_t n, size_t k);

#endif
