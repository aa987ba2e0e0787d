/* Reads whole files with a size limit and writes files atomically: a reader sees either the
 * complete old file or the complete new file.  Also joins, trims and tests paths and makes
 * directories durable. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

/* -- reading ------------------------------------------------------------------------------- */

/* Opens a regular file for reading.  Returns WEFT_CKPT if the file is missing, not readable or
 * not a regular file (a pipe might never end).  The caller closes *fd.  Local. */
enum weft_status wf_file_open(const char *path, int *fd, uint64_t *size,
                              struct weft_error *err);

/* Reads exactly n bytes at `offset`.  Returns WEFT_CKPT if the file has fewer bytes.  Local. */
enum weft_status wf_file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t n,
                                 struct weft_error *err);

/* Reads a whole file of at most `limit` bytes and appends a NUL.  The caller frees *bytes.
 * Local. */
enum weft_status wf_file_read(const char *path, size_t limit, char **bytes, size_t *len,
                              struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

/* A file that is being written.  The bytes go to a temporary file beside `path`, which
 * wf_atomic_file_commit() syncs and renames to `path`. */
struct wf_atomic_file {
    int fd;           /* descriptor of the temporary file; -1 if it is not open */
    char *path, *tmp; /* owned: the final path, the temporary path */
    char *buffer;     /* owned: collects small writes */
    size_t n_buffered;
};

/* Creates the temporary file.  All functions of this object return WEFT_IO if a system call
 * fails.  Call wf_atomic_file_release() after success and after failure; it removes the
 * temporary file unless wf_atomic_file_commit() succeeded.  Local. */
enum weft_status wf_atomic_file_open(struct wf_atomic_file *f, const char *path,
                                     struct weft_error *err);
/* Appends n bytes. */
enum weft_status wf_atomic_file_write(struct wf_atomic_file *f, const void *bytes, size_t n,
                                      struct weft_error *err);
/* Overwrites n bytes at `offset`.  This range must already have been written. */
enum weft_status wf_atomic_file_overwrite(struct wf_atomic_file *f, uint64_t offset,
                                          const void *bytes, size_t n, struct weft_error *err);
/* Makes the file durable and renames it to its final path. */
enum weft_status wf_atomic_file_commit(struct wf_atomic_file *f, struct weft_error *err);
/* Frees the buffers and removes the temporary file if it was not committed.  Also valid after
 * wf_atomic_file_open() failed. */
void wf_atomic_file_release(struct wf_atomic_file *f);

/* Writes a whole file atomically.  Local. */
enum weft_status wf_file_write(const char *path, const void *bytes, size_t n,
                               struct weft_error *err);

/* Writes all n bytes to an open file.  `path` is for messages.  Local. */
enum weft_status wf_fd_write(int fd, const char *path, const void *bytes, size_t n,
                             struct weft_error *err);

/* Returns WEFT_IO with a message built from errno and a hint to free space or
 * check the disk. */
enum weft_status wf_file_fail_write(const char *path, struct weft_error *err);

#define WF_COPY_MAX_BYTES ((size_t)256 << 20)
/* Copies a file of at most WF_COPY_MAX_BYTES atomically.  Local. */
enum weft_status wf_file_copy(const char *from, const char *to, struct weft_error *err);

/* -- directories --------------------------------------------------------------------------- */

/* Returns WEFT_USAGE unless `dir` does not exist or is an empty directory.  Local. */
enum weft_status wf_dir_check_empty(const char *dir, struct weft_error *err);

/* Returns true if the directory has an entry of this name, even a dangling symbolic link. */
bool wf_dir_contains(const char *dir, const char *name);

/* Makes the entries of a directory durable.  Local. */
enum weft_status wf_dir_sync(const char *dir, struct weft_error *err);

/* Makes the entries of an open directory durable.  `path` is for messages.  Local. */
enum weft_status wf_dir_sync_fd(int fd, const char *path, struct weft_error *err);

/* Makes the entry of `path` in its parent directory durable.  Local. */
enum weft_status wf_dir_sync_parent(const char *path, struct weft_error *err);

/* -- paths --------------------------------------------------------------------------------- */

/* Returns the part of a path after its last slash.  Borrowed from `path`. */
const char *wf_path_name(const char *path);

/* Returns `dir`/`name`, or NULL if memory runs out.  The caller frees the result. */
char *wf_path_join(const char *dir, const char *name);

/* Returns the path without trailing slashes, or NULL if memory runs out.  The caller frees the
 * result. */
char *wf_path_trim(const char *path);

#endif
