/* A stage of a pipeline: four functions that weft's runners call.
 *
 * weft's own transformer stages implement this interface, and so can any C program.  A micro goes
 * through a stage as
 *
 *     forward          in -> out, saving what the backward needs in a slot
 *     backward_input   gradient of out -> gradient of in
 *     backward_weight  adds to the gradients of the stage's own weights; after backward_input
 *     backward         both at once: must give the same bits as the two
 *
 * Several micros may be between forward and backward at one time, each with a slot of its own,
 * numbered from 0; a slot is free again after backward or backward_weight.  The first stage of a
 * model gets tokens (or whatever the program feeds in) as `in`, and no gradient is asked of it;
 * the last gets targets and gives a loss instead of `out`.  examples/mlp.c is a complete one. */
#ifndef WEFT_STAGE_H
#define WEFT_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Block attention residuals in a model of several stages.  All arrays are by block, block 0 being
 * the embedding's output; an entry is NULL where the stage neither reads nor makes the block. */
struct weft_stage_blocks {
    /* Read where an earlier stage finished it, written by the stage that finishes it; one
     * activation each. */
    float *const *value;
    /* Backward: gradients as exact sums in units of 2^-50.  A stage adds to all that it reads,
     * and takes from those that it makes, in which all later stages' shares are then. */
    int64_t *const *grad;
    bool *fresh; /* grad[b] holds nothing yet: it is to be written, not added to */
};

/* One call for one micro.  Pointers are borrowed for the time of the call. */
struct weft_stage_call {
    uint32_t micro; /* of the step */
    uint32_t slot;
    uint32_t rows;  /* sequences, or samples, of this micro */
    const void *in; /* forward: the activation, or the first stage's input */
    void *out;      /* forward: the activation for the next stage; NULL for the last */
    /* For backward_input; backward_weight must have what it needs in its slot, for by then these
     * and the blocks have gone on to others. */
    const void *dout; /* the gradient of out; NULL for the last */
    void *din;        /* the gradient of in; NULL for the first */
    /* The last stage's forward. */
    const int32_t *targets; /* one for each token; -1: ignored */
    float scale;  /* the loss of one target counts this much: 1 / targets of the step */
    double *loss; /* receives the sum of the targets' losses, not scaled */
    bool train;   /* a backward will follow; false: only the loss is wanted */
    const struct weft_stage_blocks *blocks; /* NULL: none, or the stage is a whole model */
};

struct weft_stage_ops {
    enum weft_status (*forward)(void *self, const struct weft_stage_call *call,
                                struct weft_error *err);
    enum weft_status (*backward_input)(void *self, const struct weft_stage_call *call,
                                       struct weft_error *err);
    enum weft_status (*backward_weight)(void *self, const struct weft_stage_call *call,
                                        struct weft_error *err);
    /* May be NULL: then backward_input and backward_weight are called. */
    enum weft_status (*backward)(void *self, const struct weft_stage_call *call,
                                 struct weft_error *err);
};

struct weft_stage {
    const struct weft_stage_ops *ops;
    void *self;
    size_t in_bytes, out_bytes; /* of one row's activation; 0 at the ends of the model */
};

/* Calls ops->backward, or the two halves. */
WEFT_API enum weft_status weft_stage_backward(const struct weft_stage *stage,
                                              const struct weft_stage_call *call,
                                              struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
