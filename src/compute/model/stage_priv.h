/* Declarations shared by the files of a transformer stage. */
#ifndef COMPUTE_MODEL_STAGE_PRIV_H
#define COMPUTE_MODEL_STAGE_PRIV_H

#include "base/clock.h"
#include "base/size.h"
#include "compute/kern/attention.h"
#include "compute/model/stage.h"
#include "planning/spec/training.h"

enum {
    ROW_TILE = 32, /* rows per task; a sum over all rows adds up one partial sum per tile */
    COL_TILE = 64, /* columns per task */
    /* Rows per mixing task, few enough that the gradients of all mixed vectors fit into the
     * cache. */
    MIX_ROWS = 8,
    /* Maximum number of tokens whose logits are in memory at the same time. */
    HEAD_TOKENS = WF_HEAD_TOKENS,
    ALIGN = 64,
};

/* The values that one layer stores per micro-batch.  Suffix 1 denotes the attention sublayer,
 * suffix 2 the MLP sublayer. */
enum stage_field {
    /* Input of the layer: the residual stream, or with block attention residuals the sum of the
     * open block. */
    FIELD_X1,
    /* Block attention residuals only: output of the mix, which is the input of the norm. */
    FIELD_H1,
    FIELD_ALPHA1,
    FIELD_MIX1, /* block attention residuals only: rstd of each mixed vector */
    FIELD_A1,   /* output of the norm */
    FIELD_MEAN1,
    FIELD_RSTD1,
    /* Queries, keys and values in adjacent columns; the backward overwrites them with their
     * gradients. */
    FIELD_QKV,
    FIELD_ATT, /* output of attention, before the projection */
    FIELD_LSE,
    FIELD_X2, /* the residual stream after the attention sublayer */
    FIELD_H2,
    FIELD_ALPHA2,
    FIELD_MIX2,
    FIELD_A2,
    FIELD_MEAN2,
    FIELD_RSTD2,
    /* Llama only: output of the gate projection; the backward overwrites it with its
     * gradient. */
    FIELD_GATE,
    FIELD_UP,  /* output of the up projection; the backward overwrites it with its gradient */
    FIELD_ACT, /* output of the MLP's activation function */
    /* bf16 only: the gradients of the outputs of the attention and MLP sublayers.  In fp32,
     * these gradients overwrite fields that are no longer needed: X1 and X2, or H1 and H2 with
     * block attention residuals. */
    FIELD_G1,
    FIELD_G2,
    N_FIELDS
};

/* A field of a layer, and its location in the memory of a layer, by enum weft_recompute. */
struct field_layout {
    bool present;
    size_t ld;
    enum wf_dtype type;
    struct {
        bool recomputed; /* the backward recomputes the field; the forward does not store it */
        size_t offset;   /* in the recomputed or in the stored fields of the layer */
    } in[WEFT_N_RECOMPUTE];
};

/* The layers of a stage differ in what they recompute. */
struct layer_place {
    enum weft_recompute recompute;
    size_t stored; /* offset of the layer's stored fields in a slot */
    size_t work;   /* offset of the layer's recomputed fields in a split slot */
};

/* The matrix products of a stage. */
enum stage_gemm {
    GEMM_QKV, /* GPT-2: queries, keys and values; Llama: queries only */
    GEMM_KV,  /* Llama only: one product for keys, one for values */
    GEMM_PROJECT,
    GEMM_PROJECT_NO_ADD, /* in the first layer of a block, which has no open sum to add to */
    GEMM_UP,             /* also used for the gate projection */
    GEMM_DOWN,
    GEMM_LOGITS,
    /* First of the backward products, which are named after the forward product. */
    GEMM_DOWN_BACK,
    GEMM_UP_BACK,
    GEMM_UP_BACK_ADD, /* gate projection: adds to the result of GEMM_UP_BACK */
    GEMM_PROJECT_BACK,
    GEMM_QKV_BACK,
    GEMM_KV_BACK_ADD,
    GEMM_LOGITS_BACK,
    N_GEMMS
};

/* The layout of a slot's memory: offsets and sizes in bytes. */
struct slot_layout {
    /* Stored and recomputed fields of one layer, by enum weft_recompute. */
    size_t stored_bytes[WEFT_N_RECOMPUTE], work_bytes[WEFT_N_RECOMPUTE];
    size_t max_work; /* recomputed fields of the layer that has the most */
    size_t all_work; /* recomputed fields of all layers */
    size_t tokens;   /* int32 token ids, stored for the gradient of the embedding */
    /* Whole models only: all blocks, from the embedding's output (block 0) to the last
     * block. */
    size_t blocks;
    size_t block_bytes;
    size_t head_x, head_h, head_alpha, head_mix, head_dx, head_mean, head_rstd;
    size_t bytes;
};

struct wf_tstage {
    struct wf_tstage_spec spec;
    const struct wf_ops *ops;
    size_t n_params;
    struct wf_param *params;   /* owned */
    struct wf_param **by_role; /* owned; indexed by [item - item0][role] */

    uint32_t n_layers; /* number of layers in this stage */
    uint32_t layer0;   /* index of the stage's first layer in the model */
    bool has_embedding, has_head, block_mix;
    bool whole; /* the stage has both the embedding and the head */
    bool llama;
    size_t dim, head, qkv_cols, kv_cols, ffn, vocab, vocab_padded;
    size_t max_tokens;
    struct weft_tensor_shape boundary; /* of activations: (rows * seq, dim) */
    size_t n_blocks; /* block attention residuals: number of vectors that the head mixes */
    /* The stage produces blocks [blocks_in, blocks_out).  Blocks before blocks_in are
     * inputs. */
    size_t blocks_in, blocks_out;

    struct field_layout fields[N_FIELDS];
    struct slot_layout layout;
    struct layer_place *layers; /* owned; (n_layers) */
    /* Owned; an entry is NULL if the stage does not need the product. */
    struct wf_gemm *gemm[N_GEMMS];
    struct wf_wgrad *wgrad;      /* owned; for the gradients of the layers' weights */
    struct wf_wgrad *head_wgrad; /* owned; for the gradient of the head's weight */

    /* Owned; memory of spec.slots slots, or NULL if the caller provides the memory. */
    char *slots;
    /* Owned; recomputed fields of the current layer, then of all layers for each split slot. */
    char *work;
    int *work_index;    /* owned; for each slot, the split slot that its backward uses, or -1 */
    bool *work_used;    /* owned; for each split slot, true if it is in use */
    int32_t *positions; /* owned; position in its sequence of each token of a micro-batch */
    /* Owned; Llama only: rotary position embedding, (seq, head / 2) each. */
    float *cosines, *sines;

    /* Scratch memory. */
    struct wf_mat wide;     /* (tokens, ffn) f32 */
    struct wf_mat narrow;   /* (tokens, dim) f32 */
    struct wf_mat mix_grad; /* (tokens, dim) f32: gradient of a mix */
    /* (tokens, dim) f32: gradient of the stream if the caller provides no memory. */
    struct wf_mat g;
    struct wf_mat normed;  /* (tokens, dim): normalized input of the head */
    struct wf_mat logits;  /* (HEAD_TOKENS, vocab_padded) f32 */
    struct wf_mat dlogits; /* same shape as logits; bf16 if products use bf16 */
    float *partial;        /* (row tiles, 2 * dim): sums over the rows of each tile */
    float *sums;           /* one contribution to the gradient of a vector parameter */
    double *losses;        /* loss of each token */
    /* Whole models only: (n_blocks, tokens, dim), exact sums of the gradients of blocks. */
    int64_t *block_sums;
    /* Whole models only: (n_blocks), true while a block's sum is empty. */
    bool *block_fresh;
    char *per_worker; /* scratch memory of attention and mixing, for each worker */
    size_t per_worker_bytes;
    char *scratch; /* owned; contains all scratch members above */

    unsigned workers; /* threads of the pool */
    bool counting;    /* only `memory` is computed; nothing large is allocated */
    struct wf_tstage_bytes memory;
    char *values, *gradients, *packed; /* owned */
    uint64_t times[WF_N_TIMERS];
};

/* One micro-batch in one call. */
struct pass {
    struct wf_tstage *t;
    const struct weft_stage_call *call;
    size_t tokens;
    char *slot;
    char *work;      /* memory for recomputed fields */
    bool work_whole; /* `work` has space for all layers; otherwise only for the current layer */
    struct wf_mat g; /* gradient of the residual stream */
};

/* Returns a field of layer `layer`, counted from the stage's first layer, as a matrix. */
struct wf_mat wf_tstage_field(const struct pass *p, uint32_t layer, enum stage_field f);
/* Returns a field of a layer as an array of floats. */
float *wf_tstage_floats(const struct pass *p, uint32_t layer, enum stage_field f);

/* Returns the parameter of an item with the given role, or NULL if there is none. */
static inline struct wf_param *wf_tstage_param(struct wf_tstage *t, uint32_t item,
                                               enum wf_role role)
{
    return t->by_role[(size_t)(item - t->spec.item0) * WF_N_ROLES + role];
}

/* Returns the parameter with the given role of layer `layer`, counted from the stage's first
 * layer, or NULL if there is none. */
static inline struct wf_param *wf_tstage_layer_param(struct wf_tstage *t, uint32_t layer,
                                                     enum wf_role role)
{
    return wf_tstage_param(t, t->layer0 + 1 + layer, role);
}

/* Rounds an address up to a multiple of ALIGN.  The allocation must include space for this. */
static inline char *wf_align(char *at)
{
    return at + (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
}

/* Returns true if the model's layer `layer` adds to the sum of an open block, false if it
 * starts a block.  Only for models with block residuals. */
static inline bool wf_layer_is_block_open(const struct wf_tstage *t, uint32_t layer)
{
    return layer % t->spec.model.residual_block_layers != 0;
}

/* Returns true if the stage reads `in`.  With block attention residuals, it does not if a block
 * ends at that boundary. */
static inline bool wf_tstage_has_input(const struct wf_tstage *t)
{
    return !t->has_embedding && (!t->block_mix || wf_layer_is_block_open(t, t->layer0));
}

/* Returns true if the stage writes `out`, with the same exception. */
static inline bool wf_tstage_has_output(const struct wf_tstage *t)
{
    return !t->has_head &&
           (!t->block_mix || wf_layer_is_block_open(t, t->layer0 + t->n_layers));
}

/* Returns the input of a layer.  `layer` may be n_layers; the result is then the head's input
 * or `out`. */
struct wf_mat wf_layer_input(const struct pass *p, uint32_t layer);
/* Returns the output of a layer: the input of the next layer, or a block if the layer is the
 * last one of that block. */
struct wf_mat wf_layer_output(const struct pass *p, uint32_t layer);
/* Returns the output of the embedding. */
struct wf_mat wf_embedding_output(const struct pass *p);

/* -- sizes and layout (stage_layout.c) ----------------------------------------------------- */

/* Returns WEFT_USAGE if the spec is invalid, WEFT_NOMEM if its sizes overflow. */
enum weft_status wf_tstage_check_spec(const struct wf_tstage_spec *s, struct weft_error *err);
/* Derives the sizes of t from t->spec. */
void wf_tstage_set_sizes(struct wf_tstage *t);
/* Sets t->fields and t->layout from the sizes, and t->layers if it is not NULL. */
void wf_tstage_lay_out_slot(struct wf_tstage *t);

/* Returns true if the backward of a layer recomputes the field. */
static inline bool wf_layer_recomputes(const struct wf_tstage *t, uint32_t layer,
                                       enum stage_field f)
{
    return t->fields[f].in[t->layers[layer].recompute].recomputed;
}

/* Appends aligned space for `bytes` at *end and returns its offset. */
static inline size_t wf_take_bytes(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end += wf_size_round_up(bytes, ALIGN);
    return at;
}

/* -- non-finite values (nonfinite.c) ------------------------------------------------------- */

/* Reports the first non-finite value: an input, a weight, or a field of a layer.  Called for a
 * pass whose forward produced a non-finite loss, output or block.  Always returns an error. */
enum weft_status wf_tstage_find_nonfinite(struct pass *p, struct weft_error *err);
/* Checks the outputs of a stage without head.  If a value is non-finite, returns the error of
 * wf_tstage_find_nonfinite(). */
enum weft_status wf_tstage_check_output(struct pass *p, struct weft_error *err);

/* -- building blocks (stage_ops.c) --------------------------------------------------------- */

/* Adds the time since `since_ns`, a time from wf_clock_ns(), to a timer. */
void wf_tstage_add_time(struct wf_tstage *t, enum wf_timer timer, int64_t since_ns);

/* Returns the sink of a parameter's gradient. */
struct wf_sink wf_tstage_sink(struct wf_param *param);

/* Computes the norm of x: LayerNorm or RMSNorm, depending on the model. */
void wf_norm_forward(struct pass *p, struct wf_mat out, float *mean, float *rstd,
                     struct wf_mat x, const struct wf_param *w, const struct wf_param *b);
/* Computes dx = residual + the gradient of the norm, and adds to the parameters' gradients.  If
 * `copy` is present, stores the original residual there. */
enum weft_status wf_norm_backward(struct pass *p, struct wf_mat dx, struct wf_mat residual,
                                  struct wf_mat copy, struct wf_mat dy, struct wf_mat x,
                                  const float *mean, const float *rstd, struct wf_param *w,
                                  struct wf_param *b, struct weft_error *err);

/* Copies rows, converted to the type of `out`. */
void wf_convert_rows(struct pass *p, struct wf_mat out, struct wf_mat x, size_t cols);

struct gemm_call {
    enum stage_gemm which;
    struct wf_mat a;
    const struct wf_packed *b;
    const struct wf_param *bias; /* or NULL */
    struct wf_mat add, c;
    wf_tile_fn *after;
    void *after_arg;
};

/* Computes the product of a call for `rows` rows, with all threads. */
void wf_tstage_run_gemm(struct pass *p, const struct gemm_call *run, size_t rows);

/* Adds a^T b to the gradient of param. */
enum weft_status wf_grad_add_product(struct pass *p, struct wf_wgrad *wgrad,
                                     struct wf_param *param, struct wf_mat a, struct wf_mat b,
                                     size_t tokens, struct weft_error *err);
/* Adds the sum of dy over tokens to the gradient of a bias. */
enum weft_status wf_grad_add_bias(struct pass *p, struct wf_param *param, struct wf_mat dy,
                                  struct weft_error *err);
/* Adds a vector to the gradient of param. */
enum weft_status wf_grad_add_vector(struct wf_tstage *t, struct wf_param *param,
                                    const float *sum, struct weft_error *err);
/* Adds the partial sums of n row tiles, in order, to the gradient of a vector of dim elements.
 * `from`, 0 or dim, selects the half of the partial sums. */
enum weft_status wf_grad_add_partials(struct wf_tstage *t, struct wf_param *param, size_t n,
                                      size_t from, struct weft_error *err);
/* Returns the error for a gradient that is out of range. */
enum weft_status wf_grad_fail_range(const struct wf_param *param, struct weft_error *err);

/* -- block attention residuals (block_mix.c) ----------------------------------------------- */

/* Returns WEFT_INTERNAL if the call lacks a block that the stage reads or produces. */
enum weft_status wf_tstage_check_blocks(const struct pass *p, bool backward,
                                        struct weft_error *err);

/* Returns the value of block j. */
struct wf_mat wf_tstage_block(const struct pass *p, size_t j);
/* Mixes the first n_finished blocks and `open`, which may be absent, into h. */
void wf_mix_forward(struct pass *p, struct wf_mat h, float *alpha, float *rstd,
                    size_t n_finished, struct wf_mat open, const struct wf_param *q,
                    const struct wf_param *norm);
/* Adds the gradients of the blocks to their sums, and the gradient of the open sum to p->g. */
enum weft_status wf_mix_backward(struct pass *p, struct wf_mat dh, const float *alpha,
                                 const float *rstd, size_t n_finished, struct wf_mat open,
                                 struct wf_param *q, struct wf_param *norm,
                                 struct weft_error *err);
/* Sets p->g to the gradient of block j.  This stage must have produced the block, and the
 * backward of every reader of the block must be complete. */
void wf_block_load_grad(struct pass *p, size_t j);

/* -- items --------------------------------------------------------------------------------- */

/* Returns true if layer `layer` is the first of its block, so that no sum is open. */
bool wf_layer_opens_block(const struct pass *p, uint32_t layer);

/* Runs a layer and writes its output. */
void wf_layer_forward(struct pass *p, uint32_t layer, struct wf_mat out);
/* Recomputes the layer's fields that the forward did not store. */
void wf_layer_recompute(struct pass *p, uint32_t layer);
/* Replaces p->g by the gradient of the layer's input. */
enum weft_status wf_layer_backward_input(struct pass *p, uint32_t layer,
                                         struct weft_error *err);
/* Adds to the gradients of the layer's matrices and biases. */
enum weft_status wf_layer_backward_weight(struct pass *p, uint32_t layer,
                                          struct weft_error *err);

/* Embeds the tokens, and stores the token ids for the backward. */
void wf_embedding_forward(struct pass *p, const int32_t *tokens, struct wf_mat out);
/* Adds p->g to the gradients of the embeddings. */
enum weft_status wf_embedding_backward(struct pass *p, struct weft_error *err);

/* Returns the input of the head. */
struct wf_mat wf_head_input(const struct pass *p);
/* Computes the loss and, in training, the backward from the loss to the output of the head's
 * norm. */
enum weft_status wf_head_forward(struct pass *p, struct weft_error *err);
/* Sets p->g to the gradient of the head's input. */
enum weft_status wf_head_backward(struct pass *p, struct weft_error *err);

#endif
