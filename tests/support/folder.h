/* A temporary folder for one test. */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct folder {
    char path[64];
};

static inline struct folder folder_new(void)
{
    struct folder f = {"/tmp/weft_test_XXXXXX"};
    if (mkdtemp(f.path) == NULL)
        abort();
    return f;
}

/* Returns the path of a file in the folder; valid until the eighth call after this one. */
static inline const char *folder_in(const struct folder *f, const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", f->path, name);
    return path;
}

static inline size_t folder_count(const struct folder *f)
{
    size_t n = 0;
    DIR *dir = opendir(f->path);
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* Removes a file or a folder with its contents. */
static inline void folder_remove_path(const char *path)
{
    if (remove(path) == 0)
        return;
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char inner[4096];
        int n = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (n < (int)sizeof inner && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            folder_remove_path(inner);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}

static inline void folder_remove(const struct folder *f)
{
    folder_remove_path(f->path);
}

#endif
