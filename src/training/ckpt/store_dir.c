/* Manages the directory of checkpoints: names, listing, removal.  All files and directories
 * below this directory are opened relative to its descriptor and never through a symbolic
 * link. */
#define _GNU_SOURCE /* flock */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "base/temporary.h"
#include "training/ckpt/store_priv.h"

/* -- names --------------------------------------------------------------------------------- */

#define FILE_PREFIX "rank-"
#define FILE_SUFFIX ".safetensors"
#define TEMPORARY_SUFFIX ".tmp"

void wf_store_step_name(uint64_t step, char out[STORE_STEP_NAME_SIZE])
{
    wf_step_name_print(step, WF_STEP_DIGITS_CHECKPOINT, out);
}

bool wf_store_parse_step(const char *name, uint64_t *step)
{
    const char *rest;
    return wf_step_name_parse(name, WF_STEP_DIGITS_CHECKPOINT, step, &rest) && *rest == '\0' &&
           *step <= STORE_MAX_STEP;
}

void wf_store_file_name(uint32_t rank, char out[STORE_FILE_NAME_SIZE])
{
    snprintf(out, STORE_FILE_NAME_SIZE, FILE_PREFIX "%05" PRIu32 FILE_SUFFIX, rank);
}

bool wf_store_is_file_name(const char *name)
{
    size_t prefix = strlen(FILE_PREFIX);
    if (strncmp(name, FILE_PREFIX, prefix) != 0)
        return false;
    return strspn(name + prefix, "0123456789") == 5 &&
           strcmp(name + prefix + 5, FILE_SUFFIX) == 0;
}

void wf_store_temporary_name(uint64_t step, const char *run, char out[STORE_TMP_NAME_SIZE])
{
    char name[STORE_STEP_NAME_SIZE];
    wf_store_step_name(step, name);
    snprintf(out, STORE_TMP_NAME_SIZE, ".%s.%s" TEMPORARY_SUFFIX, name, run);
}

static bool is_temporary_name(const char *name)
{
    uint64_t step;
    const char *rest;
    return name[0] == '.' &&
           wf_step_name_parse(name + 1, WF_STEP_DIGITS_CHECKPOINT, &step, &rest) &&
           wf_path_ends_in(rest, TEMPORARY_SUFFIX);
}

const char *wf_store_run_error(const char *run)
{
    size_t len = strlen(run);
    if (len == 0 || len > WF_STORE_MAX_RUN)
        return "is empty or longer than 64 characters";
    if (strspn(run, "0123456789abcdefghijklmnopqrstuvwxyz"
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-") != len)
        return "has other characters than letters, digits, '.', '_' and '-'";
    return NULL;
}

/* -- opening and listing ------------------------------------------------------------------- */

enum weft_status wf_store_open_root(const char *root, int *fd, struct weft_error *err)
{
    int opened = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be opened: %s", root, strerror(errno));
    *fd = opened;
    return WEFT_OK;
}

int wf_store_open_subdir(int root_fd, const char *name)
{
    return openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens a directory stream for an open directory.  The stream has its own descriptor and
 * position. */
static DIR *list_open(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL && copy >= 0)
        close(copy);
    return dir;
}

static int compare_steps(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

enum weft_status wf_store_list(const char *root, int root_fd, uint64_t **steps, size_t *n,
                               struct weft_error *err)
{
    DIR *dir = list_open(root_fd);
    if (dir == NULL)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be listed: %s", root, strerror(errno));

    uint64_t *found = NULL, step;
    size_t n_found = 0, cap = 0;
    enum weft_status st = WEFT_OK;
    errno = 0;
    for (struct dirent *e = readdir(dir); e != NULL && st == WEFT_OK; e = readdir(dir)) {
        if (wf_store_parse_step(e->d_name, &step)) {
            if (n_found == cap) {
                cap = cap == 0 ? 16 : 2 * cap;
                uint64_t *larger = realloc(found, cap * sizeof *found);
                if (larger == NULL) {
                    st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu checkpoints",
                                   cap);
                    break;
                }
                found = larger;
            }
            found[n_found++] = step;
        }
        errno = 0;
    }
    if (st == WEFT_OK && errno != 0)
        st = WEFT_FAIL(err, WEFT_IO, "%.160s cannot be listed: %s", root, strerror(errno));
    closedir(dir);

    if (st != WEFT_OK) {
        free(found);
        return st;
    }

    if (n_found > 0)
        qsort(found, n_found, sizeof *found, compare_steps);
    *steps = found;
    *n = n_found;
    return WEFT_OK;
}

/* -- removing ------------------------------------------------------------------------------ */

static bool is_ours(const char *name)
{
    return wf_store_is_file_name(name) || strcmp(name, STORE_MANIFEST_FILE) == 0 ||
           strcmp(name, STORE_TOKENIZER_FILE) == 0;
}

static enum weft_status remove_files(int fd, const char *path, struct weft_error *err)
{
    DIR *dir = list_open(fd);
    if (dir == NULL)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be listed: %s", path, strerror(errno));
    int why = 0;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (is_ours(e->d_name) && unlinkat(fd, e->d_name, 0) != 0 && errno != ENOENT)
            why = errno;
    closedir(dir);
    if (why != 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be emptied: %s", path, strerror(why));
    return WEFT_OK;
}

enum weft_status wf_store_remove_dir(const char *root, int root_fd, const char *name,
                                     struct weft_error *err)
{
    int fd = wf_store_open_subdir(root_fd, name);
    if (fd < 0 && errno == ENOENT)
        return WEFT_OK;
    if (fd < 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s/%s cannot be removed: %s", root, name,
                         errno == ELOOP ? "not a directory" : strerror(errno));

    char *path = wf_path_join(root, name);
    enum weft_status st = WEFT_OK;
    if (path == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a directory");
    /* Remove the manifest first: without a manifest the directory is not a valid checkpoint,
     * even if a crash interrupts the removal. */
    else if (unlinkat(fd, STORE_MANIFEST_FILE, 0) != 0 && errno != ENOENT)
        st = WEFT_FAIL(err, WEFT_IO, "%.160s cannot be removed: %s", path, strerror(errno));
    else
        st = remove_files(fd, path, err);
    close(fd);

    if (st == WEFT_OK && unlinkat(root_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST)
        st = WEFT_FAIL(err, WEFT_IO, "%.160s cannot be removed: %s", path, strerror(errno));
    free(path);
    return st;
}

enum weft_status wf_store_discard(const char *root, uint64_t step, struct weft_error *err)
{
    int fd = -1;
    char name[STORE_STEP_NAME_SIZE];
    WEFT_TRY(wf_store_open_root(root, &fd, err));
    wf_store_step_name(step, name);
    enum weft_status st = wf_store_remove_dir(root, fd, name, err);
    close(fd);
    return st;
}

/* Finds the index of the keep-th valid checkpoint, or n if there are fewer than `keep`. */
static enum weft_status find_last_kept(const char *root, int fd, const uint64_t *steps,
                                       size_t n, size_t keep, size_t *last,
                                       struct weft_error *err)
{
    size_t i = 0;
    for (size_t n_valid = 0; i < n; i++) {
        char name[STORE_STEP_NAME_SIZE];
        struct wf_ckpt *s = NULL;
        struct weft_error why;
        wf_store_step_name(steps[i], name);
        enum weft_status st = wf_ckpt_open_at(root, fd, name, &s, &why);
        wf_ckpt_free(s);
        if (st == WEFT_NOMEM) /* the checkpoint itself may be valid */
            return WEFT_FAIL(err, st, "%s", why.msg);
        if (st == WEFT_OK && ++n_valid == keep)
            break;
    }
    *last = i;
    return WEFT_OK;
}

/* Removes the oldest checkpoints first, so that after a crash the newest checkpoints still
 * exist.  Continues after an error and returns the first error. */
static enum weft_status remove_after(const char *root, int fd, const uint64_t *steps, size_t n,
                                     size_t last, struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    for (size_t i = n; i > last + 1; i--) {
        char name[STORE_STEP_NAME_SIZE];
        wf_store_step_name(steps[i - 1], name);
        enum weft_status removed =
            wf_store_remove_dir(root, fd, name, st == WEFT_OK ? err : NULL);
        st = st == WEFT_OK ? removed : st;
    }
    return st == WEFT_OK ? wf_dir_sync_fd(fd, root, err) : st;
}

enum weft_status wf_store_prune(const char *root, size_t keep, struct weft_error *err)
{
    if (keep == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "at least one checkpoint must be kept");
    int fd;
    uint64_t *steps = NULL;
    size_t n = 0, last = 0;
    WEFT_TRY(wf_store_open_root(root, &fd, err));
    enum weft_status st = wf_store_list(root, fd, &steps, &n, err);
    if (st == WEFT_OK)
        st = find_last_kept(root, fd, steps, n, keep, &last, err);
    if (st == WEFT_OK)
        st = remove_after(root, fd, steps, n, last, err);
    free(steps);
    close(fd);
    return st;
}

enum weft_status wf_store_abort(const char *root, uint64_t step, const char *run,
                                struct weft_error *err)
{
    int fd;
    char name[STORE_TMP_NAME_SIZE];
    if (wf_store_run_error(run) != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "the name of run '%s' %s", wf_printable(run).at,
                         wf_store_run_error(run));
    WEFT_TRY(wf_store_open_root(root, &fd, err));
    wf_store_temporary_name(step, run, name);
    enum weft_status st = wf_store_remove_dir(root, fd, name, err);
    close(fd);
    return st;
}

/* -- start of a run ------------------------------------------------------------------------ */

/* Removes a temporary directory that no process has locked.  Removes nothing if the file system
 * cannot lock directories. */
static void remove_stale(const char *root, int root_fd, const char *name,
                         struct wf_text *removed)
{
    int fd = wf_store_open_subdir(root_fd, name);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        wf_store_remove_dir(root, root_fd, name, NULL) == WEFT_OK && removed != NULL)
        wf_text_addf(removed, "%s/%s: removed: an earlier run did not finish it\n", root,
                     wf_printable(name).at);
    close(fd);
}

static enum weft_status remove_all_stale(const char *root, int root_fd, struct wf_text *removed,
                                         struct weft_error *err)
{
    DIR *dir = list_open(root_fd);
    if (dir == NULL)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be listed: %s", root, strerror(errno));
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (is_temporary_name(e->d_name))
            remove_stale(root, root_fd, e->d_name, removed);
    closedir(dir);
    return WEFT_OK;
}

/* Tries all file operations that a checkpoint needs with a one-byte file. */
static enum weft_status probe(const char *root, int root_fd, struct weft_error *err)
{
    char *path = wf_path_join(root, ".probe"), *tmp = NULL;
    int fd = -1;
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a file");
    enum weft_status st = wf_temporary_new_file(path, &tmp, &fd, err);
    if (st == WEFT_OK && (write(fd, "", 1) != 1 || fsync(fd) != 0 || rename(tmp, path) != 0))
        st = WEFT_IO;
    if (st == WEFT_IO)
        st = WEFT_FAIL(err, WEFT_IO, "checkpoints cannot be written to %.160s: %s", root,
                       strerror(errno));

    if (tmp != NULL) {
        unlink(tmp);
        unlink(path);
        close(fd);
    }
    free(tmp);
    free(path);
    return st == WEFT_OK ? wf_dir_sync_fd(root_fd, root, err) : st;
}

enum weft_status wf_store_prepare(const char *root, struct wf_text *removed,
                                  struct weft_error *err)
{
    int fd;
    if (mkdir(root, 0777) == 0)
        WEFT_TRY(wf_dir_sync_parent(root, err));
    else if (errno != EEXIST)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be created: %s", root, strerror(errno));
    WEFT_TRY(wf_store_open_root(root, &fd, err));
    enum weft_status st = probe(root, fd, err);
    if (st == WEFT_OK)
        st = remove_all_stale(root, fd, removed, err);
    wf_temporary_clean_dir(root);
    close(fd);
    return st;
}

enum weft_status wf_store_check_space(const char *root, uint64_t bytes, struct weft_error *err)
{
    struct statvfs vfs;
    if (statvfs(root, &vfs) != 0)
        return WEFT_OK; /* the later writes report an error */
    double available = (double)vfs.f_bavail * (double)vfs.f_frsize;
    /* A file system that reports 0 blocks does not report its free space. */
    if (vfs.f_blocks == 0 || available >= (double)bytes)
        return WEFT_OK;
    char need[WF_NUMBER_CHARS], have[WF_NUMBER_CHARS];
    return WEFT_FAIL(err, WEFT_IO,
                     "a checkpoint needs %s, but only %s are free at %.160s; free some space",
                     wf_bytes_print(need, (double)bytes, WF_BYTES_BINARY),
                     wf_bytes_print(have, available, WF_BYTES_BINARY), root);
}
