/* The first and last item of a model: the embedding, and the head with the loss. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "compute/model/stage_priv.h"

/* -- embedding ----------------------------------------------------------------------------- */

struct embed_job {
    struct pass *p;
    const int32_t *tokens;
    struct wf_mat x;
    const struct wf_param *wte, *wpe;
};

static void embed_rows(void *arg, size_t task, unsigned worker)
{
    const struct embed_job *j = arg;
    const struct wf_tstage *t = j->p->t;
    size_t row = task * ROW_TILE;
    (void)worker;
    t->ops->embed(wf_mat_at(j->x, row, 0), j->wte->value, j->tokens + row,
                  j->wpe != NULL ? j->wpe->value : NULL, t->positions + row,
                  wf_size_min(ROW_TILE, j->p->tokens - row), t->dim);
}

void wf_embedding_forward(struct pass *p, const int32_t *tokens, struct wf_mat out)
{
    int64_t start = wf_clock_ns();
    memcpy(p->slot + p->t->layout.tokens, tokens, p->tokens * sizeof *tokens);
    struct embed_job job = {p, tokens, out, wf_tstage_param(p->t, 0, WF_ROLE_TOKEN_EMBEDDING),
                            wf_tstage_param(p->t, 0, WF_ROLE_POSITION_EMBEDDING)};
    wf_pool_run(p->t->spec.pool, (p->tokens + ROW_TILE - 1) / ROW_TILE, embed_rows, &job);
    wf_tstage_add_time(p->t, WF_TIMER_OTHER, start);
}

struct scatter_job {
    struct pass *p;
    const int32_t *ids;
    struct wf_sink sink;
    bool bad[WF_MAX_THREADS];
};

static void scatter_cols(void *arg, size_t task, unsigned worker)
{
    struct scatter_job *j = arg;
    const struct wf_tstage *t = j->p->t;
    size_t col = task * COL_TILE;
    j->bad[worker] |= t->ops->scatter(j->sink, t->dim, j->ids, j->p->g, j->p->tokens, col,
                                      wf_size_min(col + COL_TILE, t->dim));
}

enum { CLEAR_BYTES = 1 << 20 };

static void clear_piece(void *arg, size_t task, unsigned worker)
{
    const struct wf_param *param = arg;
    size_t bytes = param->n * (param->exact != NULL ? 8 : 4), from = task * CLEAR_BYTES;
    char *at = param->exact != NULL ? (char *)param->exact : (char *)param->fast;
    (void)worker;
    memset(at + from, 0, wf_size_min(CLEAR_BYTES, bytes - from));
}

static void clear_gradient(struct wf_tstage *t, struct wf_param *param)
{
    size_t bytes = param->n * (param->exact != NULL ? 8 : 4);
    wf_pool_run(t->spec.pool, (bytes + CLEAR_BYTES - 1) / CLEAR_BYTES, clear_piece, param);
    param->fresh = false;
}

/* Adds rows to the gradient of a table.  Only few rows are written, so a fresh gradient must be
 * zeroed first. */
static enum weft_status add_scatter(struct pass *p, struct wf_param *param, const int32_t *ids,
                                    struct weft_error *err)
{
    struct wf_tstage *t = p->t;
    if (param->fresh)
        clear_gradient(t, param);
    struct scatter_job job = {.p = p, .ids = ids, .sink = wf_tstage_sink(param)};
    wf_pool_run(t->spec.pool, (t->dim + COL_TILE - 1) / COL_TILE, scatter_cols, &job);
    for (unsigned w = 0; w < wf_pool_threads(t->spec.pool); w++)
        if (job.bad[w])
            return wf_grad_fail_range(param, err);
    return WEFT_OK;
}

enum weft_status wf_embedding_backward(struct pass *p, struct weft_error *err)
{
    int64_t start = wf_clock_ns();
    struct wf_param *wpe = wf_tstage_param(p->t, 0, WF_ROLE_POSITION_EMBEDDING);
    const int32_t *tokens = (const int32_t *)(p->slot + p->t->layout.tokens);
    WEFT_TRY(add_scatter(p, wf_tstage_param(p->t, 0, WF_ROLE_TOKEN_EMBEDDING), tokens, err));
    if (wpe != NULL)
        WEFT_TRY(add_scatter(p, wpe, p->t->positions, err));
    wf_tstage_add_time(p->t, WF_TIMER_OTHER, start);
    return WEFT_OK;
}

/* -- head ---------------------------------------------------------------------------------- */

static uint32_t head_item(const struct wf_tstage *t)
{
    return t->spec.model.layers + 1;
}

static struct wf_param *head_weight(struct wf_tstage *t)
{
    struct wf_param *own = wf_tstage_param(t, head_item(t), WF_ROLE_HEAD);
    return own != NULL ? own : wf_tstage_param(t, 0, WF_ROLE_TOKEN_EMBEDDING);
}

static float *head_floats(const struct pass *p, size_t offset)
{
    return (float *)(p->slot + offset);
}

static struct wf_mat head_mat(const struct pass *p, size_t offset)
{
    return (struct wf_mat){p->slot + offset, p->t->dim, WF_DTYPE_F32};
}

struct wf_mat wf_head_input(const struct pass *p)
{
    return head_mat(p, p->t->layout.head_x);
}

struct loss_job {
    struct wf_tstage *t;
    size_t first, rows;
    const int32_t *targets;
    float scale;
    bool train;
};

enum { LOSS_ROWS = 4 };

static void loss_rows(void *arg, size_t task, unsigned worker)
{
    const struct loss_job *j = arg;
    struct wf_tstage *t = j->t;
    size_t row = task * LOSS_ROWS;
    struct wf_mat none = {0};
    (void)worker;
    t->ops->cross_entropy(t->losses + j->first + row,
                          j->train ? wf_mat_at(t->dlogits, row, 0) : none,
                          wf_mat_at(t->logits, row, 0), j->targets + j->first + row, j->scale,
                          wf_size_min(LOSS_ROWS, j->rows - row), t->vocab, t->vocab_padded);
}

/* Computes logits and losses of tokens [first, first + rows) and, in training, everything that
 * depends on the logits. */
static enum weft_status head_segment(struct pass *p, size_t first, size_t rows,
                                     struct weft_error *err)
{
    struct wf_tstage *t = p->t;
    struct wf_param *w = head_weight(t);
    struct wf_mat x = wf_mat_at(t->normed, first, 0);
    wf_tstage_run_gemm(
        p,
        &(struct gemm_call){.which = GEMM_LOGITS, .a = x, .b = &w->transposed, .c = t->logits},
        rows);

    int64_t start = wf_clock_ns();
    struct loss_job job = {t, first, rows, p->call->targets, p->call->scale, p->call->train};
    wf_pool_run(t->spec.pool, (rows + LOSS_ROWS - 1) / LOSS_ROWS, loss_rows, &job);
    wf_tstage_add_time(t, WF_TIMER_LOSS, start);

    if (!p->call->train)
        return WEFT_OK;
    wf_tstage_run_gemm(
        p,
        &(struct gemm_call){.which = GEMM_LOGITS_BACK,
                            .a = t->dlogits,
                            .b = &w->direct,
                            .c = wf_mat_at(head_mat(p, t->layout.head_dx), first, 0)},
        rows);
    return wf_grad_add_product(p, t->head_wgrad, w, t->dlogits, x, rows, err);
}

enum weft_status wf_head_forward(struct pass *p, struct weft_error *err)
{
    struct wf_tstage *t = p->t;
    const struct slot_layout *at = &t->layout;
    struct wf_mat x = wf_head_input(p);
    if (t->block_mix) {
        x = head_mat(p, at->head_h);
        wf_mix_forward(p, x, head_floats(p, at->head_alpha), head_floats(p, at->head_mix),
                       t->n_blocks, (struct wf_mat){0},
                       wf_tstage_param(t, head_item(t), WF_ROLE_OUT_MIX_QUERY),
                       wf_tstage_param(t, head_item(t), WF_ROLE_OUT_MIX_NORM));
    }
    wf_norm_forward(p, t->normed, head_floats(p, at->head_mean), head_floats(p, at->head_rstd),
                    x, wf_tstage_param(t, head_item(t), WF_ROLE_OUT_NORM),
                    wf_tstage_param(t, head_item(t), WF_ROLE_OUT_NORM_BIAS));

    enum weft_status bad = WEFT_OK;
    for (size_t first = 0; first < p->tokens; first += HEAD_TOKENS) {
        enum weft_status st =
            head_segment(p, first, wf_size_min(HEAD_TOKENS, p->tokens - first), err);
        bad = bad != WEFT_OK ? bad : st;
    }

    double sum = 0;
    for (size_t i = 0; i < p->tokens; i++)
        sum += t->losses[i];
    *p->call->loss = sum;
    /* A non-finite loss takes precedence over a gradient out of range: the caller checks the
     * loss and locates the origin of the non-finite value. */
    return isfinite(sum) ? bad : WEFT_OK;
}

enum weft_status wf_head_backward(struct pass *p, struct weft_error *err)
{
    struct wf_tstage *t = p->t;
    const struct slot_layout *at = &t->layout;
    struct wf_mat none = {0}, dy = head_mat(p, at->head_dx);
    struct wf_param *w = wf_tstage_param(t, head_item(t), WF_ROLE_OUT_NORM);
    struct wf_param *b = wf_tstage_param(t, head_item(t), WF_ROLE_OUT_NORM_BIAS);
    const float *mean = head_floats(p, at->head_mean), *rstd = head_floats(p, at->head_rstd);

    if (!t->block_mix)
        return wf_norm_backward(p, p->g, none, none, dy, wf_head_input(p), mean, rstd, w, b,
                                err);
    WEFT_TRY(wf_norm_backward(p, t->mix_grad, none, none, dy, head_mat(p, at->head_h), mean,
                              rstd, w, b, err));
    WEFT_TRY(wf_mix_backward(p, t->mix_grad, head_floats(p, at->head_alpha),
                             head_floats(p, at->head_mix), t->n_blocks, none,
                             wf_tstage_param(t, head_item(t), WF_ROLE_OUT_MIX_QUERY),
                             wf_tstage_param(t, head_item(t), WF_ROLE_OUT_MIX_NORM), err));

    if (t->blocks_in < t->n_blocks) /* the last layer's output, or the input sum */
        wf_block_load_grad(p, t->n_blocks - 1);
    else
        memset(p->g.at, 0, p->tokens * t->dim * sizeof(float));
    return WEFT_OK;
}
