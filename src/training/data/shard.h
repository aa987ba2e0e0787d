/* Token shards: files of token numbers, read as one long row of tokens.
 *
 *     bytes 0..1023   256 little-endian int32: magic, version, count, zeros
 *     the rest        `count` little-endian tokens
 *
 *     magic      version   a token
 *     20240520   1         uint16
 *     20240801   7         uint32
 *
 *     struct wf_shards *shards = NULL;
 *     if (wf_shards_open("fineweb", &shards, &err) != WEFT_OK)
 *         ...
 *     wf_shards_read(shards, 0, 1025, vocab, tokens, &err);
 *     wf_shards_free(shards);
 *
 * Every error names the file, and where in it.  A file that is cut short while it is in use is
 * an error, too: shards are read, never mapped.
 */
#ifndef TRAINING_DATA_SHARD_H
#define TRAINING_DATA_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

enum { WF_SHARD_HEADER_BYTES = 1024 };

struct wf_shards; /* opaque: opened once, then read-only, safe to read from any thread */

/* `list` is a file, a folder (its *.bin in the order of their bytes), or several of them and glob
 * patterns parted by commas, taken in the order written.  What is there under the whole text is
 * taken as that, commas or not.  On success the caller owns *out.  Local. */
enum weft_status wf_shards_open(const char *list, struct wf_shards **out,
                                struct weft_error *err);
/* The same; but of a folder that has files `part`-*.bin, as `weft tokenize` writes them, only these:
 * "train" or "val". */
enum weft_status wf_shards_open_split(const char *list, const char *part,
                                      struct wf_shards **out, struct weft_error *err);
void wf_shards_free(struct wf_shards *s); /* NULL is allowed */

uint64_t wf_shards_n_tokens(const struct wf_shards *s);
size_t wf_shards_n_files(const struct wf_shards *s);
const char *wf_shards_path(const struct wf_shards *s, size_t i); /* borrowed */

/* n tokens from position `at` of all shards joined, each below `vocab`.  What does not lie within
 * is WEFT_DATA.  `out` may be half written when it fails.  Local. */
enum weft_status wf_shards_read(const struct wf_shards *s, uint64_t at, size_t n,
                                uint32_t vocab, int32_t *out, struct weft_error *err);

/* Tells sets of shards apart: their number of tokens, and samples of these.  Local. */
uint64_t wf_shards_fingerprint(const struct wf_shards *s);

/* -- writing -------------------------------------------------------------------------------- */

struct wf_shard_writer; /* opaque */

/* Tokens below `vocab` take 2 bytes each when that is enough, else 4.  The file appears under its
 * name when it is finished, whole; an old one of that name stays until then.  Local. */
enum weft_status wf_shard_writer_new(const char *path, uint32_t vocab,
                                     struct wf_shard_writer **out, struct weft_error *err);
enum weft_status wf_shard_writer_add(struct wf_shard_writer *w, const int32_t *tokens, size_t n,
                                     struct weft_error *err);

/* Puts the file in its place.  After a failure there is none; free the writer in either case. */
enum weft_status wf_shard_writer_finish(struct wf_shard_writer *w, struct weft_error *err);
void wf_shard_writer_free(struct wf_shard_writer *w); /* NULL is allowed */

/* All of it at once. */
enum weft_status wf_shard_write(const char *path, uint32_t vocab, const int32_t *tokens,
                                size_t n, struct weft_error *err);

#endif
