/* A slow reference for sums of floating-point numbers: two large natural numbers, one for the
 * positive terms and one for the negative terms, in units of 2^-1200. */
#ifndef SUPPORT_EXACT_SUM_H
#define SUPPORT_EXACT_SUM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/sync.h"

enum { EXACT_WORDS = 38 };

struct exact_sum {
    uint64_t positive[EXACT_WORDS], negative[EXACT_WORDS]; /* the lowest word first */
};

/* Adds a finite number. */
void exact_sum_add(struct exact_sum *sum, double x);

/* Returns (sum / of) rounded to the type, to nearest, ties to even; infinity beyond the largest
 * number. */
double exact_sum_round(const struct exact_sum *sum, uint32_t of, enum weft_sync_type type);

/* Returns element i of an array of a type. */
double exact_sum_get(const void *x, enum weft_sync_type type, size_t i);

/* Stores a number that the type can represent. */
void exact_sum_put(void *x, enum weft_sync_type type, size_t i, double v);

/* Returns a random finite number of the type with an exponent in [low, high]; the smallest
 * exponents give subnormal numbers. */
double exact_sum_random(uint64_t random, enum weft_sync_type type, int low, int high);

/* A line of tests/data/sync/sums.txt. */
struct exact_case {
    enum weft_sync_type type;
    enum weft_sync_op op;
    double result, terms[16];
    uint32_t n;
};

/* Reads the next case.  Returns false at the end of the file. */
bool exact_case_read(FILE *f, struct exact_case *out);

#endif
