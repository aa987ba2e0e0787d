/* Declarations that the files of the tracer share. */
#ifndef SUPPORT_TRACER_PRIV_H
#define SUPPORT_TRACER_PRIV_H

#include "tracer.h"

enum slot_state { SLOT_FREE, SLOT_FORWARD, SLOT_SPLIT };

struct slot {
    enum slot_state state;
    uint32_t micro;
    uint64_t *words; /* borrowed */
};

struct own_stage {
    struct tracer *t;
    uint32_t stage;
    struct slot slots[TRACER_MICROS * 2];
    uint64_t weight; /* gradient of the weight */
    uint32_t n_weights, n_reduced;
};

/* The stages of one rank, or all stages of a sequential step. */
struct tracer {
    const struct tracer_model *model;
    uint64_t step;
    uint32_t first_micro;
    bool in_place; /* the gradient of the input replaces the input */
    bool forward_only;
    struct own_stage own[TRACER_STAGES];
    struct weft_stage stages[TRACER_STAGES];
    struct weft_tensor_shape shapes[TRACER_STAGES + 1][TRACER_TENSORS]; /* as words */
    uint64_t *memory;                                                   /* owned: all slots */
    size_t in_use, peak;
};

/* Returns the number of words of the input of a stage.  With several tensors, the gaps between
 * them count: 3 bytes and 5 halves per row, each padded to 64 bytes. */
static inline size_t tracer_in_words(const struct tracer_model *m, uint32_t stage,
                                     uint32_t micro)
{
    size_t gaps = (3 * m->rows[micro] + 63) / 64 * 8 + (10 * m->rows[micro] + 63) / 64 * 8;
    return m->words[stage] * m->rows[micro] + (m->tensors && stage > 0 ? gaps : 0);
}

static inline bool tracer_is_last(const struct tracer_model *m, uint32_t stage)
{
    return stage + 1 == m->n_stages;
}

/* Returns true if the stage has no outputs. */
static inline bool tracer_has_loss(const struct tracer_model *m, uint32_t stage)
{
    return tracer_is_last(m, stage) && !m->has_outputs;
}

/* Returns false for a model with one stage, which keeps its blocks itself. */
static inline bool tracer_has_blocks(const struct tracer_model *m)
{
    return m->n_blocks > 0 && m->n_stages > 1;
}

/* Returns a hash of all bytes in their order. */
uint64_t tracer_fold(uint64_t h, const void *at, size_t bytes);
/* Fills `out` with numbers that depend on h. */
void tracer_expand(uint64_t h, uint64_t *out, size_t n);
/* Implements the merge function of struct weft_exec_blocks. */
bool tracer_merge(int64_t *a, const int64_t *b, size_t n);

/* The loss function of a model with outputs; `arg` is its struct tracer. */
weft_loss_fn tracer_loss;

void tracer_begin(struct tracer *t, const struct tracer_model *m);
/* Empties the slots that a failed step left in use. */
void tracer_clear(struct tracer *t);

/* -- inputs and expected results (tracer_sequential.c) ------------------------------------- */

struct results {
    double loss[TRACER_MICROS];
    uint64_t weight[TRACER_STAGES];
    uint64_t input_grad[TRACER_MICROS], output[TRACER_MICROS]; /* hashed */
};

/* The target of one row: neither the type nor the size matters to an executor. */
struct tracer_target {
    uint16_t class;
    unsigned char rest[5];
};

struct feed {
    uint64_t *inputs[TRACER_MICROS], *grads[TRACER_MICROS];
    struct tracer_target *targets[TRACER_MICROS];
    uint64_t *outputs[TRACER_MICROS];
};

/* Returns the model with the rows of a step. */
struct tracer_model tracer_model_at(const struct tracer_model *m, uint64_t step);

bool tracer_feed_init(struct feed *f, const struct tracer_model *m);
void tracer_feed_release(struct feed *f);
void tracer_feed_fill(struct feed *f, const struct tracer_model *m, uint64_t step);
uint64_t tracer_fold_output(const uint64_t *output, const struct tracer_model *m,
                            uint32_t micro);
uint64_t tracer_fold_grad(const struct feed *f, const struct tracer_model *m, uint32_t micro);

/* Computes a step without an executor: each micro passes all stages and returns, one after
 * the other. */
enum weft_status tracer_expect(const struct tracer_model *model, uint64_t step,
                               struct results *out, struct weft_error *err);

#endif
