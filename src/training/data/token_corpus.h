/* Writes texts as token shards.
 *
 *     OUT/train-000000.bin ...   tokens of the training documents, each with its end token
 *     OUT/val-000000.bin ...     tokens of the validation documents, likewise
 *     OUT/tokenizer.json         the tokenizer; tokenizer_config.json names its end
 *     OUT/meta.json              statistics
 *
 * If OUT ends in .bin, OUT is a single shard file.  The output does not depend on the number of
 * threads.
 *
 * Of conversations only the tokens of the assistant count as targets, and of pairs of prompt
 * and completion only those of the completion: the shards have a loss mask.  A conversation is
 * stored as its template writes it, without an end token of weft.
 *
 * The number of a document determines whether it is used for validation.  The first
 * document is never used for validation.  If there are two or more documents, at least one is
 * used for validation.  If a text file is the only document, it is split at the start of a
 * line, and its second part is used for validation.
 */
#ifndef TRAINING_DATA_TOKEN_CORPUS_H
#define TRAINING_DATA_TOKEN_CORPUS_H

#include "training/chat/chat.h"
#include "training/data/text_records.h"
#include "training/data/tokenizer.h"

enum { WF_CORPUS_SHARD_TOKENS = 100000000 };

struct wf_corpus_options {
    const struct weft_tokenizer *tokenizer; /* borrowed */
    /* Borrowed: the template of conversations.  NULL: records with messages are an error. */
    const struct wf_chat *chat;
    bool special;          /* names of special tokens in texts become these tokens */
    const char *out;       /* borrowed: a folder, or a file *.bin */
    double val;            /* fraction of documents used for validation, 0 <= val < 1 */
    uint32_t shard_tokens; /* tokens per shard */
    uint32_t n_threads;
    /* Called with the number of bytes read so far; may be NULL. */
    void (*progress)(void *ctx, uint64_t bytes);
    void *ctx;
};

struct wf_corpus_split {
    uint64_t tokens, documents;
    uint64_t counted; /* tokens that count as targets */
    uint32_t shards;
};

struct wf_corpus_result {
    uint64_t bytes; /* bytes of text */
    struct wf_corpus_split train, val;
    struct wf_bad_records bad; /* records that were skipped */
    uint64_t n_binary;         /* binary files of folders that were skipped */
};

/* Writes the corpus.  Returns WEFT_USAGE if the folder already contains shards.  On error
 * removes all files that it has written.  If `list` contains only one document, may split this
 * document in `list`. */
enum weft_status wf_corpus_write(struct wf_text_list *list,
                                 const struct wf_corpus_options *options,
                                 struct wf_corpus_result *result, struct weft_error *err);

#endif
