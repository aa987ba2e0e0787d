/* Directory trees: copied, removed and compared.  Errors of the driver itself end it. */
#define _GNU_SOURCE

#include "tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *what, const char *path)
{
    fprintf(stderr, "sweep: %s %s: %s\n", what, path, strerror(errno));
    exit(2);
}

void tree_join(char *out, const char *a, const char *b)
{
    if (snprintf(out, TREE_PATH_BYTES, "%s/%s", a, b) >= TREE_PATH_BYTES) {
        errno = ENAMETOOLONG;
        die("path", a);
    }
}

static bool walk(const char *root, const char *relative, tree_visit_fn visit, void *context)
{
    char path[TREE_PATH_BYTES], below[TREE_PATH_BYTES];
    tree_join(path, root, relative);
    DIR *dir = opendir(path);
    if (dir == NULL)
        die("cannot list", path);
    bool more = true;
    for (struct dirent *e; more && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (relative[0] == '\0')
            snprintf(below, sizeof below, "%s", e->d_name);
        else
            tree_join(below, relative, e->d_name);
        more = visit(below, e->d_type == DT_DIR, context) &&
               (e->d_type != DT_DIR || walk(root, below, visit, context));
    }
    closedir(dir);
    return more;
}

bool tree_walk(const char *root, tree_visit_fn visit, void *context)
{
    return walk(root, "", visit, context);
}

static void copy_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    struct stat info;
    if (in < 0 || out < 0 || fstat(in, &info) != 0)
        die("cannot copy", from);
    for (off_t left = info.st_size; left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        if (n <= 0)
            die("cannot copy", from);
        left -= n;
    }
    futimens(out, (struct timespec[]){info.st_atim, info.st_mtim}); /* a report shows times */
    close(in);
    close(out);
}

struct copy {
    const char *from, *to;
};

static bool copy_entry(const char *relative, bool is_directory, void *context)
{
    const struct copy *c = context;
    char from[TREE_PATH_BYTES], to[TREE_PATH_BYTES];
    tree_join(from, c->from, relative);
    tree_join(to, c->to, relative);
    if (!is_directory)
        copy_file(from, to);
    else if (mkdir(to, 0777) != 0)
        die("cannot make", to);
    return true;
}

/* Directories get their times last: copying their entries changes them. */
static bool copy_times(const char *relative, bool is_directory, void *context)
{
    const struct copy *c = context;
    char from[TREE_PATH_BYTES], to[TREE_PATH_BYTES];
    struct stat info;
    tree_join(from, c->from, relative);
    tree_join(to, c->to, relative);
    if (is_directory && stat(from, &info) == 0)
        utimensat(AT_FDCWD, to, (struct timespec[]){info.st_atim, info.st_mtim}, 0);
    return true;
}

void tree_copy(const char *from, const char *to)
{
    struct stat info;
    if (stat(from, &info) != 0)
        die("cannot copy", from);
    if (!S_ISDIR(info.st_mode)) {
        copy_file(from, to);
        return;
    }
    if (mkdir(to, 0777) != 0 && errno != EEXIST)
        die("cannot make", to);
    tree_walk(from, copy_entry, &(struct copy){from, to});
    tree_walk(from, copy_times, &(struct copy){from, to});
}

void tree_remove(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return;
    DIR *dir = opendir(path);
    if (dir == NULL)
        die("cannot remove", path);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char below[TREE_PATH_BYTES];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        tree_join(below, path, e->d_name);
        tree_remove(below);
    }
    closedir(dir);
    if (rmdir(path) != 0)
        die("cannot remove", path);
}

static char *read_all(const char *path, size_t size)
{
    char *bytes = malloc(size + 1);
    FILE *in = fopen(path, "rb");
    if (bytes == NULL || in == NULL || fread(bytes, 1, size, in) != size)
        die("cannot read", path);
    fclose(in);
    return bytes;
}

/* Replaces the digits of the directories of workers ("/slot-NN/"): files may have absolute paths. */
static void mask_slots(char *bytes, size_t size)
{
    char *end = bytes + size;
    for (char *at = bytes; (at = memmem(at, (size_t)(end - at), "/slot-", 6)) != NULL;) {
        at += 6;
        if (end - at >= 3 && isdigit((unsigned char)at[0]) && isdigit((unsigned char)at[1]) &&
            at[2] == '/')
            at[0] = at[1] = 'N';
    }
}

bool tree_same(const char *a, const char *b)
{
    struct stat info_a, info_b;
    if (stat(a, &info_a) != 0 || stat(b, &info_b) != 0 ||
        S_ISDIR(info_a.st_mode) != S_ISDIR(info_b.st_mode))
        return false;
    if (S_ISDIR(info_a.st_mode))
        return true;
    if (info_a.st_size != info_b.st_size)
        return false;

    char *bytes_a = read_all(a, (size_t)info_a.st_size);
    char *bytes_b = read_all(b, (size_t)info_b.st_size);
    mask_slots(bytes_a, (size_t)info_a.st_size);
    mask_slots(bytes_b, (size_t)info_b.st_size);
    bool same = memcmp(bytes_a, bytes_b, (size_t)info_a.st_size) == 0;
    free(bytes_a);
    free(bytes_b);
    return same;
}
