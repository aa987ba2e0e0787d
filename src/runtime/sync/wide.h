/* Sums of doubles in fixed point over the whole range of an element type.  They hold any sum of
 * up to 2^30 elements exactly.  They are slow: the reducer uses them only for elements whose
 * sum does not fit into two doubles. */
#ifndef RUNTIME_SYNC_WIDE_H
#define RUNTIME_SYNC_WIDE_H

#include <stddef.h>
#include <stdint.h>

#include "compute/kern/sums.h"

enum {
    /* The maximum number of digits of a sum. */
    WF_WIDE_MAX_DIGITS = 70,
};

/* Returns the number of digits of a sum.  Zeros are a sum of nothing. */
size_t wf_wide_digits(enum wf_sum_type type);

/* Adds x, a finite number that is a multiple of the smallest positive number of the type, and
 * at most 2^30 times the largest. */
void wf_wide_add(int64_t *digits, enum wf_sum_type type, double x);

/* Returns the sum divided by `of`, rounded once to the type, to nearest, ties to even; infinity
 * if the result is out of range.  A sum of exactly zero is +0.  Overwrites the digits. */
double wf_wide_round(int64_t *digits, enum wf_sum_type type, uint32_t of);

#endif
