/* A folder for one test, gone afterwards. */
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

/* The path of a name in it; good until the eighth next call. */
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

/* Folders in it must be empty. */
static inline void folder_remove(const struct folder *f)
{
    DIR *dir = opendir(f->path);
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove(folder_in(f, entry->d_name));
    closedir(dir);
    rmdir(f->path);
}

#endif
