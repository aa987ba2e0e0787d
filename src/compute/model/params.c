/* Lists the parameters of GPT-2 and Llama models and computes their initial values. */
#include "compute/model/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/random.h"
#include "base/size.h"

/* Standard deviation of all matrices, in both model families. */
static const float init_std = 0.02F;

struct list {
    struct wf_param_list *params;
    const struct weft_model *model;
    uint32_t item;
};

static struct wf_param_desc *add(struct list *list, enum wf_role role, size_t rows, size_t cols)
{
    struct wf_param_desc *d = &list->params->at[list->params->n++];
    *d = (struct wf_param_desc){.role = role,
                                .item = list->item,
                                .n_dims = cols == 0 ? 1 : 2,
                                .shape = {rows, cols == 0 ? 1 : cols},
                                .decay = cols != 0,
                                .init_std = cols == 0 ? 0.0F : init_std};
    return d;
}

static void add_matrix(struct list *list, enum wf_role role, const char *name, size_t rows,
                       size_t cols)
{
    struct wf_param_desc *d = add(list, role, rows, cols);
    snprintf(d->name, sizeof d->name, "%s", name);
}

/* Adds a tensor of the current layer. */
static void add_layer(struct list *list, enum wf_role role, const char *name, size_t rows,
                      size_t cols, float init_value)
{
    struct wf_param_desc *d = add(list, role, rows, cols);
    const char *prefix = list->model->arch == WEFT_ARCH_GPT2 ? "transformer.h" : "model.layers";
    snprintf(d->name, sizeof d->name, "%s.%u.%s", prefix, list->item - 1, name);
    d->init_value = init_value;
    /* Every layer adds two outputs to the residual stream.  GPT-2 scales their weights so that
     * the stream's magnitude does not grow with the number of layers. */
    if (list->model->arch == WEFT_ARCH_GPT2 &&
        (role == WF_ROLE_PROJECT || role == WF_ROLE_DOWN))
        d->init_std /= sqrtf(2.0F * (float)list->model->layers);
}

static void add_mix(struct list *list, enum wf_role query, const char *name)
{
    char full[64];
    if (list->model->residual_block_layers == 0)
        return;
    /* If the query is zero, all vectors have the same weight in the mix. */
    snprintf(full, sizeof full, "%s.query", name);
    add_layer(list, query, full, list->model->dim, 0, 0.0F);
    snprintf(full, sizeof full, "%s.norm.weight", name);
    add_layer(list, query + 1, full, list->model->dim, 0, 1.0F);
}

static void add_gpt2_layer(struct list *list)
{
    size_t dim = list->model->dim, ffn = list->model->ffn;
    add_mix(list, WF_ROLE_ATTN_MIX_QUERY, "attn_residual");
    add_layer(list, WF_ROLE_ATTN_NORM, "ln_1.weight", dim, 0, 1.0F);
    add_layer(list, WF_ROLE_ATTN_NORM_BIAS, "ln_1.bias", dim, 0, 0.0F);
    add_layer(list, WF_ROLE_QKV, "attn.c_attn.weight", dim, 3 * dim, 0.0F);
    add_layer(list, WF_ROLE_QKV_BIAS, "attn.c_attn.bias", 3 * dim, 0, 0.0F);
    add_layer(list, WF_ROLE_PROJECT, "attn.c_proj.weight", dim, dim, 0.0F);
    add_layer(list, WF_ROLE_PROJECT_BIAS, "attn.c_proj.bias", dim, 0, 0.0F);
    add_mix(list, WF_ROLE_MLP_MIX_QUERY, "mlp_residual");
    add_layer(list, WF_ROLE_MLP_NORM, "ln_2.weight", dim, 0, 1.0F);
    add_layer(list, WF_ROLE_MLP_NORM_BIAS, "ln_2.bias", dim, 0, 0.0F);
    add_layer(list, WF_ROLE_UP, "mlp.c_fc.weight", dim, ffn, 0.0F);
    add_layer(list, WF_ROLE_UP_BIAS, "mlp.c_fc.bias", ffn, 0, 0.0F);
    add_layer(list, WF_ROLE_DOWN, "mlp.c_proj.weight", ffn, dim, 0.0F);
    add_layer(list, WF_ROLE_DOWN_BIAS, "mlp.c_proj.bias", dim, 0, 0.0F);
}

static void add_llama_layer(struct list *list)
{
    size_t dim = list->model->dim, ffn = list->model->ffn;
    size_t kv = dim / list->model->heads * list->model->kv_heads;
    add_mix(list, WF_ROLE_ATTN_MIX_QUERY, "attn_residual");
    add_layer(list, WF_ROLE_ATTN_NORM, "input_layernorm.weight", dim, 0, 1.0F);
    add_layer(list, WF_ROLE_QUERY, "self_attn.q_proj.weight", dim, dim, 0.0F);
    add_layer(list, WF_ROLE_KEY, "self_attn.k_proj.weight", kv, dim, 0.0F);
    add_layer(list, WF_ROLE_VALUE, "self_attn.v_proj.weight", kv, dim, 0.0F);
    add_layer(list, WF_ROLE_PROJECT, "self_attn.o_proj.weight", dim, dim, 0.0F);
    add_mix(list, WF_ROLE_MLP_MIX_QUERY, "mlp_residual");
    add_layer(list, WF_ROLE_MLP_NORM, "post_attention_layernorm.weight", dim, 0, 1.0F);
    add_layer(list, WF_ROLE_GATE, "mlp.gate_proj.weight", ffn, dim, 0.0F);
    add_layer(list, WF_ROLE_UP, "mlp.up_proj.weight", ffn, dim, 0.0F);
    add_layer(list, WF_ROLE_DOWN, "mlp.down_proj.weight", dim, ffn, 0.0F);
}

static const char *embedding_name(const struct weft_model *model)
{
    return model->arch == WEFT_ARCH_GPT2 ? "transformer.wte.weight"
                                         : "model.embed_tokens.weight";
}

static void add_embedding(struct list *list)
{
    const struct weft_model *m = list->model;
    add_matrix(list, WF_ROLE_TOKEN_EMBEDDING, embedding_name(m), m->vocab, m->dim);
    if (m->arch == WEFT_ARCH_GPT2)
        add_matrix(list, WF_ROLE_POSITION_EMBEDDING, "transformer.wpe.weight", m->ctx, m->dim);
}

static void add_vector(struct list *list, enum wf_role role, const char *name, float init_value)
{
    struct wf_param_desc *d = add(list, role, list->model->dim, 0);
    snprintf(d->name, sizeof d->name, "%s.%s",
             list->model->arch == WEFT_ARCH_GPT2 ? "transformer" : "model", name);
    d->init_value = init_value;
}

static void add_head(struct list *list, bool has_embedding)
{
    const struct weft_model *m = list->model;
    if (m->residual_block_layers != 0) {
        add_vector(list, WF_ROLE_OUT_MIX_QUERY, "output_residual.query", 0.0F);
        add_vector(list, WF_ROLE_OUT_MIX_NORM, "output_residual.norm.weight", 1.0F);
    }
    if (m->arch == WEFT_ARCH_GPT2) {
        add_vector(list, WF_ROLE_OUT_NORM, "ln_f.weight", 1.0F);
        add_vector(list, WF_ROLE_OUT_NORM_BIAS, "ln_f.bias", 0.0F);
    } else {
        add_vector(list, WF_ROLE_OUT_NORM, "norm.weight", 1.0F);
    }
    if (!m->tied)
        add_matrix(list, WF_ROLE_HEAD, "lm_head.weight", m->vocab, m->dim);
    else if (!has_embedding)
        add_matrix(list, WF_ROLE_HEAD, embedding_name(m), m->vocab, m->dim);
}

enum weft_status wf_param_list_init(struct wf_param_list *params,
                                    const struct weft_model *model, uint32_t item0,
                                    uint32_t item1, struct weft_error *err)
{
    /* No item has more parameters than there are roles. */
    *params = (struct wf_param_list){0};
    params->at = calloc((size_t)(item1 - item0) * WF_N_ROLES + 1, sizeof *params->at);
    if (params->at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "model parameters: out of memory for the list");
    struct list list = {params, model, 0};
    for (list.item = item0; list.item < item1; list.item++) {
        if (list.item == 0)
            add_embedding(&list);
        else if (list.item == model->layers + 1)
            add_head(&list, item0 == 0);
        else if (model->arch == WEFT_ARCH_GPT2)
            add_gpt2_layer(&list);
        else
            add_llama_layer(&list);
    }
    return WEFT_OK;
}

void wf_param_list_release(struct wf_param_list *params)
{
    free(params->at);
    *params = (struct wf_param_list){0};
}

/* Returns the random stream of a parameter: the FNV-1a hash of its name. */
static uint64_t stream_of(const char *name)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return h;
}

/* Returns a normally distributed number: the Box-Muller transform of two uniform numbers. */
static float normal(uint64_t seed, uint64_t stream, uint64_t position)
{
    uint64_t bits = wf_random_u64(seed, stream, position);
    double u = ((double)(bits >> 32) + 0.5) * 0x1p-32;
    double v = (double)(bits & 0xffffffff) * 0x1p-32;
    return (float)(sqrt(-2.0 * wf_math_log(u)) * wf_math_cos(6.283185307179586 * v));
}

void wf_param_fill(const struct wf_param_desc *d, uint64_t seed, size_t from, size_t to,
                   float *out)
{
    uint64_t stream = stream_of(d->name);
    for (size_t i = from; i < to; i++)
        out[i - from] =
            d->init_std != 0.0F ? d->init_std * normal(seed, stream, i) : d->init_value;
}

enum { FILL_ELEMENTS = 1 << 14 }; /* elements per task */

struct fill_job {
    const struct wf_param_desc *desc;
    uint64_t seed;
    float *out;
};

static void fill_task(void *arg, size_t task, unsigned worker)
{
    const struct fill_job *j = arg;
    size_t from = task * FILL_ELEMENTS;
    (void)worker;
    wf_param_fill(j->desc, j->seed, from,
                  wf_size_min(from + FILL_ELEMENTS, wf_param_size(j->desc)), j->out + from);
}

void wf_param_fill_all(const struct wf_param_desc *d, uint64_t seed, struct wf_pool *pool,
                       float *out)
{
    struct fill_job job = {d, seed, out};
    wf_pool_run(pool, (wf_param_size(d) + FILL_ELEMENTS - 1) / FILL_ELEMENTS, fill_task, &job);
}
