/* The memory of the machine and the limits of control groups. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "base/sysmem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_PATH_LEN = 4096 };

/* Reads a limit in bytes from a file.  Returns SIZE_MAX (no limit) for "max", for other text
 * that is not a number, and for a missing file. */
static size_t read_limit(const char *path)
{
    unsigned long long bytes;
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return SIZE_MAX;
    int n = fscanf(in, "%llu", &bytes);
    fclose(in);
    return n == 1 && bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

/* Returns the lowest limit of a group and its ancestors up to the root, because the limit of a
 * group also applies to its descendants.  In a container the path may not exist below the
 * root. */
static size_t min_limit_upward(const char *root, const char *sub, char *group, const char *file)
{
    char path[2 * MAX_PATH_LEN];
    size_t lowest = SIZE_MAX;
    for (;;) {
        int n = snprintf(path, sizeof path, "%s%s%s/%s", root, sub, group, file);
        size_t limit = n > 0 && (size_t)n < sizeof path ? read_limit(path) : SIZE_MAX;
        lowest = limit < lowest ? limit : lowest;
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return lowest;
        *slash = '\0';
    }
}

/* Returns whether "memory" is one of the comma-separated names before the colon, as in
 * "cpu,memory:/path". */
static int lists_memory(const char *names)
{
    size_t all = strcspn(names, ":");
    for (size_t at = 0; at < all;) {
        size_t n = strcspn(names + at, ",:");
        if (n == 6 && memcmp(names + at, "memory", 6) == 0)
            return 1;
        at += n + 1;
    }
    return 0;
}

/* Returns the limit for one line "number:controllers:/path".  Version 2 of control groups has
 * number 0 and no controller names. */
static size_t limit_of_line(char *line, const char *root)
{
    char *names = strchr(line, ':'), *group = names == NULL ? NULL : strchr(names + 1, ':');
    if (group == NULL)
        return SIZE_MAX;
    group[1 + strcspn(group + 1, "\n")] = '\0';
    if (group == names + 1)
        return min_limit_upward(root, "", group + 1, "memory.max");
    return lists_memory(names + 1)
               ? min_limit_upward(root, "/memory", group + 1, "memory.limit_in_bytes")
               : SIZE_MAX;
}

size_t wf_sysmem_limit(const char *groups, const char *root)
{
    char line[MAX_PATH_LEN];
    size_t lowest = SIZE_MAX;
    FILE *in = fopen(groups, "r");
    if (in == NULL)
        return SIZE_MAX;
    while (fgets(line, sizeof line, in) != NULL) {
        size_t limit = limit_of_line(line, root);
        lowest = limit < lowest ? limit : lowest;
    }
    fclose(in);
    return lowest;
}

bool wf_sysmem_can_allocate(size_t bytes)
{
    /* The pages are not touched, so they do not belong to the memory that a run plans. */
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return false;
    munmap(pages, bytes);
    return true;
}

size_t wf_sysmem_bytes(void)
{
    size_t physical = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t limit = wf_sysmem_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    return limit < physical ? limit : physical;
}
