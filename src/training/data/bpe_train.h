/* Learns a byte-level BPE vocabulary from text.
 *
 * Text is split as GPT-2 does it.  Again and again the most frequent pair of neighbours within
 * words becomes a token; of equally frequent ones, that of the lowest ids.  The result depends on
 * the text alone, whatever the number of threads.
 */
#ifndef TRAINING_DATA_BPE_TRAIN_H
#define TRAINING_DATA_BPE_TRAIN_H

#include "training/data/text_source.h"
#include "training/data/tokenizer.h"

enum {
    WF_BPE_MIN_VOCAB = 257, /* the bytes and the document's end */
    WF_BPE_MAX_WORD = 256,  /* longer words are no words, and teach nothing */
};

/* `n_vocab` tokens with all bytes and the document's end, or fewer when no pair is there twice.
 * `progress` (may be NULL) hears of bytes that were read, with ctx.  The caller owns *out. */
enum weft_status wf_bpe_train(const struct wf_text_list *list, uint32_t n_vocab,
                              uint32_t n_threads, void (*progress)(void *ctx, uint64_t bytes),
                              void *ctx, struct weft_tokenizer **out, struct weft_error *err);

#endif
