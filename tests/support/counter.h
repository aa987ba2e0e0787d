/* Counts calls of all allocation functions, and lets one of them fail.  Only one file of a test
 * program may include it, and that file must define _GNU_SOURCE. */
#ifndef SUPPORT_COUNTER_H
#define SUPPORT_COUNTER_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTER_WORKS = 0 }; /* a sanitizer has its own allocator */
static atomic_size_t counted_calls, counted_failure;
#else
enum { COUNTER_WORKS = 1 };
static atomic_size_t counted_calls, counted_failure;

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *at, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

/* Counts a call.  Returns true if it must fail. */
static bool counter_fails(void)
{
    size_t call = atomic_fetch_add(&counted_calls, 1) + 1;
    bool fails = call == atomic_load(&counted_failure);
    if (fails)
        errno = ENOMEM;
    return fails;
}

void *malloc(size_t n)
{
    return counter_fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return counter_fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *at, size_t n)
{
    return counter_fails() ? NULL : __libc_realloc(at, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    void *at = counter_fails() ? NULL : __libc_memalign(align, n);
    if (at == NULL)
        return ENOMEM;
    *out = at;
    return 0;
}

void *aligned_alloc(size_t align, size_t n)
{
    return counter_fails() ? NULL : __libc_memalign(align, n);
}
#endif

static inline size_t counter_calls(void)
{
    return atomic_load(&counted_calls);
}

/* Lets call number n from now on fail (from 1); 0: none. */
static inline void counter_fail(size_t n)
{
    atomic_store(&counted_failure, n == 0 ? 0 : counter_calls() + n);
}

#endif
