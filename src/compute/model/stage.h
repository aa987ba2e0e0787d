/* A transformer stage: consecutive items of a model, with their weights and gradients and all
 * the memory that micro-batches need.  It implements weft/stage.h.
 *
 *     struct wf_tstage *t;
 *     wf_tstage_new(&spec, &t, &err);                  allocates everything once
 *     wf_tstage_init_weights(t, 42);                   or fill t's parameters from a file
 *     wf_tstage_pack(t);                               packs the weights for products
 *     wf_tstage_begin_step(t);                         before each step
 *     stage = wf_tstage_stage(t);  stage.ops->forward(stage.self, &call, &err); ...
 *     for each parameter: read its gradient, update its value, wf_tstage_pack_rows()
 *
 * With block attention residuals, a stage that is not the whole model needs call->blocks in
 * forward (value) and in backward and backward_input (value, grad, fresh), but not in
 * backward_weight:
 *
 *     block 0            the embedding's output, finished by the stage that has the embedding
 *     block 1 + i / K    the sum of the outputs of its layers i, where K is
 *                        residual_block_layers; finished by the stage that has the block's
 *                        last layer, or by the head if the block has fewer than K layers
 *
 * weft_residual_blocks() computes the stage that finishes each block.  `in` and `out`
 * carry the sum of the open block.  If a block ends at the boundary between two stages, no
 * block is open there: `out` and `din` are zeros, and `in` and `dout` are not read.  A stage
 * that is the whole model uses its own memory for blocks unless the call provides memory.
 *
 * The head computes the gradients of its logits and of its weight already in its forward, for
 * some tokens at a time.  Logits are therefore never stored for the backward. */
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

struct wf_tstage_spec {
    struct weft_model model;
    /* Items [item0, item1); 0: embedding, 1 .. layers: layers, layers + 1: head. */
    uint32_t item0, item1;
    uint32_t seq;           /* tokens per sequence */
    uint32_t row_counts[2]; /* numbers of sequences per micro-batch that occur, at most two */
    uint32_t n_row_counts;
    uint32_t slots; /* maximum number of micro-batches between their forward and backward */
    /* Maximum number of micro-batches between their backward_input and backward_weight.  Split
     * slots take memory only with recomputation.  0 if the backward is never split. */
    uint32_t split_slots;
    enum wf_dtype precision; /* precision of matrix products: fp32 or bf16 */
    bool fast_sums;          /* sum gradients in fp32 instead of exactly */
    /* A step has a single micro-batch, and no gradients of other stages or replicas are added
     * to those of this stage.  A gradient that has a single contribution is then stored in
     * fp32, which is bit-identical to the exact sum. */
    bool one_micro;
    enum weft_recompute recompute; /* what the backward of every layer recomputes */
    /* If not NULL: what each layer of the model recomputes, instead of `recompute`.  Array of
     * enum weft_recompute, (model.layers); borrowed during the call. */
    const uint8_t *layer_recompute;
    struct wf_pool *pool; /* borrowed */
    /* Memory of the slots.  If NULL, the stage allocates the memory.  Otherwise an array of
     * `slots` pointers, each to wf_tstage_slot_bytes() bytes, aligned to 64 bytes, with
     * undefined content; borrowed while the stage exists.  Slots that are not in use at the
     * same time may overlap. */
    char *const *slot_at;
};

/* The values of all tensors are stored in one region, the gradients in another.  Tensors are in
 * model order and have the same offset, in elements, in both regions.  Each tensor starts at a
 * multiple of WF_PARAM_ALIGN.  The gaps are zero and never written, so a region can be
 * processed as one array.  (With `one_micro`, fp32 gradients use the first half of their
 * space.) */
enum { WF_PARAM_ALIGN = 16 };

struct wf_param {
    struct wf_param_desc desc;
    size_t n;
    size_t offset;  /* in elements, from the start of either region */
    float *value;   /* owned by the stage; (shape[0], shape[1]) */
    int64_t *exact; /* gradient as an exact sum in units of 2^-50; NULL if `fast` is set */
    float *fast;    /* gradient in fp32; NULL if `exact` is set */
    /* The gradient has a single contribution, rounded like an exact sum and stored in
     * `fast`. */
    bool single;
    /* No contribution was added in this step yet, so the memory of the gradient is
     * undefined. */
    bool fresh;
    /* Packed forms for products; at == NULL if the tensor is not a factor of a product. */
    struct wf_packed direct, transposed;
};

struct wf_tstage;

/* Creates a stage.  The caller frees *out with wf_tstage_free().  Returns WEFT_USAGE if the
 * spec is invalid, WEFT_NOMEM if memory runs out. */
enum weft_status wf_tstage_new(const struct wf_tstage_spec *spec, struct wf_tstage **out,
                               struct weft_error *err);
void wf_tstage_free(struct wf_tstage *t); /* NULL is allowed */

/* Returns the size in bytes of one slot of a stage with this spec.  Uses neither spec->pool nor
 * spec->slot_at. */
enum weft_status wf_tstage_slot_bytes(const struct wf_tstage_spec *spec, size_t *out,
                                      struct weft_error *err);

/* Memory of a stage, in bytes. */
struct wf_tstage_bytes {
    size_t weights, gradients;
    size_t packed;      /* packed weights, each also transposed */
    size_t activations; /* recomputed fields, and all slots unless the caller provides them */
    size_t scratch;     /* memory used only within a call, for all threads */
};

/* Returns the memory that wf_tstage_new() allocates. */
struct wf_tstage_bytes wf_tstage_memory(const struct wf_tstage *t);

/* Computes the memory that wf_tstage_new() would allocate for a pool of `threads` threads,
 * with the same code, but allocates only the list of parameters.  Reads neither spec->pool nor
 * the addresses of spec->slot_at; if slot_at is not NULL, the slots are not counted. */
enum weft_status wf_tstage_count_bytes(const struct wf_tstage_spec *spec, unsigned threads,
                                       struct wf_tstage_bytes *out, struct weft_error *err);

/* Returns the interface of weft/stage.h; valid while t exists. */
struct weft_stage wf_tstage_stage(struct wf_tstage *t);

/* Returns the parameters in model order; borrowed.  If the stage has both the embedding and a
 * tied head, the head uses the embedding's weight and gradient and has none of its own. */
struct wf_param *wf_tstage_params(struct wf_tstage *t, size_t *n);

/* Sets every parameter to its initial value and packs the weights. */
void wf_tstage_init_weights(struct wf_tstage *t, uint64_t seed);
/* Packs all weights.  Required after values were changed, unless wf_tstage_pack_rows() was
 * called for all changed rows. */
void wf_tstage_pack(struct wf_tstage *t);
/* Packs rows [row0, row1) of one parameter in the calling thread.  row0 must be a multiple of
 * WF_PACK_ROWS.  row1 must be, too, unless it is the number of rows. */
void wf_tstage_pack_rows(struct wf_tstage *t, const struct wf_param *param, size_t row0,
                         size_t row1);

/* Begins a step: all gradients become empty. */
void wf_tstage_begin_step(struct wf_tstage *t);

/* Parts of a stage's work that are timed separately. */
enum wf_timer {
    WF_TIMER_GEMM,  /* products of activations and weights, and the functions fused with them */
    WF_TIMER_WGRAD, /* gradients of weights */
    WF_TIMER_ATTENTION,
    WF_TIMER_ATTENTION_BACK,
    WF_TIMER_NORM,
    WF_TIMER_LOSS,
    WF_TIMER_OTHER,
    WF_N_TIMERS
};
/* Sets ns[] to the nanoseconds that the calling thread has spent in each part since the
 * previous call of this function. */
void wf_tstage_times(struct wf_tstage *t, uint64_t ns[WF_N_TIMERS]);

#endif
