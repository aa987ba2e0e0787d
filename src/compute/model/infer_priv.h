/* Declarations shared by the files of inference. */
#ifndef COMPUTE_MODEL_INFER_PRIV_H
#define COMPUTE_MODEL_INFER_PRIV_H

#include <stdbool.h>

#include "compute/kern/ops.h"
#include "compute/model/infer.h"

enum {
    WF_INFER_BATCH = 32, /* tokens processed together */
    WF_INFER_ALIGN = 64,
};

/* A parameter as it is used.  Matrices of products are (outputs, inputs). */
struct infer_weight {
    struct wf_mat mat; /* at == NULL if the model has none; vectors are fp32 */
    size_t rows, cols;
    bool transposed; /* the file stores the transpose */
};

struct wf_infer {
    struct wf_infer_spec spec;
    const struct wf_ops *ops;
    struct wf_param_list params;  /* owned */
    struct infer_weight *weights; /* owned: [item][role] */
    size_t dim, head, kv_cols, qkv_cols, ffn, n_blocks;
    bool llama, block_mix;
    uint32_t position;

    char *values; /* owned: all weights */
    size_t value_bytes;
    /* Per layer and head of keys: (max_tokens, head). */
    float *keys, *cached_values; /* owned */
    size_t cache_bytes;
    float *cosines, *sines; /* owned: Llama, (max_tokens, head / 2) */

    /* Activations of the current batch of tokens, WF_INFER_BATCH rows each. */
    float *x;      /* the stream; with block residuals the open sum */
    float *h;      /* output of a mix */
    float *normed; /* output of a norm */
    float *qkv, *att;
    float *up, *gate, *act;  /* for GPT-2, act is up: the activation works in place */
    float *blocks;           /* (n_blocks, WF_INFER_BATCH, dim) */
    float *alpha, *mix_rstd; /* (WF_INFER_BATCH, n_blocks + 1) */
    int32_t positions[WF_INFER_BATCH];
    float mean[WF_INFER_BATCH], rstd[WF_INFER_BATCH];
    float *scores;     /* (threads, max_tokens) */
    char *activations; /* owned: all of the above */
    size_t activation_bytes;
};

/* Returns the item's weight with this role. */
static inline const struct infer_weight *wf_infer_weight(const struct wf_infer *m,
                                                         uint32_t item, enum wf_role role)
{
    return &m->weights[(size_t)item * WF_N_ROLES + role];
}

#endif
