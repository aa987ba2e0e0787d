/* Calls libxxhash and prints its hashes as text.  No other file uses libxxhash. */
#include "training/ckpt/xxh3.h"

#include <stdio.h>
#include <xxhash.h>

static struct wf_xxh3 as_text(XXH128_hash_t hash)
{
    struct wf_xxh3 out;
    snprintf(out.hex, sizeof out.hex, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return out;
}

struct wf_xxh3 wf_xxh3_bytes(const void *bytes, size_t n)
{
    return as_text(XXH3_128bits(bytes, n));
}

/* Converts a hasher to the state of xxhash.  The hasher pointer is the state pointer itself,
 * because only xxhash allocates the state with the right alignment. */
static XXH3_state_t *state_of(struct wf_xxh3_hasher *h)
{
    return (XXH3_state_t *)(void *)h;
}

struct wf_xxh3_hasher *wf_xxh3_hasher_new(void)
{
    return (struct wf_xxh3_hasher *)(void *)XXH3_createState();
}

void wf_xxh3_hasher_free(struct wf_xxh3_hasher *h)
{
    XXH3_freeState(state_of(h));
}

void wf_xxh3_hasher_reset(struct wf_xxh3_hasher *h)
{
    XXH3_128bits_reset(state_of(h));
}

void wf_xxh3_hasher_update(struct wf_xxh3_hasher *h, const void *bytes, size_t n)
{
    XXH3_128bits_update(state_of(h), bytes, n);
}

struct wf_xxh3 wf_xxh3_hasher_digest(const struct wf_xxh3_hasher *h)
{
    return as_text(XXH3_128bits_digest((const XXH3_state_t *)(const void *)h));
}
