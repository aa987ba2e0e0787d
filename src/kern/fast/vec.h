/* Vectors of floats, as wide as the instructions this file is compiled for.
 *
 * Every source under kern/fast/ is compiled once for each set of instructions (CMakeLists.txt:
 * WEFT_ISA_SUFFIX is portable, avx2 or avx512) and names what it exports with WEFT_KERN(), so
 * one text serves all.  These files, and only these, may contract a * b + c into one fused
 * operation: for one set of instructions the result is the same everywhere. */
#ifndef KERN_FAST_VEC_H
#define KERN_FAST_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tensor/tensor.h"

#define WEFT_KERN_PASTE2(name, suffix) name##_##suffix
#define WEFT_KERN_PASTE(name, suffix) WEFT_KERN_PASTE2(name, suffix)
#define WEFT_KERN(name) WEFT_KERN_PASTE(name, WEFT_ISA_SUFFIX)

#ifdef __AVX512F__
enum { VEC = 16 };
#else
enum { VEC = 8 };
#endif

typedef float vec __attribute__((vector_size(4 * VEC)));
typedef int32_t vec_i32 __attribute__((vector_size(4 * VEC)));
typedef uint32_t vec_u32 __attribute__((vector_size(4 * VEC)));
typedef uint16_t vec_u16 __attribute__((vector_size(2 * VEC)));
typedef double vec_half_f64 __attribute__((vector_size(4 * VEC))); /* VEC / 2 doubles */

static inline vec vec_load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec vec_set(float x)
{
    return x - (vec){0}; /* and not 0 + x, which costs an addition: -0 + 0 is +0 */
}

/* The first n < VEC elements; the others are zero, resp. left alone. */
static inline vec vec_load_part(const float *p, size_t n)
{
    vec v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
}

static inline void vec_store_part(float *p, vec v, size_t n)
{
    memcpy(p, &v, n * sizeof *p);
}

/* Adds pairs at a fixed distance, halving the width: one order for each width. */
static inline float vec_sum(vec v)
{
    float a[VEC];
    memcpy(a, &v, sizeof a);
    for (int n = VEC / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            a[i] += a[i + n];
    return a[0];
}

static inline vec vec_select(vec_i32 mask, vec yes, vec no)
{
    return (vec)((mask & (vec_i32)yes) | (~mask & (vec_i32)no));
}

static inline vec vec_max(vec a, vec b)
{
    return vec_select(a > b, a, b);
}

static inline vec vec_min(vec a, vec b)
{
    return vec_select(a < b, a, b);
}

/* e^x to about 1e-7 relative; 0 below -87.3, infinity above 88.7, NaN stays NaN. */
static inline vec vec_exp(vec x)
{
    const vec high = vec_set(88.72283f), low = vec_set(-87.33654f);
    vec_i32 over = x > high, under = x < low;
    vec y = vec_min(vec_max(x, low), high);
    /* x = n ln 2 + r, |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds to the nearest whole number. */
    const vec magic = vec_set(12582912.0f);
    vec n = y * 1.44269504f + magic;
    vec_i32 exponent = (vec_i32)n - 0x4b400000;
    n -= magic;
    vec r = y - n * 0.693359375f;
    r += n * 2.12194440e-4f;
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* 2^n in two steps: n may be 128, which has no float of its own. */
    vec_i32 half = exponent >> 1;
    p *= (vec)((half + 127) << 23);
    p *= (vec)((exponent - half + 127) << 23);
    p = vec_select(over, vec_set(__builtin_inff()), p);
    p = vec_select(under, (vec){0}, p);
    return vec_select(x != x, x, p);
}

/* fp32 to bf16, to nearest, ties to even; NaN stays NaN. */
static inline vec_u16 vec_to_bf16(vec x)
{
    vec_u32 bits = (vec_u32)x;
    vec_u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    vec_u32 nan = (bits >> 16) | 0x40;
    vec_u32 mask = (vec_u32)(x != x);
    return __builtin_convertvector((nan & mask) | (rounded & ~mask), vec_u16);
}

static inline vec vec_from_bf16(vec_u16 h)
{
    return (vec)(__builtin_convertvector(h, vec_u32) << 16);
}

static inline vec vec_load_bf16(const weft_bf16 *p)
{
    vec_u16 h;
    memcpy(&h, p, sizeof h);
    return vec_from_bf16(h);
}

static inline void vec_store_bf16(weft_bf16 *p, vec v)
{
    vec_u16 h = vec_to_bf16(v);
    memcpy(p, &h, sizeof h);
}

#endif
