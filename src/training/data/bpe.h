/* Implements byte-pair merges: the hash table of pairs, and the encoding of one piece of
 * text. */
#ifndef TRAINING_DATA_BPE_H
#define TRAINING_DATA_BPE_H

#include "training/data/tokenizer_priv.h"

/* Returns a number that identifies a pair. */
static inline uint64_t wf_bpe_key(struct wf_token_pair pair)
{
    return (uint64_t)(uint32_t)pair.left << 32 | (uint32_t)pair.right;
}

/* Returns the hash table slot of a pair.  If the table does not contain the pair, returns the
 * free slot in which the pair would be stored. */
static inline struct wf_merge *wf_bpe_slot(const struct weft_tokenizer *t,
                                           struct wf_token_pair pair)
{
    uint64_t key = wf_bpe_key(pair);
    uint64_t h = key * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = (size_t)(h >> 32);; i++) {
        struct wf_merge *m = &t->merges[i & t->merges_mask];
        if (m->key == key || m->key == WF_NO_PAIR)
            return m;
    }
}

/* Reusable memory for encoding long pieces. */
struct wf_bpe_scratch {
    struct wf_bpe_node *nodes; /* owned */
    struct wf_bpe_entry *heap; /* owned */
    size_t n_nodes, n_heap;
};

void wf_bpe_scratch_release(struct wf_bpe_scratch *scratch);

/* Appends the tokens of a piece.  Repeatedly merges the pair with the lowest rank; of several
 * pairs with this rank, the leftmost pair is merged first. */
enum weft_status wf_bpe_encode(const struct weft_tokenizer *t, struct wf_bpe_scratch *scratch,
                               const char *piece, size_t len, struct weft_tokens *out,
                               struct weft_error *err);

#endif
