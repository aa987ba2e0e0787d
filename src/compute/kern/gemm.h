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
 * A factor with many rows is packed in chunks of rows, chunk after chunk, each as above, so that a
 * panel of it and rows of A fit into a second-level cache.  Weights are packed once a step and
 * used by every micro.  Products run tile by tile, each computed by one thread and each element
 * in one order of sums, so the bits do not depend on the number of threads.
 *
 * The gradient of a weight is a sum over tokens, C (+)= A^T B, into a wf_sink: a
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
    WF_PANEL = 48,
    /* Tokens whose sum is one contribution to a weight's gradient: longer micros make several. */
    WF_WGRAD_TOKENS = 1024,
};

/* Rows of a matrix are packed in groups of this many. */
enum { WF_PACK_ROWS = 16 };

/* -- packed factors ------------------------------------------------------------------------ */

/* How the elements of a panel lie. */
enum wf_pack_form {
    WF_PACK_F32,
    WF_PACK_BF16_AS_F32, /* rounded to bf16, stored as fp32: machines without dot products */
    WF_PACK_BF16_PAIRS,  /* two rows of a column side by side */
};

struct wf_packed {
    size_t k, n; /* of the factor; k may be more than the matrix has rows: those are zero */
    enum wf_pack_form form;
    void *at; /* borrowed */
};

/* The form for factors of this type on this machine. */
enum wf_pack_form wf_pack_form(enum wf_dtype type);
size_t wf_packed_bytes(size_t k, size_t n, enum wf_pack_form form);
/* Rows of a chunk: all, or a fixed number. */
static inline size_t wf_pack_k_slice(size_t k)
{
    return k <= 1024 ? k : 768;
}
/* Where the panel of columns p * WF_PANEL .. begins in the chunk that starts with row k0. */
void *wf_packed_at(const struct wf_packed *b, size_t k0, size_t p);

/* Packs rows [row0, row1) of a plain (rows, cols) matrix w, both as the factor W itself (`same`,
 * k >= rows) and as its transpose (`transposed`, k = cols); either may be NULL.  row0 is a multiple
 * of WF_PACK_ROWS, and so is row1 unless it is the last row.  Memory that is never written (the
 * rows past the last) must have been zeroed. */
void wf_pack_rows(const struct wf_packed *same, const struct wf_packed *transposed,
                  const float *w, size_t rows, size_t cols, size_t row0, size_t row1);

/* -- products ------------------------------------------------------------------------------ */

struct wf_gemm;

/* What is known of a product before it runs. */
struct wf_gemm_shape {
    size_t n, k;
    enum wf_dtype type; /* of A: fp32, or bf16 */
    size_t lda;
    enum wf_dtype c_type;
    size_t ldc;
    bool bias; /* a row vector is added */
    bool add;  /* a matrix (fp32, and C too) is added */
};

/* Everything that a product with any of the given numbers of rows needs: how it is cut, and each
 * worker's scratch.  wf_gemm_free() frees. */
enum weft_status wf_gemm_new(const struct wf_gemm_shape *shape, const size_t *row_counts,
                             size_t n_row_counts, struct wf_pool *pool, struct wf_gemm **out,
                             struct weft_error *err);
void wf_gemm_free(struct wf_gemm *p);          /* NULL is allowed */
size_t wf_gemm_bytes(const struct wf_gemm *p); /* of scratch that it holds */

/* Called when rows [row0, row1) x columns [col0, col1) of C are done, by the worker that has
 * them in its cache. */
typedef void wf_tile_fn(void *arg, size_t row0, size_t row1, size_t col0, size_t col1,
                        unsigned worker);

struct wf_gemm_args {
    size_t rows; /* one of the counts given before */
    struct wf_mat a;
    const struct wf_packed *b;
    const float *bias; /* n floats, if the shape says so */
    struct wf_mat add; /* likewise; it may be C itself */
    struct wf_mat c;
    wf_tile_fn *after; /* or NULL */
    void *after_arg;
};

void wf_gemm_run(struct wf_gemm *p, struct wf_pool *pool, const struct wf_gemm_args *args);

/* -- gradients of weights ------------------------------------------------------------------ */

struct wf_wgrad;

/* Scratch for products A^T B over at most `max_k` rows, with at most max_n columns of B.
 * wf_wgrad_free() frees. */
enum weft_status wf_wgrad_new(size_t max_k, size_t max_n, enum wf_dtype type,
                              struct wf_pool *pool, struct wf_wgrad **out,
                              struct weft_error *err);
void wf_wgrad_free(struct wf_wgrad *o); /* NULL is allowed */
size_t wf_wgrad_bytes(const struct wf_wgrad *o);

/* sink (m, n) (+)= A^T B, A (k, m), B (k, n), of the type that the scratch was made for.  Each
 * WF_WGRAD_TOKENS rows are a contribution of their own.  True when some sum left the range
 * (compute/kern/ops.h). */
bool wf_wgrad_run(struct wf_wgrad *o, struct wf_pool *pool, struct wf_sink sink,
                  struct wf_mat a, size_t m, struct wf_mat b, size_t n, size_t k);

/* -- plain C, sums in double, for tests ---------------------------------------------------- */

/* c = a b (+ bias) (+ add); b (k, n) fp32 */
void wf_gemm_ref(size_t rows, size_t n, size_t k, struct wf_mat a, struct wf_mat b,
                 const float *bias, struct wf_mat add, struct wf_mat c);
/* c (m, n) = a^T b */
void wf_wgrad_ref(float *c, struct wf_mat a, size_t m, struct wf_mat b, size_t n, size_t k);

#endif
