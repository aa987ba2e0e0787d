/* Stateless random numbers: a pure function of (seed, stream, position). */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* Mixes 64 bits.  The function is a bijection in which every input bit affects every output
 * bit. */
static inline uint64_t wf_random_mix(uint64_t x)
{
    /* David Stafford's "variant 13" of the MurmurHash3 finaliser. */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Returns 64 random bits. */
static inline uint64_t wf_random_u64(uint64_t seed, uint64_t stream, uint64_t position)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t key = wf_random_mix(seed + golden) ^ wf_random_mix(stream * golden + 1);
    return wf_random_mix(key + position * golden);
}

/* Returns a random number from 0 to n-1; n must be at least 1.  The bias is less than 2^-32. */
static inline uint32_t wf_random_below(uint64_t seed, uint64_t stream, uint64_t position,
                                       uint32_t n)
{
    return (uint32_t)(((wf_random_u64(seed, stream, position) >> 32) * n) >> 32);
}

#endif
