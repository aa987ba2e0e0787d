/* Matrix products.
 *
 * A product C = A B has its right factor packed: in panels of WEFT_PANEL columns, each panel row
 * after row, so that the innermost loop reads one stream.
 *
 *            n                         panel 0      panel 1
 *        +--------+                   k rows of     k rows of       columns past n are zero
 *      k |   B    |     becomes       48 columns    48 columns
 *        +--------+
 *
 * A factor with many rows is packed in chunks of rows, chunk after chunk, each as above, so that a
 * panel of it and rows of A fit into a second-level cache.  Weights are packed once a step and
 * used by every micro.  Products run tile by tile, each computed by one thread and each element
 * in one order of sums, so the bits do not depend on the number of threads.
 *
 * The gradient of a weight is a sum over tokens, C (+)= A^T B, into a weft_sink: a
 * finished tile is added to the exact sums straight from the registers. */
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
    WEFT_PANEL = 48,
    /* Tokens whose sum is one contribution to a weight's gradient: longer micros make several. */
    WEFT_OUTER_TOKENS = 1024,
};

/* Rows of a matrix are packed in groups of this many. */
enum { WEFT_PACK_ROWS = 16 };

/* -- packed factors ------------------------------------------------------------------------ */

/* How the elements of a panel lie. */
enum weft_pack_form {
    WEFT_PACK_F32,
    WEFT_PACK_BF16_AS_F32, /* rounded to bf16, stored as fp32: machines without dot products */
    WEFT_PACK_BF16_PAIRS,  /* two rows of a column side by side */
};

struct weft_packed {
    size_t k, n; /* of the factor; k may be more than the matrix has rows: those are zero */
    enum weft_pack_form form;
    void *at; /* borrowed */
};

/* The form for factors of this type on this machine. */
enum weft_pack_form weft_pack_form(enum weft_type type);
size_t weft_packed_bytes(size_t k, size_t n, enum weft_pack_form form);
/* Rows of a chunk: all, or a fixed number. */
static inline size_t weft_pack_chunk(size_t k)
{
    return k <= 1024 ? k : 768;
}
/* Where the panel of columns p * WEFT_PANEL .. begins in the chunk that starts with row k0. */
void *weft_packed_at(const struct weft_packed *b, size_t k0, size_t p);

/* Packs rows [row0, row1) of a plain (rows, cols) matrix w, both as the factor W itself (`same`,
 * k >= rows) and as its transpose (`turned`, k = cols); either may be NULL.  row0 is a multiple
 * of WEFT_PACK_ROWS, and so is row1 unless it is the last row.  Memory that is never written (the
 * rows past the last) must have been zeroed. */
void weft_pack_rows(const struct weft_packed *same, const struct weft_packed *turned,
                    const float *w, size_t rows, size_t cols, size_t row0, size_t row1);

/* -- products ------------------------------------------------------------------------------ */

struct weft_product;

/* What is known of a product before it runs. */
struct weft_product_shape {
    size_t n, k;
    enum weft_type type; /* of A: fp32, or bf16 */
    size_t lda;
    enum weft_type c_type;
    size_t ldc;
    bool bias; /* a row vector is added */
    bool add;  /* a matrix (fp32, and C too) is added */
};

/* Everything that a product with any of the given numbers of rows needs: how it is cut, and each
 * worker's scratch.  weft_product_free() frees. */
enum weft_status weft_product_new(const struct weft_product_shape *shape,
                                  const size_t *row_counts, size_t n_row_counts,
                                  struct weft_pool *pool, struct weft_product **out,
                                  struct weft_error *err);
void weft_product_free(struct weft_product *p);          /* NULL is allowed */
size_t weft_product_bytes(const struct weft_product *p); /* of scratch that it holds */

/* Called when rows [row0, row1) x columns [col0, col1) of C are done, by the worker that has
 * them in its cache. */
typedef void weft_tile_fn(void *arg, size_t row0, size_t row1, size_t col0, size_t col1,
                          unsigned worker);

struct weft_product_args {
    size_t rows; /* one of the counts given before */
    struct weft_mat a;
    const struct weft_packed *b;
    const float *bias;   /* n floats, if the shape says so */
    struct weft_mat add; /* likewise; it may be C itself */
    struct weft_mat c;
    weft_tile_fn *after; /* or NULL */
    void *after_arg;
};

void weft_product_run(struct weft_product *p, struct weft_pool *pool,
                      const struct weft_product_args *args);

/* -- gradients of weights ------------------------------------------------------------------ */

struct weft_outer;

/* Scratch for products A^T B over at most `max_k` rows, with at most max_n columns of B.
 * weft_outer_free() frees. */
enum weft_status weft_outer_new(size_t max_k, size_t max_n, enum weft_type type,
                                struct weft_pool *pool, struct weft_outer **out,
                                struct weft_error *err);
void weft_outer_free(struct weft_outer *o); /* NULL is allowed */
size_t weft_outer_bytes(const struct weft_outer *o);

/* sink (m, n) (+)= A^T B, A (k, m), B (k, n), of the type that the scratch was made for.  Each
 * WEFT_OUTER_TOKENS rows are a contribution of their own.  True when some sum left the range
 * (compute/kern/ops.h). */
bool weft_outer_run(struct weft_outer *o, struct weft_pool *pool, struct weft_sink sink,
                    struct weft_mat a, size_t m, struct weft_mat b, size_t n, size_t k);

/* -- plain C, sums in double, for tests ---------------------------------------------------- */

/* c = a b (+ bias) (+ add); b (k, n) fp32 */
void weft_product_ref(size_t rows, size_t n, size_t k, struct weft_mat a, struct weft_mat b,
                      const float *bias, struct weft_mat add, struct weft_mat c);
/* c (m, n) = a^T b */
void weft_outer_ref(float *c, struct weft_mat a, size_t m, struct weft_mat b, size_t n,
                    size_t k);

#endif
