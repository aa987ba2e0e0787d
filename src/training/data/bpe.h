/* Byte-pair merges: the hash of pairs, and the tokens of one piece of text. */
#ifndef TRAINING_DATA_BPE_H
#define TRAINING_DATA_BPE_H

#include "training/data/token_priv.h"

static inline uint64_t weft_bpe_key(struct weft_token_pair pair)
{
    return (uint64_t)(uint32_t)pair.left << 32 | (uint32_t)pair.right;
}

/* The slot of a pair, or the free one where it would be. */
static inline struct weft_merge *weft_bpe_slot(const struct weft_tokenizer *t,
                                               struct weft_token_pair pair)
{
    uint64_t key = weft_bpe_key(pair);
    uint64_t h = key * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = (size_t)(h >> 32);; i++) {
        struct weft_merge *m = &t->merges[i & t->merges_mask];
        if (m->key == key || m->key == WEFT_NO_PAIR)
            return m;
    }
}

/* Room for pieces that are long. */
struct weft_bpe_room {
    struct weft_bpe_node *nodes; /* owned */
    struct weft_bpe_entry *heap; /* owned */
    size_t n_nodes, n_heap;
};

void weft_bpe_room_release(struct weft_bpe_room *room);

/* Appends the tokens of a piece: again and again the pair of the lowest rank, the leftmost of
 * equals, becomes one token. */
enum weft_status weft_bpe_encode(const struct weft_tokenizer *t, struct weft_bpe_room *room,
                                 const char *piece, size_t len, struct weft_tokens *out,
                                 struct weft_error *err);

#endif
