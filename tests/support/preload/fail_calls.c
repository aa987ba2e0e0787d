/* Makes chosen calls of a program fail: a library for LD_PRELOAD.
 *
 *     FAIL_CALL    pread, open (also openat and fopen) or malloc (also calloc and realloc)
 *     FAIL_ERRNO   the errno of a failed call, as a number; default EIO
 *     FAIL_PATH    only files whose path contains this text; default: all files
 *     FAIL_RANK    only this rank: that of MPI, or 0 for the first thread and 1 for the others;
 *                  default: all ranks
 *     FAIL_SINCE   only after a file whose path contains this text was opened
 *     FAIL_AFTER   number of matching calls that succeed before the first failure; default 0
 *     FAIL_TIMES   number of failures; default: all later calls fail
 *     FAIL_COUNT   a file to which the number of matching calls is written at the end */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t each);
extern void *__libc_realloc(void *p, size_t n);

static struct {
    const char *call, *path, *since, *count;
    int code;
    long rank, after, times; /* rank and times: -1 for no limit */
} plan;

static atomic_long n_calls;
static atomic_bool started; /* the file of FAIL_SINCE was opened */

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : atol(text);
}

__attribute__((constructor)) static void read_plan(void)
{
    plan.path = getenv("FAIL_PATH");
    plan.since = getenv("FAIL_SINCE");
    atomic_store(&started, plan.since == NULL);
    plan.count = getenv("FAIL_COUNT");
    plan.code = (int)number("FAIL_ERRNO", EIO);
    plan.rank = number("FAIL_RANK", -1);
    plan.after = number("FAIL_AFTER", 0);
    plan.times = number("FAIL_TIMES", -1);
    plan.call = getenv("FAIL_CALL"); /* last: other calls test this pointer */
}

__attribute__((destructor)) static void write_count(void)
{
    char text[32];
    if (plan.count == NULL)
        return;
    int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&n_calls));
    int fd = (int)syscall(SYS_openat, AT_FDCWD, plan.count, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd >= 0 && write(fd, text, (size_t)n) == n)
        close(fd);
}

static long own_rank(void)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (size_t i = 0; i < 2; i++)
        if (getenv(names[i]) != NULL)
            return atol(getenv(names[i]));
    return syscall(SYS_gettid) != getpid();
}

/* Returns true if this call has to fail, and sets errno.  `path` is NULL for memory. */
static bool fails(const char *call, const char *path)
{
    if (path != NULL && plan.since != NULL && strstr(path, plan.since) != NULL)
        atomic_store(&started, true);
    if (plan.call == NULL || strcmp(plan.call, call) != 0 || !atomic_load(&started))
        return false;
    if (plan.path != NULL && (path == NULL || strstr(path, plan.path) == NULL))
        return false;
    if (plan.rank >= 0 && own_rank() != plan.rank)
        return false;
    long n = atomic_fetch_add(&n_calls, 1);
    if (n < plan.after || (plan.times >= 0 && n >= plan.after + plan.times))
        return false;
    errno = plan.code;
    return true;
}

/* -- files --------------------------------------------------------------------------------- */

static bool fails_at(const char *call, int fd)
{
    char link[40], path[4096];
    if (plan.call == NULL || strcmp(plan.call, call) != 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return fails(call, path);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    return fails_at("pread", fd) ? -1 : (ssize_t)syscall(SYS_pread64, fd, to, n, at);
}

ssize_t pread64(int fd, void *to, size_t n, off_t at)
{
    return pread(fd, to, n, at);
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t);
    va_end(args);
    return fails("open", path) ? -1 : (int)syscall(SYS_openat, dir, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t);
    va_end(args);
    return openat(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t);
    va_end(args);
    return openat(AT_FDCWD, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return fails("open", path) ? NULL : next(path, mode);
}

/* -- memory -------------------------------------------------------------------------------- */

void *malloc(size_t n)
{
    return fails("malloc", NULL) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    return fails("malloc", NULL) ? NULL : __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    return fails("malloc", NULL) ? NULL : __libc_realloc(p, n);
}
