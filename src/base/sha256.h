/* SHA-256 (FIPS 180-4), and the text form of a hash in a Content-Security-Policy. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The hash of bytes that arrive in parts. */
struct wf_sha256 {
    uint32_t state[8];
    uint64_t len; /* number of bytes so far */
    unsigned char block[64];
};

/* Starts a hash of no bytes. */
void wf_sha256_init(struct wf_sha256 *h);
/* Adds `len` bytes.  The division of the bytes into calls does not matter. */
void wf_sha256_add(struct wf_sha256 *h, const void *bytes, size_t len);
/* Writes the hash of all bytes.  `h` must not be used afterwards, except to start again. */
void wf_sha256_finish(struct wf_sha256 *h, uint8_t out[32]);

/* Writes the hash of `len` bytes. */
void wf_sha256(const unsigned char *bytes, size_t len, uint8_t out[32]);

/* Prints the Content-Security-Policy source expression of a script or a style:
 * 'sha256-<base64>', including the single quotes. */
void wf_sha256_policy(FILE *out, const unsigned char *bytes, size_t len);

#endif
