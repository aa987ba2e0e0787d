#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "compute/model/stage_priv.h"

uint64_t weft_tstage_now(void)
{
    return weft_clock_ns();
}

void weft_tstage_count(struct weft_tstage *t, enum weft_timer timer, uint64_t since)
{
    t->times[timer] += weft_clock_ns() - since;
}

struct weft_sink weft_tstage_sink(struct weft_param *param)
{
    return (struct weft_sink){param->exact, param->fast, param->fresh, param->only};
}

static size_t n_row_blocks(size_t rows)
{
    return (rows + ROW_BLOCK - 1) / ROW_BLOCK;
}

/* -- norms ---------------------------------------------------------------------------------- */

struct norm_job {
    const struct weft_tstage *t;
    size_t rows;
    struct weft_mat out, x, past, keep, dy;
    float *mean, *rstd;
    const float *w, *b;
};

static void norm_rows(void *arg, size_t task, unsigned worker)
{
    const struct norm_job *j = arg;
    size_t row = task * ROW_BLOCK, n = weft_size_min(ROW_BLOCK, j->rows - row);
    struct weft_mat out = weft_mat_at(j->out, row, 0), x = weft_mat_at(j->x, row, 0);
    (void)worker;
    if (j->t->llama)
        j->t->ops->rmsnorm_forward(out, j->rstd + row, x, j->w, j->t->spec.model.norm_eps, n,
                                   j->t->dim);
    else
        j->t->ops->layernorm_forward(out, j->mean + row, j->rstd + row, x, j->w, j->b,
                                     j->t->spec.model.norm_eps, n, j->t->dim);
}

void weft_norm_forward(struct pass *p, struct weft_mat out, float *mean, float *rstd,
                       struct weft_mat x, const struct weft_param *w,
                       const struct weft_param *b)
{
    uint64_t start = weft_tstage_now();
    struct norm_job job = {.t = p->t,
                           .rows = p->tokens,
                           .out = out,
                           .x = x,
                           .mean = mean,
                           .rstd = rstd,
                           .w = w->value,
                           .b = b != NULL ? b->value : NULL};
    weft_pool_run(p->t->spec.pool, n_row_blocks(p->tokens), norm_rows, &job);
    weft_tstage_count(p->t, WEFT_TIME_NORM, start);
}

static struct weft_mat mat_rows(struct weft_mat m, size_t row)
{
    return m.at == NULL ? m : weft_mat_at(m, row, 0);
}

static void norm_back_rows(void *arg, size_t task, unsigned worker)
{
    const struct norm_job *j = arg;
    size_t row = task * ROW_BLOCK, n = weft_size_min(ROW_BLOCK, j->rows - row), dim = j->t->dim;
    float *dw = j->t->partial + task * 2 * dim;
    (void)worker;
    struct weft_mat dx = mat_rows(j->out, row), past = mat_rows(j->past, row);
    struct weft_mat keep = mat_rows(j->keep, row), dy = mat_rows(j->dy, row);
    struct weft_mat x = mat_rows(j->x, row);
    if (j->t->llama)
        j->t->ops->rmsnorm_backward(dx, past, keep, dw, dy, x, j->rstd + row, j->w, n, dim);
    else
        j->t->ops->layernorm_backward(dx, past, keep, dw, dw + dim, dy, x, j->mean + row,
                                      j->rstd + row, j->w, n, dim);
}

enum weft_status weft_add_partials(struct weft_tstage *t, struct weft_param *param, size_t n,
                                   size_t from, struct weft_error *err)
{
    memcpy(t->sums, t->partial + from, t->dim * sizeof(float));
    for (size_t b = 1; b < n; b++) {
        const float *more = t->partial + b * 2 * t->dim + from;
        for (size_t i = 0; i < t->dim; i++)
            t->sums[i] += more[i];
    }
    return weft_add_vector(t, param, t->sums, err);
}

enum weft_status weft_norm_backward(struct pass *p, struct weft_mat dx, struct weft_mat past,
                                    struct weft_mat keep, struct weft_mat dy, struct weft_mat x,
                                    const float *mean, const float *rstd, struct weft_param *w,
                                    struct weft_param *b, struct weft_error *err)
{
    uint64_t start = weft_tstage_now();
    struct norm_job job = {.t = p->t,
                           .rows = p->tokens,
                           .out = dx,
                           .x = x,
                           .past = past,
                           .keep = keep,
                           .dy = dy,
                           .mean = (float *)mean,
                           .rstd = (float *)rstd,
                           .w = w->value};
    weft_pool_run(p->t->spec.pool, n_row_blocks(p->tokens), norm_back_rows, &job);
    enum weft_status st = weft_add_partials(p->t, w, n_row_blocks(p->tokens), 0, err);
    if (st == WEFT_OK && b != NULL)
        st = weft_add_partials(p->t, b, n_row_blocks(p->tokens), p->t->dim, err);
    weft_tstage_count(p->t, WEFT_TIME_NORM, start);
    return st;
}

/* -- rows ----------------------------------------------------------------------------------- */

struct convert_job {
    const struct weft_ops *ops;
    size_t rows, cols;
    struct weft_mat out, x;
};

static void convert_rows(void *arg, size_t task, unsigned worker)
{
    const struct convert_job *j = arg;
    size_t row = task * ROW_BLOCK;
    (void)worker;
    j->ops->convert(weft_mat_at(j->out, row, 0), weft_mat_at(j->x, row, 0),
                    weft_size_min(ROW_BLOCK, j->rows - row), j->cols);
}

void weft_convert_rows(struct pass *p, struct weft_mat out, struct weft_mat x, size_t cols)
{
    uint64_t start = weft_tstage_now();
    struct convert_job job = {p->t->ops, p->tokens, cols, out, x};
    weft_pool_run(p->t->spec.pool, n_row_blocks(p->tokens), convert_rows, &job);
    weft_tstage_count(p->t, WEFT_TIME_OTHER, start);
}

/* -- products ------------------------------------------------------------------------------- */

void weft_run_product(struct pass *p, const struct product_run *run, size_t rows)
{
    uint64_t start = weft_tstage_now();
    struct weft_product_args args = {.rows = rows,
                                     .a = run->a,
                                     .b = run->b,
                                     .bias = run->bias != NULL ? run->bias->value : NULL,
                                     .add = run->add,
                                     .c = run->c,
                                     .after = run->after,
                                     .after_arg = run->after_arg};
    weft_product_run(p->t->product[run->which], p->t->spec.pool, &args);
    weft_tstage_count(p->t, WEFT_TIME_PRODUCT, start);
}

enum weft_status weft_bad_gradient(const struct weft_param *param, struct weft_error *err)
{
    return WEFT_FAIL(
        err, WEFT_NUMERIC,
        "the gradient of %s is not finite or is 4096 or more, the end of exact sums: "
        "lower optim.lr, or set train.reduction to fast",
        param->desc.name);
}

enum weft_status weft_add_outer(struct pass *p, struct weft_outer *outer,
                                struct weft_param *param, struct weft_mat a, struct weft_mat b,
                                size_t tokens, struct weft_error *err)
{
    uint64_t start = weft_tstage_now();
    bool bad = weft_outer_run(outer, p->t->spec.pool, weft_tstage_sink(param), a,
                              param->desc.shape[0], b, param->desc.shape[1], tokens);
    param->fresh = false;
    weft_tstage_count(p->t, WEFT_TIME_OUTER, start);
    return bad ? weft_bad_gradient(param, err) : WEFT_OK;
}

enum weft_status weft_add_vector(struct weft_tstage *t, struct weft_param *param,
                                 const float *sum, struct weft_error *err)
{
    bool bad = t->ops->sink_add(weft_tstage_sink(param), sum, param->n);
    param->fresh = false;
    return bad ? weft_bad_gradient(param, err) : WEFT_OK;
}

struct bias_job {
    const struct weft_ops *ops;
    size_t rows, cols;
    struct weft_mat dy;
    float *sums;
};

static void bias_cols(void *arg, size_t task, unsigned worker)
{
    const struct bias_job *j = arg;
    size_t col = task * COL_BLOCK;
    (void)worker;
    j->ops->column_sums(j->sums + col, weft_mat_at(j->dy, 0, col), j->rows,
                        weft_size_min(COL_BLOCK, j->cols - col));
}

enum weft_status weft_add_bias(struct pass *p, struct weft_param *param, struct weft_mat dy,
                               struct weft_error *err)
{
    uint64_t start = weft_tstage_now();
    struct bias_job job = {p->t->ops, p->tokens, param->n, dy, p->t->sums};
    weft_pool_run(p->t->spec.pool, (param->n + COL_BLOCK - 1) / COL_BLOCK, bias_cols, &job);
    enum weft_status st = weft_add_vector(p->t, param, p->t->sums, err);
    weft_tstage_count(p->t, WEFT_TIME_OTHER, start);
    return st;
}
