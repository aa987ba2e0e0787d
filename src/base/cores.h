/* The processors that threads may run on. */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include <stdint.h>

/* Returns the number of processors that the calling thread may run on, at least 1. */
uint32_t wf_cores_available(void);

/* A set of processors: bit i % 64 of word i / 64 is processor i.  Processors from 1024 on are
 * ignored. */
struct wf_cores {
    uint64_t words[16];
};

/* Returns the processors that the calling thread may run on. */
struct wf_cores wf_cores_affinity(void);

/* Adds the processors of `more` to `set`. */
void wf_cores_union(struct wf_cores *set, const struct wf_cores *more);

/* Returns the number of processors in a set. */
uint32_t wf_cores_count(const struct wf_cores *set);

#endif
