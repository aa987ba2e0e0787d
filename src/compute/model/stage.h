/* A transformer stage: a run of a model's items, with weights, gradients and all the memory that
 * its micros need.  It implements weft/stage.h.
 *
 *     struct wf_tstage *t;
 *     wf_tstage_new(&spec, &t, &err);                  allocates everything once
 *     wf_tstage_init_weights(t, 42);                          or fill t's parameters from a file
 *     wf_tstage_pack(t);                               the weights as the products want them
 *     wf_tstage_begin_step(t);                               before the first micro of each step
 *     stage = wf_tstage_stage(t);  stage.ops->forward(stage.self, &call, &err); ...
 *     for each parameter: read its gradient, update its value, wf_tstage_pack_rows()
 *
 * With block residuals a stage that is not the whole model needs call->blocks in its forward
 * (value) and in backward and backward_input (value, grad, fresh), not in backward_weight:
 *
 *     block 0            the embedding's output, finished by the stage that has it
 *     block 1 + i / K    layers i, K = residual_block_layers; finished by the stage that has the
 *                        block's last layer, or by the head if the block stays shorter than K
 *
 * which are the stages that weft_residual_blocks() names.  `in` and `out` carry the sum of the
 * block that is open.  Where a stage ends with a block there is none: out and din are zeros, in
 * and dout are not read.  A whole model has blocks of its own unless it is given some.
 *
 * The head's whole backward runs in its forward, chunk of tokens by chunk of tokens, while the
 * logits are there: nothing of the size of the vocabulary is kept for later. */
#ifndef COMPUTE_MODEL_STAGE_H
#define COMPUTE_MODEL_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/kern/gemm.h"
#include "compute/kern/ops.h"
#include "compute/kern/pool.h"
#include "compute/model/params.h"
#include "compute/tensor/tensor.h"
#include "weft/spec.h"
#include "weft/stage.h"
#include "weft/status.h"

enum wf_recompute {
    WF_RECOMPUTE_NONE,
    WF_RECOMPUTE_ATTENTION, /* norm, queries, keys, values and attention's output */
    WF_RECOMPUTE_FULL,      /* all but each layer's input */
};

struct wf_tstage_spec {
    struct weft_model model;
    uint32_t item0, item1;  /* 0: embedding, 1 .. layers, layers + 1: head */
    uint32_t seq;           /* tokens of a sequence */
    uint32_t row_counts[2]; /* the sequences that micros have: at most two sizes */
    uint32_t n_row_counts;
    uint32_t slots; /* micros between forward and backward at one time */
    /* Micros between backward_input and backward_weight at one time.  Only with recomputation
     * does it take memory; 0: only whole backwards run. */
    uint32_t split_slots;
    enum wf_dtype precision; /* of the products: fp32 or bf16 */
    bool fast_sums;          /* fp32 gradients instead of exact ones */
    /* A step is one micro, and nobody else's gradients are added to this stage's: where the one
     * contribution to a weight is its sum, it is kept in fp32 without a bit of difference. */
    bool one_micro;
    enum wf_recompute recompute;
    struct wf_pool *pool; /* borrowed */
    /* Where the slots lie.  NULL: in memory of the stage's own.  Otherwise `slots` pointers to
     * wf_tstage_slot_bytes() each, aligned to 64, with anything in them; borrowed while the
     * stage lives.  Slots may overlap as long as they are not in use at one time. */
    char *const *slot_at;
};

/* Tensors lie in two regions, of values and of gradients, in model order and at the same places
 * in both, counted in elements.  Each begins at a multiple of WF_PARAM_ALIGN; the gaps are zero
 * and nobody writes them, so a region can be worked at as one array.  (With `one_micro` gradients
 * in fp32 take the first half of their place.) */
enum { WF_PARAM_ALIGN = 16 };

struct wf_param {
    struct wf_param_desc desc;
    size_t n;
    size_t offset;  /* from the start of either region */
    float *value;   /* owned by the stage; (shape[0], shape[1]) */
    int64_t *exact; /* its gradient: units of 2^-50 ... */
    float *fast;    /* ... or fp32; the other is NULL */
    bool single; /* in fp32 though sums are exact: nothing is ever added to what is written */
    bool fresh;  /* nothing has been added in this step: the gradient's memory is garbage */
    struct wf_packed direct, transposed; /* as a factor of products; at == NULL: not one */
};

struct wf_tstage;

enum weft_status wf_tstage_new(const struct wf_tstage_spec *spec, struct wf_tstage **out,
                               struct weft_error *err);
void wf_tstage_free(struct wf_tstage *t); /* NULL is allowed */

/* What one slot of such a stage takes.  Needs neither spec->pool nor spec->slot_at. */
enum weft_status wf_tstage_slot_bytes(const struct wf_tstage_spec *spec, size_t *out,
                                      struct weft_error *err);

struct weft_stage wf_tstage_stage(struct wf_tstage *t);

/* The parameters, in model order; borrowed.  With a tied head beside the embedding there is one
 * weight and one gradient. */
struct wf_param *wf_tstage_params(struct wf_tstage *t, size_t *n);

/* Gives every parameter the value that it starts with. */
void wf_tstage_init_weights(struct wf_tstage *t, uint64_t seed);
/* Packs all weights; needed after values were changed by hand. */
void wf_tstage_pack(struct wf_tstage *t);
/* The same for rows [row0, row1) of one parameter, in the caller's thread: row0 a multiple of
 * WF_PACK_ROWS, row1 too or the last. */
void wf_tstage_pack_rows(struct wf_tstage *t, const struct wf_param *param, size_t row0,
                         size_t row1);

/* Begins a step: all gradients are empty. */
void wf_tstage_begin_step(struct wf_tstage *t);

/* Where the memory went, in bytes. */
struct wf_tstage_bytes {
    size_t weights, gradients;
    size_t packed;      /* the weights once more, twice, as factors */
    size_t activations; /* all slots, but for those in the caller's memory */
    size_t scratch;     /* what lives within one call, all threads */
};
struct wf_tstage_bytes wf_tstage_memory(const struct wf_tstage *t);

/* Where the time went since it was last asked, in nanoseconds of the calling thread. */
enum wf_timer {
    WF_TIMER_GEMM,  /* of activations with weights, and what is fused into them */
    WF_TIMER_WGRAD, /* gradients of weights */
    WF_TIMER_ATTENTION,
    WF_TIMER_ATTENTION_BACK,
    WF_TIMER_NORM,
    WF_TIMER_LOSS,
    WF_TIMER_OTHER,
    WF_N_TIMERS
};
void wf_tstage_times(struct wf_tstage *t, uint64_t ns[WF_N_TIMERS]);

#endif
