/* Files that are read whole. */
#ifndef BASE_INPUT_H
#define BASE_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

/* The whole file, NUL-terminated; "-" is standard input.  The caller frees *out.  A file that is
 * missing or may not be read fails with `kind`: the status of what it should have been. */
enum weft_status wf_input_read_as(enum weft_status kind, const char *path, char **out,
                                  size_t *len, struct weft_error *err);

/* The same for settings: WEFT_USAGE. */
enum weft_status wf_input_read(const char *path, char **out, size_t *len,
                               struct weft_error *err);

/* Returns true if `path` is a directory. */
bool wf_is_directory(const char *path);

/* Returns true if a path ends in `ending`. */
bool wf_path_ends_in(const char *path, const char *ending);

#endif
