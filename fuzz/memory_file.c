/* A file in memory. */
#define _GNU_SOURCE /* memfd_create */
#include "memory_file.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "require.h"

const char *memory_file(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    require(fd >= 0 && ftruncate(fd, 0) == 0);
    require(size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}
