/* Memory for large arrays. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

/* Allocates memory that is aligned to a cache line, so that no vector spans two cache lines.
 * The caller frees the memory with free().  Large blocks use huge pages if the kernel grants
 * them, because a page fault per 4096 bytes costs as much as computing the contents.  Returns
 * NULL if out of memory. */
void *wf_pages_alloc(size_t bytes);

#endif
