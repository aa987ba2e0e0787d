#ifndef BASE_CORES_H
#define BASE_CORES_H

#include <stdint.h>

/* Processors that the calling thread may run on; at least 1. */
uint32_t weft_cores_allowed(void);

/* Which ones: bit i % 64 of word i / 64 is processor i's; those from 1024 on are left out. */
struct weft_cores {
    uint64_t words[16];
};
struct weft_cores weft_cores_set(void); /* of the calling thread */
void weft_cores_add(struct weft_cores *set, const struct weft_cores *more);
uint32_t weft_cores_count(const struct weft_cores *set);

#endif
