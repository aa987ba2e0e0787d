/* Random numbers without state: a pure function of (seed, stream, position). */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t wf_random_mix(uint64_t x)
{
    /* David Stafford's "variant 13" of the MurmurHash3 finaliser: every input bit reaches
     * every output bit. */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t wf_random_u64(uint64_t seed, uint64_t stream, uint64_t position)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t key = wf_random_mix(seed + golden) ^ wf_random_mix(stream * golden + 1);
    return wf_random_mix(key + position * golden);
}

/* 0 .. n-1 for n >= 1; the bias for n below 2^32 is under 2^-32. */
static inline uint32_t wf_random_below(uint64_t seed, uint64_t stream, uint64_t position,
                                       uint32_t n)
{
    return (uint32_t)(((wf_random_u64(seed, stream, position) >> 32) * n) >> 32);
}

#endif
