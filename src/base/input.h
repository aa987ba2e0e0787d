/* Reading whole files. */
#ifndef BASE_INPUT_H
#define BASE_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

/* A function that reads a whole file, such as wf_input_read_as(). */
typedef enum weft_status (*wf_input_fn)(enum weft_status kind, const char *path, char **out,
                                        size_t *len, struct weft_error *err);

/* Reads a whole file, or standard input for "-", and appends a NUL.  Returns `kind` if the file
 * cannot be opened or is a directory.  The caller frees *out. */
enum weft_status wf_input_read_as(enum weft_status kind, const char *path, char **out,
                                  size_t *len, struct weft_error *err);

/* Calls wf_input_read_as() with WEFT_USAGE. */
enum weft_status wf_input_read(const char *path, char **out, size_t *len,
                               struct weft_error *err);

/* Returns true if `path` is a directory. */
bool wf_is_directory(const char *path);

/* Returns true if `path` exists and is not a directory. */
bool wf_is_file(const char *path);

/* Returns true if a path or another name ends in `ending`. */
bool wf_path_ends_in(const char *path, const char *ending);

#endif
