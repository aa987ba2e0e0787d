/* Tests the limits of control groups, read from a copy of their file tree. */
#define _GNU_SOURCE /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sysmem.h"

static char dir[] = "/tmp/weft-memory-XXXXXX";

static const char *const dirs[] = {"two", "two/job",    "two/job/task",
                                   "one", "one/memory", "one/memory/box"};

static const struct {
    const char *path, *text;
} files[] = {
    {"two/memory.max", "max\n"},
    {"two/job/memory.max", "3000\n"},
    {"two/job/task/memory.max", "5000\n"},
    {"one/memory/memory.limit_in_bytes", "9223372036854771712\n"},
    {"one/memory/box/memory.limit_in_bytes", "4096\n"},
};

static const struct {
    const char *groups, *root;
    size_t want;
} rows[] = {
    {"0::/job/task\n", "two", 3000}, /* limit of the parent group */
    {"0::/job\n", "two", 3000},
    {"0::/\n", "two", SIZE_MAX},
    {"0::/job/gone/away\n", "two", 3000},
    {"4:memory:/box\n", "one", 4096},
    {"9:name=systemd:/\n4:cpu,memory:/box\n0::/\n", "one", 4096},
    {"4:memory:/elsewhere\n", "one", (size_t)INT64_C(9223372036854771712)},
    {"4:memory_other:/box\n", "one", SIZE_MAX},
    {"nonsense\n\n:\n::\n", "one", SIZE_MAX},
    {"", "nowhere", SIZE_MAX},
};

static void path_of(char out[256], const char *name)
{
    snprintf(out, 256, "%s/%s", dir, name);
}

static void write_file(const char *name, const char *text)
{
    char path[256];
    path_of(path, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static int make_tree(void **state)
{
    (void)state;
    char path[256];
    if (mkdtemp(dir) == NULL)
        return -1;
    for (size_t i = 0; i < WEFT_LEN(dirs); i++) {
        path_of(path, dirs[i]);
        if (mkdir(path, 0700) != 0)
            return -1;
    }
    for (size_t i = 0; i < WEFT_LEN(files); i++)
        write_file(files[i].path, files[i].text);
    return 0;
}

static int remove_tree(void **state)
{
    (void)state;
    char path[256];
    for (size_t i = 0; i < WEFT_LEN(files); i++) {
        path_of(path, files[i].path);
        unlink(path);
    }
    path_of(path, "groups");
    unlink(path);
    for (size_t i = WEFT_LEN(dirs); i-- > 0;) {
        path_of(path, dirs[i]);
        rmdir(path);
    }
    return rmdir(dir);
}

static void check_limits(void **state)
{
    (void)state;
    char groups[256], root[256];
    path_of(groups, "groups");
    for (size_t i = 0; i < WEFT_LEN(rows); i++) {
        write_file("groups", rows[i].groups);
        path_of(root, rows[i].root);
        size_t got = wf_sysmem_limit(groups, root);
        if (got != rows[i].want)
            fail_msg("row %zu: %zu, not %zu", i, got, rows[i].want);
    }
    path_of(groups, "missing");
    assert_true(wf_sysmem_limit(groups, root) == SIZE_MAX);
}

static void check_here(void **state)
{
    (void)state;
    size_t there = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    assert_true(wf_sysmem_bytes() > 0 && wf_sysmem_bytes() <= there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_limits),
        cmocka_unit_test(check_here),
    };
    return cmocka_run_group_tests_name("memory", tests, make_tree, remove_tree) != 0;
}
