/* Building blocks of a stage that run on the pool: norms, conversion, products, and additions
 * to gradients. */
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "compute/model/stage_priv.h"

void wf_tstage_add_time(struct wf_tstage *t, enum wf_timer timer, int64_t since_ns)
{
    t->times[timer] += (uint64_t)(wf_clock_ns() - since_ns);
}

struct wf_sink wf_tstage_sink(struct wf_param *param)
{
    return (struct wf_sink){param->exact, param->fast, param->fresh, param->single};
}

static size_t n_row_tiles(size_t rows)
{
    return (rows + ROW_TILE - 1) / ROW_TILE;
}

/* -- norms --------------------------------------------------------------------------------- */

struct norm_job {
    const struct wf_tstage *t;
    size_t rows;
    struct wf_mat out, x, residual, copy, dy;
    float *mean, *rstd;
    const float *w, *b;
};

static void norm_rows(void *arg, size_t task, unsigned worker)
{
    const struct norm_job *j = arg;
    size_t row = task * ROW_TILE, n = wf_size_min(ROW_TILE, j->rows - row);
    struct wf_mat out = wf_mat_at(j->out, row, 0), x = wf_mat_at(j->x, row, 0);
    (void)worker;
    if (j->t->llama)
        j->t->ops->rmsnorm_forward(out, j->rstd + row, x, j->w, j->t->spec.model.norm_eps, n,
                                   j->t->dim);
    else
        j->t->ops->layernorm_forward(out, j->mean + row, j->rstd + row, x, j->w, j->b,
                                     j->t->spec.model.norm_eps, n, j->t->dim);
}

void wf_norm_forward(struct pass *p, struct wf_mat out, float *mean, float *rstd,
                     struct wf_mat x, const struct wf_param *w, const struct wf_param *b)
{
    int64_t start = wf_clock_ns();
    struct norm_job job = {.t = p->t,
                           .rows = p->tokens,
                           .out = out,
                           .x = x,
                           .mean = mean,
                           .rstd = rstd,
                           .w = w->value,
                           .b = b != NULL ? b->value : NULL};
    wf_pool_run(p->t->spec.pool, n_row_tiles(p->tokens), norm_rows, &job);
    wf_tstage_add_time(p->t, WF_TIMER_NORM, start);
}

static struct wf_mat mat_rows(struct wf_mat m, size_t row)
{
    return m.at == NULL ? m : wf_mat_at(m, row, 0);
}

static void norm_backward_rows(void *arg, size_t task, unsigned worker)
{
    const struct norm_job *j = arg;
    size_t row = task * ROW_TILE, n = wf_size_min(ROW_TILE, j->rows - row), dim = j->t->dim;
    float *dw = j->t->partial + task * 2 * dim;
    (void)worker;
    struct wf_mat dx = mat_rows(j->out, row), residual = mat_rows(j->residual, row);
    struct wf_mat copy = mat_rows(j->copy, row), dy = mat_rows(j->dy, row);
    struct wf_mat x = mat_rows(j->x, row);
    if (j->t->llama)
        j->t->ops->rmsnorm_backward(dx, residual, copy, dw, dy, x, j->rstd + row, j->w, n, dim);
    else
        j->t->ops->layernorm_backward(dx, residual, copy, dw, dw + dim, dy, x, j->mean + row,
                                      j->rstd + row, j->w, n, dim);
}

enum weft_status wf_grad_add_partials(struct wf_tstage *t, struct wf_param *param, size_t n,
                                      size_t from, struct weft_error *err)
{
    memcpy(t->sums, t->partial + from, t->dim * sizeof(float));
    for (size_t b = 1; b < n; b++) {
        const float *more = t->partial + b * 2 * t->dim + from;
        for (size_t i = 0; i < t->dim; i++)
            t->sums[i] += more[i];
    }
    return wf_grad_add_vector(t, param, t->sums, err);
}

enum weft_status wf_norm_backward(struct pass *p, struct wf_mat dx, struct wf_mat residual,
                                  struct wf_mat copy, struct wf_mat dy, struct wf_mat x,
                                  const float *mean, const float *rstd, struct wf_param *w,
                                  struct wf_param *b, struct weft_error *err)
{
    int64_t start = wf_clock_ns();
    struct norm_job job = {.t = p->t,
                           .rows = p->tokens,
                           .out = dx,
                           .x = x,
                           .residual = residual,
                           .copy = copy,
                           .dy = dy,
                           .mean = (float *)mean,
                           .rstd = (float *)rstd,
                           .w = w->value};
    wf_pool_run(p->t->spec.pool, n_row_tiles(p->tokens), norm_backward_rows, &job);
    enum weft_status st = wf_grad_add_partials(p->t, w, n_row_tiles(p->tokens), 0, err);
    if (st == WEFT_OK && b != NULL)
        st = wf_grad_add_partials(p->t, b, n_row_tiles(p->tokens), p->t->dim, err);
    wf_tstage_add_time(p->t, WF_TIMER_NORM, start);
    return st;
}

/* -- rows ---------------------------------------------------------------------------------- */

struct convert_job {
    const struct wf_ops *ops;
    size_t rows, cols;
    struct wf_mat out, x;
};

static void convert_rows(void *arg, size_t task, unsigned worker)
{
    const struct convert_job *j = arg;
    size_t row = task * ROW_TILE;
    (void)worker;
    j->ops->convert(wf_mat_at(j->out, row, 0), wf_mat_at(j->x, row, 0),
                    wf_size_min(ROW_TILE, j->rows - row), j->cols);
}

void wf_convert_rows(struct pass *p, struct wf_mat out, struct wf_mat x, size_t cols)
{
    int64_t start = wf_clock_ns();
    struct convert_job job = {p->t->ops, p->tokens, cols, out, x};
    wf_pool_run(p->t->spec.pool, n_row_tiles(p->tokens), convert_rows, &job);
    wf_tstage_add_time(p->t, WF_TIMER_OTHER, start);
}

/* -- products ------------------------------------------------------------------------------ */

void wf_tstage_run_gemm(struct pass *p, const struct gemm_call *run, size_t rows)
{
    int64_t start = wf_clock_ns();
    struct wf_gemm_args args = {.rows = rows,
                                .a = run->a,
                                .b = run->b,
                                .bias = run->bias != NULL ? run->bias->value : NULL,
                                .add = run->add,
                                .c = run->c,
                                .after = run->after,
                                .after_arg = run->after_arg};
    wf_gemm_run(p->t->gemm[run->which], p->t->spec.pool, &args);
    wf_tstage_add_time(p->t, WF_TIMER_GEMM, start);
}

enum weft_status wf_grad_fail_range(const struct wf_param *param, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NUMERIC,
                     "gradient of %s: non-finite or at least 4096, the limit of exact sums; "
                     "lower optim.lr or set train.reduction to fast",
                     param->desc.name);
}

enum weft_status wf_grad_add_product(struct pass *p, struct wf_wgrad *wgrad,
                                     struct wf_param *param, struct wf_mat a, struct wf_mat b,
                                     size_t tokens, struct weft_error *err)
{
    int64_t start = wf_clock_ns();
    bool bad = wf_wgrad_run(wgrad, p->t->spec.pool, wf_tstage_sink(param), a,
                            param->desc.shape[0], b, param->desc.shape[1], tokens);
    param->fresh = false;
    wf_tstage_add_time(p->t, WF_TIMER_WGRAD, start);
    return bad ? wf_grad_fail_range(param, err) : WEFT_OK;
}

enum weft_status wf_grad_add_vector(struct wf_tstage *t, struct wf_param *param,
                                    const float *sum, struct weft_error *err)
{
    bool bad = t->ops->sink_add(wf_tstage_sink(param), sum, param->n);
    param->fresh = false;
    return bad ? wf_grad_fail_range(param, err) : WEFT_OK;
}

struct bias_job {
    const struct wf_ops *ops;
    size_t rows, cols;
    struct wf_mat dy;
    float *sums;
};

static void bias_cols(void *arg, size_t task, unsigned worker)
{
    const struct bias_job *j = arg;
    size_t col = task * COL_TILE;
    (void)worker;
    j->ops->column_sums(j->sums + col, wf_mat_at(j->dy, 0, col), j->rows,
                        wf_size_min(COL_TILE, j->cols - col));
}

enum weft_status wf_grad_add_bias(struct pass *p, struct wf_param *param, struct wf_mat dy,
                                  struct weft_error *err)
{
    int64_t start = wf_clock_ns();
    struct bias_job job = {p->t->ops, p->tokens, param->n, dy, p->t->sums};
    wf_pool_run(p->t->spec.pool, (param->n + COL_TILE - 1) / COL_TILE, bias_cols, &job);
    enum weft_status st = wf_grad_add_vector(p->t, param, p->t->sums, err);
    wf_tstage_add_time(p->t, WF_TIMER_OTHER, start);
    return st;
}
