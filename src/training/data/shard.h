/* Token shards: files of token ids, read as one long sequence.
 *
 *     bytes 0..1023   256 little-endian int32 values: magic, version, count, extension, zeros
 *     then            `count` little-endian tokens
 *     then            the loss mask, if the extension has one: one bit per token
 *
 *     magic      version   type of a token
 *     20240520   1         uint16
 *     20240801   7         uint32
 *
 *     struct wf_shards *shards = NULL;
 *     if (wf_shards_open("fineweb", &shards, &err) != WEFT_OK)
 *         ...
 *     wf_shards_read(shards, 0, 1025, vocab, tokens, &err);
 *     wf_shards_free(shards);
 *
 * Every error names the file and the position.  A file that is truncated while it is in use
 * causes an error, not a crash, because shards are read and never mapped into memory.
 */
#ifndef TRAINING_DATA_SHARD_H
#define TRAINING_DATA_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

enum { WF_SHARD_HEADER_BYTES = 1024 };

struct wf_shards; /* opaque: opened once, then read-only, safe to read from any thread */

/* Opens shards.  `list` is a comma-separated list of files, folders and glob patterns, which
 * are read in this order.  The files *.bin of a folder are read in byte order of their names.
 * If the whole string is the path of an existing file, its commas are part of the path.  On
 * success the caller owns *out.  Local. */
enum weft_status wf_shards_open(const char *list, struct wf_shards **out,
                                struct weft_error *err);
/* Opens shards like wf_shards_open().  If a folder contains files named `part`-*.bin, only
 * these files of the folder are used.  `part` is "train" or "val".  Local. */
enum weft_status wf_shards_open_split(const char *list, const char *part,
                                      struct wf_shards **out, struct weft_error *err);
void wf_shards_free(struct wf_shards *s); /* NULL is allowed */

/* Returns the number of tokens in all shards.  Local. */
uint64_t wf_shards_n_tokens(const struct wf_shards *s);
/* Returns the number of files.  Local. */
size_t wf_shards_n_files(const struct wf_shards *s);
/* Returns the path of file i.  The pointer is borrowed.  Local. */
const char *wf_shards_path(const struct wf_shards *s, size_t i);

/* Reads n tokens, starting at position `at` in the sequence of all shards.  Returns WEFT_DATA
 * if a position is out of range or a token id is not less than `vocab`.  On error `out` may be
 * partly written.  Local. */
enum weft_status wf_shards_read(const struct wf_shards *s, uint64_t at, size_t n,
                                uint32_t vocab, int32_t *out, struct weft_error *err);

/* Returns the number of tokens in file i.  Local. */
uint64_t wf_shards_file_tokens(const struct wf_shards *s, size_t i);
/* Returns the number of bytes per token in file i.  Local. */
size_t wf_shards_width(const struct wf_shards *s, size_t i);
/* Returns the hash of the tokenizer in the header of file i; 0: unknown.  Local. */
uint64_t wf_shards_file_hash(const struct wf_shards *s, size_t i);
/* Returns true if a file has a loss mask.  Without a mask, every token counts.  Local. */
bool wf_shards_masked(const struct wf_shards *s);

/* Replaces each of n tokens that does not count as a target by -1.  `tokens` was read from
 * position `at` on.  Local. */
enum weft_status wf_shards_mask(const struct wf_shards *s, uint64_t at, size_t n,
                                int32_t *tokens, struct weft_error *err);

/* Computes a hash of the number of tokens and of a sample of the tokens and of the mask, which
 * is used to compare sets of shards.  Local. */
enum weft_status wf_shards_fingerprint(const struct wf_shards *s, uint64_t *out,
                                       struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_shard_writer; /* opaque */

/* Creates a writer.  Tokens are stored in 2 bytes if all ids below `vocab` fit, otherwise in 4
 * bytes.  The file is written atomically: an existing file at `path` remains until
 * wf_shard_writer_finish().  Local. */
enum weft_status wf_shard_writer_new(const char *path, uint32_t vocab,
                                     struct wf_shard_writer **out, struct weft_error *err);
/* Appends n tokens.  Local. */
enum weft_status wf_shard_writer_add(struct wf_shard_writer *w, const int32_t *tokens, size_t n,
                                     struct weft_error *err);
/* Appends n tokens.  Token i counts as a target if counted[i] is true.  A mask is stored only
 * if a token of the shard does not count.  Local. */
enum weft_status wf_shard_writer_add_masked(struct wf_shard_writer *w, const int32_t *tokens,
                                            const bool *counted, size_t n,
                                            struct weft_error *err);
/* Stores the hash of the tokenizer in the header; 0: unknown, which is the default.  Local. */
void wf_shard_writer_set_hash(struct wf_shard_writer *w, uint64_t hash);

/* Renames the file to its final name.  On error the new file is removed.  The caller must free
 * the writer in both cases. */
enum weft_status wf_shard_writer_finish(struct wf_shard_writer *w, struct weft_error *err);
void wf_shard_writer_free(struct wf_shard_writer *w); /* NULL is allowed */

/* Writes a whole shard with one call. */
enum weft_status wf_shard_write(const char *path, uint32_t vocab, const int32_t *tokens,
                                size_t n, struct weft_error *err);

#endif
