/* Memory for large arrays. */
#define _DEFAULT_SOURCE /* madvise */

#include "base/pages.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, CACHE_LINE = 64 };

void *wf_pages_alloc(size_t bytes)
{
    void *at = NULL;
    if (bytes < 2 * (size_t)HUGE_PAGE)
        return posix_memalign(&at, CACHE_LINE, bytes != 0 ? bytes : 1) == 0 ? at : NULL;
    if (posix_memalign(&at, HUGE_PAGE, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    madvise(at, bytes, MADV_HUGEPAGE); /* advice only: a failure is harmless */
#endif
    return at;
}
