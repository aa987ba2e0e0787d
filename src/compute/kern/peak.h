/* How fast the machine could multiply and add if it did nothing else: what utilization is
 * measured against. */
#ifndef COMPUTE_KERN_PEAK_H
#define COMPUTE_KERN_PEAK_H

#include "compute/kern/pool.h"
#include "compute/tensor/tensor.h"

/* Floating-point operations a second, two for each multiply-add, of all threads of the pool
 * together, on numbers in registers; by the instructions that products of this type use.  Takes
 * some hundredths of a second. */
double weft_peak_flops(struct weft_pool *pool, enum weft_type type);

/* The peak beside work: from here on each thread of the pool now and then, between two of its
 * tasks, multiplies for a tenth of a millisecond (about half a percent of the time).  What else
 * runs on a shared machine, and how it clocks itself under load, then hold for both alike, where
 * a measurement before or after may find the machine at another time's best.
 * weft_beside_free() ends it.  It takes the pool's weft_pool_between(), which must be free. */
struct weft_beside;
enum weft_status weft_beside_new(struct weft_pool *pool, enum weft_type type,
                                 struct weft_beside **out, struct weft_error *err);
void weft_beside_free(struct weft_beside *b); /* NULL is allowed */

struct weft_beside_peak {
    double flops;   /* a second, of all threads together; 0 when some thread had no turn */
    double seconds; /* that it took, of each thread on average */
};

/* Since the last call, or since it was made.  Not while the pool runs. */
struct weft_beside_peak weft_beside_take(struct weft_beside *b);

/* Like weft_peak_flops(), by processor time: what it would be if nothing else ran. */
double weft_peak_flops_alone(struct weft_pool *pool, enum weft_type type);

#endif
