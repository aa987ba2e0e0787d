/* Vector functions that attention needs beyond compute/kern/fast/vec.h: a base-2 exponential, a
 * single-instruction maximum, copying of blocks of rows from and to matrices, and
 * transposition. */
#ifndef COMPUTE_KERN_FAST_ATTENTION_MATH_H
#define COMPUTE_KERN_FAST_ATTENTION_MATH_H

#include "compute/kern/fast/attention.h"
#include "compute/kern/fast/vec.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Returns the larger of a and b in each lane.  If one of them is NaN, the result may be
 * either. */
ALWAYS_INLINE vec larger(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return vec_select(a > b, a, b);
#endif
}

/* Returns 0 in lanes where t < low, and x in all other lanes, including those where t is
 * NaN. */
ALWAYS_INLINE vec zero_below(vec t, float low, vec x)
{
#if defined(__AVX512F__)
    __mmask16 keep = _mm512_cmp_ps_mask((__m512)t, _mm512_set1_ps(low), _CMP_NLT_UQ);
    return (vec)_mm512_maskz_mov_ps(keep, (__m512)x);
#elif defined(__AVX2__)
    __m256 keep = _mm256_cmp_ps((__m256)t, _mm256_set1_ps(low), _CMP_NLT_UQ);
    return (vec)_mm256_and_ps(keep, (__m256)x);
#else
    return (vec)((vec_i32)x & ~(vec_i32)(t < low));
#endif
}

/* Returns 2^t for t at most slightly above 0, with a relative error of about 1e-7; NaN stays
 * NaN.  Results below 2^-80 are 0: they are negligible beside the largest probability of a row,
 * and products with them would be denormal, which is slow. */
ALWAYS_INLINE vec exp2_or_zero(vec t)
{
    /* Adding `magic` rounds t to an integer n.  The lowest bits of the result are 127 + n;
     * shifted into the exponent, they form the float 2^n. */
    const float magic = 12582912.0f + 127;
    vec n = t + magic;
    vec power = (vec)((vec_i32)n << 23);
    vec r = t - (n - magic);
    /* The minimax polynomial of degree 6 on [-1/2, 1/2]; its relative error is at most 2e-9. */
    vec p = vec_fma(r, vec_set(1.534581242594868e-4f), vec_set(1.3399930903688073e-3f));
    p = vec_fma(p, r, vec_set(9.618489071726799e-3f));
    p = vec_fma(p, r, vec_set(5.550328642129898e-2f));
    p = vec_fma(p, r, vec_set(2.4022646248340607e-1f));
    p = vec_fma(p, r, vec_set(6.931471824645996e-1f));
    p = vec_fma(p, r, vec_set(1.0f));
    return zero_below(t, -80, p * power);
}

/* Returns log(x) for normal x >= 1/2, with an error of about 1e-7; NaN and infinity become
 * NaN. */
ALWAYS_INLINE vec log_of(vec x)
{
    /* x = m 2^e with m from 0.707 to 1.414; with s = f / (2 + f), log(1 + f) = 2 s + 2/3 s^3 +
     * 2/5 s^5 + ... */
    const int32_t root_half = 0x3f3504f3;
    vec_i32 exponent = ((vec_i32)x - root_half) >> 23;
    vec f = (vec)((vec_i32)x - (exponent << 23)) - 1.0f;
    vec e = __builtin_convertvector(exponent, vec), s = f / (2.0f + f), z = s * s;
    vec p = vec_fma(z, vec_set(2.0f / 9), vec_set(2.0f / 7));
    p = vec_fma(p, z, vec_set(2.0f / 5));
    p = vec_fma(p, z, vec_set(2.0f / 3));

    /* f - s (f - z p) loses nothing near f = 0; the parts of ln 2 are those of vec_exp(). */
    vec small = vec_fnma(s, vec_fnma(z, p, f), f);
    small = vec_fma(e, vec_set(-2.12194440e-4f), small);
    vec zero_or_nan = x - x; /* NOLINT(misc-redundant-expression): NaN if x is not finite */
    return vec_fma(e, vec_set(0.693359375f), small) + zero_or_nan;
}

/* Copies rows [0, n) of m as floats: `head` elements per row, then zeros up to `ld`; then rows
 * of zeros up to `rows`. */
static inline void pack(float *to, size_t ld, size_t rows, struct wf_mat m, size_t n,
                        size_t head)
{
    for (size_t r = 0; r < n; r++, to += ld) {
        size_t c = 0;
        if (m.type == WF_DTYPE_F32) {
            const float *from = wf_mat_f32(m, r, 0);
            for (; c + VEC <= head; c += VEC)
                vec_store(to + c, vec_load(from + c));
            for (; c < head; c++)
                to[c] = from[c];
        } else {
            const wf_bf16 *from = wf_mat_bf16(m, r, 0);
            for (; c + VEC <= head; c += VEC)
                vec_store(to + c, vec_load_bf16(from + c));
            for (; c < head; c++) {
                uint32_t bits = (uint32_t)from[c] << 16;
                memcpy(to + c, &bits, sizeof bits);
            }
        }
        for (; c < ld; c++)
            to[c] = 0;
    }

    if (rows > n)
        memset(to, 0, (rows - n) * ld * sizeof *to);
}

/* Stores m[r] = from[r] * scales[r * step] for n rows of `head` elements. */
static inline void unpack(struct wf_mat m, const float *from, size_t ld, size_t n, size_t head,
                          const float *scales, size_t step)
{
    for (size_t r = 0; r < n; r++, from += ld, scales += step) {
        size_t c = 0;
        if (m.type == WF_DTYPE_F32) {
            float *to = wf_mat_f32(m, r, 0);
            for (; c + VEC <= head; c += VEC)
                vec_store(to + c, vec_load(from + c) * *scales);
            if (c < head)
                vec_store_part(to + c, vec_load(from + c) * *scales, head - c);
        } else {
            wf_bf16 *to = wf_mat_bf16(m, r, 0);
            for (; c + VEC <= head; c += VEC)
                vec_store_bf16(to + c, vec_load(from + c) * *scales);
            if (c < head) {
                vec_u16 last = vec_to_bf16(vec_load(from + c) * *scales);
                memcpy(to + c, &last, (head - c) * sizeof *to);
            }
        }
    }
}

/* Interleaves the lower, respectively upper, halves of a and b, element by element. */
#if defined(__AVX512F__)
#define INTERLEAVE_LOW(a, b)                                                                   \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b)                                                                  \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif defined(__AVX2__)
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* Interleaves row i with row i + VEC/2 for all i < VEC/2.  This rotates the bits of an
 * element's index, row * VEC + column, by one.  After log2(VEC) steps, rows and columns are
 * exchanged. */
ALWAYS_INLINE void transpose_step(vec *to, const vec *from)
{
#pragma GCC unroll 8
    for (int i = 0; i < VEC / 2; i++) {
        to[2 * i] = INTERLEAVE_LOW(from[i], from[i + VEC / 2]);
        to[2 * i + 1] = INTERLEAVE_HIGH(from[i], from[i + VEC / 2]);
    }
}

ALWAYS_INLINE void transpose_square(float *to, size_t to_ld, const float *from, size_t from_ld)
{
    vec a[VEC], b[VEC];
#pragma GCC unroll 16
    for (int i = 0; i < VEC; i++)
        a[i] = vec_load(from + (size_t)i * from_ld);
    transpose_step(b, a);
    transpose_step(a, b);
    const vec *done = a;
    if (VEC > 4) {
        transpose_step(b, a);
        done = b;
    }
    if (VEC > 8) {
        transpose_step(a, b);
        done = a;
    }
#pragma GCC unroll 16
    for (int i = 0; i < VEC; i++)
        vec_store(to + (size_t)i * to_ld, done[i]);
}

/* Stores to[c][r] = from[r][c].  rows and cols must be multiples of VEC. */
static inline void transpose(float *to, size_t to_ld, const float *from, size_t from_ld,
                             size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c += VEC)
        for (size_t r = 0; r < rows; r += VEC)
            transpose_square(to + c * to_ld + r, to_ld, from + r * from_ld + c, from_ld);
}

#endif
