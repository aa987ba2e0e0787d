/* One transformer layer.  With plain residuals
 *
 *     x2 = x1 + project(attention(norm(x1)))        out = x2 + mlp(norm(x2))
 *
 * and with block residuals the norms read a mix (mix.c) instead of the stream, which is then the
 * sum of the open block.
 *
 * The backward works in place: what a gradient replaces has been read for the last time. */
#include <string.h>

#include "base/error.h"
#include "compute/model/stage_priv.h"

static struct weft_param *param(const struct pass *p, uint32_t layer, enum weft_role role)
{
    return weft_tstage_layer_param(p->t, layer, role);
}

/* The factor that takes a layer's input to its output, and its gradient back.  Llama's weights
 * are stored (out, in), GPT-2's (in, out). */
static const struct weft_packed *ahead(const struct pass *p, const struct weft_param *w)
{
    return p->t->llama ? &w->turned : &w->same;
}

static const struct weft_packed *back(const struct pass *p, const struct weft_param *w)
{
    return p->t->llama ? &w->same : &w->turned;
}

static struct weft_mat none(void)
{
    return (struct weft_mat){0};
}

/* Block residuals: blocks that are finished when layer `layer` runs. */
static size_t n_finished(const struct pass *p, uint32_t layer)
{
    return 1 + (p->t->layer0 + layer) / p->t->spec.model.residual_block_layers;
}

bool weft_opens_block(const struct pass *p, uint32_t layer)
{
    return p->t->mixed && !weft_is_open(p->t, p->t->layer0 + layer);
}

static struct weft_mat open_sum(const struct pass *p, uint32_t layer)
{
    return weft_opens_block(p, layer) ? none() : weft_tstage_field(p, layer, F_X1);
}

/* -- forward -------------------------------------------------------------------------------- */

static struct weft_mat norm_input(const struct pass *p, uint32_t layer, enum field x,
                                  enum field h)
{
    return weft_tstage_field(p, layer, p->t->mixed ? h : x);
}

static void mix_attention(struct pass *p, uint32_t layer)
{
    if (p->t->mixed)
        weft_mix_forward(
            p, weft_tstage_field(p, layer, F_H1), weft_tstage_floats(p, layer, F_ALPHA1),
            weft_tstage_floats(p, layer, F_MIX1), n_finished(p, layer), open_sum(p, layer),
            param(p, layer, WEFT_ATTN_MIX_QUERY), param(p, layer, WEFT_ATTN_MIX_NORM));
}

static void mix_mlp(struct pass *p, uint32_t layer)
{
    if (p->t->mixed)
        weft_mix_forward(p, weft_tstage_field(p, layer, F_H2),
                         weft_tstage_floats(p, layer, F_ALPHA2),
                         weft_tstage_floats(p, layer, F_MIX2), n_finished(p, layer),
                         weft_tstage_field(p, layer, F_X2), param(p, layer, WEFT_MLP_MIX_QUERY),
                         param(p, layer, WEFT_MLP_MIX_NORM));
}

struct rope_job {
    const struct weft_tstage *t;
    struct weft_mat qkv;
    size_t tokens;
    bool back;
};

static void rope_rows(void *arg, size_t task, unsigned worker)
{
    const struct rope_job *j = arg;
    const struct weft_tstage *t = j->t;
    size_t row = task * ROW_BLOCK;
    size_t n = j->tokens - row < ROW_BLOCK ? j->tokens - row : ROW_BLOCK;
    (void)worker;
    t->ops->rope(weft_mat_at(j->qkv, row, 0), t->cosines, t->sines, t->positions + row, j->back,
                 n, t->spec.model.heads, t->head);
    t->ops->rope(weft_mat_at(j->qkv, row, t->dim), t->cosines, t->sines, t->positions + row,
                 j->back, n, t->spec.model.kv_heads, t->head);
}

static void turn(struct pass *p, struct weft_mat qkv, bool backwards)
{
    if (!p->t->llama)
        return;
    uint64_t start = weft_tstage_now();
    struct rope_job job = {p->t, qkv, p->tokens, backwards};
    weft_pool_run(p->t->spec.pool, (p->tokens + ROW_BLOCK - 1) / ROW_BLOCK, rope_rows, &job);
    weft_tstage_count(p->t, WEFT_TIME_OTHER, start);
}

static void queries_keys_values(struct pass *p, uint32_t layer)
{
    struct weft_tstage *t = p->t;
    struct weft_mat a = weft_tstage_field(p, layer, F_A1);
    struct weft_mat qkv = weft_tstage_field(p, layer, F_QKV);
    if (!t->llama) {
        struct weft_param *w = param(p, layer, WEFT_QKV);
        weft_run_product(p,
                         &(struct product_run){.which = P_QKV,
                                               .a = a,
                                               .b = ahead(p, w),
                                               .bias = param(p, layer, WEFT_QKV_BIAS),
                                               .c = qkv},
                         p->tokens);
        return;
    }
    static const enum weft_role roles[] = {WEFT_QUERY, WEFT_KEY, WEFT_VALUE};
    size_t col = 0;
    for (size_t i = 0; i < 3; i++) {
        struct weft_param *w = param(p, layer, roles[i]);
        weft_run_product(p,
                         &(struct product_run){.which = i == 0 ? P_QKV : P_KV,
                                               .a = a,
                                               .b = ahead(p, w),
                                               .c = weft_mat_at(qkv, 0, col)},
                         p->tokens);
        col += w->desc.shape[0];
    }
    turn(p, qkv, false);
}

static struct weft_attention attention_of(const struct pass *p, uint32_t layer)
{
    const struct weft_tstage *t = p->t;
    struct weft_mat qkv = weft_tstage_field(p, layer, F_QKV);
    struct weft_attention a = {.batch = p->call->rows,
                               .seq = t->spec.seq,
                               .heads = t->spec.model.heads,
                               .kv_heads = t->spec.model.kv_heads,
                               .head = t->head,
                               .q = qkv,
                               .k = weft_mat_at(qkv, 0, t->dim),
                               .v = weft_mat_at(qkv, 0, t->dim + t->kv_cols),
                               .out = weft_tstage_field(p, layer, F_ATT),
                               .lse = weft_tstage_floats(p, layer, F_LSE)};
    return a;
}

struct attention_job {
    struct weft_tstage *t;
    struct weft_attention a;
};

static void attend(void *arg, size_t task, unsigned worker)
{
    struct attention_job *j = arg;
    weft_attention_forward(&j->a, task, j->t->per_worker + worker * j->t->per_worker_bytes);
}

static void attend_back(void *arg, size_t task, unsigned worker)
{
    struct attention_job *j = arg;
    weft_attention_backward(&j->a, task, j->t->per_worker + worker * j->t->per_worker_bytes);
}

/* Up to attention's output. */
static void attention_inside(struct pass *p, uint32_t layer)
{
    mix_attention(p, layer);
    weft_norm_forward(p, weft_tstage_field(p, layer, F_A1),
                      weft_tstage_floats(p, layer, F_MEAN1),
                      weft_tstage_floats(p, layer, F_RSTD1), norm_input(p, layer, F_X1, F_H1),
                      param(p, layer, WEFT_ATTN_NORM), param(p, layer, WEFT_ATTN_NORM_BIAS));
    queries_keys_values(p, layer);
    uint64_t start = weft_tstage_now();
    struct attention_job job = {p->t, attention_of(p, layer)};
    weft_pool_run(p->t->spec.pool, weft_attention_forward_tasks(&job.a), attend, &job);
    weft_tstage_count(p->t, WEFT_TIME_ATTENTION, start);
}

static void attention_output(struct pass *p, uint32_t layer)
{
    struct weft_param *w = param(p, layer, WEFT_PROJECT);
    bool alone = weft_opens_block(p, layer);
    weft_run_product(p,
                     &(struct product_run){.which = alone ? P_PROJECT_ALONE : P_PROJECT,
                                           .a = weft_tstage_field(p, layer, F_ATT),
                                           .b = ahead(p, w),
                                           .bias = param(p, layer, WEFT_PROJECT_BIAS),
                                           .add = open_sum(p, layer),
                                           .c = weft_tstage_field(p, layer, F_X2)},
                     p->tokens);
}

struct mlp_job {
    const struct weft_tstage *t;
    struct weft_mat gate, up, act, dact;
};

static void activate(void *arg, size_t row0, size_t row1, size_t col0, size_t col1,
                     unsigned worker)
{
    const struct mlp_job *j = arg;
    struct weft_mat act = weft_mat_at(j->act, row0, col0), up = weft_mat_at(j->up, row0, col0);
    (void)worker;
    if (j->t->llama)
        j->t->ops->swiglu_forward(act, weft_mat_at(j->gate, row0, col0), up, row1 - row0,
                                  col1 - col0);
    else
        j->t->ops->gelu_forward(act, up, row1 - row0, col1 - col0);
}

static void activate_back(void *arg, size_t row0, size_t row1, size_t col0, size_t col1,
                          unsigned worker)
{
    const struct mlp_job *j = arg;
    struct weft_mat dact = weft_mat_at(j->dact, row0, col0),
                    up = weft_mat_at(j->up, row0, col0);
    (void)worker;
    if (j->t->llama) {
        struct weft_mat gate = weft_mat_at(j->gate, row0, col0);
        j->t->ops->swiglu_backward(gate, up, dact, gate, up, row1 - row0, col1 - col0);
    } else {
        j->t->ops->gelu_backward(up, dact, up, row1 - row0, col1 - col0);
    }
}

static struct mlp_job mlp_of(const struct pass *p, uint32_t layer)
{
    struct mlp_job job = {.t = p->t,
                          .up = weft_tstage_field(p, layer, F_UP),
                          .act = weft_tstage_field(p, layer, F_ACT),
                          .dact = p->t->wide};
    if (p->t->llama)
        job.gate = weft_tstage_field(p, layer, F_GATE);
    return job;
}

/* Up to the MLP's activation. */
static void mlp_inside(struct pass *p, uint32_t layer)
{
    mix_mlp(p, layer);
    struct weft_mat a = weft_tstage_field(p, layer, F_A2);
    weft_norm_forward(p, a, weft_tstage_floats(p, layer, F_MEAN2),
                      weft_tstage_floats(p, layer, F_RSTD2), norm_input(p, layer, F_X2, F_H2),
                      param(p, layer, WEFT_MLP_NORM), param(p, layer, WEFT_MLP_NORM_BIAS));
    struct mlp_job job = mlp_of(p, layer);
    if (p->t->llama)
        weft_run_product(p,
                         &(struct product_run){.which = P_UP,
                                               .a = a,
                                               .b = ahead(p, param(p, layer, WEFT_GATE)),
                                               .c = job.gate},
                         p->tokens);
    weft_run_product(p,
                     &(struct product_run){.which = P_UP,
                                           .a = a,
                                           .b = ahead(p, param(p, layer, WEFT_UP)),
                                           .bias = param(p, layer, WEFT_UP_BIAS),
                                           .c = job.up,
                                           .after = activate,
                                           .after_arg = &job},
                     p->tokens);
}

void weft_layer_forward(struct pass *p, uint32_t layer, struct weft_mat out)
{
    attention_inside(p, layer);
    attention_output(p, layer);
    mlp_inside(p, layer);
    weft_run_product(p,
                     &(struct product_run){.which = P_DOWN,
                                           .a = weft_tstage_field(p, layer, F_ACT),
                                           .b = ahead(p, param(p, layer, WEFT_DOWN)),
                                           .bias = param(p, layer, WEFT_DOWN_BIAS),
                                           .add = weft_tstage_field(p, layer, F_X2),
                                           .c = out},
                     p->tokens);
}

void weft_layer_again(struct pass *p, uint32_t layer)
{
    if (p->t->place[F_QKV].work)
        attention_inside(p, layer);
    if (p->t->place[F_X2].work) {
        attention_output(p, layer);
        mlp_inside(p, layer);
    }
}

/* -- backward: inputs ----------------------------------------------------------------------- */

/* The gradient of a sublayer's output as a factor: the stream's, narrowed if need be. */
static struct weft_mat output_gradient(struct pass *p, uint32_t layer, enum field kept)
{
    if (p->t->spec.precision == WEFT_F32)
        return p->g;
    struct weft_mat narrow = weft_tstage_field(p, layer, kept);
    weft_convert_rows(p, narrow, p->g, p->t->dim);
    return narrow;
}

/* Where backward_weight finds it: see F_G1. */
static struct weft_mat kept_gradient(const struct pass *p, uint32_t layer, enum field x,
                                     enum field h, enum field g)
{
    if (p->t->spec.precision != WEFT_F32)
        return weft_tstage_field(p, layer, g);
    return weft_tstage_field(p, layer, p->t->mixed ? h : x);
}

struct norm_back {
    enum field x, h, g, mean, rstd, alpha, mix;
    enum weft_role norm, bias, query;
};

/* Back through a norm, and the mix before it, into the stream's gradient. */
static enum weft_status back_into_stream(struct pass *p, uint32_t layer,
                                         const struct norm_back *n, struct weft_mat open,
                                         struct weft_error *err)
{
    struct weft_tstage *t = p->t;
    struct weft_mat dy = t->narrow, keep = none();
    const float *mean = weft_tstage_floats(p, layer, n->mean);
    const float *rstd = weft_tstage_floats(p, layer, n->rstd);
    struct weft_param *w = param(p, layer, n->norm), *b = param(p, layer, n->bias);
    if (!t->mixed) {
        if (t->spec.precision == WEFT_F32)
            keep = weft_tstage_field(p, layer, n->x);
        return weft_norm_backward(p, p->g, p->g, keep, dy, weft_tstage_field(p, layer, n->x),
                                  mean, rstd, w, b, err);
    }
    struct weft_mat h = weft_tstage_field(p, layer, n->h);
    WEFT_TRY(weft_norm_backward(p, t->mixed_g, none(), none(), dy, h, mean, rstd, w, b, err));
    if (t->spec.precision == WEFT_F32)
        weft_convert_rows(p, h, p->g, t->dim);
    if (open.at == NULL) /* the sublayer's output was the whole sum: nothing flows past it */
        memset(p->g.at, 0, p->tokens * t->dim * sizeof(float));
    return weft_mix_backward(p, t->mixed_g, weft_tstage_floats(p, layer, n->alpha),
                             weft_tstage_floats(p, layer, n->mix), n_finished(p, layer), open,
                             param(p, layer, n->query), param(p, layer, n->query + 1), err);
}

static enum weft_status mlp_back(struct pass *p, uint32_t layer, struct weft_error *err)
{
    static const struct norm_back norm = {F_X2,
                                          F_H2,
                                          F_G2,
                                          F_MEAN2,
                                          F_RSTD2,
                                          F_ALPHA2,
                                          F_MIX2,
                                          WEFT_MLP_NORM,
                                          WEFT_MLP_NORM_BIAS,
                                          WEFT_MLP_MIX_QUERY};
    struct weft_tstage *t = p->t;
    struct mlp_job job = mlp_of(p, layer);
    weft_run_product(p,
                     &(struct product_run){.which = B_DOWN,
                                           .a = output_gradient(p, layer, F_G2),
                                           .b = back(p, param(p, layer, WEFT_DOWN)),
                                           .c = t->wide,
                                           .after = activate_back,
                                           .after_arg = &job},
                     p->tokens);
    weft_run_product(
        p,
        &(struct product_run){
            .which = B_UP, .a = job.up, .b = back(p, param(p, layer, WEFT_UP)), .c = t->narrow},
        p->tokens);
    if (t->llama)
        weft_run_product(p,
                         &(struct product_run){.which = B_UP_ADD,
                                               .a = job.gate,
                                               .b = back(p, param(p, layer, WEFT_GATE)),
                                               .add = t->narrow,
                                               .c = t->narrow},
                         p->tokens);
    return back_into_stream(p, layer, &norm, weft_tstage_field(p, layer, F_X2), err);
}

static enum weft_status attention_back(struct pass *p, uint32_t layer, struct weft_error *err)
{
    static const struct norm_back norm = {F_X1,
                                          F_H1,
                                          F_G1,
                                          F_MEAN1,
                                          F_RSTD1,
                                          F_ALPHA1,
                                          F_MIX1,
                                          WEFT_ATTN_NORM,
                                          WEFT_ATTN_NORM_BIAS,
                                          WEFT_ATTN_MIX_QUERY};
    struct weft_tstage *t = p->t;
    weft_run_product(p,
                     &(struct product_run){.which = B_PROJECT,
                                           .a = output_gradient(p, layer, F_G1),
                                           .b = back(p, param(p, layer, WEFT_PROJECT)),
                                           .c = t->narrow},
                     p->tokens);
    uint64_t start = weft_tstage_now();
    struct attention_job job = {t, attention_of(p, layer)};
    struct weft_mat qkv = job.a.q;
    job.a.dout = t->narrow;
    job.a.dq = job.a.q;
    job.a.dk = job.a.k;
    job.a.dv = job.a.v;
    weft_pool_run(t->spec.pool, weft_attention_backward_tasks(&job.a), attend_back, &job);
    weft_tstage_count(t, WEFT_TIME_ATTENTION_BACK, start);
    turn(p, qkv, true);
    if (!t->llama) {
        weft_run_product(p,
                         &(struct product_run){.which = B_QKV,
                                               .a = qkv,
                                               .b = back(p, param(p, layer, WEFT_QKV)),
                                               .c = t->narrow},
                         p->tokens);
    } else {
        weft_run_product(p,
                         &(struct product_run){.which = B_QKV,
                                               .a = qkv,
                                               .b = back(p, param(p, layer, WEFT_QUERY)),
                                               .c = t->narrow},
                         p->tokens);
        weft_run_product(p,
                         &(struct product_run){.which = B_KV_ADD,
                                               .a = job.a.k,
                                               .b = back(p, param(p, layer, WEFT_KEY)),
                                               .add = t->narrow,
                                               .c = t->narrow},
                         p->tokens);
        weft_run_product(p,
                         &(struct product_run){.which = B_KV_ADD,
                                               .a = job.a.v,
                                               .b = back(p, param(p, layer, WEFT_VALUE)),
                                               .add = t->narrow,
                                               .c = t->narrow},
                         p->tokens);
    }
    return back_into_stream(p, layer, &norm, open_sum(p, layer), err);
}

enum weft_status weft_layer_backward_input(struct pass *p, uint32_t layer,
                                           struct weft_error *err)
{
    WEFT_TRY(mlp_back(p, layer, err));
    WEFT_TRY(attention_back(p, layer, err));
    /* The stream before was a block of its own, now complete.  If another stage made that block,
     * nothing flows back but through its sum: p->g is zero. */
    if (weft_opens_block(p, layer) && n_finished(p, layer) > p->t->blocks_in)
        weft_block_gradient(p, n_finished(p, layer) - 1);
    return WEFT_OK;
}

/* -- backward: weights ---------------------------------------------------------------------- */

/* The weight between x and y, whose gradients are x and dy. */
static enum weft_status add_weight(struct pass *p, struct weft_param *w,
                                   struct weft_param *bias, struct weft_mat x,
                                   struct weft_mat dy, struct weft_error *err)
{
    if (p->t->llama)
        WEFT_TRY(weft_add_outer(p, p->t->outer, w, dy, x, p->tokens, err));
    else
        WEFT_TRY(weft_add_outer(p, p->t->outer, w, x, dy, p->tokens, err));
    return bias != NULL ? weft_add_bias(p, bias, dy, err) : WEFT_OK;
}

static enum weft_status attention_weights(struct pass *p, uint32_t layer,
                                          struct weft_error *err)
{
    struct weft_mat x = weft_tstage_field(p, layer, F_A1);
    struct weft_mat dqkv = weft_tstage_field(p, layer, F_QKV);
    if (!p->t->llama)
        return add_weight(p, param(p, layer, WEFT_QKV), param(p, layer, WEFT_QKV_BIAS), x, dqkv,
                          err);
    static const enum weft_role roles[] = {WEFT_QUERY, WEFT_KEY, WEFT_VALUE};
    size_t col = 0;
    for (size_t i = 0; i < 3; i++) {
        struct weft_param *w = param(p, layer, roles[i]);
        WEFT_TRY(add_weight(p, w, NULL, x, weft_mat_at(dqkv, 0, col), err));
        col += w->desc.shape[0];
    }
    return WEFT_OK;
}

enum weft_status weft_layer_backward_weight(struct pass *p, uint32_t layer,
                                            struct weft_error *err)
{
    WEFT_TRY(add_weight(p, param(p, layer, WEFT_DOWN), param(p, layer, WEFT_DOWN_BIAS),
                        weft_tstage_field(p, layer, F_ACT),
                        kept_gradient(p, layer, F_X2, F_H2, F_G2), err));
    struct weft_mat x = weft_tstage_field(p, layer, F_A2);
    WEFT_TRY(add_weight(p, param(p, layer, WEFT_UP), param(p, layer, WEFT_UP_BIAS), x,
                        weft_tstage_field(p, layer, F_UP), err));
    if (p->t->llama)
        WEFT_TRY(add_weight(p, param(p, layer, WEFT_GATE), NULL, x,
                            weft_tstage_field(p, layer, F_GATE), err));
    WEFT_TRY(add_weight(p, param(p, layer, WEFT_PROJECT), param(p, layer, WEFT_PROJECT_BIAS),
                        weft_tstage_field(p, layer, F_ATT),
                        kept_gradient(p, layer, F_X1, F_H1, F_G1), err));
    return attention_weights(p, layer, err);
}
