/* Reads files that may be compressed with gzip. */
#ifndef UNPACK_UNPACK_H
#define UNPACK_UNPACK_H

#include <stddef.h>

#include "weft/status.h"

/* The maximum size of a file after decompression. */
#define WF_UNPACK_MAX_BYTES ((size_t)1 << 32)

/* Reads a whole file, or standard input for "-", like wf_input_read_as().  If the file starts
 * with the magic number of gzip, it is decompressed.  Returns WEFT_DATA if the compressed data
 * is damaged, truncated or larger than WF_UNPACK_MAX_BYTES. */
enum weft_status wf_unpack_read_as(enum weft_status kind, const char *path, char **out,
                                   size_t *len, struct weft_error *err);

/* Decompresses gzip data of at most `max_bytes` bytes and appends a NUL.  `source` is its name
 * in errors.  The caller frees *out. */
enum weft_status wf_unpack_gzip(const char *data, size_t n, const char *source,
                                size_t max_bytes, char **out, size_t *len,
                                struct weft_error *err);

#endif
