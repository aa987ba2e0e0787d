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
 * of it.  The last stage either gets targets and computes a loss instead of `out`, or it is
 * like any other stage, and the program gives the executor a loss function (weft/exec.h).
 * examples/mlp.c is a complete implementation.
 *
 * Unstable: struct weft_stage_call, struct weft_stage_ops and struct weft_stage gain fields.
 * Fill and read them by field names.
 */
#ifndef WEFT_STAGE_H
#define WEFT_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"
#include "weft/tensor.h"

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
    /* Forward: the activation for the next stage, or the outputs of the last stage; NULL for a
     * last stage that computes the loss. */
    void *out;
    /* These two buffers are for backward_input only.  backward_weight must find all of its data
     * in its slot, because other stages may already use these buffers and the blocks. */
    const void *dout; /* gradient of out; NULL for a last stage that computes the loss */
    void *din;        /* gradient of in; NULL for the first stage */
    /* The next three fields are for the forward of a last stage that computes the loss. */
    const void *targets; /* rows of any type; the stage defines type and size */
    /* Weight of one target's loss: 1 / number of targets of the step. */
    float scale;
    double *loss; /* output: the sum of the targets' losses, not scaled */
    bool train;   /* true: a backward follows; false: compute the loss only */
    /* NULL: the model has no blocks, or the stage is a whole model. */
    const struct weft_stage_blocks *blocks;
};

/* The gradient of one parameter of a stage. */
struct weft_param_grad {
    const char *name; /* borrowed from the stage */
    size_t count;     /* number of elements */
    enum weft_dtype dtype;
    /* The value of a 1 in `grad`: 1, or for exact sums in integers a power of two. */
    double unit;
    /* Borrowed: (count), the sum over the micro-batches of the step so far.  NULL: no
     * micro-batch has contributed yet, and the gradient is zero. */
    const void *grad;
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
    /* Writes the gradients of the first `max` parameters to `out` and returns the number of all
     * parameters.  May be NULL; only weft_exec_param_grads() calls it. */
    size_t (*param_grads)(void *self, struct weft_param_grad *out, size_t max);
};

struct weft_stage {
    const struct weft_stage_ops *ops;
    void *self;
    /* Bytes of an activation per row.  in_bytes is not read for the first stage.  out_bytes is
     * 0 for a last stage that computes the loss. */
    size_t in_bytes, out_bytes;
    /* The tensors of the activations (weft/tensor.h), instead of in_bytes and out_bytes;
     * borrowed while the stage is used.  NULL: one tensor of bytes, u8[rows,in_bytes].  Both
     * stages of a boundary must give the same tensors.  Gradients have the same layout; parts
     * without a gradient, such as integers, are sent but need not be written. */
    const struct weft_tensor_shape *in, *out;
    uint32_t n_in, n_out;
};

/* Calls ops->backward or, if it is NULL, backward_input and backward_weight.  Returns
 * WEFT_USAGE if the stage lacks these functions. */
WEFT_API enum weft_status weft_stage_backward(const struct weft_stage *stage,
                                              const struct weft_stage_call *call,
                                              struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
