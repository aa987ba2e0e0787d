/* XXH3-128, whole and in blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "training/ckpt/store_priv.h"

static struct wf_store_hash as_text(XXH128_hash_t hash)
{
    struct wf_store_hash out;
    snprintf(out.hex, sizeof out.hex, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return out;
}

struct wf_store_hash wf_store_hash_bytes(const void *bytes, size_t n)
{
    return as_text(XXH3_128bits(bytes, n));
}

/* The hasher is xxhash's own state, which its own functions allocate with the alignment it needs. */
static XXH3_state_t *state_of(struct wf_store_hasher *h)
{
    return (XXH3_state_t *)(void *)h;
}

struct wf_store_hasher *wf_store_hasher_new(void)
{
    return (struct wf_store_hasher *)(void *)XXH3_createState();
}

void wf_store_hasher_free(struct wf_store_hasher *h)
{
    XXH3_freeState(state_of(h));
}

void wf_store_hasher_reset(struct wf_store_hasher *h)
{
    XXH3_128bits_reset(state_of(h));
}

void wf_store_hasher_update(struct wf_store_hasher *h, const void *bytes, size_t n)
{
    XXH3_128bits_update(state_of(h), bytes, n);
}

struct wf_store_hash wf_store_hasher_digest(const struct wf_store_hasher *h)
{
    return as_text(XXH3_128bits_digest((const XXH3_state_t *)(const void *)h));
}
