/* Reads meta.json, which `weft tokenize` writes into the directory of the shards. */
#ifndef TRAINING_DATA_META_H
#define TRAINING_DATA_META_H

#include <stdbool.h>
#include <stdint.h>

#include "training/data/shard.h"

struct wf_meta {
    uint32_t vocab;     /* vocabulary size of the tokenizer; 0: unknown */
    double token_bytes; /* mean number of bytes of text per token; 0: unknown */
    bool is_bytes;      /* tokens are bytes */
};

/* Returns the path of the file `name` in the directory of the shards.  The file need not exist.
 * The caller frees the path.  Returns NULL if the shards are in several directories or memory
 * runs out.  Local. */
char *wf_meta_sibling_path(const struct wf_shards *shards, const char *name);

/* Reads meta.json.  All fields are zero if the shards are in several directories or the file
 * does not exist.  Local. */
struct wf_meta wf_meta_read(const struct wf_shards *shards);

/* Stores the vocabulary size of the tokenizer that made the shards.  Reads the size from
 * meta.json or, if meta.json is missing, from tokenizer.json.  Stores 0 if neither file exists.
 * Local. */
enum weft_status wf_meta_find_vocab(const struct wf_shards *shards, uint32_t *out,
                                    struct weft_error *err);

/* Stores the vocabulary size of the tokenizer at `path`.  Local. */
enum weft_status wf_meta_count_tokens(const char *path, uint32_t *out, struct weft_error *err);

/* Stores the hash (training/data/tokenizer.h) of the tokenizer that made the shards, or 0 if it
 * is unknown.  Shards without a hash have the tokenizer of their directory.  Returns WEFT_DATA
 * if two shards have different tokenizers.  Local. */
enum weft_status wf_meta_find_tokenizer(const struct wf_shards *shards, uint64_t *out,
                                        struct weft_error *err);

/* Stores the hash of the tokenizer at `path`, or 0 if weft does not support it.  Local. */
enum weft_status wf_meta_hash_tokenizer(const char *path, uint64_t *out,
                                        struct weft_error *err);

/* Returns WEFT_DATA if `have`, the hash of the tokenizer of `what`, and `want`, that of
 * `other`, differ.  A hash of 0 fits every other one.  Local. */
enum weft_status wf_meta_check_same(const char *what, uint64_t have, const char *other,
                                    uint64_t want, struct weft_error *err);

/* Returns WEFT_DATA if the shards were made by a tokenizer with more than `vocab` tokens.
 * `model_dir` is the directory of the model, or NULL; it is only used for the error message.
 * Local. */
enum weft_status wf_meta_check_vocab(const struct wf_shards *shards, const char *model_dir,
                                     uint32_t vocab, struct weft_error *err);

#endif
