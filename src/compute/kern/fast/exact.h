/* Arithmetic of exact sums: int64 in units of 2^-50.  The results are bit-identical for every
 * instruction set. */
#ifndef COMPUTE_KERN_FAST_EXACT_H
#define COMPUTE_KERN_FAST_EXACT_H

#include <stdbool.h>

#include "compute/kern/fast/vec.h"

enum { HALF = VEC / 2 };

VEC_INLINE vec_half_i64 exact_load(const int64_t *p)
{
    vec_half_i64 v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE void exact_store(int64_t *p, vec_half_i64 v)
{
    memcpy(p, &v, sizeof v);
}

VEC_INLINE vec_half half_load(const float *p)
{
    vec_half v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE vec_half_f64 half_to_f64(vec_half x)
{
#if defined(__AVX512F__) /* GCC 12 would convert half by half */
    return (vec_half_f64)_mm512_cvtps_pd((__m256)x);
#elif defined(__AVX2__)
    return (vec_half_f64)_mm256_cvtps_pd((__m128)x);
#else
    return __builtin_convertvector(x, vec_half_f64);
#endif
}

/* Returns x / 2^-50 rounded to the nearest integer, ties to even.  Correct for |x| < 2^12,
 * undefined otherwise. */
VEC_INLINE vec_half_i64 exact_from(vec_half x)
{
#if defined(__AVX512DQ__)
    return (vec_half_i64)_mm512_cvtps_epi64((__m256)(x * 0x1p50f));
#else
    /* The conversion has two parts, since adding a large constant leaves only 51 bits: first
     * the multiples of 2^32, then the remainder.  All additions except the last are exact. */
    const vec_half_f64 coarse = (vec_half_f64){0} + 0x1.8p84,
                       fine = (vec_half_f64){0} + 0x1.8p52;
    vec_half_f64 units = half_to_f64(x) * 0x1p50;
    vec_half_f64 high = units + coarse;
    vec_half_f64 low = (units - (high - coarse)) + fine;
    vec_half_u64 high_bits = (vec_half_u64)high - (vec_half_u64)coarse;
    return (vec_half_i64)((high_bits << 32) + ((vec_half_u64)low - (vec_half_u64)fine));
#endif
}

/* Returns x rounded to a multiple of 2^-50, as fp32. */
VEC_INLINE vec exact_round(vec x)
{
    return vec_round(x * 0x1p50f) * 0x1p-50f;
}

/* Returns the sum as fp32, rounded once. */
VEC_INLINE vec_half exact_to(vec_half_i64 sums)
{
#if defined(__AVX512DQ__)
    return (vec_half)_mm512_cvtepi64_ps((__m512i)sums) * 0x1p-50f;
#else
    /* Each half of the integer becomes a double by adding an exponent: 2^84 + 2^63 + the upper
     * half, 2^52 + the lower half.  Both constants are subtracted from the upper double. */
    const uint64_t high_one = UINT64_C(0x4530000080000000);
    const uint64_t low_one = UINT64_C(0x4330000000000000);
    vec_half_u64 bits = (vec_half_u64)sums;
    vec_half_f64 high = (vec_half_f64)((bits >> 32) ^ high_one) - (0x1p84 + 0x1p63 + 0x1p52);
#if defined(__AVX2__)
    vec_half_f64 low = (vec_half_f64)_mm256_blend_epi32(
        (__m256i)bits, (__m256i)((vec_half_u64){0} + low_one), 0xaa);
#else
    vec_half_f64 low = (vec_half_f64)((bits & 0xffffffff) | low_one);
#endif

    /* The sum of the two doubles may be rounded, and rounding it again to fp32 could give the
     * wrong result.  If the sum was rounded, truncate the sum instead and set its last bit
     * (round to odd): the second rounding is then correct. */
    vec_half_f64 sum = high + low, lost = low - (sum - high);
    vec_half_u64 inexact = (vec_half_u64)(lost != 0);
    vec_half_u64 too_far = (((vec_half_u64)lost ^ (vec_half_u64)sum) >> 63) & inexact;
    vec_half_u64 odd = ((vec_half_u64)sum - too_far) | (inexact & 1);
    return __builtin_convertvector((vec_half_f64)odd, vec_half) * 0x1p-50f;
#endif
}

VEC_INLINE vec exact_to_vec(const int64_t *sums)
{
    return vec_join(exact_to(exact_load(sums)), exact_to(exact_load(sums + HALF)));
}

/* Sets the sign bit of each element with |sum| >= 2^62. */
VEC_INLINE vec_half_u64 exact_out_of_range(vec_half_u64 sum)
{
    const uint64_t max = (UINT64_C(1) << 62) - 1;
    return (sum + max) | (max - sum);
}

VEC_INLINE bool any_negative(vec_half_u64 v)
{
    uint64_t all = 0;
    for (int i = 0; i < HALF; i++)
        all |= v[i];
    return all >> 63 != 0;
}

#endif
