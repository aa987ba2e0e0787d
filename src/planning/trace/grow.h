/* Growing arrays. */
#ifndef PLANNING_TRACE_GROW_H
#define PLANNING_TRACE_GROW_H

#include <stdlib.h>

#include "base/size.h"

/* Returns an array with space for one more element than the `n` it has, or NULL without memory;
 * the array then stays valid.  If necessary, *cap grows by half. */
static inline void *wf_array_grow(void *at, size_t *cap, size_t n, size_t size)
{
    size_t more = *cap < 64 ? 64 : *cap + *cap / 2, bytes;
    if (n < *cap)
        return at;
    void *moved = wf_size_mul(more, size, &bytes) ? realloc(at, bytes) : NULL;
    if (moved != NULL)
        *cap = more;
    return moved;
}

#endif
