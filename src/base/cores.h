#ifndef BASE_CORES_H
#define BASE_CORES_H

#include <stdint.h>

/* Processors that the calling thread may run on; at least 1. */
uint32_t wf_cores_available(void);

/* Which ones: bit i % 64 of word i / 64 is processor i's; those from 1024 on are left out. */
struct wf_cores {
    uint64_t words[16];
};
struct wf_cores wf_cores_affinity(void); /* of the calling thread */
void wf_cores_union(struct wf_cores *set, const struct wf_cores *more);
uint32_t wf_cores_count(const struct wf_cores *set);

#endif
