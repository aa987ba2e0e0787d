/* XXH3-128, whole and in blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "training/ckpt/store_priv.h"

static struct weft_store_hash as_text(XXH128_hash_t hash)
{
    struct weft_store_hash out;
    snprintf(out.hex, sizeof out.hex, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return out;
}

struct weft_store_hash weft_store_hash_of(const void *bytes, size_t n)
{
    return as_text(XXH3_128bits(bytes, n));
}

/* The hasher is xxhash's own state, which its own functions allocate with the alignment it needs. */
static XXH3_state_t *state_of(struct weft_store_hasher *h)
{
    return (XXH3_state_t *)(void *)h;
}

struct weft_store_hasher *weft_store_hasher_new(void)
{
    return (struct weft_store_hasher *)(void *)XXH3_createState();
}

void weft_store_hasher_free(struct weft_store_hasher *h)
{
    XXH3_freeState(state_of(h));
}

void weft_store_hasher_begin(struct weft_store_hasher *h)
{
    XXH3_128bits_reset(state_of(h));
}

void weft_store_hasher_add(struct weft_store_hasher *h, const void *bytes, size_t n)
{
    XXH3_128bits_update(state_of(h), bytes, n);
}

struct weft_store_hash weft_store_hasher_end(const struct weft_store_hasher *h)
{
    return as_text(XXH3_128bits_digest((const XXH3_state_t *)(const void *)h));
}
