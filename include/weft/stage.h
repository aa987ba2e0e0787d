/* The interface of a pipeline stage: four functions that the executor calls.
 *
 * weft's transformer stages implement this interface, and so can any C program.  The passes of
 * a micro-batch are
 *
 *     forward          in -> out; saves in a slot what the backward needs
 *     backward_input   gradient of out -> gradient of in
 *     backward_weight  adds to the gradients of the stage's weights; after backward_input
 *     backward         both at once, with the same bits as the two
 *
 * Several micro-batches may be between forward and backward at one time.  Each has its own
 * slot, numbered from 0.  A slot is free again after backward or backward_weight.  The first
 * stage of a model gets tokens (or other input of the program) as `in` and computes no gradient
 * of it.  The last stage gets targets and computes a loss instead of `out`.  examples/mlp.c is
 * a complete implementation.
 *
 * Unstable: struct weft_stage_call gains fields.  Fill and read it by field names.
 */
#ifndef WEFT_STAGE_H
#define WEFT_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Block attention residuals of a model with several stages.  All arrays are indexed by block;
 * block 0 is the output of the embedding.  An entry is NULL if the stage neither reads nor
 * finishes the block. */
struct weft_stage_blocks {
    /* The value of each block, of the size of an activation.  The stage that finishes the block
     * writes it; later stages read it. */
    float *const *value;
    /* Backward: gradients as exact sums in units of 2^-50.  A stage adds to the blocks that it
     * reads, and reads the blocks that it finished, which then contain the contributions of all
     * later stages. */
    int64_t *const *grad;
    bool *fresh; /* fresh[b]: grad[b] is not initialized; write to it instead of adding */
};

/* One call for one micro-batch.  Pointers are borrowed during the call. */
struct weft_stage_call {
    uint32_t micro; /* number of the micro-batch within the step */
    uint32_t slot;
    uint32_t rows;  /* number of sequences (or samples) of this micro-batch */
    const void *in; /* forward: the activation, or the input of the first stage */
    void *out;      /* forward: the activation for the next stage; NULL for the last */
    /* These two buffers are for backward_input only.  backward_weight must find all of its data
     * in its slot, because other stages may already use these buffers and the blocks. */
    const void *dout; /* gradient of out; NULL for the last stage */
    void *din;        /* gradient of in; NULL for the first stage */
    /* The next three fields are for the forward of the last stage. */
    const int32_t *targets; /* one per token; -1: ignored */
    /* Weight of one target's loss: 1 / number of targets of the step. */
    float scale;
    double *loss; /* output: the sum of the targets' losses, not scaled */
    bool train;   /* true: a backward follows; false: compute the loss only */
    /* NULL: the model has no blocks, or the stage is a whole model. */
    const struct weft_stage_blocks *blocks;
};

struct weft_stage_ops {
    enum weft_status (*forward)(void *self, const struct weft_stage_call *call,
                                struct weft_error *err);
    enum weft_status (*backward_input)(void *self, const struct weft_stage_call *call,
                                       struct weft_error *err);
    enum weft_status (*backward_weight)(void *self, const struct weft_stage_call *call,
                                        struct weft_error *err);
    /* May be NULL: backward_input and backward_weight are then called. */
    enum weft_status (*backward)(void *self, const struct weft_stage_call *call,
                                 struct weft_error *err);
};

struct weft_stage {
    const struct weft_stage_ops *ops;
    void *self;
    /* Bytes of an activation per row; in_bytes is 0 for the first stage, out_bytes for the
     * last. */
    size_t in_bytes, out_bytes;
};

/* Calls ops->backward or, if it is NULL, backward_input and backward_weight. */
WEFT_API enum weft_status weft_stage_backward(const struct weft_stage *stage,
                                              const struct weft_stage_call *call,
                                              struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
