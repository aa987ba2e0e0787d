/* Memory for large arrays that are written once from front to back. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

/* Like malloc(), and freed with free(), but it begins with a cache line: a vector that lies across
 * two lines is loaded twice.  Large ones ask the kernel for huge pages: filling them
 * would otherwise cost a page fault every 4096 bytes, as much as making what goes into them. */
void *wf_pages_alloc(size_t bytes);

#endif
