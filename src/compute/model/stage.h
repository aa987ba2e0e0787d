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
 * With block residuals, a stage that is not the whole model needs call->blocks in forward
 * (value) and in backward and backward_input (value, grad, fresh), but not in backward_weight:
 *
 *     block 0            the embedding's output, finished by the stage that has the embedding
 *     block 1 + i / K    layers i, K = residual_block_layers; finished by the stage that has the
 *                        block's last layer, or by the head if the block is shorter than K
 *
 * weft_residual_blocks() returns the same stages.  `in` and `out` carry the sum of the open
 * block.  If a block ends with the stage, there is none: out and din are zeros, in and dout are
 * not read.  A whole model uses its own memory for blocks unless the call provides some.
 *
 * The head runs its whole backward in its forward, some tokens at a time, while their logits
 * exist: nothing of the size of the vocabulary is stored. */
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
    WF_RECOMPUTE_ATTENTION, /* norm, queries, keys, values and attention output */
    WF_RECOMPUTE_FULL,      /* everything except each layer's input */
};

struct wf_tstage_spec {
    struct weft_model model;
    uint32_t item0, item1;  /* 0: embedding, 1 .. layers, layers + 1: head */
    uint32_t seq;           /* tokens per sequence */
    uint32_t row_counts[2]; /* sequences per micro-batch: at most two different sizes */
    uint32_t n_row_counts;
    uint32_t slots; /* micro-batches between forward and backward at the same time */
    /* Micro-batches between backward_input and backward_weight at the same time.  Takes memory
     * only with recomputation.  0 if only whole backwards run. */
    uint32_t split_slots;
    enum wf_dtype precision; /* of products: fp32 or bf16 */
    bool fast_sums;          /* sum gradients in fp32 instead of exactly */
    /* A step is one micro-batch, and no other gradients are added to those of this stage.  A
     * weight with a single contribution then keeps it in fp32, which is bit-identical to the
     * exact sum. */
    bool one_micro;
    enum wf_recompute recompute;
    struct wf_pool *pool; /* borrowed */
    /* Memory of the slots.  NULL: the stage allocates it.  Otherwise `slots` pointers to
     * wf_tstage_slot_bytes() each, aligned to 64, with undefined content; borrowed while the
     * stage exists.  Slots may overlap if they are not in use at the same time. */
    char *const *slot_at;
};

/* Values and gradients of all tensors are stored in two regions, in model order and at the same
 * offsets, counted in elements.  Each tensor starts at a multiple of WF_PARAM_ALIGN.  The gaps
 * are zero and never written, so a region can be processed as one array.  (With `one_micro`,
 * fp32 gradients use the first half of their space.) */
enum { WF_PARAM_ALIGN = 16 };

struct wf_param {
    struct wf_param_desc desc;
    size_t n;
    size_t offset;  /* in elements, from the start of either region */
    float *value;   /* owned by the stage; (shape[0], shape[1]) */
    int64_t *exact; /* the gradient: in units of 2^-50 ... */
    float *fast;    /* ... or fp32; the other is NULL */
    bool single;    /* exact sums, but a single contribution, stored in `fast` */
    bool fresh;     /* nothing was added in this step: the gradient's memory is undefined */
    struct wf_packed direct, transposed; /* as factors of products; at == NULL if it is none */
};

struct wf_tstage;

/* Creates a stage.  The caller frees *out with wf_tstage_free().  Returns WEFT_USAGE if the
 * spec is invalid, WEFT_NOMEM if memory runs out. */
enum weft_status wf_tstage_new(const struct wf_tstage_spec *spec, struct wf_tstage **out,
                               struct weft_error *err);
void wf_tstage_free(struct wf_tstage *t); /* NULL is allowed */

/* Returns the bytes of one slot of such a stage.  Uses neither spec->pool nor spec->slot_at. */
enum weft_status wf_tstage_slot_bytes(const struct wf_tstage_spec *spec, size_t *out,
                                      struct weft_error *err);

/* Returns the interface of weft/stage.h; valid while t exists. */
struct weft_stage wf_tstage_stage(struct wf_tstage *t);

/* Returns the parameters in model order; borrowed.  A tied head in the same stage as the
 * embedding shares its weight and gradient. */
struct wf_param *wf_tstage_params(struct wf_tstage *t, size_t *n);

/* Sets every parameter to its initial value and packs the weights. */
void wf_tstage_init_weights(struct wf_tstage *t, uint64_t seed);
/* Packs all weights.  Required after values were changed other than through
 * wf_tstage_pack_rows(). */
void wf_tstage_pack(struct wf_tstage *t);
/* Packs rows [row0, row1) of one parameter in the calling thread.  row0 is a multiple of
 * WF_PACK_ROWS, and so is row1 unless it is the last row. */
void wf_tstage_pack_rows(struct wf_tstage *t, const struct wf_param *param, size_t row0,
                         size_t row1);

/* Begins a step: all gradients become empty. */
void wf_tstage_begin_step(struct wf_tstage *t);

/* Memory of a stage, in bytes. */
struct wf_tstage_bytes {
    size_t weights, gradients;
    size_t packed;      /* the weights packed as factors, in two forms */
    size_t activations; /* all slots except those in the caller's memory */
    size_t scratch;     /* memory used within one call, all threads */
};

struct wf_tstage_bytes wf_tstage_memory(const struct wf_tstage *t);

/* Parts of a stage's work that are timed separately. */
enum wf_timer {
    WF_TIMER_GEMM,  /* products of activations and weights, and fused functions */
    WF_TIMER_WGRAD, /* gradients of weights */
    WF_TIMER_ATTENTION,
    WF_TIMER_ATTENTION_BACK,
    WF_TIMER_NORM,
    WF_TIMER_LOSS,
    WF_TIMER_OTHER,
    WF_N_TIMERS
};
/* Returns nanoseconds of the calling thread per part since the previous call. */
void wf_tstage_times(struct wf_tstage *t, uint64_t ns[WF_N_TIMERS]);

#endif
