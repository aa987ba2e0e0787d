/* Block attention residuals: the input of a sublayer is a mix of the embedding, the finished
 * blocks and the open sum.  All later sublayers read a finished block, possibly on other ranks,
 * so the gradient of a block is an exact sum over these sublayers. */
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "compute/model/stage_priv.h"

struct wf_mat wf_tstage_block(const struct pass *p, size_t j)
{
    const struct wf_tstage *t = p->t;
    if (p->call->blocks != NULL)
        return (struct wf_mat){p->call->blocks->value[j], t->dim, WF_DTYPE_F32};
    return (struct wf_mat){p->slot + t->layout.blocks + j * t->layout.block_bytes, t->dim,
                           WF_DTYPE_F32};
}

enum weft_status wf_tstage_check_blocks(const struct pass *p, bool backward,
                                        struct weft_error *err)
{
    const struct weft_stage_blocks *blocks = p->call->blocks;
    if (!p->t->block_mix || (blocks == NULL && p->t->whole))
        return WEFT_OK;
    if (blocks == NULL || blocks->value == NULL ||
        (backward && (blocks->grad == NULL || blocks->fresh == NULL)))
        return WEFT_FAIL(
            err, WEFT_INTERNAL,
            "stage: the call has no blocks (a part of a model with block attention residuals "
            "needs them)");
    for (size_t j = 0; j < p->t->blocks_out; j++)
        if (blocks->value[j] == NULL || (backward && blocks->grad[j] == NULL))
            return WEFT_FAIL(err, WEFT_INTERNAL,
                             "stage: the call lacks block %zu (expected %zu blocks)", j,
                             p->t->blocks_out);
    return WEFT_OK;
}

struct mix_job {
    struct pass *p;
    struct wf_mat v[WF_MAX_MIX];
    size_t n, n_finished;
    struct wf_mat h;
    float *alpha, *rstd;
    const float *q, *norm;
    bool *bad; /* for each worker: a gradient is out of range */
};

static void gather(struct mix_job *job, size_t n_finished, struct wf_mat open)
{
    job->n_finished = job->n = n_finished;
    for (size_t j = 0; j < n_finished; j++)
        job->v[j] = wf_tstage_block(job->p, j);
    if (open.at != NULL)
        job->v[job->n++] = open;
}

static void mix_rows(void *arg, size_t task, unsigned worker)
{
    const struct mix_job *job = arg;
    const struct wf_tstage *t = job->p->t;
    size_t row = task * MIX_ROWS, n = wf_size_min(MIX_ROWS, job->p->tokens - row);
    struct wf_mat v[WF_MAX_MIX];
    (void)worker;
    for (size_t j = 0; j < job->n; j++)
        v[j] = wf_mat_at(job->v[j], row, 0);
    t->ops->mix_forward(wf_mat_at(job->h, row, 0), job->alpha + row * job->n,
                        job->rstd + row * job->n, v, job->n, job->q, job->norm,
                        t->spec.model.norm_eps, n, t->dim);
}

void wf_mix_forward(struct pass *p, struct wf_mat h, float *alpha, float *rstd,
                    size_t n_finished, struct wf_mat open, const struct wf_param *q,
                    const struct wf_param *norm)
{
    int64_t start = wf_clock_ns();
    struct mix_job job = {
        .p = p, .h = h, .alpha = alpha, .rstd = rstd, .q = q->value, .norm = norm->value};
    gather(&job, n_finished, open);
    wf_pool_run(p->t->spec.pool, (p->tokens + MIX_ROWS - 1) / MIX_ROWS, mix_rows, &job);
    wf_tstage_add_time(p->t, WF_TIMER_OTHER, start);
}

static int64_t *block_sum(const struct pass *p, size_t j, size_t row)
{
    const struct wf_tstage *t = p->t;
    int64_t *own = t->block_sums + j * t->max_tokens * t->dim;
    return (p->call->blocks != NULL ? p->call->blocks->grad[j] : own) + row * t->dim;
}

static bool *block_fresh(const struct pass *p)
{
    return p->call->blocks != NULL ? p->call->blocks->fresh : p->t->block_fresh;
}

static void mix_backward_rows(void *arg, size_t task, unsigned worker)
{
    const struct mix_job *job = arg;
    struct wf_tstage *t = job->p->t;
    size_t row = task * MIX_ROWS, n = wf_size_min(MIX_ROWS, job->p->tokens - row), dim = t->dim;
    float *scratch = (float *)(t->per_worker + worker * t->per_worker_bytes);
    struct wf_mat v[WF_MAX_MIX], dv[WF_MAX_MIX];
    for (size_t j = 0; j < job->n; j++) {
        v[j] = wf_mat_at(job->v[j], row, 0);
        dv[j] = (struct wf_mat){scratch + j * MIX_ROWS * dim, dim, WF_DTYPE_F32};
    }

    float *dq = t->partial + task * 2 * dim;
    t->ops->mix_backward(dv, dq, dq + dim, wf_mat_at(job->h, row, 0), job->alpha + row * job->n,
                         job->rstd + row * job->n, v, job->n, job->q, job->norm, n, dim);

    for (size_t j = 0; j < job->n_finished; j++) {
        struct wf_sink sink = {.exact = block_sum(job->p, j, row),
                               .fresh = block_fresh(job->p)[j]};
        job->bad[worker] |= t->ops->sink_add(sink, dv[j].at, n * dim);
    }
    if (job->n > job->n_finished) {
        struct wf_mat g = wf_mat_at(job->p->g, row, 0);
        t->ops->add(g, g, dv[job->n - 1], n, dim);
    }
}

enum weft_status wf_mix_backward(struct pass *p, struct wf_mat dh, const float *alpha,
                                 const float *rstd, size_t n_finished, struct wf_mat open,
                                 struct wf_param *q, struct wf_param *norm,
                                 struct weft_error *err)
{
    int64_t start = wf_clock_ns();
    struct wf_tstage *t = p->t;
    bool bad[WF_MAX_THREADS] = {false};
    struct mix_job job = {.p = p,
                          .h = dh,
                          .alpha = (float *)alpha,
                          .rstd = (float *)rstd,
                          .q = q->value,
                          .norm = norm->value,
                          .bad = bad};

    size_t n_tasks = (p->tokens + MIX_ROWS - 1) / MIX_ROWS;
    gather(&job, n_finished, open);
    wf_pool_run(t->spec.pool, n_tasks, mix_backward_rows, &job);

    bool any = false;
    for (unsigned w = 0; w < wf_pool_threads(t->spec.pool); w++)
        any |= bad[w];
    for (size_t j = 0; j < n_finished; j++)
        block_fresh(p)[j] = false;

    enum weft_status st =
        any ? WEFT_FAIL(err, WEFT_NUMERIC,
                        "gradient of a residual block at %s: non-finite or at "
                        "least 4096, the limit of exact sums",
                        q->desc.name)
            : WEFT_OK;
    if (st == WEFT_OK)
        st = wf_grad_add_partials(t, q, n_tasks, 0, err);
    if (st == WEFT_OK)
        st = wf_grad_add_partials(t, norm, n_tasks, t->dim, err);

    wf_tstage_add_time(t, WF_TIMER_OTHER, start);
    return st;
}

void wf_block_load_grad(struct pass *p, size_t j)
{
    struct wf_tstage *t = p->t;
    if (block_fresh(p)[j]) /* no sublayer reads the block */
        memset(p->g.at, 0, p->tokens * t->dim * sizeof(float));
    else
        t->ops->exact_to_f32(p->g.at, block_sum(p, j, 0), p->tokens * t->dim);
}
