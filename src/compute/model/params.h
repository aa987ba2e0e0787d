/* The parameters of a model: names as Hugging Face has them, shapes, how they start. */
#ifndef COMPUTE_MODEL_PARAMS_H
#define COMPUTE_MODEL_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

enum { WEFT_PARAM_NAME = 96 };

/* What a parameter is to its item. */
enum weft_role {
    WEFT_TOKEN_EMBEDDING,    /* (vocab, dim) */
    WEFT_POSITION_EMBEDDING, /* (ctx, dim) */
    WEFT_ATTN_MIX_QUERY,     /* (dim): block residuals */
    WEFT_ATTN_MIX_NORM,
    WEFT_ATTN_NORM,
    WEFT_ATTN_NORM_BIAS,
    WEFT_QKV, /* GPT-2: (dim, 3 dim), queries, keys and values side by side */
    WEFT_QKV_BIAS,
    WEFT_QUERY, /* Llama: (heads * head, dim) and (kv_heads * head, dim) */
    WEFT_KEY,
    WEFT_VALUE,
    WEFT_PROJECT, /* of attention's output */
    WEFT_PROJECT_BIAS,
    WEFT_MLP_MIX_QUERY,
    WEFT_MLP_MIX_NORM,
    WEFT_MLP_NORM,
    WEFT_MLP_NORM_BIAS,
    WEFT_GATE, /* Llama */
    WEFT_UP,   /* Llama's up, GPT-2's first */
    WEFT_UP_BIAS,
    WEFT_DOWN,
    WEFT_DOWN_BIAS,
    WEFT_OUT_MIX_QUERY,
    WEFT_OUT_MIX_NORM,
    WEFT_OUT_NORM,
    WEFT_OUT_NORM_BIAS,
    WEFT_HEAD, /* (vocab, dim); none of its own when tied */
    WEFT_N_ROLES
};

struct weft_param_desc {
    char name[WEFT_PARAM_NAME];
    enum weft_role role;
    uint32_t item;   /* 0: embedding, 1 .. layers, layers + 1: head */
    uint32_t rank;   /* 1 or 2 */
    size_t shape[2]; /* as stored: Hugging Face's order; [1] is 1 for vectors */
    bool decay;      /* weight decay: matrices */
    float start;     /* vectors and norms begin with this value everywhere ... */
    float deviation; /* ... unless this is not 0: normal with this standard deviation */
};

struct weft_param_list {
    size_t n;
    struct weft_param_desc *at; /* owned; in model order */
};

/* The parameters of items [item0, item1) of a checked model.  A tied head that comes without the
 * embedding has the embedding's weight, under its own name, as its WEFT_HEAD.
 * weft_param_list_release() frees. */
enum weft_status weft_param_list_init(struct weft_param_list *params,
                                      const struct weft_model *model, uint32_t item0,
                                      uint32_t item1, struct weft_error *err);
void weft_param_list_release(struct weft_param_list *params);

static inline size_t weft_param_size(const struct weft_param_desc *d)
{
    return d->shape[0] * d->shape[1];
}

/* Fills elements [from, to) with the values that a parameter starts with: a pure function of
 * seed, name and position. */
void weft_param_fill(const struct weft_param_desc *d, uint64_t seed, size_t from, size_t to,
                     float *out);

#endif
