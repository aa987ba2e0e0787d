/* Declarations shared by the files of a transformer stage. */
#ifndef COMPUTE_MODEL_STAGE_PRIV_H
#define COMPUTE_MODEL_STAGE_PRIV_H

#include "base/clock.h"
#include "base/size.h"
#include "compute/kern/attention.h"
#include "compute/model/stage.h"

enum {
    ROW_TILE = 32,     /* rows per task; sums over rows are sums of these tiles */
    COL_TILE = 64,     /* columns per task */
    MIX_ROWS = 8,      /* rows per mixing task: gradients of all vectors stay in the cache */
    HEAD_TOKENS = 512, /* tokens whose logits exist at the same time */
    ALIGN = 64,
};

/* What one layer stores per micro-batch.  "1" belongs to attention, "2" to the MLP. */
enum stage_field {
    FIELD_X1, /* the incoming stream; with block residuals the open sum */
    FIELD_H1, /* block residuals: the mix, which is the norm's input */
    FIELD_ALPHA1,
    FIELD_MIX1, /* the mix's rstd */
    FIELD_A1,   /* the norm's output */
    FIELD_MEAN1,
    FIELD_RSTD1,
    FIELD_QKV, /* queries, keys, values side by side; in the backward their gradients */
    FIELD_ATT, /* output of attention */
    FIELD_LSE,
    FIELD_X2, /* the stream after attention */
    FIELD_H2,
    FIELD_ALPHA2,
    FIELD_MIX2,
    FIELD_A2,
    FIELD_MEAN2,
    FIELD_RSTD2,
    FIELD_GATE, /* Llama; in the backward its gradient */
    FIELD_UP,   /* input of the MLP's activation; in the backward its gradient */
    FIELD_ACT,  /* output of the activation */
    /* bf16: the gradients of the outputs of attention and MLP.  In fp32 they overwrite fields
     * that are no longer needed: X1 and X2, with block residuals H1 and H2. */
    FIELD_G1,
    FIELD_G2,
    N_FIELDS
};

/* Where a layer's memory holds a field. */
struct field_layout {
    bool present;
    bool recomputed; /* not stored from forward to backward */
    size_t offset;
    size_t ld;
    enum wf_dtype type;
};

/* The products of a stage. */
enum stage_gemm {
    GEMM_QKV, /* or queries alone */
    GEMM_KV,  /* keys, and values */
    GEMM_PROJECT,
    GEMM_PROJECT_NO_ADD, /* for the first layer of a block: adds nothing */
    GEMM_UP,             /* also for gates */
    GEMM_DOWN,
    GEMM_LOGITS,
    GEMM_DOWN_BACK, /* backward products, named after their weight */
    GEMM_UP_BACK,
    GEMM_UP_BACK_ADD, /* adds to the gradient from the up projection */
    GEMM_PROJECT_BACK,
    GEMM_QKV_BACK,
    GEMM_KV_BACK_ADD,
    GEMM_LOGITS_BACK,
    N_GEMMS
};

/* Offsets in a slot's memory. */
struct slot_layout {
    size_t layer_bytes; /* stored per layer */
    size_t work_bytes;  /* recomputed, per layer */
    size_t tokens;      /* int32, for the embedding's gradient */
    size_t blocks;      /* whole models: the embedding, the finished blocks, the last one */
    size_t block_bytes;
    size_t head_x, head_h, head_alpha, head_mix, head_dx, head_mean, head_rstd;
    size_t bytes;
};

struct wf_tstage {
    struct wf_tstage_spec spec;
    const struct wf_ops *ops;
    size_t n_params;
    struct wf_param *params;   /* owned */
    struct wf_param **by_role; /* owned: [item - item0][role] */

    uint32_t n_layers; /* of this stage */
    uint32_t layer0;   /* its first layer, counted from the model's first */
    bool has_embedding, has_head, block_mix;
    bool whole; /* embedding and head */
    bool llama;
    size_t dim, head, qkv_cols, kv_cols, ffn, vocab, vocab_padded;
    size_t max_tokens;
    size_t n_blocks; /* block residuals: vectors that the head mixes */
    /* Blocks [blocks_in, blocks_out) are produced here; those before are inputs. */
    size_t blocks_in, blocks_out;

    struct field_layout fields[N_FIELDS];
    struct slot_layout layout;
    struct wf_gemm *gemm[N_GEMMS]; /* owned; NULL if not needed */
    struct wf_wgrad *wgrad;        /* owned: weights of layers */
    struct wf_wgrad *head_wgrad;   /* owned */

    char *slots;        /* owned: spec.slots of them; NULL if the caller provides them */
    char *work;         /* owned: one layer in progress, then split_slots times all layers */
    int *work_index;    /* owned: the split slot of each slot's backward, or -1 */
    bool *work_used;    /* owned, per split slot */
    int32_t *positions; /* owned: position of each token of a micro-batch */
    float *cosines, *sines; /* owned: Llama, (seq, head / 2) */

    /* Scratch. */
    struct wf_mat wide;     /* (tokens, ffn) f32 */
    struct wf_mat narrow;   /* (tokens, dim) f32 */
    struct wf_mat mix_grad; /* (tokens, dim) f32: gradient of a mix */
    /* (tokens, dim) f32: gradient of the stream if the caller provides no memory. */
    struct wf_mat g;
    struct wf_mat normed;  /* (tokens, dim): normalized input of the head */
    struct wf_mat logits;  /* (HEAD_TOKENS, vocab_padded) f32 */
    struct wf_mat dlogits; /* same shape; in bf16 if products are */
    float *partial;        /* (row tiles, 2 dim): sums over each tile's rows */
    float *sums;           /* the gradient of a vector before it is added */
    double *losses;        /* per token */
    int64_t *block_sums;   /* whole models: (n_blocks, tokens, dim), gradients of blocks */
    bool *block_fresh;     /* whole models: (n_blocks) */
    char *per_worker;      /* scratch of attention and mixing */
    size_t per_worker_bytes;
    char *scratch; /* owned: all of the above */

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
    char *work;      /* memory for recomputed fields: of the current layer ... */
    bool work_whole; /* ... or of all layers, one after the other */
    struct wf_mat g; /* gradient of the stream */
};

/* Return a field of a layer of the stage. */
struct wf_mat wf_tstage_field(const struct pass *p, uint32_t layer, enum stage_field f);
float *wf_tstage_floats(const struct pass *p, uint32_t layer, enum stage_field f);

/* Returns the item's parameter with this role, or NULL. */
static inline struct wf_param *wf_tstage_param(struct wf_tstage *t, uint32_t item,
                                               enum wf_role role)
{
    return t->by_role[(size_t)(item - t->spec.item0) * WF_N_ROLES + role];
}

/* Returns the parameter of layer `layer` of the stage, or NULL. */
static inline struct wf_param *wf_tstage_layer_param(struct wf_tstage *t, uint32_t layer,
                                                     enum wf_role role)
{
    return wf_tstage_param(t, t->layer0 + 1 + layer, role);
}

/* Returns the first aligned address in an allocation, which has space for it. */
static inline char *wf_align(char *at)
{
    return at + (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
}

/* Block residuals: returns true if the model's layer `layer` adds to an open sum, false if it
 * starts a block. */
static inline bool wf_layer_is_block_open(const struct wf_tstage *t, uint32_t layer)
{
    return layer % t->spec.model.residual_block_layers != 0;
}

/* Return true if the stage reads `in`, or writes `out`.  It does not if a block ends there. */
static inline bool wf_tstage_has_input(const struct wf_tstage *t)
{
    return !t->has_embedding && (!t->block_mix || wf_layer_is_block_open(t, t->layer0));
}

static inline bool wf_tstage_has_output(const struct wf_tstage *t)
{
    return !t->has_head &&
           (!t->block_mix || wf_layer_is_block_open(t, t->layer0 + t->n_layers));
}

/* Returns the input of a layer.  `layer` may be one past the last, whose input is the head's or
 * `out`. */
struct wf_mat wf_layer_input(const struct pass *p, uint32_t layer);
/* Returns the output of a layer: the next one's input, or a block if the layer ends one. */
struct wf_mat wf_layer_output(const struct pass *p, uint32_t layer);
struct wf_mat wf_embedding_output(const struct pass *p);

/* -- sizes and layout (stage_layout.c) ------------------------------------------------------ */

/* Returns WEFT_USAGE if the spec is invalid, WEFT_NOMEM if its sizes overflow. */
enum weft_status wf_tstage_check_spec(const struct wf_tstage_spec *s, struct weft_error *err);
/* Derives the sizes of t from t->spec. */
void wf_tstage_set_sizes(struct wf_tstage *t);
/* Sets t->fields and t->layout from the sizes. */
void wf_tstage_lay_out_slot(struct wf_tstage *t);

/* Appends aligned space for `bytes` at *end and returns its offset. */
static inline size_t wf_take_bytes(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end += wf_size_round_up(bytes, ALIGN);
    return at;
}

/* -- non-finite values (nonfinite.c) ------------------------------------------------------- */

/* Reports the first non-finite value: an input, a weight, or a field of a layer.  For a pass
 * whose forward produced a non-finite loss, output or block.  Always returns an error. */
enum weft_status wf_tstage_find_nonfinite(struct pass *p, struct weft_error *err);
/* Checks the outputs of a stage without head; returns wf_tstage_find_nonfinite() if one is
 * non-finite. */
enum weft_status wf_tstage_check_output(struct pass *p, struct weft_error *err);

/* -- building blocks (stage_ops.c) --------------------------------------------------------- */

/* Adds the time since `since_ns`, a value of wf_clock_ns(), to a timer. */
void wf_tstage_add_time(struct wf_tstage *t, enum wf_timer timer, int64_t since_ns);

/* Returns the sink of a parameter's gradient. */
struct wf_sink wf_tstage_sink(struct wf_param *param);

/* Computes the model's norm of x. */
void wf_norm_forward(struct pass *p, struct wf_mat out, float *mean, float *rstd,
                     struct wf_mat x, const struct wf_param *w, const struct wf_param *b);
/* Computes dx = residual + the gradient of the norm, and adds to the parameters' gradients.
 * Stores the original residual in `copy` if that is present. */
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
 * `from` is 0 or dim: which half of the partial sums. */
enum weft_status wf_grad_add_partials(struct wf_tstage *t, struct wf_param *param, size_t n,
                                      size_t from, struct weft_error *err);
/* Returns the error of a gradient that is out of range. */
enum weft_status wf_grad_fail_range(const struct wf_param *param, struct weft_error *err);

/* -- block residuals (block_mix.c) --------------------------------------------------------- */

/* Returns WEFT_INTERNAL if the call lacks a block that the stage reads or produces. */
enum weft_status wf_tstage_check_blocks(const struct pass *p, bool backward,
                                        struct weft_error *err);

/* Returns the value of block j. */
struct wf_mat wf_tstage_block(const struct pass *p, size_t j);
/* Mixes the first n_finished blocks and `open`, which may be absent, into h. */
void wf_mix_forward(struct pass *p, struct wf_mat h, float *alpha, float *rstd,
                    size_t n_finished, struct wf_mat open, const struct wf_param *q,
                    const struct wf_param *norm);
/* Adds the gradients of the blocks to their sums, and that of the open sum to p->g. */
enum weft_status wf_mix_backward(struct pass *p, struct wf_mat dh, const float *alpha,
                                 const float *rstd, size_t n_finished, struct wf_mat open,
                                 struct wf_param *q, struct wf_param *norm,
                                 struct weft_error *err);
/* Sets p->g to the gradient of block j, which this stage produced and whose uses are all done.
 */
void wf_block_load_grad(struct pass *p, size_t j);

/* -- items ---------------------------------------------------------------------------------- */

/* Returns true if layer `layer` is the first of its block, so that no sum is open. */
bool wf_layer_opens_block(const struct pass *p, uint32_t layer);

/* Runs a layer and writes its output. */
void wf_layer_forward(struct pass *p, uint32_t layer, struct wf_mat out);
/* Recomputes the fields that were not stored. */
void wf_layer_recompute(struct pass *p, uint32_t layer);
/* Replaces p->g by the gradient of the layer's input. */
enum weft_status wf_layer_backward_input(struct pass *p, uint32_t layer,
                                         struct weft_error *err);
/* Adds to the gradients of the layer's matrices and biases. */
enum weft_status wf_layer_backward_weight(struct pass *p, uint32_t layer,
                                          struct weft_error *err);

/* Embeds the tokens, and stores them for the backward. */
void wf_embedding_forward(struct pass *p, const int32_t *tokens, struct wf_mat out);
/* Adds p->g to the gradients of the embeddings. */
enum weft_status wf_embedding_backward(struct pass *p, struct weft_error *err);

struct wf_mat wf_head_input(const struct pass *p);
/* Computes the loss and, in training, the whole backward up to the head's norm. */
enum weft_status wf_head_forward(struct pass *p, struct weft_error *err);
/* Sets p->g to the gradient of the head's input. */
enum weft_status wf_head_backward(struct pass *p, struct weft_error *err);

#endif
