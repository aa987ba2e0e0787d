#include "base/sysmem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH_LEN = 4096 };

/* "max", and whatever else is no number, is no limit. */
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

/* A group's limit holds for all within it, so it is looked for up to the root: what a container
 * sees of the path may also be another machine's, of which only the root is there. */
static size_t min_limit_upward(const char *root, const char *sub, char *group, const char *file)
{
    char path[2 * MAX_PATH_LEN];
    size_t least = SIZE_MAX;
    for (;;) {
        int n = snprintf(path, sizeof path, "%s%s%s/%s", root, sub, group, file);
        size_t limit = n > 0 && (size_t)n < sizeof path ? read_limit(path) : SIZE_MAX;
        least = limit < least ? limit : least;
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* Whether "memory" is one of the names in "cpu,memory:/path", which ends at the colon. */
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

/* A line is "number:controllers:/path"; version 2 of control groups has number 0 and no names. */
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
    size_t least = SIZE_MAX;
    FILE *in = fopen(groups, "r");
    if (in == NULL)
        return SIZE_MAX;
    while (fgets(line, sizeof line, in) != NULL) {
        size_t limit = limit_of_line(line, root);
        least = limit < least ? limit : least;
    }
    fclose(in);
    return least;
}

size_t wf_sysmem_bytes(void)
{
    size_t there = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t limit = wf_sysmem_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    return limit < there ? limit : there;
}
