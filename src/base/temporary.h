/* Temporary files and directories beside their final path, and the removal of those that a
 * killed process left.
 *
 *     PATH.tmp-PID-N    PID is the process that writes it, N the first free number
 *
 * The writer holds a lock (flock) on it, which the system releases when the process ends.  A
 * temporary is stale if its process no longer exists on this machine and nobody holds the lock.
 * Nothing is removed on a file system without locks. */
#ifndef BASE_TEMPORARY_H
#define BASE_TEMPORARY_H

#include "weft/status.h"

/* Creates a locked temporary file for `path`, open for writing.  The caller frees *tmp and
 * closes *fd after it has renamed or removed the file.  Local. */
enum weft_status wf_temporary_new_file(const char *path, char **tmp, int *fd,
                                       struct weft_error *err);

/* Creates a locked temporary directory for `path`.  The caller frees *tmp and closes *lock
 * after it has renamed or removed the directory.  Local. */
enum weft_status wf_temporary_new_dir(const char *path, char **tmp, int *lock,
                                      struct weft_error *err);

/* Removes the stale temporaries of `path`.  Errors are ignored.  Local. */
void wf_temporary_clean(const char *path);

/* Removes the stale temporaries of all paths in a directory.  Errors are ignored.  Local. */
void wf_temporary_clean_dir(const char *dir);

#endif
