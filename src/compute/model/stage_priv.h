/* What the files of a transformer stage share. */
#ifndef COMPUTE_MODEL_STAGE_PRIV_H
#define COMPUTE_MODEL_STAGE_PRIV_H

#include "base/clock.h"
#include "base/size.h"
#include "compute/kern/attention.h"
#include "compute/model/stage.h"

enum {
    ROW_TILE = 32,     /* rows of one task that walks rows; sums over rows are made of these */
    COL_TILE = 64,     /* columns of one task that walks columns */
    MIX_ROWS = 8,      /* of one task that mixes: gradients of all vectors stay in the cache */
    HEAD_TOKENS = 512, /* tokens whose logits exist at one time */
    ALIGN = 64,
};

/* What one layer keeps of a micro.  "1" is of attention, "2" of the MLP. */
enum stage_field {
    FIELD_X1, /* the stream that comes in; with block residuals the open sum */
    FIELD_H1, /* block residuals: the mix; the norm's input */
    FIELD_ALPHA1,
    FIELD_MIX1, /* the mix's inverse deviations */
    FIELD_A1,   /* the norm's output */
    FIELD_MEAN1,
    FIELD_RSTD1,
    FIELD_QKV, /* queries, keys, values side by side; in the backward their gradients */
    FIELD_ATT, /* attention's output */
    FIELD_LSE,
    FIELD_X2, /* the stream after attention */
    FIELD_H2,
    FIELD_ALPHA2,
    FIELD_MIX2,
    FIELD_A2,
    FIELD_MEAN2,
    FIELD_RSTD2,
    FIELD_GATE, /* Llama; in the backward its gradient */
    FIELD_UP,   /* the MLP's inside before the activation; in the backward its gradient */
    FIELD_ACT,  /* ... and after it */
    FIELD_G1, /* bf16: the gradients of attention's and the MLP's outputs.  In fp32 they lie where */
    FIELD_G2, /* what they replace is not needed any more: X1 and X2, with block residuals H1, H2 */
    N_FIELDS
};

struct field_layout {
    bool present;
    bool recomputed; /* not kept from forward to backward but computed again */
    size_t offset;
    size_t ld;
    enum wf_dtype type;
};

enum stage_gemm {
    GEMM_QKV, /* or queries alone */
    GEMM_KV,  /* keys, and values */
    GEMM_PROJECT,
    GEMM_PROJECT_NO_ADD, /* nothing to add to: the first layer of a block */
    GEMM_UP,             /* and gates */
    GEMM_DOWN,
    GEMM_LOGITS,
    GEMM_DOWN_BACK, /* gradients, by the weight they go back through */
    GEMM_UP_BACK,
    GEMM_UP_BACK_ADD, /* to what the gate's gave */
    GEMM_PROJECT_BACK,
    GEMM_QKV_BACK,
    GEMM_KV_BACK_ADD,
    GEMM_LOGITS_BACK,
    N_GEMMS
};

/* Offsets in a slot's memory. */
struct slot_layout {
    size_t layer_bytes; /* kept of one layer */
    size_t work_bytes;  /* computed again, of one layer */
    size_t tokens;      /* int32, for the embedding's gradient */
    size_t blocks;      /* of a whole model: the embedding, the finished blocks, the last one */
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
    uint32_t layer0;   /* its first, counted from the model's first */
    bool has_embedding, has_head, block_mix;
    bool whole; /* embedding and head */
    bool llama;
    size_t dim, head, qkv_cols, kv_cols, ffn, vocab, vocab_padded;
    size_t max_tokens;
    size_t n_blocks; /* block residuals: vectors that the head mixes */
    /* Blocks [blocks_in, blocks_out) are made here, those before come from outside. */
    size_t blocks_in, blocks_out;

    struct field_layout fields[N_FIELDS];
    struct slot_layout layout;
    struct wf_gemm *gemm[N_GEMMS]; /* owned; NULL where not needed */
    struct wf_wgrad *wgrad;        /* owned: weights of layers */
    struct wf_wgrad *head_wgrad;   /* owned */

    char *slots; /* owned: spec.slots; NULL: they are the caller's */
    char *work;  /* owned: one layer for what is under way, then split_slots of all layers */
    int *work_index;        /* owned: the split slot that a slot's backward uses, or -1 */
    bool *work_used;        /* owned: of each split slot */
    int32_t *positions;     /* owned: of each token of a micro */
    float *cosines, *sines; /* owned: Llama, (seq, head / 2) */

    /* Scratch. */
    struct wf_mat wide;     /* (tokens, ffn) f32 */
    struct wf_mat narrow;   /* (tokens, dim) f32 */
    struct wf_mat mix_grad; /* (tokens, dim) f32: a mix's gradient */
    struct wf_mat g;        /* (tokens, dim) f32: the stream's gradient where none is given */
    struct wf_mat normed;   /* (tokens, dim): the head's input */
    struct wf_mat logits;   /* (HEAD_TOKENS, vocab_padded) f32 */
    struct wf_mat dlogits;  /* the same, or narrower */
    float *partial;         /* (row blocks, 2 dim): sums over each block's rows */
    float *sums;            /* a vector's gradient before it is added */
    double *losses;         /* of each token */
    int64_t *block_sums;    /* whole models: (n_blocks, tokens, dim), gradients of blocks */
    bool *block_fresh;      /* likewise */
    char *per_worker;       /* attention's and mixing's scratch */
    size_t per_worker_bytes;
    char *scratch; /* owned: all of the above */
    size_t scratch_bytes;

    struct wf_tstage_bytes memory;
    char *values, *gradients, *packed; /* owned */
    uint64_t times[WF_N_TIMERS];
};

/* One micro in one call. */
struct pass {
    struct wf_tstage *t;
    const struct weft_stage_call *call;
    size_t tokens;
    char *slot;
    char *work;      /* of the layer that is worked at ... */
    bool work_whole; /* ... or of all layers, one after the other */
    struct wf_mat g; /* the stream's gradient */
};

struct wf_mat wf_tstage_field(const struct pass *p, uint32_t layer, enum stage_field f);
float *wf_tstage_floats(const struct pass *p, uint32_t layer, enum stage_field f);

static inline struct wf_param *wf_tstage_param(struct wf_tstage *t, uint32_t item,
                                               enum wf_role role)
{
    return t->by_role[(size_t)(item - t->spec.item0) * WF_N_ROLES + role];
}

/* Of layer `layer` of the stage. */
static inline struct wf_param *wf_tstage_layer_param(struct wf_tstage *t, uint32_t layer,
                                                     enum wf_role role)
{
    return wf_tstage_param(t, t->layer0 + 1 + layer, role);
}

/* Where allocated memory begins to be used: allocations have room for it. */
static inline char *wf_align(char *at)
{
    return at + (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
}

/* Block residuals: does the model's layer `layer` find a sum open, or does it begin a block? */
static inline bool wf_layer_is_block_open(const struct wf_tstage *t, uint32_t layer)
{
    return layer % t->spec.model.residual_block_layers != 0;
}

/* Does the stage read `in`, and write `out`?  It does not where a block ends with a stage. */
static inline bool wf_tstage_has_input(const struct wf_tstage *t)
{
    return !t->has_embedding && (!t->block_mix || wf_layer_is_block_open(t, t->layer0));
}

static inline bool wf_tstage_has_output(const struct wf_tstage *t)
{
    return !t->has_head &&
           (!t->block_mix || wf_layer_is_block_open(t, t->layer0 + t->n_layers));
}

/* What a layer reads: `layer` may be one residual the last, whose input is the head's or `out`. */
struct wf_mat wf_layer_input(const struct pass *p, uint32_t layer);
/* Where a layer's output goes: on to the next one, unless it ends a block. */
struct wf_mat wf_layer_output(const struct pass *p, uint32_t layer);
struct wf_mat wf_embedding_output(const struct pass *p);

/* -- sizes and layout (stage_layout.c) ------------------------------------------------------ */

/* Returns WEFT_USAGE or WEFT_NOMEM if no stage can have this spec. */
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

/* -- numbers that are none (bad.c) --------------------------------------------------------- */

/* Says what is not finite, first of all: what came in, a weight, or a layer's inside.  For a pass
 * whose forward gave a loss, an output or a block that is not. */
enum weft_status wf_tstage_find_nonfinite(struct pass *p, struct weft_error *err);
/* A stage without the head: is what it hands on finite?  If not, wf_tstage_find_nonfinite(). */
enum weft_status wf_tstage_check_output(struct pass *p, struct weft_error *err);

/* -- pieces (parts.c) ---------------------------------------------------------------------- */

void wf_tstage_add_time(struct wf_tstage *t, enum wf_timer timer, int64_t since_ns);

struct wf_sink wf_tstage_sink(struct wf_param *param);

void wf_norm_forward(struct pass *p, struct wf_mat out, float *mean, float *rstd,
                     struct wf_mat x, const struct wf_param *w, const struct wf_param *b);
/* dx = residual + the norm's gradient; the parameters' gradients are added. */
enum weft_status wf_norm_backward(struct pass *p, struct wf_mat dx, struct wf_mat residual,
                                  struct wf_mat copy, struct wf_mat dy, struct wf_mat x,
                                  const float *mean, const float *rstd, struct wf_param *w,
                                  struct wf_param *b, struct weft_error *err);

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

/* param's gradient += a^T b */
enum weft_status wf_grad_add_product(struct pass *p, struct wf_wgrad *wgrad,
                                     struct wf_param *param, struct wf_mat a, struct wf_mat b,
                                     size_t tokens, struct weft_error *err);
/* A bias: += the sum over tokens of dy. */
enum weft_status wf_grad_add_bias(struct pass *p, struct wf_param *param, struct wf_mat dy,
                                  struct weft_error *err);
enum weft_status wf_grad_add_vector(struct wf_tstage *t, struct wf_param *param,
                                    const float *sum, struct weft_error *err);
/* A vector of dim elements += the partial sums of n blocks of rows, block after block; `from`: 0 or
 * dim, which half of a partial sum. */
enum weft_status wf_grad_add_partials(struct wf_tstage *t, struct wf_param *param, size_t n,
                                      size_t from, struct weft_error *err);
enum weft_status wf_grad_fail_range(const struct wf_param *param, struct weft_error *err);

/* -- block residuals (mix.c) --------------------------------------------------------------- */

/* Has the call all the blocks that the stage reads or makes? */
enum weft_status wf_tstage_check_blocks(const struct pass *p, bool backward,
                                        struct weft_error *err);

struct wf_mat wf_tstage_block(const struct pass *p, size_t j);
void wf_mix_forward(struct pass *p, struct wf_mat h, float *alpha, float *rstd,
                    size_t n_finished, struct wf_mat open, const struct wf_param *q,
                    const struct wf_param *norm);
/* The blocks' gradients are added to their sums; the open sum's to p->g. */
enum weft_status wf_mix_backward(struct pass *p, struct wf_mat dh, const float *alpha,
                                 const float *rstd, size_t n_finished, struct wf_mat open,
                                 struct wf_param *q, struct wf_param *norm,
                                 struct weft_error *err);
/* p->g = the gradient of block j, made here, all of whose uses are done. */
void wf_block_load_grad(struct pass *p, size_t j);

/* -- items ---------------------------------------------------------------------------------- */

/* Is layer `layer` the first of its block, so that no sum is open yet? */
bool wf_layer_opens_block(const struct pass *p, uint32_t layer);

void wf_layer_forward(struct pass *p, uint32_t layer, struct wf_mat out);
/* Computes again what was not kept. */
void wf_layer_recompute(struct pass *p, uint32_t layer);
enum weft_status wf_layer_backward_input(struct pass *p, uint32_t layer,
                                         struct weft_error *err);
enum weft_status wf_layer_backward_weight(struct pass *p, uint32_t layer,
                                          struct weft_error *err);

void wf_embedding_forward(struct pass *p, const int32_t *tokens, struct wf_mat out);
enum weft_status wf_embedding_backward(struct pass *p, struct weft_error *err);

struct wf_mat wf_head_input(const struct pass *p);
enum weft_status wf_head_forward(struct pass *p, struct weft_error *err);
/* p->g = the gradient of the head's input. */
enum weft_status wf_head_backward(struct pass *p, struct weft_error *err);

#endif
