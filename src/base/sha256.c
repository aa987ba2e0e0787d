/* SHA-256 as specified in FIPS 180-4. */
#include "base/sha256.h"

#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
};

static uint32_t rotate(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static void add_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];

    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }

    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t big1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + big1 + choice + round_constants[i] + w[i];
        uint32_t big0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + big0 + majority;
    }

    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void wf_sha256_init(struct wf_sha256 *h)
{
    *h = (struct wf_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void wf_sha256_add(struct wf_sha256 *h, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    while (len > 0) {
        size_t used = (size_t)(h->len % sizeof h->block), room = sizeof h->block - used;
        size_t now = len < room ? len : room;
        memcpy(h->block + used, at, now);
        if (now == room)
            add_block(h->state, h->block);
        h->len += now;
        at += now;
        len -= now;
    }
}

void wf_sha256_finish(struct wf_sha256 *h, uint8_t out[32])
{
    unsigned char last[128] = {0};
    size_t rest = (size_t)(h->len % sizeof h->block), end = rest < 56 ? 64 : 128;
    memcpy(last, h->block, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[end - 1 - (size_t)i] = (unsigned char)(h->len * 8 >> 8 * i);
    for (size_t i = 0; i < end; i += 64)
        add_block(h->state, last + i);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void wf_sha256(const unsigned char *bytes, size_t len, uint8_t out[32])
{
    struct wf_sha256 h;
    wf_sha256_init(&h);
    wf_sha256_add(&h, bytes, len);
    wf_sha256_finish(&h, out);
}

static void put_base64(FILE *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < n ? bytes[i + 2] : 0;
        fputc(digits[three >> 18], out);
        fputc(digits[three >> 12 & 63], out);
        fputc(i + 1 < n ? digits[three >> 6 & 63] : '=', out);
        fputc(i + 2 < n ? digits[three & 63] : '=', out);
    }
}

void wf_sha256_policy(FILE *out, const unsigned char *bytes, size_t len)
{
    uint8_t hash[32];
    wf_sha256(bytes, len, hash);
    fputs("'sha256-", out);
    put_base64(out, hash, sizeof hash);
    fputc('\'', out);
}
