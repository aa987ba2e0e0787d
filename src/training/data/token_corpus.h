/* Texts to token shards.
 *
 *     OUT/train-000000.bin ...   tokens of the documents, one after another, each behind its end
 *     OUT/val-000000.bin ...     the same of those that are held back
 *     OUT/tokenizer.json         unless tokens are bytes
 *     OUT/meta.json              what is there
 *
 * or one file, when OUT ends in .bin.  The same texts give the same bytes, whatever the number of
 * threads.
 *
 * Whether a document is held back depends on its number alone.  The first one never is; when there
 * are two or more, at least one is.  A text file that is the only document is cut, at a line: its
 * end is held back.
 */
#ifndef TRAINING_DATA_TOKEN_CORPUS_H
#define TRAINING_DATA_TOKEN_CORPUS_H

#include "training/data/text_source.h"
#include "training/data/tokenizer.h"

enum { WF_CORPUS_SHARD_TOKENS = 100000000 };

struct wf_corpus_options {
    const struct weft_tokenizer *tokenizer; /* borrowed */
    const char *out;                        /* borrowed: a folder, or a file .bin */
    double val;                             /* fraction of documents, 0 <= val < 1 */
    uint32_t shard_tokens;                  /* of each shard but the last */
    uint32_t n_threads;
    void (*progress)(void *ctx, uint64_t bytes); /* bytes read so far; may be NULL */
    void *ctx;
};

struct wf_corpus_split {
    uint64_t tokens, documents;
    uint32_t shards;
};

struct wf_corpus_result {
    uint64_t bytes; /* of text */
    struct wf_corpus_split train, val;
};

/* A folder that has shards already is WEFT_USAGE.  After a failure none of the files is there.
 * May cut the list's only file. */
enum weft_status wf_corpus_write(struct wf_text_list *list,
                                 const struct wf_corpus_options *options,
                                 struct wf_corpus_result *result, struct weft_error *err);

#endif
