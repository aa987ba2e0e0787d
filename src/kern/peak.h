/* How fast the machine could multiply and add if it did nothing else: what utilization is
 * measured against. */
#ifndef KERN_PEAK_H
#define KERN_PEAK_H

#include "kern/pool.h"
#include "tensor/tensor.h"

/* Floating-point operations a second, two for each multiply-add, of all threads of the pool
 * together, on numbers in registers; by the instructions that products of this type use.  Takes
 * some hundredths of a second. */
double weft_peak_flops(struct weft_pool *pool, enum weft_type type);

/* The same by processor time: what it would be if nothing else ran. */
double weft_peak_flops_alone(struct weft_pool *pool, enum weft_type type);

#endif
