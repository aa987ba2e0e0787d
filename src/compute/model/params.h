/* The parameters of a model: names as Hugging Face has them, shapes, how they start. */
#ifndef COMPUTE_MODEL_PARAMS_H
#define COMPUTE_MODEL_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/kern/pool.h"
#include "weft/spec.h"
#include "weft/status.h"

enum { WF_PARAM_NAME = 96 };

/* What a parameter is to its item. */
enum wf_role {
    WF_ROLE_TOKEN_EMBEDDING,    /* (vocab, dim) */
    WF_ROLE_POSITION_EMBEDDING, /* (ctx, dim) */
    WF_ROLE_ATTN_MIX_QUERY,     /* (dim): block residuals */
    WF_ROLE_ATTN_MIX_NORM,
    WF_ROLE_ATTN_NORM,
    WF_ROLE_ATTN_NORM_BIAS,
    WF_ROLE_QKV, /* GPT-2: (dim, 3 dim), queries, keys and values side by side */
    WF_ROLE_QKV_BIAS,
    WF_ROLE_QUERY, /* Llama: (heads * head, dim) and (kv_heads * head, dim) */
    WF_ROLE_KEY,
    WF_ROLE_VALUE,
    WF_ROLE_PROJECT, /* of attention's output */
    WF_ROLE_PROJECT_BIAS,
    WF_ROLE_MLP_MIX_QUERY,
    WF_ROLE_MLP_MIX_NORM,
    WF_ROLE_MLP_NORM,
    WF_ROLE_MLP_NORM_BIAS,
    WF_ROLE_GATE, /* Llama */
    WF_ROLE_UP,   /* Llama's up, GPT-2's first */
    WF_ROLE_UP_BIAS,
    WF_ROLE_DOWN,
    WF_ROLE_DOWN_BIAS,
    WF_ROLE_OUT_MIX_QUERY,
    WF_ROLE_OUT_MIX_NORM,
    WF_ROLE_OUT_NORM,
    WF_ROLE_OUT_NORM_BIAS,
    WF_ROLE_HEAD, /* (vocab, dim); none of its own when tied */
    WF_N_ROLES
};

struct wf_param_desc {
    char name[WF_PARAM_NAME];
    enum wf_role role;
    uint32_t item;    /* 0: embedding, 1 .. layers, layers + 1: head */
    uint32_t n_dims;  /* 1 or 2 */
    size_t shape[2];  /* as stored: Hugging Face's order; [1] is 1 for vectors */
    bool decay;       /* weight decay: matrices */
    float init_value; /* vectors and norms begin with this value everywhere ... */
    float init_std;   /* ... unless this is not 0: normal with this standard init_std */
};

struct wf_param_list {
    size_t n;
    struct wf_param_desc *at; /* owned; in model order */
};

/* The parameters of items [item0, item1) of a checked model.  A tied head that comes without the
 * embedding has the embedding's weight, under its own name, as its WF_ROLE_HEAD.
 * wf_param_list_release() frees. */
enum weft_status wf_param_list_init(struct wf_param_list *params,
                                    const struct weft_model *model, uint32_t item0,
                                    uint32_t item1, struct weft_error *err);
void wf_param_list_release(struct wf_param_list *params);

static inline size_t wf_param_size(const struct wf_param_desc *d)
{
    return d->shape[0] * d->shape[1];
}

/* Fills elements [from, to) with the values that a parameter starts with: a pure function of
 * seed, name and position. */
void wf_param_fill(const struct wf_param_desc *d, uint64_t seed, size_t from, size_t to,
                   float *out);

/* Like wf_param_fill(), for all elements and on all threads of the pool. */
void wf_param_fill_all(const struct wf_param_desc *d, uint64_t seed, struct wf_pool *pool,
                       float *out);

#endif
