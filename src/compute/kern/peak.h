/* Measures the peak rate of multiply-adds, to which utilization is relative, and the rate of
 * memory reads. */
#ifndef COMPUTE_KERN_PEAK_H
#define COMPUTE_KERN_PEAK_H

#include "compute/kern/pool.h"
#include "compute/tensor/tensor.h"

/* Returns floating-point operations per second, two per multiply-add, of all threads of the
 * pool together, on values in registers, with the instructions that products of this type use.
 * Takes a few hundredths of a second. */
double wf_peak_flops(struct wf_pool *pool, enum wf_dtype type);

/* Measures the peak during other work.  Each thread of the pool occasionally, between two of
 * its tasks, multiplies for a tenth of a millisecond (about 0.5% of the time).  The load and
 * the clock frequency of a shared machine then affect the work and the measurement alike,
 * whereas a separate measurement may see other conditions.  wf_peak_sampler_free() ends the
 * sampling.  The sampler occupies wf_pool_set_hook(), which must be unused. */
struct wf_peak_sampler;

/* Creates a sampler and starts the sampling.  The caller owns *out. */
enum weft_status wf_peak_sampler_new(struct wf_pool *pool, enum wf_dtype type,
                                     struct wf_peak_sampler **out, struct weft_error *err);
void wf_peak_sampler_free(struct wf_peak_sampler *b); /* NULL is allowed */

struct wf_peak_sample {
    /* Operations per second of all threads together; 0 if a thread took no sample. */
    double flops;
    double seconds; /* time spent sampling, average per thread */
};

/* Returns the measurement since the last call, or since the start.  Must not be called while
 * the pool runs. */
struct wf_peak_sample wf_peak_sampler_read(struct wf_peak_sampler *b);

/* Measures like wf_peak_flops(), but divides by CPU time: the rate on a machine without other
 * load. */
double wf_peak_flops_cpu_time(struct wf_pool *pool, enum wf_dtype type);

/* Returns the bytes per second at which the pool's threads together read memory that is in no
 * cache.  Reads `n` floats at `at` once. */
double wf_read_bandwidth(struct wf_pool *pool, const float *at, size_t n);

#endif
