/* Matrices for tests of kernels: fp32 or bf16, at unaligned addresses, with gaps between
 * rows, and surrounded by guard bytes that kernels must not change. */
#ifndef SUPPORT_MATS_H
#define SUPPORT_MATS_H

#include <stddef.h>
#include <stdint.h>

#include "compute/kern/ops.h"
#include "compute/tensor/tensor.h"

enum { MATS_MAX = 96 };

struct mats {
    char what[120]; /* the current case, for messages */
    double size;    /* magnitude of the summands, if sums may cancel; initially 0 */
    struct mats_buffer {
        unsigned char *at; /* owned */
        size_t size;
        struct wf_mat mat;
        size_t rows, cols;
    } block[MATS_MAX];
    size_t n;
};

/* Sizes around multiples of vector lengths. */
struct mats_shape {
    size_t rows, cols;
};
extern const struct mats_shape mats_shapes[];
extern const size_t mats_n_shapes;

/* Returns table i of the kernels to test, the fastest last; NULL after the last one. */
const struct wf_ops *mats_ops(int i);

void mats_begin(struct mats *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Allocates a matrix filled with NaN, so that reads of unwritten elements show in the
 * results. */
struct wf_mat mats_new(struct mats *m, size_t rows, size_t cols, enum wf_dtype type);
/* Allocates a matrix of random numbers between -scale and scale. */
struct wf_mat mats_random(struct mats *m, size_t rows, size_t cols, enum wf_dtype type,
                          double scale);
struct wf_mat mats_copy(struct mats *m, struct wf_mat from, size_t rows, size_t cols);
float *mats_floats(struct mats *m, size_t n);
float *mats_random_floats(struct mats *m, size_t n, double scale);
/* Checks all guards and frees everything. */
void mats_end(struct mats *m);

double mats_get(struct wf_mat a, size_t r, size_t c);
void mats_put(struct wf_mat a, size_t r, size_t c, float value);
/* Returns a random number between -1 and 1. */
double mats_number(void);

/* Checks |got - want| <= bound * (|want| + max(largest |want|, size)) for all elements.  A
 * bf16 may also be the neighbour of the expected one. */
void mats_allclose(const struct mats *m, const char *name, struct wf_mat got,
                   struct wf_mat want, size_t rows, size_t cols, double bound);
void mats_allclose_floats(const struct mats *m, const char *name, const float *got,
                          const float *want, size_t n, double bound);
void mats_equal(const struct mats *m, const char *name, struct wf_mat got, struct wf_mat want,
                size_t rows, size_t cols);

/* Returns the derivative of f at *x by finite differences; restores *x. */
double mats_slope(double (*f)(const void *), const void *context, double *x);

#endif
