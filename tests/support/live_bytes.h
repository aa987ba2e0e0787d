/* Counts the bytes that each rank has allocated: the requested sizes of all blocks, now and at
 * their maximum.  Only one file of a test program may include it, and that file must define
 * _GNU_SOURCE.  If it defines LIVE_COUNTS(caller), only calls for which it is true count;
 * `caller` is the return address. */
#ifndef SUPPORT_LIVE_BYTES_H
#define SUPPORT_LIVE_BYTES_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE_RANKS = 16 };

#ifndef LIVE_COUNTS
#define LIVE_COUNTS(caller) ((void)(caller), true)
#endif

/* The rank to which the allocations of the calling thread count; 0 if there is none, else rank
 * + 1. */
static _Thread_local uint32_t live_owner;

/* Blocks are counted by the owner that allocated them. */
static struct {
    size_t now, peak;
} live[LIVE_RANKS + 1];

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIVE_BYTES_WORK = 0 }; /* a sanitizer has its own allocator */
#else
enum { LIVE_BYTES_WORK = 1, LIVE_BUCKETS = 1 << 14, LIVE_BLOCKS = 1 << 17 };

struct live_block {
    void *at;
    size_t bytes;
    uint32_t owner, next; /* next block of the bucket; 0: none */
};

static struct live_block live_blocks[LIVE_BLOCKS];
static uint32_t live_buckets[LIVE_BUCKETS], live_free, live_used = 1;
static atomic_flag live_lock = ATOMIC_FLAG_INIT;

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *at, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *at);

static uint32_t *live_bucket(const void *at)
{
    return &live_buckets[((uintptr_t)at >> 4) * 2654435761U % LIVE_BUCKETS];
}

/* Counts a block of the current owner.  Blocks without an owner are not counted. */
static void *live_add(void *at, size_t bytes, const void *caller)
{
    uint32_t owner = live_owner, *bucket = live_bucket(at);
    if (!LIVE_COUNTS(caller) || at == NULL || owner == 0)
        return at;
    while (atomic_flag_test_and_set(&live_lock))
        ;
    uint32_t i = live_free != 0 ? live_free : live_used++;
    if (i >= LIVE_BLOCKS)
        abort();
    if (live_free != 0)
        live_free = live_blocks[i].next;
    live_blocks[i] = (struct live_block){at, bytes, owner, *bucket};
    *bucket = i;
    live[owner].now += bytes;
    if (live[owner].now > live[owner].peak)
        live[owner].peak = live[owner].now;
    atomic_flag_clear(&live_lock);
    return at;
}

static void live_remove(void *at)
{
    if (at == NULL)
        return;
    while (atomic_flag_test_and_set(&live_lock))
        ;
    for (uint32_t *link = live_bucket(at); *link != 0; link = &live_blocks[*link].next) {
        struct live_block *b = &live_blocks[*link];
        if (b->at != at)
            continue;
        uint32_t i = *link;
        live[b->owner].now -= b->bytes;
        *link = b->next;
        b->next = live_free;
        live_free = i;
        break;
    }
    atomic_flag_clear(&live_lock);
}

void *malloc(size_t n)
{
    return live_add(__libc_malloc(n), n, __builtin_return_address(0));
}

void *calloc(size_t n, size_t size)
{
    return live_add(__libc_calloc(n, size), n * size, __builtin_return_address(0));
}

void *realloc(void *at, size_t n)
{
    live_remove(at); /* the trainer does not use a block after a failed realloc */
    return live_add(__libc_realloc(at, n), n, __builtin_return_address(0));
}

int posix_memalign(void **out, size_t align, size_t n)
{
    *out = live_add(__libc_memalign(align, n), n, __builtin_return_address(0));
    return *out == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t align, size_t n)
{
    return live_add(__libc_memalign(align, n), n, __builtin_return_address(0));
}

void free(void *at)
{
    live_remove(at);
    __libc_free(at);
}
#endif

/* Makes the calling thread the owner of its allocations, and resets the counts of the rank. */
static inline void live_begin(uint32_t rank)
{
    live_owner = rank + 1;
    memset(&live[live_owner], 0, sizeof live[0]);
}

/* Returns the maximum of the bytes of the calling thread's rank, and ends the count. */
static inline size_t live_end(void)
{
    size_t peak = live[live_owner].peak;
    live_owner = 0;
    return peak;
}

#endif
