/* A fast hash without cryptographic strength: FNV-1a over 64-bit words, mixed at the end
 * of every piece. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Extends the hash `h` (0 at the start) by one piece of n bytes and returns the new hash.  The
 * division into pieces matters: "ab", "c" and "a", "bc" have different hashes. */
static inline uint64_t wf_hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    const uint64_t prime = UINT64_C(1099511628211);
    h ^= UINT64_C(14695981039346656037) ^ n;
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        h = (h ^ word) * prime;
        h ^= h >> 29;
    }
    for (; n > 0; n--, at++)
        h = (h ^ *at) * prime;
    h ^= h >> 32;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

/* Returns the CRC-32C (Castagnoli) of n bytes.  The function uses no lookup table and is meant
 * for short records. */
static inline uint32_t wf_crc32c(const void *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (const unsigned char *at = bytes, *end = at + n; at < end; at++) {
        crc ^= *at;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

#endif
