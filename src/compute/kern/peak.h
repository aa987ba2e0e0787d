/* How fast the machine could multiply and add if it did nothing else: what utilization is
 * measured against. */
#ifndef COMPUTE_KERN_PEAK_H
#define COMPUTE_KERN_PEAK_H

#include "compute/kern/pool.h"
#include "compute/tensor/tensor.h"

/* Floating-point operations a second, two for each multiply-add, of all threads of the pool
 * together, on numbers in registers; by the instructions that products of this type use.  Takes
 * some hundredths of a second. */
double wf_peak_flops(struct wf_pool *pool, enum wf_dtype type);

/* The peak beside work: from here on each thread of the pool now and then, between two of its
 * tasks, multiplies for a tenth of a millisecond (about half a percent of the time).  What else
 * runs on a shared machine, and how it clocks itself under load, then hold for both alike, where
 * a measurement before or after may find the machine at another time's best.
 * wf_peak_sampler_free() ends it.  It takes the pool's wf_pool_set_hook(), which must be free. */
struct wf_peak_sampler;
enum weft_status wf_peak_sampler_new(struct wf_pool *pool, enum wf_dtype type,
                                     struct wf_peak_sampler **out, struct weft_error *err);
void wf_peak_sampler_free(struct wf_peak_sampler *b); /* NULL is allowed */

struct wf_peak_sample {
    double flops;   /* a second, of all threads together; 0 when some thread had no turn */
    double seconds; /* that it took, of each thread on average */
};

/* Since the last call, or since it was made.  Not while the pool runs. */
struct wf_peak_sample wf_peak_sampler_read(struct wf_peak_sampler *b);

/* Like wf_peak_flops(), by processor time: what it would be if nothing else ran. */
double wf_peak_flops_cpu_time(struct wf_pool *pool, enum wf_dtype type);

#endif
