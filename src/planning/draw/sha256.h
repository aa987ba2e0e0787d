/* SHA-256, for a page's policy that names the scripts that may run. */
#ifndef PLANNING_DRAW_SHA256_H
#define PLANNING_DRAW_SHA256_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

void wf_sha256(const unsigned char *bytes, size_t len, uint8_t out[32]);

/* As a page's policy names a script or a style: 'sha256-...', quotes included. */
void wf_sha256_policy(FILE *out, const unsigned char *bytes, size_t len);

#endif
