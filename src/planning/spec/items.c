/* Time and memory of the items of a model. */
#include "weft/spec.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/spec/params.h"
#include "planning/spec/training.h"

enum { BYTES_PER_ELEMENT = 4 };

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

static uint64_t head_elements(const struct weft_model *m)
{
    return 2 * (uint64_t)m->dim + (m->arch == WEFT_ARCH_GPT2 ? 4 : 3) +
           2 * (uint64_t)wf_model_n_blocks(m);
}

/* Sets the sizes of an item that saves `saved` bytes per token and recomputes `work` bytes. */
static enum weft_status fill_bytes(struct weft_item *item, size_t n_params, size_t n_factors,
                                   const struct weft_training *how, size_t tokens,
                                   uint64_t saved, uint64_t work, struct weft_error *err)
{
    WEFT_TRY(weft_state_bytes_init(&item->state, n_params, n_factors, how, err));
    item->state_bytes = weft_state_bytes_total(&item->state);
    if (!wf_size_mul(tokens, saved, &item->act_bytes) ||
        !wf_size_mul(tokens, work, &item->work_bytes))
        return WEFT_FAIL(err, WEFT_USAGE, "bytes overflow: %zu tokens", tokens);
    return WEFT_OK;
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

/* Sets the bytes of the embedding, of a layer of each kind, and of the head. */
static enum weft_status fill_kinds(const struct weft_model *m, size_t tokens,
                                   const struct weft_training *how,
                                   const struct wf_param_counts *params,
                                   struct weft_item *embedding,
                                   struct weft_item layer[WEFT_N_RECOMPUTE],
                                   struct weft_item *head, struct weft_error *err)
{
    uint64_t embedding_elements = m->residual_block_layers != 0 ? 1 + (uint64_t)m->dim : 1;
    size_t head_matrix = (size_t)m->vocab * m->dim; /* no overflow: parameters are counted */
    WEFT_TRY(fill_bytes(embedding, params->embedding, 0, how, tokens,
                        BYTES_PER_ELEMENT * embedding_elements, 0, err));
    for (int r = 0; r < WEFT_N_RECOMPUTE; r++) {
        uint64_t saved, work;
        wf_layer_token_bytes(m, how, (enum weft_recompute)r, &saved, &work);
        WEFT_TRY(fill_bytes(&layer[r], params->layer, params->layer_matrices, how, tokens,
                            saved, work, err));
    }
    return fill_bytes(head, params->head, head_matrix, how, tokens,
                      BYTES_PER_ELEMENT * head_elements(m), 0, err);
}

/* Sets the times of the three kinds of items without recomputation. */
static void fill_times(const struct weft_model *m, double tokens, uint32_t seq,
                       const struct wf_param_counts *params, struct weft_item *embedding,
                       struct weft_item *layer, struct weft_item *head)
{
    double linear = 2 * tokens * (double)params->layer_matrices;
    double scores = 4 * tokens * seq * m->dim;
    embedding->f = embedding->w = tokens * m->dim;
    layer->f = linear + scores;
    layer->i = linear + 2 * scores;
    layer->w = linear;
    head->f = head->i = head->w = 2 * tokens * m->dim * m->vocab;
}

enum weft_status weft_items_init_training(struct weft_items *items, const struct weft_model *m,
                                          uint32_t rows, uint32_t seq,
                                          const struct weft_training *how,
                                          struct weft_error *err)
{
    struct wf_param_counts params;
    WEFT_TRY(wf_model_item_params(m, &params, err));
    WEFT_TRY(check_micro(m, rows, seq, err));
    struct weft_item embedding = {0}, head = {0}, layer[WEFT_N_RECOMPUTE] = {{0}};
    struct weft_state_bytes shared;
    struct wf_scratch_bytes scratch;
    size_t tokens = (size_t)rows * seq;
    if (fill_kinds(m, tokens, how, &params, &embedding, layer, &head, NULL) != WEFT_OK ||
        weft_state_bytes_init(&shared, params.shared, 0, how, NULL) != WEFT_OK ||
        !wf_scratch_bytes_init(&scratch, m, how, tokens, seq))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "bytes overflow: %u rows of %u tokens are too much for dim %u, vocab %u", rows, seq,
            m->dim, m->vocab);

    for (int r = 0; r < WEFT_N_RECOMPUTE; r++) {
        fill_times(m, (double)tokens, seq, &params, &embedding, &layer[r], &head);
        layer[r].i += layer[r].f * weft_recompute_share(m, (enum weft_recompute)r, seq);
        layer[r].scratch_bytes = scratch.layer;
    }
    head.scratch_bytes = scratch.head;
    WEFT_TRY(weft_items_init_uniform(items, m->layers, layer[0], embedding, head, err));
    for (uint32_t l = 0; how != NULL && how->recompute != NULL && l < m->layers; l++)
        items->at[l + 1] = layer[how->recompute[l]];
    items->shared = shared;
    items->shared_bytes = weft_state_bytes_total(&shared);
    items->stage_bytes = scratch.stage;
    items->boundary_bytes = tokens * m->dim * BYTES_PER_ELEMENT; /* less than a layer saves */
    return WEFT_OK;
}

enum weft_status weft_items_init_model(struct weft_items *items, const struct weft_model *m,
                                       uint32_t rows, uint32_t seq, struct weft_error *err)
{
    return weft_items_init_training(items, m, rows, seq, NULL, err);
}
