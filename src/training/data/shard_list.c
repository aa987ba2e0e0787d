/* Finds the files that a list of shards describes. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "training/data/shard_priv.h"

void wf_paths_release(struct wf_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->at[i]);
    free(paths->at);
    *paths = (struct wf_paths){0};
}

/* Appends the path folder/name, or only `name` if `folder` is NULL. */
static enum weft_status add_path(struct wf_paths *paths, const char *folder, const char *name,
                                 struct weft_error *err)
{
    size_t n_folder = folder == NULL ? 0 : strlen(folder), n_name = strlen(name);
    char *path = malloc(n_folder + n_name + 2);
    char **more = realloc(paths->at, sizeof *more * (paths->n + 1));
    if (more != NULL)
        paths->at = more;
    if (path == NULL || more == NULL) {
        free(path);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of %zu shards", paths->n);
    }

    size_t at = 0;
    if (folder != NULL) {
        memcpy(path, folder, n_folder);
        at = n_folder;
        if (at > 0 && path[at - 1] != '/')
            path[at++] = '/';
    }
    memcpy(path + at, name, n_name + 1);
    paths->at[paths->n++] = path;
    return WEFT_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the paths from index `first` on by their bytes, independently of the locale, so that
 * the order is the same on every machine. */
static void sort_from(struct wf_paths *paths, size_t first)
{
    if (paths->n > first)
        qsort(paths->at + first, paths->n - first, sizeof *paths->at, by_bytes);
}

static bool is_shard_name(const char *name)
{
    return name[0] != '.' && wf_path_ends_in(name, ".bin");
}

static enum weft_status add_folder(struct wf_paths *paths, const char *folder,
                                   struct weft_error *err)
{
    size_t first = paths->n;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", folder,
                         strerror(errno));

    enum weft_status st = WEFT_OK;
    const struct dirent *entry;
    errno = 0;
    while (st == WEFT_OK && (entry = readdir(dir)) != NULL) {
        if (is_shard_name(entry->d_name))
            st = add_path(paths, folder, entry->d_name, err);
        errno = 0;
    }
    if (st == WEFT_OK && errno != 0)
        st = WEFT_FAIL(err, WEFT_IO, "%.240s: %s", folder, strerror(errno));
    closedir(dir);
    if (st == WEFT_OK && paths->n == first)
        st = WEFT_FAIL(err, WEFT_DATA, "%.240s: no *.bin file in this folder", folder);
    sort_from(paths, first);
    return st;
}

/* Stops a search if the cause is outside of the folder.  Folders that may not be read are
 * skipped. */
static int stop_search(const char *folder, int code)
{
    (void)folder;
    return wf_errno_status(code, WEFT_DATA) != WEFT_DATA;
}

enum weft_status wf_paths_match(const char *pattern, glob_t *out, bool *any,
                                struct weft_error *err)
{
    errno = 0;
    int failed = glob(pattern, GLOB_NOSORT, stop_search, out), code = errno;
    /* glob() ignores a failed read of a folder and returns the names before it. */
    if ((failed == 0 || failed == GLOB_NOMATCH) && code != 0 &&
        wf_errno_status(code, WEFT_DATA) != WEFT_DATA) {
        if (failed == 0)
            globfree(out);
        failed = GLOB_ABORTED;
    }
    if (failed == GLOB_ABORTED || failed == GLOB_NOSPACE)
        return WEFT_FAIL(err, failed == GLOB_NOSPACE ? WEFT_NOMEM : WEFT_IO,
                         "%.240s: cannot list the files that match this pattern: %s", pattern,
                         failed == GLOB_NOSPACE ? "out of memory" : strerror(code));
    *any = failed == 0;
    return WEFT_OK;
}

static enum weft_status add_pattern(struct wf_paths *paths, const char *pattern,
                                    struct weft_error *err)
{
    size_t first = paths->n;
    glob_t found;
    bool any;
    WEFT_TRY(wf_paths_match(pattern, &found, &any, err));
    if (!any)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: no such file or folder; expected token shards", pattern);
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < found.gl_pathc; i++)
        st = add_path(paths, NULL, found.gl_pathv[i], err);
    globfree(&found);
    sort_from(paths, first);
    return st;
}

static enum weft_status add_one(struct wf_paths *paths, const char *name,
                                struct weft_error *err)
{
    struct stat info;
    if (stat(name, &info) != 0 && wf_errno_status(errno, WEFT_DATA) != WEFT_DATA)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", name,
                         strerror(errno));
    if (stat(name, &info) != 0)
        return add_pattern(paths, name, err);
    return S_ISDIR(info.st_mode) ? add_folder(paths, name, err)
                                 : add_path(paths, NULL, name, err);
}

static enum weft_status add_list(struct wf_paths *paths, const char *list,
                                 struct weft_error *err)
{
    struct stat info;
    if (stat(list, &info) == 0)
        return add_one(paths, list, err);
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        char *name = strndup(at, n);
        if (name == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of a shard");
        enum weft_status st =
            n == 0 ? WEFT_FAIL(err, WEFT_DATA, "an empty name in the list of shards '%.200s'",
                               list)
                   : add_one(paths, name, err);
        free(name);
        at += n;
        if (st != WEFT_OK || *at == '\0')
            return st;
    }
}

enum weft_status wf_paths_init(struct wf_paths *paths, const char *list, struct weft_error *err)
{
    *paths = (struct wf_paths){0};
    enum weft_status st = add_list(paths, list, err);
    if (st != WEFT_OK)
        wf_paths_release(paths);
    return st;
}
