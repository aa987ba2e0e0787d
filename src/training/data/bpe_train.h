/* Learns a byte-level BPE vocabulary from text.
 *
 * Text is split with GPT-2's pattern.  In each iteration the most frequent pair of adjacent
 * tokens within words becomes a new token.  Of equally frequent pairs, the pair with the lowest
 * ids is chosen.  The result depends only on the text, not on the number of threads.
 */
#ifndef TRAINING_DATA_BPE_TRAIN_H
#define TRAINING_DATA_BPE_TRAIN_H

#include "training/data/text_source.h"
#include "training/data/tokenizer.h"

enum {
    WF_BPE_MIN_VOCAB = 257, /* 256 bytes and the end-of-document token */
    WF_BPE_MAX_WORD = 256,  /* maximum bytes of a word; longer words are ignored */
};

/* Learns a vocabulary of `n_vocab` tokens, which include the 256 bytes and the end-of-document
 * token.  The vocabulary is smaller if no pair occurs twice any more.  Calls `progress`, which
 * may be NULL, with the number of bytes read so far.  The caller owns *out. */
enum weft_status wf_bpe_train(const struct wf_text_list *list, uint32_t n_vocab,
                              uint32_t n_threads, void (*progress)(void *ctx, uint64_t bytes),
                              void *ctx, struct weft_tokenizer **out, struct weft_error *err);

#endif
