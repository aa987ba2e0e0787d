/* The processors that threads may run on. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/cores.h"

#include <sched.h>

#include "base/error.h"

uint32_t wf_cores_available(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(&set);
}

struct wf_cores wf_cores_affinity(void)
{
    struct wf_cores out = {{0}};
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return out;
    for (unsigned i = 0; i < 64 * WEFT_LEN(out.words) && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            out.words[i / 64] |= UINT64_C(1) << i % 64;
    return out;
}

void wf_cores_union(struct wf_cores *set, const struct wf_cores *more)
{
    for (unsigned i = 0; i < WEFT_LEN(set->words); i++)
        set->words[i] |= more->words[i];
}

uint32_t wf_cores_count(const struct wf_cores *set)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < WEFT_LEN(set->words); i++)
        n += (uint32_t)__builtin_popcountll(set->words[i]);
    return n;
}
