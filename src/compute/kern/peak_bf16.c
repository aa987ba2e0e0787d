/* The peak loop of bf16 dot products on registers; compiled like gemm_bf16.c. */
#include "compute/kern/peak_priv.h"

#if defined(__AVX512BF16__)

#include <immintrin.h>

/* Runs independent chains of products of pairs.  The pairs are zeros, hidden from the
 * compiler.  The sums keep their values, which all differ, and the units are as busy as
 * with other data. */
static float run(size_t rounds)
{
    volatile int opaque = 0;
    volatile float one = 1.0F;
    const __m512bh pairs = (__m512bh)_mm512_set1_epi32(opaque);
    const __m512 step = _mm512_set1_ps(one);
    __m512 s0 = step, s1 = _mm512_add_ps(s0, step), s2 = _mm512_add_ps(s1, step),
           s3 = _mm512_add_ps(s2, step), s4 = _mm512_add_ps(s3, step),
           s5 = _mm512_add_ps(s4, step), s6 = _mm512_add_ps(s5, step),
           s7 = _mm512_add_ps(s6, step), s8 = _mm512_add_ps(s7, step),
           s9 = _mm512_add_ps(s8, step), s10 = _mm512_add_ps(s9, step),
           s11 = _mm512_add_ps(s10, step);
    for (size_t i = 0; i < rounds; i++) {
#define STEP(s) s = _mm512_dpbf16_ps(s, pairs, pairs);
        WF_PEAK_EACH(STEP)
#undef STEP
    }

    __m512 sum = _mm512_setzero_ps();
#define SUM(s) sum = _mm512_add_ps(sum, s);
    WF_PEAK_EACH(SUM)
#undef SUM
    return _mm512_reduce_add_ps(sum);
}

const struct wf_peak_loop wf_peak_loop_bf16 = {.run = run, .flops = 4 * 16 * WF_PEAK_SUMS};

#elif defined(__x86_64__)
const struct wf_peak_loop wf_peak_loop_bf16 = {.run = NULL};
#else
typedef int wf_peak_bf16_is_elsewhere; /* ISO C forbids an empty file */
#endif
