/* Vectors of floats, as wide as the instruction set that the including file is compiled for.
 *
 * Every source file in kern/fast/ is compiled once per instruction set (cmake/weft.cmake:
 * WEFT_ISA_SUFFIX is portable, avx2 or avx512) and names its exported symbols with WF_KERN().
 * Only these files may contract a * b + c into one fused operation: for one instruction set the
 * result is the same everywhere. */
#ifndef COMPUTE_KERN_FAST_VEC_H
#define COMPUTE_KERN_FAST_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
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

/* Returns the sum of all elements.  Repeatedly adds the upper half to the lower half, so the
 * order depends only on the width. */
VEC_INLINE float vec_sum(vec v)
{
    typedef float four __attribute__((vector_size(16)));
#ifdef __AVX2__
    vec_half h = __builtin_shufflevector(v, v, VEC_LOW_HALF) +
                 __builtin_shufflevector(v, v, VEC_HIGH_HALF);
#ifdef __AVX512F__
    four q =
        __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#else
    four q = h;
#endif
#else
    four q = v;
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
    vec shifted = y * 1.44269504f + magic;
    vec n = shifted - magic;
    vec r = y - n * 0.693359375f;
    r += n * 2.12194440e-4f;
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
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
