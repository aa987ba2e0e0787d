/* Computes the expected results of a step by sequential calls of the stages. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "tracer_priv.h"

void tracer_feed_release(struct feed *f)
{
    for (uint32_t i = 0; i < TRACER_MICROS; i++) {
        free(f->inputs[i]);
        free(f->grads[i]);
        free(f->targets[i]);
        free(f->outputs[i]);
    }
}

bool tracer_feed_init(struct feed *f, const struct tracer_model *m)
{
    bool ok = true;
    struct tracer_model most = *m;
    *f = (struct feed){0};
    for (uint32_t i = 0; i < m->n_micros; i++) {
        most.rows[i] = m->vary_rows ? m->max_rows : m->rows[i];
        f->inputs[i] = calloc(tracer_in_words(&most, 0, i) + 1, sizeof(uint64_t));
        f->grads[i] = calloc(tracer_in_words(&most, 0, i) + 1, sizeof(uint64_t));
        f->targets[i] = calloc(most.rows[i] + 1, sizeof(struct tracer_target));
        f->outputs[i] = calloc(tracer_in_words(&most, m->n_stages, i) + 1, sizeof(uint64_t));
        ok = ok && f->inputs[i] != NULL && f->grads[i] != NULL && f->targets[i] != NULL &&
             f->outputs[i] != NULL;
    }
    return ok;
}

struct tracer_model tracer_model_at(const struct tracer_model *m, uint64_t step)
{
    struct tracer_model now = *m;
    for (uint32_t i = 0; m->vary_rows && i < m->n_micros; i++)
        now.rows[i] = 1 + wf_random_below(m->seed, 100 + step, i, m->max_rows);
    return now;
}

void tracer_feed_fill(struct feed *f, const struct tracer_model *m, uint64_t step)
{
    for (uint32_t i = 0; i < m->n_micros; i++) {
        tracer_expand(wf_random_u64(m->seed, step, i), f->inputs[i], tracer_in_words(m, 0, i));
        memset(f->grads[i], 0, tracer_in_words(m, 0, i) * sizeof(uint64_t));
        memset(f->outputs[i], 0, tracer_in_words(m, m->n_stages, i) * sizeof(uint64_t));
        for (uint32_t row = 0; row < m->rows[i]; row++)
            f->targets[i][row].class =
                (uint16_t)wf_random_below(m->seed, step, 1000 + i * 10 + row, 1000);
    }
}

uint64_t tracer_fold_grad(const struct feed *f, const struct tracer_model *m, uint32_t micro)
{
    return tracer_fold(0, f->grads[micro], tracer_in_words(m, 0, micro) * sizeof(uint64_t));
}

uint64_t tracer_fold_output(const uint64_t *output, const struct tracer_model *m,
                            uint32_t micro)
{
    return tracer_fold(1, output, tracer_in_words(m, m->n_stages, micro) * sizeof(uint64_t));
}

/* Buffers for one micro that passes all stages and returns. */
struct sequential {
    uint64_t *acts[TRACER_STAGES + 1], *slot[TRACER_STAGES], *output_grad;
    float *value[TRACER_STAGES];
    int64_t *grad[TRACER_STAGES];
    bool fresh[TRACER_STAGES];
};

static void *allocate(size_t n, size_t each)
{
    void *at = calloc(n + 1, each);
    if (at == NULL)
        abort();
    return at;
}

static void sequential_init(struct sequential *a, const struct tracer_model *m, uint32_t micro)
{
    for (uint32_t s = 0; s <= m->n_stages; s++)
        a->acts[s] = allocate(tracer_in_words(m, s, micro), sizeof(uint64_t));
    a->output_grad = allocate(tracer_in_words(m, m->n_stages, micro), sizeof(uint64_t));
    for (uint32_t s = 0; s < m->n_stages; s++)
        a->slot[s] = allocate(m->slot_words[s], sizeof(uint64_t));
    for (uint32_t b = 0; b < m->n_blocks; b++) {
        a->value[b] = allocate(m->row_elements * m->rows[micro], sizeof(float));
        a->grad[b] = allocate(m->row_elements * m->rows[micro], sizeof(int64_t));
        a->fresh[b] = true;
    }
}

static void sequential_release(struct sequential *a, const struct tracer_model *m)
{
    for (uint32_t s = 0; s <= m->n_stages; s++)
        free(a->acts[s]);
    free(a->output_grad);
    for (uint32_t s = 0; s < m->n_stages; s++)
        free(a->slot[s]);
    for (uint32_t b = 0; b < m->n_blocks; b++) {
        free(a->value[b]);
        free(a->grad[b]);
    }
}

/* Returns the blocks that a stage may read. */
static const struct weft_stage_blocks *visible_blocks(const struct tracer_model *m,
                                                      struct sequential *a, uint32_t stage,
                                                      struct weft_stage_blocks *out,
                                                      float **value, int64_t **grad)
{
    if (!tracer_has_blocks(m))
        return NULL;
    for (uint32_t b = 0; b < m->n_blocks; b++) {
        value[b] = m->finished_by[b] <= stage ? a->value[b] : NULL;
        grad[b] = m->finished_by[b] <= stage ? a->grad[b] : NULL;
    }
    *out = (struct weft_stage_blocks){value, grad, a->fresh};
    return out;
}

/* Calls the loss function, as an executor does after the forward of the last stage. */
static enum weft_status apply_loss(struct tracer *t, const struct feed *f, uint32_t micro,
                                   const struct sequential *a, struct results *out,
                                   struct weft_error *err)
{
    const struct tracer_model *m = t->model;
    if (!m->has_outputs)
        return WEFT_OK;
    const struct weft_loss_call call = {.micro = micro,
                                        .rows = m->rows[micro],
                                        .outputs = a->acts[m->n_stages],
                                        .targets = f->targets[micro],
                                        .scale = 0.25F,
                                        .loss = &out->loss[micro],
                                        .grad = a->output_grad};
    out->output[micro] = tracer_fold_output(a->acts[m->n_stages], m, micro);
    return tracer_loss(t, &call, err);
}

static enum weft_status run_sequential(struct tracer *t, struct feed *f, uint32_t micro,
                                       struct results *out, struct weft_error *err)
{
    const struct tracer_model *m = t->model;
    struct sequential a = {0};
    struct weft_stage_blocks blocks;
    float *value[TRACER_STAGES];
    int64_t *grad[TRACER_STAGES];
    enum weft_status st = WEFT_OK;

    sequential_init(&a, m, micro);
    for (uint32_t s = 0; st == WEFT_OK && s < m->n_stages; s++) {
        bool last = tracer_has_loss(m, s);
        t->own[s].slots[0].words = a.slot[s];
        struct weft_stage_call call = {.micro = micro,
                                       .rows = m->rows[micro],
                                       .in = s == 0 ? f->inputs[micro] : a.acts[s],
                                       .out = last ? NULL : a.acts[s + 1],
                                       .targets = last ? f->targets[micro] : NULL,
                                       .scale = 0.25F,
                                       .loss = last ? &out->loss[micro] : NULL,
                                       .train = true,
                                       .blocks =
                                           visible_blocks(m, &a, s, &blocks, value, grad)};
        st = t->stages[s].ops->forward(&t->own[s], &call, err);
    }

    if (st == WEFT_OK)
        st = apply_loss(t, f, micro, &a, out, err);

    for (uint32_t s = m->n_stages; st == WEFT_OK && s-- > 0;) {
        const uint64_t *above = tracer_is_last(m, s) ? a.output_grad : a.acts[s + 1];
        struct weft_stage_call call = {.micro = micro,
                                       .rows = m->rows[micro],
                                       .dout = tracer_has_loss(m, s) ? NULL : above,
                                       .din = s == 0 ? f->grads[micro] : a.acts[s],
                                       .blocks =
                                           visible_blocks(m, &a, s, &blocks, value, grad)};
        st = t->stages[s].ops->backward(&t->own[s], &call, err);
    }

    sequential_release(&a, m);
    return st;
}

enum weft_status tracer_expect(const struct tracer_model *model, uint64_t step,
                               struct results *out, struct weft_error *err)
{
    struct tracer_model m = tracer_model_at(model, step); /* without events */
    struct feed f;
    struct tracer t;
    m.event.on = m.delays = false;
    tracer_begin(&t, &m);
    enum weft_status st = WEFT_OK;
    *out = (struct results){0};
    if (!tracer_feed_init(&f, &m))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for inputs");
    else
        tracer_feed_fill(&f, &m, step);
    for (uint32_t i = 0; st == WEFT_OK && i < m.n_micros; i++) {
        st = run_sequential(&t, &f, i, out, err);
        out->input_grad[i] = tracer_fold_grad(&f, &m, i);
    }
    for (uint32_t s = 0; s < m.n_stages; s++)
        out->weight[s] = t.own[s].weight;
    tracer_feed_release(&f);
    return st;
}

void tracer_model_init(struct tracer_model *m, const struct weft_placement *place,
                       uint32_t max_rows, uint64_t seed)
{
    *m = (struct tracer_model){
        .n_stages = place->n_stages, .n_micros = place->n_micros, .seed = seed};
    if (m->n_stages > TRACER_STAGES || m->n_micros > TRACER_MICROS)
        abort();
    m->max_rows = max_rows;
    for (uint32_t s = 0; s <= m->n_stages; s++)
        m->words[s] = 1 + wf_random_below(seed, 1, s, 12);
    for (uint32_t s = 0; s < m->n_stages; s++) {
        m->slot_words[s] = 2 + wf_random_below(seed, 2, s, 40);
    }
    for (uint32_t i = 0; i < m->n_micros; i++)
        m->rows[i] = 1 + wf_random_below(seed, 3, i, max_rows);
}
