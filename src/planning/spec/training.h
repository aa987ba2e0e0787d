/* The memory of a layer in training. */
#ifndef PLANNING_SPEC_TRAINING_H
#define PLANNING_SPEC_TRAINING_H

#include "weft/spec.h"

/* Stores the bytes per token that a layer of a checked model saves from its forward to its
 * backward, and those that the backward recomputes.  `how` may be NULL; how->recompute is not
 * used. */
void wf_layer_token_bytes(const struct weft_model *m, const struct weft_training *how,
                          enum weft_recompute r, uint64_t *saved, uint64_t *work);

/* Maximum number of tokens whose logits are in memory at the same time. */
enum { WF_HEAD_TOKENS = 512 };

/* The buffers of a stage in bytes, with one thread. */
struct wf_scratch_bytes {
    size_t stage; /* of every stage */
    size_t layer; /* also on a stage with layers */
    size_t head;  /* also on the stage with the head */
};

/* Computes the buffers for micro-batches of `tokens` tokens in sequences of `seq`.  `how` may
 * be NULL.  Returns false if the bytes overflow. */
bool wf_scratch_bytes_init(struct wf_scratch_bytes *out, const struct weft_model *m,
                           const struct weft_training *how, size_t tokens, uint32_t seq);

#endif
