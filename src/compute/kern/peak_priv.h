/* The measuring loops of compute/kern/peak.h, one set per instruction set. */
#ifndef COMPUTE_KERN_PEAK_PRIV_H
#define COMPUTE_KERN_PEAK_PRIV_H

#include <stddef.h>

/* The number of independent sums.  A latency of four cycles on two units requires eight sums;
 * the others are a reserve. */
enum { WF_PEAK_SUMS = 12 };

struct wf_peak_loop {
    /* Runs `rounds` times over all sums.  The caller must use the result. */
    float (*run)(size_t rounds);
    size_t flops; /* floating-point operations per round */
    /* Returns the sum of n floats: a plain read of memory.  NULL in wf_peak_loop_bf16. */
    float (*sum)(const float *at, size_t n);
};

extern const struct wf_peak_loop wf_peak_loop_portable;
#if defined(__x86_64__)
extern const struct wf_peak_loop wf_peak_loop_avx2;
extern const struct wf_peak_loop wf_peak_loop_avx512;
/* Its `run` is NULL if the build does not support bf16. */
extern const struct wf_peak_loop wf_peak_loop_bf16;
#endif

/* Expands ADD(x) for each sum x.  The sums are variables instead of an array so that they stay
 * in registers. */
#define WF_PEAK_EACH(ADD)                                                                      \
    ADD(s0)                                                                                    \
    ADD(s1) ADD(s2) ADD(s3) ADD(s4) ADD(s5) ADD(s6) ADD(s7) ADD(s8) ADD(s9) ADD(s10) ADD(s11)

#endif
