/* Time and memory of the items of a model. */
#include "weft/spec.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/spec/params.h"

/* A parameter has a weight, an exact gradient sum, and two moments of AdamW.  A matrix that is
 * used in products is also stored packed in two forms: as it is, and transposed. */
enum { BYTES_PER_PARAM = 4 + 8 + 8, BYTES_PER_FACTOR = 4 + 4, BYTES_PER_ELEMENT = 4 };

static const char *item_name(const struct weft_items *items, size_t i)
{
    return i == 0 ? "the embedding" : i == items->n - 1 ? "the head" : "a layer";
}

static bool is_time(double t)
{
    return isfinite(t) && t >= 0;
}

enum weft_status weft_items_check(const struct weft_items *items, struct weft_error *err)
{
    if (items->n < 3)
        return WEFT_FAIL(err, WEFT_USAGE, "there are 0 layers; give at least 1");
    if (items->n - 2 > WEFT_MAX_LAYERS)
        return WEFT_FAIL(err, WEFT_USAGE, "there are %zu layers; give at most %d", items->n - 2,
                         WEFT_MAX_LAYERS);
    for (size_t i = 0; i < items->n; i++) {
        const struct weft_item *a = &items->at[i];
        if (!is_time(a->f) || !is_time(a->i) || !is_time(a->w))
            return WEFT_FAIL(
                err, WEFT_USAGE,
                "item %zu (%s) has times f=%g i=%g w=%g; give finite times, at least 0", i,
                item_name(items, i), a->f, a->i, a->w);
    }
    if (items->shared_bytes > items->at[0].state_bytes ||
        items->shared_bytes > items->at[items->n - 1].state_bytes)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%zu shared bytes exceed the state of the embedding or the head",
                         items->shared_bytes);
    return WEFT_OK;
}

enum weft_status weft_items_init_uniform(struct weft_items *items, uint32_t n_layers,
                                         struct weft_item layer, struct weft_item embedding,
                                         struct weft_item head, struct weft_error *err)
{
    struct weft_item kinds[3] = {embedding, layer, head};
    struct weft_items all = {.n = (size_t)n_layers + 2, .at = kinds};
    if (n_layers == 0 || n_layers > WEFT_MAX_LAYERS)
        return weft_items_check(&all, err); /* always fails, because of the number of items */
    WEFT_TRY(weft_items_check(&(struct weft_items){.n = 3, .at = kinds}, err));
    all.at = malloc(all.n * sizeof *all.at);
    if (all.at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu items", all.n);
    for (size_t i = 0; i < all.n; i++)
        all.at[i] = layer;
    all.at[0] = embedding;
    all.at[all.n - 1] = head;
    *items = all;
    return WEFT_OK;
}

void weft_items_release(struct weft_items *items)
{
    free(items->at);
    *items = (struct weft_items){0};
}

/* Returns the number of saved elements per token, as in the table in weft/spec.h. */
static uint64_t layer_elements(const struct weft_model *m)
{
    uint64_t qkv = m->dim + 2 * (uint64_t)(m->dim / m->heads) * m->kv_heads;
    bool gpt2 = m->arch == WEFT_ARCH_GPT2;
    uint64_t plain = 5 * (uint64_t)m->dim + qkv + (gpt2 ? 2 : 3) * (uint64_t)m->ffn + m->heads +
                     (gpt2 ? 4 : 2);
    if (m->residual_block_layers == 0)
        return plain;
    /* Elements of two mixes, their weights, and this layer's share of the sum of its block. */
    uint64_t blocks = wf_model_n_blocks(m);
    return plain + 2 * (uint64_t)m->dim + 4 * (blocks + 1) + m->dim * (blocks - 1) / m->layers;
}

static uint64_t head_elements(const struct weft_model *m)
{
    return 2 * (uint64_t)m->dim + (m->arch == WEFT_ARCH_GPT2 ? 4 : 3) +
           2 * (uint64_t)wf_model_n_blocks(m);
}

static bool fill_bytes(struct weft_item *item, size_t n_params, size_t n_factors, size_t tokens,
                       uint64_t elements)
{
    size_t packed;
    return wf_size_mul(n_params, BYTES_PER_PARAM, &item->state_bytes) &&
           wf_size_mul(n_factors, BYTES_PER_FACTOR, &packed) &&
           wf_size_add(item->state_bytes, packed, &item->state_bytes) &&
           wf_size_mul(tokens, elements, &item->act_bytes) &&
           wf_size_mul(item->act_bytes, BYTES_PER_ELEMENT, &item->act_bytes);
}

static enum weft_status check_micro(const struct weft_model *m, uint32_t rows, uint32_t seq,
                                    struct weft_error *err)
{
    if (rows == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "a micro-batch has 0 rows; give at least 1 sequence");
    if (seq == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "seq is 0; give the tokens per sequence, 1 to %u",
                         m->ctx);
    if (seq > m->ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "seq %u is longer than the model's ctx %u; give at most %u", seq,
                         m->ctx, m->ctx);
    return WEFT_OK;
}

enum weft_status weft_items_init_model(struct weft_items *items, const struct weft_model *m,
                                       uint32_t rows, uint32_t seq, struct weft_error *err)
{
    struct wf_param_counts params;
    WEFT_TRY(wf_model_item_params(m, &params, err));
    WEFT_TRY(check_micro(m, rows, seq, err));
    size_t tokens = (size_t)rows * seq, shared_bytes;
    struct weft_item embedding, layer, head;

    uint64_t embedding_elements = m->residual_block_layers != 0 ? 1 + (uint64_t)m->dim : 1;
    size_t head_matrix = (size_t)m->vocab * m->dim; /* no overflow: parameters are counted */
    if (!fill_bytes(&embedding, params.embedding, 0, tokens, embedding_elements) ||
        !fill_bytes(&layer, params.layer, params.layer_matrices, tokens, layer_elements(m)) ||
        !fill_bytes(&head, params.head, head_matrix, tokens, head_elements(m)) ||
        !wf_size_mul(params.shared, BYTES_PER_PARAM, &shared_bytes))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "bytes overflow: %u rows of %u tokens are too much for dim %u, vocab %u", rows, seq,
            m->dim, m->vocab);

    double n = (double)tokens, linear = 2 * n * (double)params.layer_matrices;
    double scores = 4 * n * seq * m->dim;
    embedding.f = embedding.w = n * m->dim;
    embedding.i = 0;
    layer.f = linear + scores;
    layer.i = linear + 2 * scores;
    layer.w = linear;
    head.f = head.i = head.w = 2 * n * m->dim * m->vocab;

    WEFT_TRY(weft_items_init_uniform(items, m->layers, layer, embedding, head, err));
    items->shared_bytes = shared_bytes;
    return WEFT_OK;
}
