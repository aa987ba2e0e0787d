/* A temporary directory for one test and functions on its files. */
#ifndef TESTS_CKPT_FOLDER_H
#define TESTS_CKPT_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    char at[64];
    char path[256]; /* of the last folder_path() */
};

static inline void folder_make(struct folder *f)
{
    snprintf(f->at, sizeof f->at, "/tmp/weft-test-XXXXXX");
    assert_non_null(mkdtemp(f->at));
}

/* Returns a path in the directory; the next call overwrites it. */
static inline const char *folder_path(struct folder *f, const char *name)
{
    snprintf(f->path, sizeof f->path, "%s/%s", f->at, name);
    return f->path;
}

static inline void folder_put(struct folder *f, const char *name, const void *bytes, size_t n)
{
    FILE *out = fopen(folder_path(f, name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

/* Reads a whole file.  The caller frees the result. */
static inline char *folder_get(const char *path, size_t *n)
{
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    *n = (size_t)ftell(in);
    rewind(in);
    char *bytes = malloc(*n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, in), *n);
    bytes[*n] = '\0';
    fclose(in);
    return bytes;
}

static inline size_t folder_count(const char *path)
{
    DIR *d = opendir(path);
    assert_non_null(d);
    size_t n = 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Removes a directory recursively. */
static inline void folder_remove(const char *path)
{
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char inside[600];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int n = snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        assert_true(n > 0 && (size_t)n < sizeof inside);
        assert_int_equal(lstat(inside, &st), 0);
        if (S_ISDIR(st.st_mode))
            folder_remove(inside);
        else
            unlink(inside);
    }
    closedir(d);
    rmdir(path);
}

#endif
