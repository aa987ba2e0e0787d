/* A random run of the gradient reducer, for every transport.  Each rank compares the bits of
 * its results with exact sums of large integers. */
#ifndef SUPPORT_REDUCTION_H
#define SUPPORT_REDUCTION_H

#include "weft/sync.h"

enum { REDUCTION_RANKS = 6, REDUCTION_STEPS = 4, REDUCTION_PARAMS = 10 };

/* The seed determines all values, their types and exponents, and which rank registers which
 * parameters, with how many gradients, in which step. */
struct reduction {
    uint64_t seed;
    uint64_t timing; /* order and time of the calls; must not change any bit */
    uint32_t n_ranks;
    enum weft_sync_op op;
    void *expected[REDUCTION_STEPS][REDUCTION_PARAMS]; /* owned */
};

/* Computes the expected results.  Returns false if there is no memory. */
bool reduction_init(struct reduction *w);
void reduction_release(struct reduction *w);

/* Runs all steps of a rank; `arg` is the reduction. */
weft_rank_fn reduction_rank;

#endif
