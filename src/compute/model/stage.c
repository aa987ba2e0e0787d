/* A stage at work: its values, and the calls of weft/stage.h. */
#include "compute/model/stage.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "compute/model/stage_priv.h"

struct weft_mat weft_tstage_field(const struct pass *p, uint32_t layer, enum field f)
{
    const struct weft_tstage *t = p->t;
    const struct place *at = &t->place[f];
    char *base = p->slot + layer * t->layout.layer_bytes;
    if (at->work)
        base = p->work + (p->work_whole ? layer * t->layout.work_bytes : 0);
    return (struct weft_mat){base + at->offset, at->ld, at->type};
}

float *weft_tstage_floats(const struct pass *p, uint32_t layer, enum field f)
{
    return weft_tstage_field(p, layer, f).at;
}

struct weft_param *weft_tstage_params(struct weft_tstage *t, size_t *n)
{
    *n = t->n_params;
    return t->params;
}

/* -- values --------------------------------------------------------------------------------- */

struct fill_job {
    struct weft_param *param;
    uint64_t seed;
};

enum { FILL = 1 << 14 };

static void fill_piece(void *arg, size_t task, unsigned worker)
{
    const struct fill_job *j = arg;
    size_t from = task * FILL, to = from + FILL < j->param->n ? from + FILL : j->param->n;
    (void)worker;
    weft_param_fill(&j->param->desc, j->seed, from, to, j->param->value + from);
}

void weft_tstage_start(struct weft_tstage *t, uint64_t seed)
{
    for (size_t i = 0; i < t->n_params; i++) {
        struct fill_job job = {&t->params[i], seed};
        weft_pool_run(t->spec.pool, (job.param->n + FILL - 1) / FILL, fill_piece, &job);
    }
    weft_tstage_pack(t);
}

void weft_tstage_pack_rows(struct weft_tstage *t, const struct weft_param *param, size_t row0,
                           size_t row1)
{
    (void)t;
    if (param->same.at != NULL)
        weft_pack_rows(&param->same, &param->turned, param->value, param->desc.shape[0],
                       param->desc.shape[1], row0, row1);
}

static void pack_piece(void *arg, size_t task, unsigned worker)
{
    const struct weft_param *param = arg;
    size_t row0 = task * WEFT_PANEL, rows = param->desc.shape[0];
    (void)worker;
    weft_tstage_pack_rows(NULL, param, row0,
                          row0 + WEFT_PANEL < rows ? row0 + WEFT_PANEL : rows);
}

void weft_tstage_pack(struct weft_tstage *t)
{
    for (size_t i = 0; i < t->n_params; i++)
        if (t->params[i].same.at != NULL)
            weft_pool_run(t->spec.pool,
                          (t->params[i].desc.shape[0] + WEFT_PANEL - 1) / WEFT_PANEL,
                          pack_piece, &t->params[i]);
}

void weft_tstage_step(struct weft_tstage *t)
{
    /* A step that failed may have left some. */
    for (uint32_t i = 0; i < t->spec.slots; i++)
        t->work_of[i] = -1;
    memset(t->work_used, 0, t->spec.split_slots * sizeof *t->work_used);
    for (size_t i = 0; i < t->n_params; i++)
        t->params[i].fresh = true;
}

struct weft_tstage_bytes weft_tstage_memory(const struct weft_tstage *t)
{
    return t->memory;
}

void weft_tstage_times(struct weft_tstage *t, uint64_t ns[WEFT_N_TIMERS])
{
    memcpy(ns, t->times, sizeof t->times);
    memset(t->times, 0, sizeof t->times);
}

/* -- the interface of weft/stage.h ---------------------------------------------------------- */

static char *slot_of(const struct weft_tstage *t, uint32_t slot)
{
    if (t->spec.slot_at != NULL)
        return t->spec.slot_at[slot];
    return weft_align(t->slots) + slot * t->layout.bytes;
}

static struct pass begin(struct weft_tstage *t, const struct weft_stage_call *call)
{
    struct pass p = {.t = t,
                     .call = call,
                     .tokens = (size_t)call->rows * t->spec.seq,
                     .slot = slot_of(t, call->slot),
                     .work = weft_align(t->work),
                     .g = t->g};
    if (call->din != NULL)
        p.g.at = call->din;
    return p;
}

struct weft_mat weft_layer_input(const struct pass *p, uint32_t layer)
{
    if (layer < p->t->n_layers)
        return weft_tstage_field(p, layer, F_X1);
    if (p->t->has_head) /* which finishes the last block */
        return p->t->mixed ? weft_block(p, p->t->n_blocks - 1) : weft_head_input(p);
    return (struct weft_mat){p->call->out, p->t->dim, WEFT_F32};
}

struct weft_mat weft_layer_output(const struct pass *p, uint32_t layer)
{
    const struct weft_tstage *t = p->t;
    uint32_t next = t->layer0 + layer + 1;
    if (t->mixed && !weft_is_open(t, next))
        return weft_block(p, next / t->spec.model.residual_block_layers);
    return weft_layer_input(p, layer + 1);
}

struct weft_mat weft_embedding_output(const struct pass *p)
{
    return p->t->mixed ? weft_block(p, 0) : weft_layer_input(p, 0);
}

static enum weft_status finish_output(struct pass *p, struct weft_error *err)
{
    if (!weft_has_output(p->t))
        memset(p->call->out, 0, p->tokens * p->t->dim * sizeof(float));
    return weft_check_output(p, err);
}

static enum weft_status stage_forward(void *self, const struct weft_stage_call *call,
                                      struct weft_error *err)
{
    struct weft_tstage *t = self;
    struct pass p = begin(t, call);
    WEFT_TRY(weft_check_blocks(&p, false, err));
    if (t->has_embedding)
        weft_embedding_forward(&p, call->in, weft_embedding_output(&p));
    else if (weft_has_input(t))
        weft_convert_rows(&p, weft_layer_input(&p, 0),
                          (struct weft_mat){(void *)call->in, t->dim, WEFT_F32}, t->dim);
    for (uint32_t l = 0; l < t->n_layers; l++)
        weft_layer_forward(&p, l, weft_layer_output(&p, l));
    if (!t->has_head)
        return finish_output(&p, err);
    WEFT_TRY(weft_head_forward(&p, err));
    return isfinite(*call->loss) ? WEFT_OK : weft_find_bad(&p, err);
}

/* Memory for what is computed again, kept until backward_weight. */
static enum weft_status take_work(struct pass *p, struct weft_error *err)
{
    struct weft_tstage *t = p->t;
    if (t->spec.recompute == WEFT_RECOMPUTE_NONE)
        return WEFT_OK;
    uint32_t w = 0;
    while (w < t->spec.split_slots && t->work_used[w])
        w++;
    if (w == t->spec.split_slots)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "more than %u micros wait for their weight gradients",
                         t->spec.split_slots);
    t->work_used[w] = true;
    t->work_of[p->call->slot] = (int)w;
    p->work += t->layout.work_bytes * (1 + (size_t)w * t->n_layers);
    p->work_whole = true;
    return WEFT_OK;
}

static void find_work(struct pass *p)
{
    struct weft_tstage *t = p->t;
    if (t->spec.recompute == WEFT_RECOMPUTE_NONE)
        return;
    size_t w = (size_t)t->work_of[p->call->slot];
    p->work += t->layout.work_bytes * (1 + w * t->n_layers);
    p->work_whole = true;
    t->work_used[w] = false;
    t->work_of[p->call->slot] = -1;
}

/* The gradient that comes in, before any layer. */
static enum weft_status begin_backward(struct pass *p, struct weft_error *err)
{
    struct weft_tstage *t = p->t;
    for (size_t j = 0; t->whole && j < t->n_blocks; j++)
        t->block_fresh[j] = true;
    if (t->has_head)
        return weft_head_backward(p, err);
    if (!weft_has_output(t)) {
        weft_block_gradient(p, t->blocks_out - 1);
        return WEFT_OK;
    }
    if (p->call->dout != p->g.at)
        weft_convert_rows(p, p->g, (struct weft_mat){(void *)p->call->dout, t->dim, WEFT_F32},
                          t->dim);
    return WEFT_OK;
}

static enum weft_status end_backward(struct pass *p, struct weft_error *err)
{
    return p->t->has_embedding ? weft_embedding_backward(p, err) : WEFT_OK;
}

static enum weft_status stage_backward_input(void *self, const struct weft_stage_call *call,
                                             struct weft_error *err)
{
    struct weft_tstage *t = self;
    struct pass p = begin(t, call);
    WEFT_TRY(weft_check_blocks(&p, true, err));
    WEFT_TRY(take_work(&p, err));
    WEFT_TRY(begin_backward(&p, err));
    for (uint32_t l = t->n_layers; l-- > 0;) {
        weft_layer_again(&p, l);
        WEFT_TRY(weft_layer_backward_input(&p, l, err));
    }
    return end_backward(&p, err);
}

static enum weft_status stage_backward_weight(void *self, const struct weft_stage_call *call,
                                              struct weft_error *err)
{
    struct weft_tstage *t = self;
    struct pass p = begin(t, call);
    find_work(&p);
    for (uint32_t l = t->n_layers; l-- > 0;)
        WEFT_TRY(weft_layer_backward_weight(&p, l, err));
    return WEFT_OK;
}

static enum weft_status stage_backward(void *self, const struct weft_stage_call *call,
                                       struct weft_error *err)
{
    struct weft_tstage *t = self;
    struct pass p = begin(t, call);
    WEFT_TRY(weft_check_blocks(&p, true, err));
    WEFT_TRY(begin_backward(&p, err));
    for (uint32_t l = t->n_layers; l-- > 0;) {
        weft_layer_again(&p, l);
        WEFT_TRY(weft_layer_backward_input(&p, l, err));
        WEFT_TRY(weft_layer_backward_weight(&p, l, err));
    }
    return end_backward(&p, err);
}

struct weft_stage weft_tstage_stage(struct weft_tstage *t)
{
    static const struct weft_stage_ops ops = {stage_forward, stage_backward_input,
                                              stage_backward_weight, stage_backward};
    size_t row = t->spec.seq * t->dim * sizeof(float);
    return (struct weft_stage){.ops = &ops,
                               .self = t,
                               .in_bytes = t->has_embedding ? 0 : row,
                               .out_bytes = t->has_head ? 0 : row};
}
