/* Declarations shared by the source files of inference. */
#ifndef COMPUTE_MODEL_INFER_PRIV_H
#define COMPUTE_MODEL_INFER_PRIV_H

#include <stdbool.h>

#include "compute/kern/ops.h"
#include "compute/model/infer.h"

enum {
    WF_INFER_BATCH = 32, /* maximum number of tokens processed together */
    WF_INFER_ALIGN = 64,
};

/* A parameter in the layout that inference uses.  Factors of products are stored as (outputs,
 * inputs). */
struct infer_weight {
    struct wf_mat mat; /* at == NULL if the model has no such parameter; vectors are fp32 */
    size_t rows, cols;
    bool transposed; /* the model file stores the transpose of this matrix */
};

struct wf_infer {
    struct wf_infer_spec spec;
    const struct wf_ops *ops;
    struct wf_param_list params;  /* owned */
    struct infer_weight *weights; /* owned; indexed by [item][role] */
    size_t dim, head, kv_cols, qkv_cols, ffn, n_blocks;
    bool llama, block_mix;
    unsigned workers; /* threads of the pool */
    bool counting;    /* only sizes are computed; nothing large is allocated */
    uint32_t position;

    char *values; /* owned; values of all weights */
    size_t value_bytes;
    /* Stored keys and values: (max_tokens, head) for each layer and each key/value head. */
    float *keys, *cached_values; /* owned */
    size_t cache_bytes;
    float *cosines, *sines; /* owned; Llama only: (max_tokens, head / 2) each */

    /* Activations of the current batch of tokens, WF_INFER_BATCH rows each. */
    float
        *x; /* the residual stream; with block attention residuals the sum of the open block */
    float *h;      /* output of a mix */
    float *normed; /* output of a norm */
    float *qkv, *att;
    /* GPT-2: act equals up, since the activation is computed in place. */
    float *up, *gate, *act;
    float *blocks;           /* (n_blocks, WF_INFER_BATCH, dim) */
    float *alpha, *mix_rstd; /* (WF_INFER_BATCH, n_blocks + 1) */
    int32_t positions[WF_INFER_BATCH];
    float mean[WF_INFER_BATCH], rstd[WF_INFER_BATCH];
    float *scores;     /* (threads, max_tokens) */
    char *activations; /* owned; contains the memory of all activations above */
    size_t activation_bytes;
};

/* Returns the weight of an item with the given role. */
static inline const struct infer_weight *wf_infer_weight(const struct wf_infer *m,
                                                         uint32_t item, enum wf_role role)
{
    return &m->weights[(size_t)item * WF_N_ROLES + role];
}

#endif
