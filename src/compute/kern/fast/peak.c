/* Multiply-adds on registers: compute/kern/peak.h. */
#include "compute/kern/peak_priv.h"

#include "compute/kern/fast/vec.h"

extern const struct wf_peak_loop WF_KERN(wf_peak_loop);

/* Said outright: builds that optimize little do not fuse by themselves. */
VEC_INLINE vec multiply_add(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* Each sum goes to its fixed point, 1: no infinity and no denormal slows it down.  The compiler
 * neither knows the factor, lest it think ahead, nor that any two sums are the same. */
static float run(size_t rounds)
{
    volatile float opaque = 0.5F;
    const vec half = vec_set(opaque);
    vec s0 = half, s1 = 2 * s0, s2 = 2 * s1, s3 = 2 * s2, s4 = 2 * s3, s5 = 2 * s4, s6 = 2 * s5,
        s7 = 2 * s6, s8 = 2 * s7, s9 = 2 * s8, s10 = 2 * s9, s11 = 2 * s10;
    for (size_t i = 0; i < rounds; i++) {
#define STEP(s) s = multiply_add(s, half, half);
        WF_PEAK_EACH(STEP)
#undef STEP
    }
    vec sum = {0};
#define SUM(s) sum += s;
    WF_PEAK_EACH(SUM)
#undef SUM
    return vec_sum(sum);
}

const struct wf_peak_loop WF_KERN(wf_peak_loop) = {run, 2 * VEC *WF_PEAK_SUMS};
