/* What the files of inference share. */
#ifndef COMPUTE_MODEL_INFER_PRIV_H
#define COMPUTE_MODEL_INFER_PRIV_H

#include <stdbool.h>

#include "compute/kern/ops.h"
#include "compute/model/infer.h"

enum {
    WF_INFER_BATCH = 32, /* tokens that go through the layers together */
    WF_INFER_ALIGN = 64,
};

/* A parameter as it is used: matrices of products are (outputs, inputs). */
struct infer_weight {
    struct wf_mat mat; /* at == NULL: the model has none; vectors are fp32 */
    size_t rows, cols;
    bool transposed; /* the file has it the other way round */
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
    /* Of each layer, of each head of keys: (room, head). */
    float *keys, *cached_values; /* owned */
    size_t cache_bytes;
    float *cosines, *sines; /* owned: Llama, (room, head / 2) */

    /* Of the tokens under way, CHUNK rows each. */
    float *x;      /* the stream; with block residuals the open sum */
    float *h;      /* a mix */
    float *normed; /* a norm's output */
    float *qkv, *att;
    float *up, *gate, *act;  /* GPT-2's activation is where its input was */
    float *blocks;           /* (n_blocks, CHUNK, dim) */
    float *alpha, *mix_rstd; /* (CHUNK, n_blocks + 1) */
    int32_t positions[WF_INFER_BATCH];
    float mean[WF_INFER_BATCH], rstd[WF_INFER_BATCH];
    float *scores;     /* (threads, room) */
    char *activations; /* owned: all of the above */
    size_t activation_bytes;
};

static inline const struct infer_weight *wf_infer_weight(const struct wf_infer *m,
                                                         uint32_t item, enum wf_role role)
{
    return &m->weights[(size_t)item * WF_N_ROLES + role];
}

#endif
