/* Computes XXH3-128 hashes as text.  The hashes detect damage, not forgery. */
#ifndef TRAINING_CKPT_XXH3_H
#define TRAINING_CKPT_XXH3_H

#include <stddef.h>

enum { WF_XXH3_CHARS = 32 };

/* A hash in hexadecimal, most significant digit first. */
struct wf_xxh3 {
    char hex[WF_XXH3_CHARS + 1];
};

/* Returns the hash of n bytes. */
struct wf_xxh3 wf_xxh3_bytes(const void *bytes, size_t n);

struct wf_xxh3_hasher; /* opaque: hashes bytes that arrive in blocks */

/* Returns a hasher, or NULL if memory runs out.  Call wf_xxh3_hasher_reset() before the first
 * update. */
struct wf_xxh3_hasher *wf_xxh3_hasher_new(void);
void wf_xxh3_hasher_free(struct wf_xxh3_hasher *h); /* NULL is allowed */
/* Starts a new hash. */
void wf_xxh3_hasher_reset(struct wf_xxh3_hasher *h);
/* Adds n bytes to the hash. */
void wf_xxh3_hasher_update(struct wf_xxh3_hasher *h, const void *bytes, size_t n);
/* Returns the hash of all bytes since the last reset. */
struct wf_xxh3 wf_xxh3_hasher_digest(const struct wf_xxh3_hasher *h);

#endif
