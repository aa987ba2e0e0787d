/* SHA-256 (FIPS 180-4), and the text form of a hash in a Content-Security-Policy. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the hash of `len` bytes. */
void wf_sha256(const unsigned char *bytes, size_t len, uint8_t out[32]);

/* Prints the Content-Security-Policy source expression of a script or a style:
 * 'sha256-<base64>', including the single quotes. */
void wf_sha256_policy(FILE *out, const unsigned char *bytes, size_t len);

#endif
