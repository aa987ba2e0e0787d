/* A pool of reusable buffers with power-of-two sizes. */
#include <stdlib.h>

#include "base/size.h"
#include "runtime/sync/reducer_priv.h"

enum { ALIGN = 64 };

struct sync_buffer {
    _Alignas(ALIGN) struct sync_buffer *all;
    struct sync_buffer *next;
    uint32_t class;
};

void *wf_sync_pool_alloc(struct sync_pool *pool, size_t bytes)
{
    uint32_t class = 6;
    while (class < SYNC_POOL_CLASSES && (size_t)1 << class < bytes)
        class ++;
    if (class == SYNC_POOL_CLASSES)
        return NULL;
    struct sync_buffer *b = pool->unused[class];
    if (b != NULL) {
        pool->unused[class] = b->next;
        return b + 1;
    }
    size_t whole = sizeof *b + ((size_t)1 << class);
    b = aligned_alloc(ALIGN, whole);
    if (b == NULL)
        return NULL;
    b->class = class;
    b->all = pool->all;
    pool->all = b;
    pool->bytes += whole;
    return b + 1;
}

void wf_sync_pool_free(struct sync_pool *pool, void *at)
{
    if (at == NULL)
        return;
    struct sync_buffer *b = (struct sync_buffer *)at - 1;
    b->next = pool->unused[b->class];
    pool->unused[b->class] = b;
}

void wf_sync_pool_release(struct sync_pool *pool)
{
    while (pool->all != NULL) {
        struct sync_buffer *b = pool->all;
        pool->all = b->all;
        free(b);
    }
    *pool = (struct sync_pool){0};
}
