/* The values of a stage's parameters, and the calls of weft/stage.h. */
#include "compute/model/stage.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "compute/model/stage_priv.h"

struct wf_mat wf_tstage_field(const struct pass *p, uint32_t layer, enum stage_field f)
{
    const struct wf_tstage *t = p->t;
    const struct field_layout *at = &t->fields[f];
    const struct layer_place *place = &t->layers[layer];
    char *base = p->slot + place->stored;
    if (at->in[place->recompute].recomputed)
        base = p->work + (p->work_whole ? place->work : 0);
    return (struct wf_mat){base + at->in[place->recompute].offset, at->ld, at->type};
}

float *wf_tstage_floats(const struct pass *p, uint32_t layer, enum stage_field f)
{
    return wf_tstage_field(p, layer, f).at;
}

struct wf_param *wf_tstage_params(struct wf_tstage *t, size_t *n)
{
    *n = t->n_params;
    return t->params;
}

/* -- values -------------------------------------------------------------------------------- */

void wf_tstage_init_weights(struct wf_tstage *t, uint64_t seed)
{
    for (size_t i = 0; i < t->n_params; i++)
        wf_param_fill_all(&t->params[i].desc, seed, t->spec.pool, t->params[i].value);
    wf_tstage_pack(t);
}

void wf_tstage_pack_rows(struct wf_tstage *t, const struct wf_param *param, size_t row0,
                         size_t row1)
{
    (void)t;
    if (param->direct.at != NULL)
        wf_pack_rows(&param->direct, &param->transposed, param->value, param->desc.shape[0],
                     param->desc.shape[1], row0, row1);
}

static void pack_piece(void *arg, size_t task, unsigned worker)
{
    const struct wf_param *param = arg;
    size_t row0 = task * WF_PANEL, rows = param->desc.shape[0];
    (void)worker;
    wf_tstage_pack_rows(NULL, param, row0, row0 + WF_PANEL < rows ? row0 + WF_PANEL : rows);
}

void wf_tstage_pack(struct wf_tstage *t)
{
    for (size_t i = 0; i < t->n_params; i++)
        if (t->params[i].direct.at != NULL)
            wf_pool_run(t->spec.pool, (t->params[i].desc.shape[0] + WF_PANEL - 1) / WF_PANEL,
                        pack_piece, &t->params[i]);
}

void wf_tstage_begin_step(struct wf_tstage *t)
{
    /* Release split slots that a failed step has left in use. */
    for (uint32_t i = 0; i < t->spec.slots; i++)
        t->work_index[i] = -1;
    memset(t->work_used, 0, t->spec.split_slots * sizeof *t->work_used);
    for (size_t i = 0; i < t->n_params; i++)
        t->params[i].fresh = true;
}

struct wf_tstage_bytes wf_tstage_memory(const struct wf_tstage *t)
{
    return t->memory;
}

void wf_tstage_times(struct wf_tstage *t, uint64_t ns[WF_N_TIMERS])
{
    memcpy(ns, t->times, sizeof t->times);
    memset(t->times, 0, sizeof t->times);
}

/* -- the interface of weft/stage.h --------------------------------------------------------- */

static char *slot_of(const struct wf_tstage *t, uint32_t slot)
{
    if (t->spec.slot_at != NULL)
        return t->spec.slot_at[slot];
    return wf_align(t->slots) + slot * t->layout.bytes;
}

static struct pass begin(struct wf_tstage *t, const struct weft_stage_call *call)
{
    struct pass p = {.t = t,
                     .call = call,
                     .tokens = (size_t)call->rows * t->spec.seq,
                     .slot = slot_of(t, call->slot),
                     .work = wf_align(t->work),
                     .g = t->g};
    if (call->din != NULL)
        p.g.at = call->din;
    return p;
}

struct wf_mat wf_layer_input(const struct pass *p, uint32_t layer)
{
    if (layer < p->t->n_layers)
        return wf_tstage_field(p, layer, FIELD_X1);
    if (p->t->has_head) /* the head finishes the last block */
        return p->t->block_mix ? wf_tstage_block(p, p->t->n_blocks - 1) : wf_head_input(p);
    return (struct wf_mat){p->call->out, p->t->dim, WF_DTYPE_F32};
}

struct wf_mat wf_layer_output(const struct pass *p, uint32_t layer)
{
    const struct wf_tstage *t = p->t;
    uint32_t next = t->layer0 + layer + 1;
    if (t->block_mix && !wf_layer_is_block_open(t, next))
        return wf_tstage_block(p, next / t->spec.model.residual_block_layers);
    return wf_layer_input(p, layer + 1);
}

struct wf_mat wf_embedding_output(const struct pass *p)
{
    return p->t->block_mix ? wf_tstage_block(p, 0) : wf_layer_input(p, 0);
}

static enum weft_status finish_output(struct pass *p, struct weft_error *err)
{
    if (!wf_tstage_has_output(p->t))
        memset(p->call->out, 0, p->tokens * p->t->dim * sizeof(float));
    return wf_tstage_check_output(p, err);
}

static enum weft_status stage_forward(void *self, const struct weft_stage_call *call,
                                      struct weft_error *err)
{
    struct wf_tstage *t = self;
    struct pass p = begin(t, call);
    WEFT_TRY(wf_tstage_check_blocks(&p, false, err));

    if (t->has_embedding)
        wf_embedding_forward(&p, call->in, wf_embedding_output(&p));
    else if (wf_tstage_has_input(t))
        wf_convert_rows(&p, wf_layer_input(&p, 0),
                        (struct wf_mat){(void *)call->in, t->dim, WF_DTYPE_F32}, t->dim);
    for (uint32_t l = 0; l < t->n_layers; l++)
        wf_layer_forward(&p, l, wf_layer_output(&p, l));

    if (!t->has_head)
        return finish_output(&p, err);
    WEFT_TRY(wf_head_forward(&p, err));
    return isfinite(*call->loss) ? WEFT_OK : wf_tstage_find_nonfinite(&p, err);
}

/* Reserves a split slot for recomputed fields until backward_weight releases it. */
static enum weft_status take_work(struct pass *p, struct weft_error *err)
{
    struct wf_tstage *t = p->t;
    if (t->layout.all_work == 0)
        return WEFT_OK;
    uint32_t w = 0;
    while (w < t->spec.split_slots && t->work_used[w])
        w++;
    if (w == t->spec.split_slots)
        return WEFT_FAIL(
            err, WEFT_INTERNAL,
            "stage: more than %u micro-batches between backward_input and backward_weight",
            t->spec.split_slots);

    t->work_used[w] = true;
    t->work_index[p->call->slot] = (int)w;
    p->work += t->layout.max_work + w * t->layout.all_work;
    p->work_whole = true;
    return WEFT_OK;
}

static void release_work(struct pass *p)
{
    struct wf_tstage *t = p->t;
    if (t->layout.all_work == 0)
        return;
    size_t w = (size_t)t->work_index[p->call->slot];
    p->work += t->layout.max_work + w * t->layout.all_work;
    p->work_whole = true;
    t->work_used[w] = false;
    t->work_index[p->call->slot] = -1;
}

/* Sets p->g to the incoming gradient. */
static enum weft_status begin_backward(struct pass *p, struct weft_error *err)
{
    struct wf_tstage *t = p->t;
    for (size_t j = 0; t->whole && j < t->n_blocks; j++)
        t->block_fresh[j] = true;
    if (t->has_head)
        return wf_head_backward(p, err);
    if (!wf_tstage_has_output(t)) {
        wf_block_load_grad(p, t->blocks_out - 1);
        return WEFT_OK;
    }
    if (p->call->dout != p->g.at)
        wf_convert_rows(p, p->g, (struct wf_mat){(void *)p->call->dout, t->dim, WF_DTYPE_F32},
                        t->dim);
    return WEFT_OK;
}

static enum weft_status end_backward(struct pass *p, struct weft_error *err)
{
    return p->t->has_embedding ? wf_embedding_backward(p, err) : WEFT_OK;
}

static enum weft_status stage_backward_input(void *self, const struct weft_stage_call *call,
                                             struct weft_error *err)
{
    struct wf_tstage *t = self;
    struct pass p = begin(t, call);
    WEFT_TRY(wf_tstage_check_blocks(&p, true, err));
    WEFT_TRY(take_work(&p, err));
    WEFT_TRY(begin_backward(&p, err));

    for (uint32_t l = t->n_layers; l-- > 0;) {
        wf_layer_recompute(&p, l);
        WEFT_TRY(wf_layer_backward_input(&p, l, err));
    }
    return end_backward(&p, err);
}

static enum weft_status stage_backward_weight(void *self, const struct weft_stage_call *call,
                                              struct weft_error *err)
{
    struct wf_tstage *t = self;
    struct pass p = begin(t, call);
    release_work(&p);
    for (uint32_t l = t->n_layers; l-- > 0;)
        WEFT_TRY(wf_layer_backward_weight(&p, l, err));
    return WEFT_OK;
}

static enum weft_status stage_backward(void *self, const struct weft_stage_call *call,
                                       struct weft_error *err)
{
    struct wf_tstage *t = self;
    struct pass p = begin(t, call);
    WEFT_TRY(wf_tstage_check_blocks(&p, true, err));
    WEFT_TRY(begin_backward(&p, err));
    for (uint32_t l = t->n_layers; l-- > 0;) {
        wf_layer_recompute(&p, l);
        WEFT_TRY(wf_layer_backward_input(&p, l, err));
        WEFT_TRY(wf_layer_backward_weight(&p, l, err));
    }
    return end_backward(&p, err);
}

static size_t stage_param_grads(void *self, struct weft_param_grad *out, size_t max)
{
    const struct wf_tstage *t = self;
    for (size_t i = 0; i < t->n_params && i < max; i++) {
        const struct wf_param *p = &t->params[i];
        bool exact = p->exact != NULL;
        const void *grad = exact ? (const void *)p->exact : p->fast;
        out[i] = (struct weft_param_grad){.name = p->desc.name,
                                          .count = p->n,
                                          .dtype = exact ? WEFT_DTYPE_I64 : WEFT_DTYPE_F32,
                                          .unit = exact ? ldexp(1, -WF_EXACT_BITS) : 1,
                                          .grad = p->fresh ? NULL : grad};
    }
    return t->n_params;
}

struct weft_stage wf_tstage_stage(struct wf_tstage *t)
{
    static const struct weft_stage_ops ops = {
        .forward = stage_forward,
        .backward_input = stage_backward_input,
        .backward_weight = stage_backward_weight,
        .backward = stage_backward,
        .param_grads = stage_param_grads,
    };
    size_t row = t->spec.seq * t->dim * sizeof(float);
    return (struct weft_stage){.ops = &ops,
                               .self = t,
                               .in_bytes = t->has_embedding ? 0 : row,
                               .out_bytes = t->has_head ? 0 : row,
                               .in = t->has_embedding ? NULL : &t->boundary,
                               .out = t->has_head ? NULL : &t->boundary,
                               .n_in = !t->has_embedding,
                               .n_out = !t->has_head};
}
