/* Sums of floating-point vectors without rounding, for the reducer.
 *
 * A sum of doubles is rounded, but the rounding error is a double as well.  A caller that adds
 * the errors to a second vector, and the errors of those additions to a third place, loses
 * nothing:
 *
 *     ops->set(sum, x, type, n);
 *     if (ops->add(sum, lost, y, type, n) & WF_SUM_LOST)
 *         ops->add(rest, more, lost, WF_SUM_F64, n);      sum + rest + more is exact
 *     ops->round(out, sum, rest, of, type, n);
 *
 * The results are bit-identical for every instruction set.  They assume the default
 * floating-point mode: rounding to nearest, subnormal numbers are kept. */
#ifndef COMPUTE_KERN_SUMS_H
#define COMPUTE_KERN_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/kern/isa.h"

enum wf_sum_type { WF_SUM_F32, WF_SUM_BF16, WF_SUM_F64 };

/* Results of set and add. */
enum {
    WF_SUM_LOST = 1,    /* an element of `lost` is not zero */
    WF_SUM_SKIPPED = 2, /* an element of x is not below WF_SUM_LIMIT; it counted as zero */
};

/* Elements are below this limit in magnitude, so that 2^32 of them do not overflow a double.
 * Every finite fp32 and bf16 is below it. */
#define WF_SUM_LIMIT 0x1p990

struct wf_sum_ops {
    /* sum[i] = x[i].  A negative zero becomes a positive zero. */
    unsigned (*set)(double *sum, const void *x, enum wf_sum_type type, size_t n);
    /* sum[i] += x[i], rounded; lost[i] = the exact sum - the rounded sum.  `lost` must not
     * overlap the other vectors. */
    unsigned (*add)(double *sum, double *lost, const void *x, enum wf_sum_type type, size_t n);
    /* out[i] = (sum[i] + rest[i]) / of, rounded once to the type, to nearest, ties to even.
     * `rest` is NULL if it is zero.  An element is NaN if the result is out of range or if
     * double precision does not determine the rounding, which is rare.  Returns true if there
     * is such an element.  `of` is not 0. */
    bool (*round)(void *out, const double *sum, const double *rest, uint32_t of,
                  enum wf_sum_type type, size_t n);
};

/* Returns the functions for the instruction set in use. */
const struct wf_sum_ops *wf_sum_ops(void);

/* Returns the functions for an instruction set, or NULL if this machine does not have it. */
const struct wf_sum_ops *wf_sum_ops_of(enum wf_isa isa);

/* Returns the bytes of an element. */
static inline size_t wf_sum_type_size(enum wf_sum_type type)
{
    return type == WF_SUM_F32 ? 4 : type == WF_SUM_BF16 ? 2 : 8;
}

#endif
