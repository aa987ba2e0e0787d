/* Turns texts into token shards: chooses or trains the tokenizer and writes the corpus. */
#ifndef TRAINING_JOBS_TOKENIZE_H
#define TRAINING_JOBS_TOKENIZE_H

#include "base/json.h"
#include "training/data/token_corpus.h"

enum wf_tokenize_phase { WF_TOKENIZE_PHASE_TRAIN, WF_TOKENIZE_PHASE_ENCODE };

struct wf_tokenize_options {
    /* a directory; a .bin file; or a .json file, to write the vocabulary alone */
    const char *out;
    /* path of a tokenizer; NULL: raw bytes, or the tokenizer that is trained */
    const char *tokenizer;
    /* path of a chat template; NULL: the template beside the tokenizer, if there is one */
    const char *chat_template;
    /* name of the token that ends a document; NULL: that of the tokenizer */
    const char *document_end;
    /* Names of special tokens in texts become these tokens; an end token ends a document. */
    bool special;
    uint32_t train_bpe;    /* size of the vocabulary to train; 0: no tokenizer is trained */
    double val;            /* fraction of documents for validation, 0 <= val < 1 */
    uint32_t shard_tokens; /* tokens per shard; 0: WF_CORPUS_SHARD_TOKENS */
    uint32_t n_threads;    /* number of threads; 0: one per core */
    /* Called with the number of bytes of text that were read so far in a phase.  NULL: not
     * called. */
    void (*progress)(void *ctx, enum wf_tokenize_phase phase, uint64_t bytes);
    void *ctx;
};

struct wf_tokenize_result {
    const char *kind; /* borrowed: a string literal, the kind of tokenizer */
    /* vocabulary size; less than train_bpe if too few pairs of the text repeat */
    uint32_t n_vocab;
    bool vocabulary_only;
    struct wf_corpus_result corpus; /* valid unless vocabulary_only is true */
    double seconds;                 /* time to write the corpus */
    double bytes_per_token;         /* 0 without tokens */
};

/* Writes the shards, or the vocabulary alone if `out` ends in .json.  Returns WEFT_USAGE if
 * only the vocabulary is requested but no tokenizer is trained, or if a tokenizer is given and
 * train_bpe requests another one.  May shorten the list's only file.  Local. */
enum weft_status wf_tokenize(struct wf_text_list *list, const struct wf_tokenize_options *o,
                             struct wf_tokenize_result *out, struct weft_error *err);

/* Writes the statistics as a JSON object. */
void wf_tokenize_result_write_json(struct wf_json *j, const struct wf_tokenize_result *r,
                                   const struct wf_tokenize_options *o);

#endif
