/* Counts calls of all allocation functions.  Only one file of a test program may include it,
 * and that file must define _GNU_SOURCE. */
#ifndef SUPPORT_COUNTER_H
#define SUPPORT_COUNTER_H

#include <stdatomic.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTER_WORKS = 0 }; /* a sanitizer has its own allocator */
static atomic_size_t counted_calls;
#else
enum { COUNTER_WORKS = 1 };
static atomic_size_t counted_calls;

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *at, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    atomic_fetch_add(&counted_calls, 1);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    atomic_fetch_add(&counted_calls, 1);
    return __libc_calloc(n, size);
}

void *realloc(void *at, size_t n)
{
    atomic_fetch_add(&counted_calls, 1);
    return __libc_realloc(at, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    atomic_fetch_add(&counted_calls, 1);
    *out = __libc_memalign(align, n);
    return *out == NULL;
}

void *aligned_alloc(size_t align, size_t n)
{
    atomic_fetch_add(&counted_calls, 1);
    return __libc_memalign(align, n);
}
#endif

static inline size_t counter_calls(void)
{
    return atomic_load(&counted_calls);
}

#endif
