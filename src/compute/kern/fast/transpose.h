/* Transposition of VEC x VEC numbers of 32 bits in registers. */
#ifndef COMPUTE_KERN_FAST_TRANSPOSE_H
#define COMPUTE_KERN_FAST_TRANSPOSE_H

#include "compute/kern/fast/vec.h"

#if defined(__AVX512F__)
#define VEC_INTERLEAVE_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define VEC_INTERLEAVE_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
#define VEC_INTERLEAVE_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define VEC_INTERLEAVE_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define VEC_INTERLEAVE_LOW 0, 4, 1, 5
#define VEC_INTERLEAVE_HIGH 2, 6, 3, 7
#endif

/* Transposes VEC x VEC elements.  Each stage interleaves the rows of the upper and the lower
 * half, which rotates the bits of (row, column) by one.  After log2(VEC) stages rows and
 * columns are exchanged. */
VEC_INLINE void vec_transpose(vec v[VEC])
{
    vec next[VEC];
#pragma GCC unroll 4
    for (int stage = 1; stage < VEC; stage *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < VEC / 2; i++) {
            next[2 * i] = __builtin_shufflevector(v[i], v[i + VEC / 2], VEC_INTERLEAVE_LOW);
            next[2 * i + 1] =
                __builtin_shufflevector(v[i], v[i + VEC / 2], VEC_INTERLEAVE_HIGH);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VEC; i++)
            v[i] = next[i];
    }
}

#endif
