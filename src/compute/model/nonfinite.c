/* Finds the origin of a non-finite value in a forward. */
#include <stdio.h>

#include "base/error.h"
#include "base/size.h"
#include "compute/model/stage_priv.h"

static const struct {
    enum stage_field field;
    const char *what;
} watched[] = {{FIELD_X1, "the input"},
               {FIELD_H1, "the mix before attention"},
               {FIELD_A1, "the norm before attention"},
               {FIELD_QKV, "a query, key or value"},
               {FIELD_ATT, "attention's output"},
               {FIELD_X2, "the stream after attention"},
               {FIELD_H2, "the mix before the MLP"},
               {FIELD_A2, "the norm before the MLP"},
               {FIELD_GATE, "the MLP's gate"},
               {FIELD_UP, "the MLP's pre-activation"},
               {FIELD_ACT, "the MLP's activation"}};

static size_t field_cols(const struct wf_tstage *t, enum stage_field f)
{
    if (f == FIELD_QKV)
        return t->qkv_cols;
    return f == FIELD_UP || f == FIELD_ACT || f == FIELD_GATE ? t->ffn : t->dim;
}

static const char *symptom(const struct wf_tstage *t)
{
    return t->has_head ? "non-finite loss" : "non-finite activation";
}

/* Checks the inputs of the stage. */
static enum weft_status find_nonfinite_input(const struct pass *p, struct weft_error *err)
{
    const struct wf_tstage *t = p->t;
    char reader[32] = "the head";
    if (t->n_layers != 0)
        snprintf(reader, sizeof reader, "layer %u", t->layer0);

    struct wf_mat in = {(void *)p->call->in, t->dim, WF_DTYPE_F32};
    size_t at =
        wf_tstage_has_input(t) ? t->ops->find_nonfinite(in, p->tokens, t->dim) : SIZE_MAX;
    if (at != SIZE_MAX)
        return WEFT_FAIL(
            err, WEFT_NUMERIC,
            "%s: the input of %s from the previous stage is non-finite at token %zu",
            symptom(t), reader, at / t->dim);

    for (size_t j = 0; j < t->blocks_in; j++) {
        at = t->ops->find_nonfinite(wf_tstage_block(p, j), p->tokens, t->dim);
        if (at != SIZE_MAX)
            return WEFT_FAIL(err, WEFT_NUMERIC,
                             "%s: block %zu, an input of %s, is non-finite at token %zu",
                             symptom(t), j, reader, at / t->dim);
    }
    return WEFT_OK;
}

/* Checks the parameters, which are the most frequent origin. */
static enum weft_status find_nonfinite_value(const struct wf_tstage *t, struct weft_error *err)
{
    for (size_t i = 0; i < t->n_params; i++) {
        const struct wf_param *p = &t->params[i];
        struct wf_mat m = {p->value, p->desc.shape[1], WF_DTYPE_F32};
        size_t at = t->ops->find_nonfinite(m, p->desc.shape[0], p->desc.shape[1]);
        if (at != SIZE_MAX)
            return WEFT_FAIL(err, WEFT_NUMERIC, "%s: %s is non-finite at element %zu",
                             symptom(t), p->desc.name, at);
    }
    return WEFT_OK;
}

static enum weft_status find_nonfinite_in_layer(struct pass *p, uint32_t layer,
                                                struct weft_error *err)
{
    const struct wf_tstage *t = p->t;
    wf_layer_recompute(p, layer); /* restores the fields that the forward did not store */
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) {
        enum stage_field f = watched[i].field;
        if (!t->fields[f].present || (f == FIELD_X1 && wf_layer_opens_block(p, layer)))
            continue;
        size_t cols = field_cols(t, f);
        size_t at = t->ops->find_nonfinite(wf_tstage_field(p, layer, f), p->tokens, cols);
        if (at != SIZE_MAX)
            return WEFT_FAIL(err, WEFT_NUMERIC, "%s: in layer %u %s is non-finite at token %zu",
                             symptom(t), t->layer0 + layer, watched[i].what, at / cols);
    }

    size_t at = t->ops->find_nonfinite(wf_layer_output(p, layer), p->tokens, t->dim);
    if (at != SIZE_MAX)
        return WEFT_FAIL(err, WEFT_NUMERIC,
                         "%s: the output of layer %u is non-finite at token %zu", symptom(t),
                         t->layer0 + layer, at / t->dim);
    return WEFT_OK;
}

static enum weft_status find_nonfinite_embedding(const struct pass *p, struct weft_error *err)
{
    const struct wf_tstage *t = p->t;
    if (!t->has_embedding)
        return WEFT_OK;
    size_t at = t->ops->find_nonfinite(wf_embedding_output(p), p->tokens, t->dim);
    if (at == SIZE_MAX)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_NUMERIC,
                     "%s: the output of the embedding is non-finite at token %zu", symptom(t),
                     at / t->dim);
}

enum weft_status wf_tstage_find_nonfinite(struct pass *p, struct weft_error *err)
{
    const struct wf_tstage *t = p->t;
    WEFT_TRY(find_nonfinite_input(p, err));
    WEFT_TRY(find_nonfinite_value(t, err));
    WEFT_TRY(find_nonfinite_embedding(p, err));
    for (uint32_t l = 0; l < t->n_layers; l++)
        WEFT_TRY(find_nonfinite_in_layer(p, l, err));
    return WEFT_FAIL(err, WEFT_NUMERIC, "%s: %s", symptom(t),
                     t->has_head ? "the logits of the head are too large"
                                 : "all inputs and weights are finite");
}

/* -- the check of every forward ------------------------------------------------------------ */

struct finite_job {
    const struct pass *p;
    struct wf_mat x;
    bool bad[WF_MAX_THREADS];
};

static void check_rows(void *arg, size_t task, unsigned worker)
{
    struct finite_job *j = arg;
    size_t row = task * ROW_TILE, n = wf_size_min(ROW_TILE, j->p->tokens - row);
    const struct wf_tstage *t = j->p->t;
    j->bad[worker] |= t->ops->find_nonfinite(wf_mat_at(j->x, row, 0), n, t->dim) != SIZE_MAX;
}

static bool is_finite(const struct pass *p, struct wf_mat x)
{
    struct finite_job job = {.p = p, .x = x};
    bool bad = false;
    wf_pool_run(p->t->spec.pool, (p->tokens + ROW_TILE - 1) / ROW_TILE, check_rows, &job);
    for (unsigned w = 0; w < wf_pool_threads(p->t->spec.pool); w++)
        bad |= job.bad[w];
    return !bad;
}

enum weft_status wf_tstage_check_output(struct pass *p, struct weft_error *err)
{
    struct wf_tstage *t = p->t;
    int64_t start = wf_clock_ns();
    bool finite = !wf_tstage_has_output(t) ||
                  is_finite(p, (struct wf_mat){p->call->out, t->dim, WF_DTYPE_F32});
    for (size_t j = t->blocks_in; j < t->blocks_out; j++)
        finite = finite && is_finite(p, wf_tstage_block(p, j));
    wf_tstage_add_time(t, WF_TIMER_OTHER, start);
    return finite ? WEFT_OK : wf_tstage_find_nonfinite(p, err);
}
