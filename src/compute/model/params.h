/* The parameters of a model: Hugging Face names, shapes and initial values. */
#ifndef COMPUTE_MODEL_PARAMS_H
#define COMPUTE_MODEL_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/kern/pool.h"
#include "weft/spec.h"
#include "weft/status.h"

enum { WF_PARAM_NAME = 96 };

/* The function of a parameter within its item. */
enum wf_role {
    WF_ROLE_TOKEN_EMBEDDING,    /* (vocab, dim) */
    WF_ROLE_POSITION_EMBEDDING, /* (ctx, dim) */
    WF_ROLE_ATTN_MIX_QUERY,     /* (dim); block attention residuals only, like all MIX roles */
    WF_ROLE_ATTN_MIX_NORM,
    WF_ROLE_ATTN_NORM,
    WF_ROLE_ATTN_NORM_BIAS,
    WF_ROLE_QKV, /* GPT-2: (dim, 3 * dim), queries, keys and values in adjacent columns */
    WF_ROLE_QKV_BIAS,
    WF_ROLE_QUERY, /* Llama: (heads * head, dim); keys and values: (kv_heads * head, dim) */
    WF_ROLE_KEY,
    WF_ROLE_VALUE,
    WF_ROLE_PROJECT, /* projection of the output of attention */
    WF_ROLE_PROJECT_BIAS,
    WF_ROLE_MLP_MIX_QUERY,
    WF_ROLE_MLP_MIX_NORM,
    WF_ROLE_MLP_NORM,
    WF_ROLE_MLP_NORM_BIAS,
    WF_ROLE_GATE, /* Llama: gate projection */
    WF_ROLE_UP,   /* Llama: up projection; GPT-2: first matrix of the MLP */
    WF_ROLE_UP_BIAS,
    WF_ROLE_DOWN,
    WF_ROLE_DOWN_BIAS,
    WF_ROLE_OUT_MIX_QUERY,
    WF_ROLE_OUT_MIX_NORM,
    WF_ROLE_OUT_NORM,
    WF_ROLE_OUT_NORM_BIAS,
    /* (vocab, dim); absent if the head is tied and the embedding is in the same stage. */
    WF_ROLE_HEAD,
    WF_N_ROLES
};

struct wf_param_desc {
    char name[WF_PARAM_NAME];
    enum wf_role role;
    uint32_t item;    /* 0: embedding, 1 .. layers: layers, layers + 1: head */
    uint32_t n_dims;  /* 1 or 2 */
    size_t shape[2];  /* shape in Hugging Face files; shape[1] is 1 for vectors */
    bool decay;       /* weight decay applies (only to matrices) */
    float init_value; /* initial value of all elements if init_std is 0 */
    float init_std;   /* standard deviation of normally distributed initial values, or 0 */
};

struct wf_param_list {
    size_t n;
    struct wf_param_desc *at; /* owned; in model order */
};

/* Lists the parameters of items [item0, item1) of a checked model.  If the items include a tied
 * head but not the embedding, the embedding's weight is listed with its own name and
 * WF_ROLE_HEAD.  The caller frees *params with wf_param_list_release(). */
enum weft_status wf_param_list_init(struct wf_param_list *params,
                                    const struct weft_model *model, uint32_t item0,
                                    uint32_t item1, struct weft_error *err);
void wf_param_list_release(struct wf_param_list *params);

/* Returns the number of elements of a parameter. */
static inline size_t wf_param_size(const struct wf_param_desc *d)
{
    return d->shape[0] * d->shape[1];
}

/* Writes the initial values of elements [from, to).  The value of an element depends only on
 * the seed, the parameter's name and the element's index. */
void wf_param_fill(const struct wf_param_desc *d, uint64_t seed, size_t from, size_t to,
                   float *out);

/* Writes the initial values of all elements, like wf_param_fill(), on all threads of the
 * pool. */
void wf_param_fill_all(const struct wf_param_desc *d, uint64_t seed, struct wf_pool *pool,
                       float *out);

#endif
