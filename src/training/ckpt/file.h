/* Whole files: read with a limit, written so that a reader sees the old one or the new one. */
#ifndef TRAINING_CKPT_FILE_H
#define TRAINING_CKPT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "weft/status.h"

/* -- reading ------------------------------------------------------------------------------- */

/* Opens a regular file; anything else (a directory, a pipe, which might never end) is WEFT_CKPT,
 * and so is a file that is not there.  The caller closes *fd.  Local. */
enum weft_status wf_file_open(const char *path, int *fd, uint64_t *size,
                              struct weft_error *err);

/* Reads just n bytes at `offset`; fewer are an error.  Local. */
enum weft_status wf_file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t n,
                                 struct weft_error *err);

/* The whole of a file that has at most `limit` bytes, and a NUL after it.  The caller frees
 * *bytes.  Local. */
enum weft_status wf_file_read(const char *path, size_t limit, char **bytes, size_t *len,
                              struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

/* A file on its way: the bytes go to a temporary file beside `path`, which wf_atomic_file_commit()
 * puts in its place once it is on the disk. */
struct wf_atomic_file {
    int fd;           /* -1: none */
    char *path, *tmp; /* owned */
    char *buffer;     /* owned: small writes are gathered */
    size_t n_buffered;
};

/* WEFT_IO for what the disk does not do.  wf_atomic_file_release() cleans up after every outcome,
 * and removes what was not committed.  Local. */
enum weft_status wf_atomic_file_open(struct wf_atomic_file *f, const char *path,
                                     struct weft_error *err);
enum weft_status wf_atomic_file_write(struct wf_atomic_file *f, const void *bytes, size_t n,
                                      struct weft_error *err);
enum weft_status wf_atomic_file_commit(struct wf_atomic_file *f, struct weft_error *err);
void wf_atomic_file_release(struct wf_atomic_file *f); /* one that failed to open is allowed */

/* All of these in one.  Local. */
enum weft_status wf_file_write(const char *path, const void *bytes, size_t n,
                               struct weft_error *err);

/* A copy of a file of at most WF_COPY_MAX_BYTES.  Local. */
#define WF_COPY_MAX_BYTES ((size_t)256 << 20)
enum weft_status wf_file_copy(const char *from, const char *to, struct weft_error *err);

/* Nothing is there, or a directory with nothing in it; else WEFT_USAGE.  Local. */
enum weft_status wf_dir_check_empty(const char *dir, struct weft_error *err);

/* Makes names in a directory durable.  Local. */
enum weft_status wf_dir_sync(const char *dir, struct weft_error *err);

/* The same for the directory that `path` is in. */
enum weft_status wf_dir_sync_parent(const char *path, struct weft_error *err);

/* `dir`/`name`, or NULL.  The caller frees it. */
char *wf_path_join(const char *dir, const char *name);
/* Whether a directory has something of this name, be it a link that leads nowhere. */
bool wf_dir_contains(const char *dir, const char *name);
/* The same path without slashes at its end; the caller frees it.  NULL: no memory. */
char *wf_path_trim(const char *path);

/* The attempt-th name to try for something temporary beside `path`, or NULL.  The caller frees. */
char *wf_path_temporary(const char *path, int attempt);

enum { WF_TEMPORARY_ATTEMPTS = 100 };

#endif
