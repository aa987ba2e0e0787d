/* The loops of compute/kern/peak_priv.h: multiply-adds on registers, and reads of memory. */
#include "compute/kern/peak_priv.h"

#include "compute/kern/fast/vec.h"

extern const struct wf_peak_loop WF_KERN(wf_peak_loop);

/* Runs independent chains of multiply-adds.  Each sum converges to 1, so no infinity or
 * denormal slows it down.  The factor is hidden from the compiler, so it can neither precompute
 * the result nor merge sums. */
static float run(size_t rounds)
{
    volatile float opaque = 0.5F;
    const vec half = vec_set(opaque);
    vec s0 = half, s1 = 2 * s0, s2 = 2 * s1, s3 = 2 * s2, s4 = 2 * s3, s5 = 2 * s4, s6 = 2 * s5,
        s7 = 2 * s6, s8 = 2 * s7, s9 = 2 * s8, s10 = 2 * s9, s11 = 2 * s10;
    for (size_t i = 0; i < rounds; i++) {
#define STEP(s) s = vec_fma(s, half, half);
        WF_PEAK_EACH(STEP)
#undef STEP
    }
    vec sums[PARTS] = {{0}};
#define SUM(s) sums[0] += s;
    WF_PEAK_EACH(SUM)
#undef SUM
    return wide_sum(sums);
}

/* Number of parallel sums, so that the latency of additions does not limit the rate. */
enum { READ_SUMS = 4 };

static float sum_floats(const float *at, size_t n)
{
    vec s[READ_SUMS] = {{0}};
    size_t i = 0;
    for (; i + READ_SUMS * VEC <= n; i += READ_SUMS * VEC)
#pragma GCC unroll 4
        for (int j = 0; j < READ_SUMS; j++)
            s[j] += vec_load(at + i + j * VEC);
    float rest = 0;
    for (; i < n; i++)
        rest += at[i];
    vec sums[PARTS] = {(s[0] + s[1]) + (s[2] + s[3])};
    return wide_sum(sums) + rest;
}

const struct wf_peak_loop WF_KERN(wf_peak_loop) = {
    .run = run,
    .flops = 2 * VEC * WF_PEAK_SUMS,
    .sum = sum_floats,
};
