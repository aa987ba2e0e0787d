/* Reads files that may be compressed: with gzip, Zstandard, xz or bzip2.  The format is
 * recognized by the first bytes, not by the name.
 *
 *     struct wf_stream *s = NULL;
 *     WEFT_TRY(wf_stream_open("corpus.jsonl.zst", &s, err));
 *     while (st == WEFT_OK && n == sizeof piece)
 *         st = wf_stream_read(s, piece, sizeof piece, &n, err);
 *     wf_stream_free(s);
 */
#ifndef TRAINING_UNPACK_UNPACK_H
#define TRAINING_UNPACK_UNPACK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/status.h"

/* The maximum size of a file that is read as a whole, after decompression. */
#define WF_UNPACK_MAX_BYTES ((size_t)1 << 32)

/* Reads a whole file, or standard input for "-", like wf_input_read_as().  A compressed file is
 * decompressed.  Returns WEFT_DATA if the compressed data is damaged, truncated or larger than
 * WF_UNPACK_MAX_BYTES. */
enum weft_status wf_unpack_read_as(enum weft_status kind, const char *path, char **out,
                                   size_t *len, struct weft_error *err);

/* -- streams ------------------------------------------------------------------------------- */

struct wf_stream; /* opaque: used by one thread */

/* Opens a file, or standard input for "-".  Returns WEFT_DATA if it cannot be opened.  The
 * caller owns *out.  Local. */
enum weft_status wf_stream_open(const char *path, struct wf_stream **out,
                                struct weft_error *err);
/* Reads from an open file, which remains the caller's.  `name` is its name in errors and is
 * borrowed.  The caller owns *out.  Local. */
enum weft_status wf_stream_new(FILE *in, const char *name, struct wf_stream **out,
                               struct weft_error *err);
void wf_stream_free(struct wf_stream *s); /* NULL is allowed */

/* Returns the name of the compression, or NULL if the file is not compressed. */
const char *wf_stream_packing(const struct wf_stream *s);

/* Stores the first bytes of the content, at most `n`, without consuming them.  The bytes are
 * borrowed until the stream is read.  Must be called before the first read. */
enum weft_status wf_stream_peek(struct wf_stream *s, size_t n, const char **at, size_t *len,
                                struct weft_error *err);

/* Continues at a byte of a regular file that is not compressed.  Must be called before the
 * first read. */
enum weft_status wf_stream_seek(struct wf_stream *s, uint64_t offset, struct weft_error *err);

/* Reads n bytes; fewer only at the end of the content.  Returns WEFT_DATA if the compressed
 * data is damaged or truncated. */
enum weft_status wf_stream_read(struct wf_stream *s, char *out, size_t n, size_t *got,
                                struct weft_error *err);

/* Reads the rest of the content, of at most `max_bytes` bytes, and appends a NUL.  `name` is
 * the file in errors.  The caller frees *out. */
enum weft_status wf_stream_read_all(struct wf_stream *s, const char *name, size_t max_bytes,
                                    char **out, size_t *len, struct weft_error *err);

#endif
