/* The loops behind compute/kern/peak.h, one for each set of instructions. */
#ifndef COMPUTE_KERN_PEAK_PRIV_H
#define COMPUTE_KERN_PEAK_PRIV_H

#include <stddef.h>

/* Independent sums, so many that the next one is always ready to go on: four steps of latency on
 * two units, and some to spare. */
enum { WF_PEAK_SUMS = 12 };

struct wf_peak_loop {
    /* Runs `rounds` times over all sums.  What it returns must be used. */
    float (*run)(size_t rounds);
    size_t flops; /* of one round */
};

extern const struct wf_peak_loop wf_peak_loop_portable;
#if defined(__x86_64__)
extern const struct wf_peak_loop wf_peak_loop_avx2;
extern const struct wf_peak_loop wf_peak_loop_avx512;
extern const struct wf_peak_loop wf_peak_loop_bf16; /* run is NULL: not in this build */
#endif

/* ADD(x) for each of the sums, which are names and not an array so that they stay in registers. */
#define WF_PEAK_EACH(ADD)                                                                      \
    ADD(s0)                                                                                    \
    ADD(s1) ADD(s2) ADD(s3) ADD(s4) ADD(s5) ADD(s6) ADD(s7) ADD(s8) ADD(s9) ADD(s10) ADD(s11)

#endif
