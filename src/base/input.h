/* Files that are read whole. */
#ifndef BASE_INPUT_H
#define BASE_INPUT_H

#include <stddef.h>

#include "weft/status.h"

/* The whole file, NUL-terminated; "-" is standard input.  The caller frees *out. */
enum weft_status weft_input_read(const char *path, char **out, size_t *len,
                                 struct weft_error *err);

#endif
