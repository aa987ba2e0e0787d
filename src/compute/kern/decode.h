/* What generating one token after another needs: products that read each weight once, and the
 * attention of one query over stored keys and values.
 *
 * A weight lies as (outputs, inputs), so that an output is a dot product of two rows.  How its
 * sum is ordered depends on the number of inputs alone: bits depend neither on how the outputs
 * are cut into tasks nor on how many vectors are multiplied at a time.  Reference versions are in
 * plain C with sums in double. */
#ifndef COMPUTE_KERN_DECODE_H
#define COMPUTE_KERN_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/kern/isa.h"
#include "compute/kern/pool.h"
#include "compute/tensor/tensor.h"

/* y[t][r] = w[r] . x[t] + bias[r] + add[t][r] for n vectors x. */
struct wf_gemv {
    struct wf_mat w; /* (rows, k); fp32 or bf16 */
    size_t k, n;
    const float *x; /* (n, k), rows x_ld apart */
    size_t x_ld;
    const float *bias; /* NULL: none */
    const float *add;  /* (n, rows), rows y_ld apart; NULL: none; it may be y */
    float *y;          /* (n, rows) */
    size_t y_ld;
};

/* Outputs [row0, row1) of it. */
void wf_gemv_rows(const struct wf_gemv *g, size_t row0, size_t row1);
void wf_gemv_ref(const struct wf_gemv *g, size_t row0, size_t row1);

/* out = softmax(scale * q k^T) v, one query over n >= 1 keys and values, rows of `head`. */
struct wf_attend {
    size_t n, head;
    float scale;
    const float *q;     /* (head) */
    const float *k, *v; /* (n, head), rows one after the other */
    float *scores;      /* scratch: n */
    float *out;         /* (head) */
};

void wf_attend(const struct wf_attend *a);
void wf_attend_ref(const struct wf_attend *a);

/* Bytes a second at which the pool's threads together read memory that is in no cache: a plain
 * sum over `n` floats, once. */
double wf_read_bandwidth(struct wf_pool *pool, const float *at, size_t n);

/* For tests: the same compiled for one set of instructions; false when the machine or the build
 * lacks it. */
bool wf_gemv_rows_of(enum wf_isa isa, const struct wf_gemv *g, size_t row0, size_t row1);
bool wf_attend_of(enum wf_isa isa, const struct wf_attend *a);

#endif
