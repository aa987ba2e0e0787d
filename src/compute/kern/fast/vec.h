/* Vectors of floats, as wide as the instruction set that the including file is compiled for.
 *
 * Every source file in kern/fast/ is compiled once per instruction set (cmake/weft.cmake:
 * WEFT_ISA_SUFFIX is portable, avx2 or avx512) and names its exported symbols with WF_KERN().
 *
 * The results have the same bits for every instruction set, compiler and optimization level.
 * Three rules ensure this:
 * - The compiler never fuses a * b + c.  vec_fma() and its relatives fuse, on every machine.
 * - A sum across a row has WIDE partial sums, whatever the width of a vector: column c belongs
 *   to partial sum c % WIDE.  wide_sum() adds them in one order.
 * - Exponentials and the like are polynomials in this directory or functions of base/math.h,
 *   never functions of libm, which differ between machines. */
#ifndef COMPUTE_KERN_FAST_VEC_H
#define COMPUTE_KERN_FAST_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "compute/tensor/tensor.h"

#define WF_KERN_PASTE2(name, suffix) name##_##suffix
#define WF_KERN_PASTE(name, suffix) WF_KERN_PASTE2(name, suffix)
#define WF_KERN(name) WF_KERN_PASTE(name, WEFT_ISA_SUFFIX)

/* Inlining is required: calls would pass vectors through memory, and loads of whole and partial
 * vectors would not become separate loops. */
#define VEC_INLINE static inline __attribute__((always_inline))

#ifdef __AVX512F__
enum { VEC = 16 };
#define VEC_LOW_HALF 0, 1, 2, 3, 4, 5, 6, 7
#define VEC_HIGH_HALF 8, 9, 10, 11, 12, 13, 14, 15
#elif defined(__AVX2__)
enum { VEC = 8 };
#define VEC_LOW_HALF 0, 1, 2, 3
#define VEC_HIGH_HALF 4, 5, 6, 7
#else /* GCC 12 compares vectors wider than the machine's element by element */
enum { VEC = 4 };
#define VEC_LOW_HALF 0, 1
#define VEC_HIGH_HALF 2, 3
#endif

enum { WIDE = 16, PARTS = WIDE / VEC };

typedef float vec __attribute__((vector_size(4 * VEC)));
typedef int32_t vec_i32 __attribute__((vector_size(4 * VEC)));
typedef uint32_t vec_u32 __attribute__((vector_size(4 * VEC)));
typedef uint16_t vec_u16 __attribute__((vector_size(2 * VEC)));
/* Vectors of VEC / 2 elements. */
typedef float vec_half __attribute__((vector_size(2 * VEC)));
typedef double vec_half_f64 __attribute__((vector_size(4 * VEC)));
typedef int64_t vec_half_i64 __attribute__((vector_size(4 * VEC)));
typedef uint64_t vec_half_u64 __attribute__((vector_size(4 * VEC)));

VEC_INLINE vec vec_load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

VEC_INLINE vec vec_set(float x)
{
    /* Not 0 + x: the compiler cannot remove that addition, since 0 + -0 is +0. */
    return x - (vec){0};
}

/* Loads the first n < VEC elements.  The other elements are zero. */
VEC_INLINE vec vec_load_part(const float *p, size_t n)
{
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vec v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
#endif
}

/* Stores the first n < VEC elements.  Other memory is not written. */
VEC_INLINE void vec_store_part(float *p, vec v, size_t n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    memcpy(p, &v, n * sizeof *p);
#endif
}

VEC_INLINE vec vec_join(vec_half low, vec_half high)
{
#if defined(__AVX512DQ__)
    return (vec)_mm512_insertf32x8(_mm512_castps256_ps512((__m256)low), (__m256)high, 1);
#else
    return __builtin_shufflevector(low, high, VEC_LOW_HALF, VEC_HIGH_HALF);
#endif
}

/* Returns the sum of WIDE partial sums, which are in PARTS vectors.  Repeatedly adds the upper
 * half to the lower half. */
VEC_INLINE float wide_sum(const vec parts[PARTS])
{
    typedef float four __attribute__((vector_size(16)));
#if defined(__AVX512F__)
    vec v = parts[0];
    vec_half h = __builtin_shufflevector(v, v, VEC_LOW_HALF) +
                 __builtin_shufflevector(v, v, VEC_HIGH_HALF);
    four q =
        __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#elif defined(__AVX2__)
    vec h = parts[0] + parts[1];
    four q = __builtin_shufflevector(h, h, VEC_LOW_HALF) +
             __builtin_shufflevector(h, h, VEC_HIGH_HALF);
#else
    four q = (parts[0] + parts[2]) + (parts[1] + parts[3]);
#endif
    q += __builtin_shufflevector(q, q, 2, 3, 2, 3);
    return q[0] + q[1];
}

VEC_INLINE vec vec_select(vec_i32 mask, vec yes, vec no)
{
#if defined(__AVX512DQ__)
    return (vec)_mm512_mask_mov_ps((__m512)no, _mm512_movepi32_mask((__m512i)mask),
                                   (__m512)yes);
#elif defined(__AVX2__)
    return (vec)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
    return (vec)((mask & (vec_i32)yes) | (~mask & (vec_i32)no));
#endif
}

/* Returns nonzero if some element of a comparison is true. */
VEC_INLINE int vec_any(vec_i32 mask)
{
    int32_t all = 0;
    for (int i = 0; i < VEC; i++)
        all |= mask[i];
    return all != 0;
}

/* Returns the first n <= VEC elements of v, then those of `rest`. */
VEC_INLINE vec vec_first(vec v, size_t n, vec rest)
{
    if (n == VEC)
        return v;
    vec_i32 index;
    for (int i = 0; i < VEC; i++)
        index[i] = i;
    return vec_select(index < (int32_t)n, v, rest);
}

/* Returns a > b ? a : b, which is b if a or b is NaN.  vec_min() treats NaN in the same way. */
VEC_INLINE vec vec_max(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vec_select(a > b, a, b);
#endif
}

VEC_INLINE vec vec_min(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vec_select(a < b, a, b);
#endif
}

VEC_INLINE vec vec_abs(vec x)
{
    return (vec)((vec_i32)x & 0x7fffffff);
}

/* -- fused operations ---------------------------------------------------------------------- */

#if defined(__SSE2__) && !defined(__FMA__)

/* Returns product + c rounded to odd: truncated, with the last bit set if that changes the
 * value.  A second rounding to fp32 is then correct. */
VEC_INLINE __m128d add_to_odd(__m128d product, __m128d c)
{
    const __m128i one = _mm_set1_epi64x(1);
    const __m128d zero = _mm_setzero_pd();
    __m128d sum = _mm_add_pd(product, c), rounded_c = _mm_sub_pd(sum, product);
    __m128d lost =
        _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, rounded_c)), _mm_sub_pd(c, rounded_c));

    /* NaN, which comes from infinities, compares false and leaves the sum as it is. */
    __m128i inexact =
        _mm_castpd_si128(_mm_or_pd(_mm_cmplt_pd(lost, zero), _mm_cmpgt_pd(lost, zero)));
    __m128i too_far =
        _mm_srli_epi64(_mm_and_si128(_mm_castpd_si128(_mm_xor_pd(lost, sum)), inexact), 63);
    __m128i bits = _mm_sub_epi64(_mm_castpd_si128(sum), too_far);
    return _mm_castsi128_pd(_mm_or_si128(bits, _mm_and_si128(inexact, one)));
}

static __attribute__((noinline, cold, unused)) __m128 fma_carefully(__m128d low, __m128d high,
                                                                    __m128 c)
{
    __m128 lower = _mm_cvtpd_ps(add_to_odd(low, _mm_cvtps_pd(c)));
    __m128 upper = _mm_cvtpd_ps(add_to_odd(high, _mm_cvtps_pd(_mm_movehl_ps(c, c))));
    return _mm_movelh_ps(lower, upper);
}

/* Computes a * b + c in double, where the product is exact, and rounds the sum to fp32.  Two
 * roundings differ from one only if the sum is halfway between two fp32, which its last 29 bits
 * show for normal numbers.  Such sums, and all that are subnormal as fp32, are computed again.
 * This is much slower than a machine's instruction. */
VEC_INLINE __m128 fma_in_double(__m128 a, __m128 b, __m128 c)
{
    __m128 a_high = _mm_movehl_ps(a, a), b_high = _mm_movehl_ps(b, b);
    __m128d low = _mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b));
    __m128d high = _mm_mul_pd(_mm_cvtps_pd(a_high), _mm_cvtps_pd(b_high));
    __m128 low_sum = _mm_castpd_ps(_mm_add_pd(low, _mm_cvtps_pd(c)));
    __m128 high_sum = _mm_castpd_ps(_mm_add_pd(high, _mm_cvtps_pd(_mm_movehl_ps(c, c))));

    /* The lower and the upper 32 bits of the four sums. */
    __m128i tail = _mm_castps_si128(_mm_shuffle_ps(low_sum, high_sum, 0x88));
    __m128i head = _mm_castps_si128(_mm_shuffle_ps(low_sum, high_sum, 0xdd));
    __m128i half = _mm_cmpeq_epi32(_mm_and_si128(tail, _mm_set1_epi32(0x1fffffff)),
                                   _mm_set1_epi32(0x10000000));
    __m128i size = _mm_and_si128(head, _mm_set1_epi32(0x7fffffff));
    __m128i small = _mm_and_si128(_mm_cmplt_epi32(size, _mm_set1_epi32(0x38100000)),
                                  _mm_cmpgt_epi32(size, _mm_setzero_si128()));
    if (__builtin_expect(_mm_movemask_epi8(_mm_or_si128(half, small)) != 0, 0))
        return fma_carefully(low, high, c);
    return _mm_movelh_ps(_mm_cvtpd_ps(_mm_castps_pd(low_sum)),
                         _mm_cvtpd_ps(_mm_castps_pd(high_sum)));
}

#endif

/* Returns a * b + c, rounded once. */
VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__SSE2__)
    return (vec)fma_in_double((__m128)a, (__m128)b, (__m128)c);
#elif defined(__aarch64__)
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    for (int i = 0; i < VEC; i++)
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

/* Returns a * b + c, rounded once, between wf_flush_begin() and wf_flush_end() (kern/flush.h).
 * a and b are bf16.  A sum that is subnormal before it is rounded may be the smallest normal
 * number afterwards.  x86 keeps it, and so does this function.  ARM flushes it. */
VEC_INLINE vec vec_fma_flushed(vec a, vec b, vec c)
{
    vec sum = vec_fma(a, b, c);
#if defined(__aarch64__)
    /* A sum that was rounded has c != 0, since the product of two bf16 is exact. */
    vec_i32 doubtful = (sum == 0) & (c != 0);
    if (__builtin_expect(vmaxvq_u32((uint32x4_t)doubtful) != 0, 0))
        for (int i = 0; i < VEC; i++) {
            double exact = (double)a[i] * (double)b[i] + (double)c[i];
            /* Rounded to 24 bits, as if there were no smallest exponent. */
            if (doubtful[i] && (exact >= 0x1.ffffffp-127 || exact <= -0x1.ffffffp-127))
                sum[i] = exact > 0 ? 0x1p-126f : -0x1p-126f;
        }
#endif
    return sum;
}

/* Returns a * b - c, rounded once. */
VEC_INLINE vec vec_fms(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmsub_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vec)_mm256_fmsub_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return vec_fma(a, b, -c);
#endif
}

/* Returns c - a * b, rounded once. */
VEC_INLINE vec vec_fnma(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vec)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return vec_fma(-a, b, c);
#endif
}

/* -- functions ----------------------------------------------------------------------------- */

/* Rounds to the nearest integer, ties to even; zero is never negative. */
VEC_INLINE vec vec_round(vec x)
{
#if defined(__AVX512F__)
    return (vec)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC) +
           0.0f;
#elif defined(__AVX2__)
    return (vec)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC) +
           0.0f;
#else
    /* Numbers from 2^23 on are integers; below, adding 2^23 removes the fraction. */
    const vec shift = vec_set(8388608.0f);
    vec size = vec_abs(x), whole = (size + shift) - shift;
    whole = vec_select(size < shift, whole, size);
    return vec_select(x < 0, -whole, whole) + 0.0f;
#endif
}

VEC_INLINE vec vec_sqrt(vec x)
{
#if defined(__AVX512F__)
    return (vec)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vec)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (vec)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < VEC; i++)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

/* Returns e^x with a relative error of about 1e-7; 0 below -87.3, infinity above 88.7, NaN
 * stays NaN. */
VEC_INLINE vec vec_exp(vec x)
{
    const vec high = vec_set(88.8f), low = vec_set(-87.33654f);
    vec y = vec_min(high, vec_max(low, x)); /* this order propagates NaN */

    /* x = n ln 2 + r, |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds to the nearest integer. */
    const vec magic = vec_set(12582912.0f);
    vec shifted = vec_fma(y, vec_set(1.44269504f), magic);
    vec n = shifted - magic;
    vec r = vec_fnma(n, vec_set(0.693359375f), y);
    r = vec_fma(n, vec_set(2.12194440e-4f), r);
    vec p = vec_fma(r, vec_set(1.9875691500e-4f), vec_set(1.3981999507e-3f));
    p = vec_fma(p, r, vec_set(8.3334519073e-3f));
    p = vec_fma(p, r, vec_set(4.1665795894e-2f));
    p = vec_fma(p, r, vec_set(1.6666665459e-1f));
    p = vec_fma(p, r, vec_set(5.0000001201e-1f));
    p = vec_fma(p, r * r, r) + 1.0f;
#if defined(__AVX512F__)
    __mmask16 seen = _mm512_cmp_ps_mask((__m512)x, (__m512)low, _CMP_NLT_UQ);
    return (vec)_mm512_maskz_scalef_ps(seen, (__m512)p, (__m512)n);
#else
    /* Multiply by 2^n in two steps, since n may be 128, and 2^128 is not a float. */
    vec_i32 exponent = (vec_i32)shifted - 0x4b400000;
    vec_i32 half = exponent >> 1;
    p *= (vec)((vec_u32)(half + 127) << 23);
    p *= (vec)((vec_u32)(exponent - half + 127) << 23);
    return (vec)((vec_i32)p & ~(x < low));
#endif
}

/* Converts fp32 to bf16, to nearest, ties to even; NaN stays NaN. */
VEC_INLINE vec_u16 vec_to_bf16(vec x)
{
    vec_u32 bits = (vec_u32)x;
    vec_u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    vec_u32 nan = (bits >> 16) | 0x40;
    vec_u32 chosen = (vec_u32)vec_select(x != x /* NOLINT(misc-redundant-expression): NaN */,
                                         (vec)nan, (vec)rounded);
#if defined(__AVX512F__)
    return (vec_u16)_mm512_cvtepi32_epi16((__m512i)chosen);
#elif defined(__AVX2__)
    /* The pack works on 128-bit lanes; the permutation puts their halves in order. */
    __m256i packed = _mm256_packus_epi32((__m256i)chosen, (__m256i)chosen);
    return (vec_u16)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
    return __builtin_convertvector(chosen, vec_u16);
#endif
}

VEC_INLINE vec vec_from_bf16(vec_u16 h)
{
#if defined(__AVX512F__) /* GCC 12 would convert half by half */
    return (vec)((vec_u32)_mm512_cvtepu16_epi32((__m256i)h) << 16);
#elif defined(__AVX2__)
    return (vec)((vec_u32)_mm256_cvtepu16_epi32((__m128i)h) << 16);
#elif defined(__x86_64__) /* interleaves zeros and halves */
    int64_t bits;
    memcpy(&bits, &h, sizeof bits);
    return (vec)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_cvtsi64_si128(bits));
#else
    return (vec)(__builtin_convertvector(h, vec_u32) << 16);
#endif
}

VEC_INLINE vec vec_load_bf16(const wf_bf16 *p)
{
    vec_u16 h;
    memcpy(&h, p, sizeof h);
    return vec_from_bf16(h);
}

VEC_INLINE void vec_store_bf16(wf_bf16 *p, vec v)
{
    vec_u16 h = vec_to_bf16(v);
    memcpy(p, &h, sizeof h);
}

VEC_INLINE vec vec_load_part_bf16(const wf_bf16 *p, size_t n)
{
    vec_u16 h = {0};
    memcpy(&h, p, n * sizeof *p);
    return vec_from_bf16(h);
}

VEC_INLINE void vec_store_part_bf16(wf_bf16 *p, vec v, size_t n)
{
    vec_u16 h = vec_to_bf16(v);
    memcpy(p, &h, n * sizeof *p);
}

#endif
