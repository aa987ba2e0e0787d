/* Kernels that generate one token after another: products that read each weight once, and the
 * attention of one query over stored keys and values.
 *
 * A weight has the shape (outputs, inputs), so an output is a dot product of two rows.  The
 * order of summation depends only on the number of inputs.  Results do not depend on how
 * outputs are divided into tasks or on the number of vectors multiplied at a time.  The
 * reference versions are in plain C and sum in double. */
#ifndef COMPUTE_KERN_DECODE_H
#define COMPUTE_KERN_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/kern/isa.h"
#include "compute/tensor/tensor.h"

/* Arguments of wf_gemv_rows(): y[t][r] = w[r] . x[t] + bias[r] + add[t][r] for vectors x[0 .. n
 * - 1]. */
struct wf_gemv {
    struct wf_mat w; /* (rows, k); fp32 or bf16 */
    size_t k, n;
    const float *x; /* (n, k), with row length x_ld */
    size_t x_ld;
    const float *bias; /* NULL: no bias */
    const float *add;  /* may be y; NULL: nothing is added */
    float *y;          /* (n, rows) */
    size_t y_ld;
};

/* Computes the outputs [row0, row1). */
void wf_gemv_rows(const struct wf_gemv *g, size_t row0, size_t row1);
/* Computes the outputs [row0, row1) in plain C, for tests. */
void wf_gemv_ref(const struct wf_gemv *g, size_t row0, size_t row1);

/* Arguments of wf_attend(): out = softmax(scale * q k^T) v, for one query and n >= 1 keys and
 * values.  Each row has `head` elements. */
struct wf_attend {
    size_t n, head;
    float scale;
    const float *q;     /* (head) */
    const float *k, *v; /* (n, head), with row length `head` */
    float *scores;      /* scratch memory of n floats */
    float *out;         /* (head) */
};

/* Computes a->out. */
void wf_attend(const struct wf_attend *a);
/* Computes a->out in plain C, for tests. */
void wf_attend_ref(const struct wf_attend *a);

/* Runs the code for one instruction set, for tests.  Returns false if the machine or the build
 * does not support it. */
bool wf_gemv_rows_of(enum wf_isa isa, const struct wf_gemv *g, size_t row0, size_t row1);
bool wf_attend_of(enum wf_isa isa, const struct wf_attend *a);

#endif
