/* Reads and writes files with system calls and checks the result of each call.  A new file is
 * written beside the old one, made durable and renamed. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/temporary.h"

enum { BUFFER_BYTES = 1 << 18 };

/* -- reading ------------------------------------------------------------------------------- */

enum weft_status wf_file_open(const char *path, int *out, uint64_t *size,
                              struct weft_error *err)
{
    /* Without O_NONBLOCK, opening a pipe blocks until it has a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return WEFT_FAIL(
            err, errno == ENOENT || errno == ENOTDIR || errno == EACCES ? WEFT_CKPT : WEFT_IO,
            "%.160s cannot be opened: %s", path, strerror(errno));

    struct stat st;
    enum weft_status status = WEFT_OK;
    if (fstat(fd, &st) != 0)
        status = WEFT_FAIL(err, WEFT_IO, "%.160s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || st.st_size < 0)
        status = WEFT_FAIL(err, WEFT_CKPT, "%.160s is not a regular file", path);
    if (status != WEFT_OK) {
        close(fd);
        return status;
    }
    *out = fd;
    *size = (uint64_t)st.st_size;
    return WEFT_OK;
}

enum weft_status wf_file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t n,
                                 struct weft_error *err)
{
    char *at = out;
    while (n > 0) {
        ssize_t got = pread(fd, at, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return WEFT_FAIL(err, WEFT_IO, "%.160s: reading at byte %llu: %s", path,
                             (unsigned long long)offset, strerror(errno));
        if (got == 0)
            return WEFT_FAIL(err, WEFT_CKPT,
                             "%.160s ends at byte %llu: it was truncated while being read",
                             path, (unsigned long long)offset);
        at += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return WEFT_OK;
}

enum weft_status wf_file_read(const char *path, size_t limit, char **out, size_t *len,
                              struct weft_error *err)
{
    int fd;
    uint64_t size;
    WEFT_TRY(wf_file_open(path, &fd, &size, err));

    enum weft_status st;
    char *bytes = NULL;
    if (size > limit) {
        st = WEFT_FAIL(err, WEFT_CKPT, "%.160s has %llu bytes (maximum %zu)", path,
                       (unsigned long long)size, limit);
        goto done;
    }
    bytes = malloc((size_t)size + 1);
    if (bytes == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory for %llu bytes", path,
                       (unsigned long long)size);
        goto done;
    }

    st = wf_file_read_at(fd, path, 0, bytes, (size_t)size, err);
    if (st != WEFT_OK)
        goto done;
    bytes[size] = '\0';
    *out = bytes;
    *len = (size_t)size;
    bytes = NULL;
done:
    free(bytes);
    close(fd);
    return st;
}

/* -- paths and directories ----------------------------------------------------------------- */

const char *wf_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

char *wf_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = malloc(n);
    if (path != NULL)
        snprintf(path, n, "%s/%s", dir, name);
    return path;
}

bool wf_dir_contains(const char *dir, const char *name)
{
    struct stat info;
    char *path = wf_path_join(dir, name);
    bool found = path != NULL && lstat(path, &info) == 0;
    free(path);
    return found;
}

char *wf_path_trim(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return strndup(path, len);
}

enum weft_status wf_dir_check_empty(const char *dir, struct weft_error *err)
{
    DIR *d = opendir(dir);
    if (d == NULL && errno == ENOENT)
        return WEFT_OK;
    if (d == NULL && errno == ENOTDIR)
        return WEFT_FAIL(err, WEFT_USAGE, "%.160s is a file; use a new directory", dir);
    if (d == NULL)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be read: %s", dir, strerror(errno));
    bool empty = true;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    closedir(d);
    if (empty)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%.160s exists and is not empty; use another name, or move it", dir);
}

enum weft_status wf_dir_sync_fd(int fd, const char *path, struct weft_error *err)
{
    /* Some network file systems cannot sync a directory and return EINVAL. */
    if (fsync(fd) != 0 && errno != EINVAL)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be synced: %s", path, strerror(errno));
    return WEFT_OK;
}

enum weft_status wf_dir_sync(const char *dir, struct weft_error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be opened: %s", dir, strerror(errno));
    enum weft_status st = wf_dir_sync_fd(fd, dir, err);
    close(fd);
    return st;
}

enum weft_status wf_dir_sync_parent(const char *path, struct weft_error *err)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return wf_dir_sync(".", err);
    char *dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (dir == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a directory");
    enum weft_status st = wf_dir_sync(dir, err);
    free(dir);
    return st;
}

/* -- writing ------------------------------------------------------------------------------- */

enum weft_status wf_file_fail_write(const char *path, struct weft_error *err)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be written: %s; free some space%s", path,
                     strerror(errno), full ? "" : " or check the disk");
}

enum weft_status wf_fd_write(int fd, const char *path, const void *bytes, size_t n,
                             struct weft_error *err)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t written = write(fd, at, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written == 0) /* POSIX defines no errno for this case; the disk is full */
            errno = ENOSPC;
        if (written <= 0)
            return wf_file_fail_write(path, err);
        at += written;
        n -= (size_t)written;
    }
    return WEFT_OK;
}

enum weft_status wf_atomic_file_open(struct wf_atomic_file *f, const char *path,
                                     struct weft_error *err)
{
    *f = (struct wf_atomic_file){.fd = -1};
    f->path = strdup(path);
    f->buffer = malloc(BUFFER_BYTES);
    enum weft_status st;
    if (f->path == NULL || f->buffer == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory for a buffer to write it", path);
    else
        st = wf_temporary_new_file(path, &f->tmp, &f->fd, err);
    if (st != WEFT_OK)
        wf_atomic_file_release(f);
    return st;
}

static enum weft_status flush(struct wf_atomic_file *f, struct weft_error *err)
{
    size_t n = f->n_buffered;
    f->n_buffered = 0;
    return wf_fd_write(f->fd, f->path, f->buffer, n, err);
}

enum weft_status wf_atomic_file_write(struct wf_atomic_file *f, const void *bytes, size_t n,
                                      struct weft_error *err)
{
    if (n > BUFFER_BYTES - f->n_buffered)
        WEFT_TRY(flush(f, err));
    if (n >= BUFFER_BYTES)
        return wf_fd_write(f->fd, f->path, bytes, n, err);
    if (n > 0)
        memcpy(f->buffer + f->n_buffered, bytes, n);
    f->n_buffered += n;
    return WEFT_OK;
}

enum weft_status wf_atomic_file_overwrite(struct wf_atomic_file *f, uint64_t offset,
                                          const void *bytes, size_t n, struct weft_error *err)
{
    WEFT_TRY(flush(f, err));
    off_t end = lseek(f->fd, 0, SEEK_CUR);
    if (end < 0 || lseek(f->fd, (off_t)offset, SEEK_SET) < 0)
        return wf_file_fail_write(f->path, err);
    WEFT_TRY(wf_fd_write(f->fd, f->path, bytes, n, err));
    return lseek(f->fd, end, SEEK_SET) < 0 ? wf_file_fail_write(f->path, err) : WEFT_OK;
}

enum weft_status wf_atomic_file_commit(struct wf_atomic_file *f, struct weft_error *err)
{
    WEFT_TRY(flush(f, err));
    if (fsync(f->fd) != 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be synced: %s", f->path, strerror(errno));

    /* The file stays open until it has its final name: closing it would release its lock, and
     * another process might remove it as a stale one.  After fsync() closing loses nothing. */
    if (rename(f->tmp, f->path) != 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be renamed to its final name: %s",
                         f->path, strerror(errno));
    free(f->tmp);
    f->tmp = NULL;
    return wf_dir_sync_parent(f->path, err);
}

void wf_atomic_file_release(struct wf_atomic_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->tmp != NULL)
        unlink(f->tmp);
    free(f->tmp);
    free(f->path);
    free(f->buffer);
    *f = (struct wf_atomic_file){.fd = -1};
}

enum weft_status wf_file_write(const char *path, const void *bytes, size_t n,
                               struct weft_error *err)
{
    struct wf_atomic_file f;
    WEFT_TRY(wf_atomic_file_open(&f, path, err));
    enum weft_status st = wf_atomic_file_write(&f, bytes, n, err);
    if (st == WEFT_OK)
        st = wf_atomic_file_commit(&f, err);
    wf_atomic_file_release(&f);
    return st;
}

enum weft_status wf_file_copy(const char *from, const char *to, struct weft_error *err)
{
    char *bytes = NULL;
    size_t len = 0;
    WEFT_TRY(wf_file_read(from, WF_COPY_MAX_BYTES, &bytes, &len, err));
    enum weft_status st = wf_file_write(to, bytes, len, err);
    free(bytes);
    return st;
}
