/* Writes texts as token shards.
 *
 *     OUT/train-000000.bin ...   tokens of the training documents, each followed by its end token
 *     OUT/val-000000.bin ...     the same of the validation documents
 *     OUT/tokenizer.json         unless tokens are bytes
 *     OUT/meta.json              statistics
 *
 * or one file, if OUT ends in .bin.  The same texts give the same bytes with any number of threads.
 *
 * The number of a document determines whether it is used for validation.  The first one never is;
 * if there are two or more, at least one is.  If a text file is the only document, it is cut at a
 * line, and its end is used for validation.
 */
#ifndef TRAINING_DATA_TOKEN_CORPUS_H
#define TRAINING_DATA_TOKEN_CORPUS_H

#include "training/data/text_source.h"
#include "training/data/tokenizer.h"

enum { WF_CORPUS_SHARD_TOKENS = 100000000 };

struct wf_corpus_options {
    const struct weft_tokenizer *tokenizer; /* borrowed */
    const char *out;                        /* borrowed: a folder, or a file *.bin */
    double val;                             /* fraction of documents, 0 <= val < 1 */
    uint32_t shard_tokens;                  /* tokens per shard */
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

/* Writes the corpus.  Returns WEFT_USAGE if the folder already has shards.  After a failure none
 * of the files exists.  May cut the list's only file. */
enum weft_status wf_corpus_write(struct wf_text_list *list,
                                 const struct wf_corpus_options *options,
                                 struct wf_corpus_result *result, struct weft_error *err);

#endif
