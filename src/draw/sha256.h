/* SHA-256, for a page's policy that names the scripts that may run. */
#ifndef DRAW_SHA256_H
#define DRAW_SHA256_H

#include <stddef.h>
#include <stdint.h>

void weft_sha256(const unsigned char *bytes, size_t len, uint8_t out[32]);

#endif
