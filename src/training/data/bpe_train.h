/* Learns a byte-level BPE vocabulary from text.
 *
 * Text is split with GPT-2's pattern.  The most frequent pair of neighbours within words becomes
 * a token, repeatedly; of equally frequent pairs the one with the lowest ids.  The result depends
 * only on the text, not on the number of threads.
 */
#ifndef TRAINING_DATA_BPE_TRAIN_H
#define TRAINING_DATA_BPE_TRAIN_H

#include "training/data/text_source.h"
#include "training/data/tokenizer.h"

enum {
    WF_BPE_MIN_VOCAB = 257, /* the bytes and the end-of-document token */
    WF_BPE_MAX_WORD = 256,  /* longer words are ignored */
};

/* Learns `n_vocab` tokens, including all bytes and the end-of-document token, or fewer if no pair
 * occurs twice.  Calls `progress` (may be NULL) with the bytes read so far.  The caller owns *out. */
enum weft_status wf_bpe_train(const struct wf_text_list *list, uint32_t n_vocab,
                              uint32_t n_threads, void (*progress)(void *ctx, uint64_t bytes),
                              void *ctx, struct weft_tokenizer **out, struct weft_error *err);

#endif
