/* The two ends of a model: the embedding, and the head with the loss. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "compute/model/stage_priv.h"

/* -- embedding ------------------------------------------------------------------------------ */

struct embed_job {
    struct pass *p;
    const int32_t *tokens;
    struct weft_mat x;
    const struct weft_param *wte, *wpe;
};

static void embed_rows(void *arg, size_t task, unsigned worker)
{
    const struct embed_job *j = arg;
    const struct weft_tstage *t = j->p->t;
    size_t row = task * ROW_BLOCK;
    (void)worker;
    t->ops->embed(weft_mat_at(j->x, row, 0), j->wte->value, j->tokens + row,
                  j->wpe != NULL ? j->wpe->value : NULL, t->positions + row,
                  weft_size_min(ROW_BLOCK, j->p->tokens - row), t->dim);
}

void weft_embedding_forward(struct pass *p, const int32_t *tokens, struct weft_mat out)
{
    uint64_t start = weft_tstage_now();
    memcpy(p->slot + p->t->layout.tokens, tokens, p->tokens * sizeof *tokens);
    struct embed_job job = {p, tokens, out, weft_tstage_param(p->t, 0, WEFT_TOKEN_EMBEDDING),
                            weft_tstage_param(p->t, 0, WEFT_POSITION_EMBEDDING)};
    weft_pool_run(p->t->spec.pool, (p->tokens + ROW_BLOCK - 1) / ROW_BLOCK, embed_rows, &job);
    weft_tstage_count(p->t, WEFT_TIME_OTHER, start);
}

struct scatter_job {
    struct pass *p;
    const int32_t *ids;
    struct weft_sink sink;
    bool bad[WEFT_MAX_THREADS];
};

static void scatter_cols(void *arg, size_t task, unsigned worker)
{
    struct scatter_job *j = arg;
    const struct weft_tstage *t = j->p->t;
    size_t col = task * COL_BLOCK;
    j->bad[worker] |= t->ops->scatter(j->sink, t->dim, j->ids, j->p->g, j->p->tokens, col,
                                      weft_size_min(col + COL_BLOCK, t->dim));
}

enum { CLEAR_BYTES = 1 << 20 };

static void clear_piece(void *arg, size_t task, unsigned worker)
{
    const struct weft_param *param = arg;
    size_t bytes = param->n * (param->exact != NULL ? 8 : 4), from = task * CLEAR_BYTES;
    char *at = param->exact != NULL ? (char *)param->exact : (char *)param->fast;
    (void)worker;
    memset(at + from, 0, weft_size_min(CLEAR_BYTES, bytes - from));
}

static void clear_gradient(struct weft_tstage *t, struct weft_param *param)
{
    size_t bytes = param->n * (param->exact != NULL ? 8 : 4);
    weft_pool_run(t->spec.pool, (bytes + CLEAR_BYTES - 1) / CLEAR_BYTES, clear_piece, param);
    param->fresh = false;
}

/* Only few rows of a table are touched, so the others must be there. */
static enum weft_status add_scatter(struct pass *p, struct weft_param *param,
                                    const int32_t *ids, struct weft_error *err)
{
    struct weft_tstage *t = p->t;
    if (param->fresh)
        clear_gradient(t, param);
    struct scatter_job job = {.p = p, .ids = ids, .sink = weft_tstage_sink(param)};
    weft_pool_run(t->spec.pool, (t->dim + COL_BLOCK - 1) / COL_BLOCK, scatter_cols, &job);
    for (unsigned w = 0; w < weft_pool_threads(t->spec.pool); w++)
        if (job.bad[w])
            return weft_bad_gradient(param, err);
    return WEFT_OK;
}

enum weft_status weft_embedding_backward(struct pass *p, struct weft_error *err)
{
    uint64_t start = weft_tstage_now();
    struct weft_param *wpe = weft_tstage_param(p->t, 0, WEFT_POSITION_EMBEDDING);
    const int32_t *tokens = (const int32_t *)(p->slot + p->t->layout.tokens);
    WEFT_TRY(add_scatter(p, weft_tstage_param(p->t, 0, WEFT_TOKEN_EMBEDDING), tokens, err));
    if (wpe != NULL)
        WEFT_TRY(add_scatter(p, wpe, p->t->positions, err));
    weft_tstage_count(p->t, WEFT_TIME_OTHER, start);
    return WEFT_OK;
}

/* -- head ----------------------------------------------------------------------------------- */

static uint32_t head_item(const struct weft_tstage *t)
{
    return t->spec.model.layers + 1;
}

static struct weft_param *head_weight(struct weft_tstage *t)
{
    struct weft_param *own = weft_tstage_param(t, head_item(t), WEFT_HEAD);
    return own != NULL ? own : weft_tstage_param(t, 0, WEFT_TOKEN_EMBEDDING);
}

static float *head_floats(const struct pass *p, size_t offset)
{
    return (float *)(p->slot + offset);
}

static struct weft_mat head_mat(const struct pass *p, size_t offset)
{
    return (struct weft_mat){p->slot + offset, p->t->dim, WEFT_F32};
}

struct weft_mat weft_head_input(const struct pass *p)
{
    return head_mat(p, p->t->layout.head_x);
}

struct loss_job {
    struct weft_tstage *t;
    size_t first, rows;
    const int32_t *targets;
    float scale;
    bool train;
};

enum { LOSS_ROWS = 4 };

static void loss_rows(void *arg, size_t task, unsigned worker)
{
    const struct loss_job *j = arg;
    struct weft_tstage *t = j->t;
    size_t row = task * LOSS_ROWS;
    struct weft_mat none = {0};
    (void)worker;
    t->ops->cross_entropy(t->losses + j->first + row,
                          j->train ? weft_mat_at(t->dlogits, row, 0) : none,
                          weft_mat_at(t->logits, row, 0), j->targets + j->first + row, j->scale,
                          weft_size_min(LOSS_ROWS, j->rows - row), t->vocab, t->vocab_padded);
}

/* Tokens [first, first + rows): logits, losses, and all that hangs on the logits. */
static enum weft_status head_chunk(struct pass *p, size_t first, size_t rows,
                                   struct weft_error *err)
{
    struct weft_tstage *t = p->t;
    struct weft_param *w = head_weight(t);
    struct weft_mat x = weft_mat_at(t->normed, first, 0);
    weft_run_product(
        p, &(struct product_run){.which = P_LOGITS, .a = x, .b = &w->turned, .c = t->logits},
        rows);
    uint64_t start = weft_tstage_now();
    struct loss_job job = {t, first, rows, p->call->targets, p->call->scale, p->call->train};
    weft_pool_run(t->spec.pool, (rows + LOSS_ROWS - 1) / LOSS_ROWS, loss_rows, &job);
    weft_tstage_count(t, WEFT_TIME_LOSS, start);
    if (!p->call->train)
        return WEFT_OK;
    weft_run_product(
        p,
        &(struct product_run){.which = B_HEAD,
                              .a = t->dlogits,
                              .b = &w->same,
                              .c = weft_mat_at(head_mat(p, t->layout.head_dx), first, 0)},
        rows);
    return weft_add_outer(p, t->head_outer, w, t->dlogits, x, rows, err);
}

enum weft_status weft_head_forward(struct pass *p, struct weft_error *err)
{
    struct weft_tstage *t = p->t;
    const struct slot_layout *at = &t->layout;
    struct weft_mat x = weft_head_input(p);
    if (t->mixed) {
        x = head_mat(p, at->head_h);
        weft_mix_forward(p, x, head_floats(p, at->head_alpha), head_floats(p, at->head_mix),
                         t->n_blocks, (struct weft_mat){0},
                         weft_tstage_param(t, head_item(t), WEFT_OUT_MIX_QUERY),
                         weft_tstage_param(t, head_item(t), WEFT_OUT_MIX_NORM));
    }
    weft_norm_forward(p, t->normed, head_floats(p, at->head_mean),
                      head_floats(p, at->head_rstd), x,
                      weft_tstage_param(t, head_item(t), WEFT_OUT_NORM),
                      weft_tstage_param(t, head_item(t), WEFT_OUT_NORM_BIAS));
    enum weft_status bad = WEFT_OK;
    for (size_t first = 0; first < p->tokens; first += HEAD_TOKENS) {
        enum weft_status st =
            head_chunk(p, first, weft_size_min(HEAD_TOKENS, p->tokens - first), err);
        bad = bad != WEFT_OK ? bad : st;
    }
    double sum = 0;
    for (size_t i = 0; i < p->tokens; i++)
        sum += t->losses[i];
    *p->call->loss = sum;
    /* A loss that is no number says more than a gradient that is none: the caller finds where it
     * began. */
    return isfinite(sum) ? bad : WEFT_OK;
}

enum weft_status weft_head_backward(struct pass *p, struct weft_error *err)
{
    struct weft_tstage *t = p->t;
    const struct slot_layout *at = &t->layout;
    struct weft_mat none = {0}, dy = head_mat(p, at->head_dx);
    struct weft_param *w = weft_tstage_param(t, head_item(t), WEFT_OUT_NORM);
    struct weft_param *b = weft_tstage_param(t, head_item(t), WEFT_OUT_NORM_BIAS);
    const float *mean = head_floats(p, at->head_mean), *rstd = head_floats(p, at->head_rstd);
    if (!t->mixed)
        return weft_norm_backward(p, p->g, none, none, dy, weft_head_input(p), mean, rstd, w, b,
                                  err);
    WEFT_TRY(weft_norm_backward(p, t->mixed_g, none, none, dy, head_mat(p, at->head_h), mean,
                                rstd, w, b, err));
    WEFT_TRY(weft_mix_backward(p, t->mixed_g, head_floats(p, at->head_alpha),
                               head_floats(p, at->head_mix), t->n_blocks, none,
                               weft_tstage_param(t, head_item(t), WEFT_OUT_MIX_QUERY),
                               weft_tstage_param(t, head_item(t), WEFT_OUT_MIX_NORM), err));
    if (t->blocks_in < t->n_blocks) /* the last layer's output, or the sum that came in */
        weft_block_gradient(p, t->n_blocks - 1);
    else
        memset(p->g.at, 0, p->tokens * t->dim * sizeof(float));
    return WEFT_OK;
}
