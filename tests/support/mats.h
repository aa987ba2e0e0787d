/* Matrices for tests of kernels: of either type, at odd addresses, with rows further apart than
 * they are long, and with guards everywhere around that must come through untouched. */
#ifndef SUPPORT_MATS_H
#define SUPPORT_MATS_H

#include <stddef.h>
#include <stdint.h>

#include "compute/kern/ops.h"
#include "compute/tensor/tensor.h"

enum { MATS_MAX = 96 };

struct mats {
    char what[120]; /* the case at hand, for messages */
    double size;    /* of what was added up, where sums may cancel; 0 at first */
    struct mats_buffer {
        unsigned char *at; /* owned */
        size_t size;
        struct wf_mat mat;
        size_t rows, cols;
    } block[MATS_MAX];
    size_t n;
};

/* Numbers of all sizes that vectors may trip over. */
struct mats_shape {
    size_t rows, cols;
};
extern const struct mats_shape mats_shapes[];
extern const size_t mats_n_shapes;

/* The tables to test, best last; NULL after them. */
const struct wf_ops *mats_ops(int i);

void mats_begin(struct mats *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Contents are guards, too: NaN in both types, so that reading what was not written shows. */
struct wf_mat mats_new(struct mats *m, size_t rows, size_t cols, enum wf_dtype type);
/* Filled with numbers between -scale and scale. */
struct wf_mat mats_random(struct mats *m, size_t rows, size_t cols, enum wf_dtype type,
                          double scale);
struct wf_mat mats_copy(struct mats *m, struct wf_mat from, size_t rows, size_t cols);
float *mats_floats(struct mats *m, size_t n);
float *mats_random_floats(struct mats *m, size_t n, double scale);
/* Checks all guards and frees everything. */
void mats_end(struct mats *m);

double mats_get(struct wf_mat a, size_t r, size_t c);
void mats_put(struct wf_mat a, size_t r, size_t c, float value);
/* A number between -1 and 1. */
double mats_number(void);

/* |got - want| <= bound * (|want| + the largest |want|, or size if that is more) everywhere; a bf16 may also be its
 * neighbour. */
void mats_allclose(const struct mats *m, const char *name, struct wf_mat got,
                   struct wf_mat want, size_t rows, size_t cols, double bound);
void mats_allclose_floats(const struct mats *m, const char *name, const float *got,
                          const float *want, size_t n, double bound);
void mats_equal(const struct mats *m, const char *name, struct wf_mat got, struct wf_mat want,
                size_t rows, size_t cols);

/* The slope of f at *x, by differences; *x is put back. */
double mats_slope(double (*f)(const void *), const void *context, double *x);

#endif
