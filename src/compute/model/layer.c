/* One transformer layer.  With plain residuals
 *
 *     x2 = x1 + project(attention(norm(x1)))        out = x2 + mlp(norm(x2))
 *
 * With block attention residuals the norms read a mix (block_mix.c) instead of the stream,
 * which is then the sum of the open block.
 *
 * The backward works in place: a gradient overwrites a field that is no longer needed. */
#include <string.h>

#include "base/error.h"
#include "compute/model/stage_priv.h"

static struct wf_param *param(const struct pass *p, uint32_t layer, enum wf_role role)
{
    return wf_tstage_layer_param(p->t, layer, role);
}

/* Returns the packed weight for the forward product.  Weights are stored as (out, in) in Llama
 * and as (in, out) in GPT-2. */
static const struct wf_packed *forward_factor(const struct pass *p, const struct wf_param *w)
{
    return p->t->llama ? &w->transposed : &w->direct;
}

/* Returns the packed weight for the product that computes the input gradient. */
static const struct wf_packed *backward_factor(const struct pass *p, const struct wf_param *w)
{
    return p->t->llama ? &w->direct : &w->transposed;
}

static struct wf_mat none(void)
{
    return (struct wf_mat){0};
}

/* Returns the number of blocks that are finished before layer `layer` runs.  Only for models
 * with block residuals. */
static size_t n_finished(const struct pass *p, uint32_t layer)
{
    return 1 + (p->t->layer0 + layer) / p->t->spec.model.residual_block_layers;
}

bool wf_layer_opens_block(const struct pass *p, uint32_t layer)
{
    return p->t->block_mix && !wf_layer_is_block_open(p->t, p->t->layer0 + layer);
}

static struct wf_mat open_sum(const struct pass *p, uint32_t layer)
{
    return wf_layer_opens_block(p, layer) ? none() : wf_tstage_field(p, layer, FIELD_X1);
}

/* -- forward ------------------------------------------------------------------------------- */

static struct wf_mat norm_input(const struct pass *p, uint32_t layer, enum stage_field x,
                                enum stage_field h)
{
    return wf_tstage_field(p, layer, p->t->block_mix ? h : x);
}

static void mix_attention(struct pass *p, uint32_t layer)
{
    if (p->t->block_mix)
        wf_mix_forward(
            p, wf_tstage_field(p, layer, FIELD_H1), wf_tstage_floats(p, layer, FIELD_ALPHA1),
            wf_tstage_floats(p, layer, FIELD_MIX1), n_finished(p, layer), open_sum(p, layer),
            param(p, layer, WF_ROLE_ATTN_MIX_QUERY), param(p, layer, WF_ROLE_ATTN_MIX_NORM));
}

static void mix_mlp(struct pass *p, uint32_t layer)
{
    if (p->t->block_mix)
        wf_mix_forward(
            p, wf_tstage_field(p, layer, FIELD_H2), wf_tstage_floats(p, layer, FIELD_ALPHA2),
            wf_tstage_floats(p, layer, FIELD_MIX2), n_finished(p, layer),
            wf_tstage_field(p, layer, FIELD_X2), param(p, layer, WF_ROLE_MLP_MIX_QUERY),
            param(p, layer, WF_ROLE_MLP_MIX_NORM));
}

struct rope_job {
    const struct wf_tstage *t;
    struct wf_mat qkv;
    size_t tokens;
    bool inverse;
};

static void rope_rows(void *arg, size_t task, unsigned worker)
{
    const struct rope_job *j = arg;
    const struct wf_tstage *t = j->t;
    size_t row = task * ROW_TILE;
    size_t n = j->tokens - row < ROW_TILE ? j->tokens - row : ROW_TILE;
    (void)worker;
    t->ops->rope(wf_mat_at(j->qkv, row, 0), t->cosines, t->sines, t->positions + row,
                 j->inverse, n, t->spec.model.heads, t->head);
    t->ops->rope(wf_mat_at(j->qkv, row, t->dim), t->cosines, t->sines, t->positions + row,
                 j->inverse, n, t->spec.model.kv_heads, t->head);
}

static void apply_rope(struct pass *p, struct wf_mat qkv, bool inverse)
{
    if (!p->t->llama)
        return;
    int64_t start = wf_clock_ns();
    struct rope_job job = {p->t, qkv, p->tokens, inverse};
    wf_pool_run(p->t->spec.pool, (p->tokens + ROW_TILE - 1) / ROW_TILE, rope_rows, &job);
    wf_tstage_add_time(p->t, WF_TIMER_OTHER, start);
}

static void queries_keys_values(struct pass *p, uint32_t layer)
{
    struct wf_tstage *t = p->t;
    struct wf_mat a = wf_tstage_field(p, layer, FIELD_A1);
    struct wf_mat qkv = wf_tstage_field(p, layer, FIELD_QKV);
    if (!t->llama) {
        struct wf_param *w = param(p, layer, WF_ROLE_QKV);
        wf_tstage_run_gemm(p,
                           &(struct gemm_call){.which = GEMM_QKV,
                                               .a = a,
                                               .b = forward_factor(p, w),
                                               .bias = param(p, layer, WF_ROLE_QKV_BIAS),
                                               .c = qkv},
                           p->tokens);
        return;
    }

    static const enum wf_role roles[] = {WF_ROLE_QUERY, WF_ROLE_KEY, WF_ROLE_VALUE};
    size_t col = 0;
    for (size_t i = 0; i < 3; i++) {
        struct wf_param *w = param(p, layer, roles[i]);
        wf_tstage_run_gemm(p,
                           &(struct gemm_call){.which = i == 0 ? GEMM_QKV : GEMM_KV,
                                               .a = a,
                                               .b = forward_factor(p, w),
                                               .c = wf_mat_at(qkv, 0, col)},
                           p->tokens);
        col += w->desc.shape[0];
    }
    apply_rope(p, qkv, false);
}

static struct wf_attention attention_of(const struct pass *p, uint32_t layer)
{
    const struct wf_tstage *t = p->t;
    struct wf_mat qkv = wf_tstage_field(p, layer, FIELD_QKV);
    struct wf_attention a = {.batch = p->call->rows,
                             .seq = t->spec.seq,
                             .heads = t->spec.model.heads,
                             .kv_heads = t->spec.model.kv_heads,
                             .head = t->head,
                             .q = qkv,
                             .k = wf_mat_at(qkv, 0, t->dim),
                             .v = wf_mat_at(qkv, 0, t->dim + t->kv_cols),
                             .out = wf_tstage_field(p, layer, FIELD_ATT),
                             .lse = wf_tstage_floats(p, layer, FIELD_LSE)};
    return a;
}

struct attention_job {
    struct wf_tstage *t;
    struct wf_attention a;
};

static void attend(void *arg, size_t task, unsigned worker)
{
    struct attention_job *j = arg;
    wf_attention_forward(&j->a, task, j->t->per_worker + worker * j->t->per_worker_bytes);
}

static void attend_backward(void *arg, size_t task, unsigned worker)
{
    struct attention_job *j = arg;
    wf_attention_backward(&j->a, task, j->t->per_worker + worker * j->t->per_worker_bytes);
}

/* Runs the layer from its input to the output of attention. */
static void attention_core(struct pass *p, uint32_t layer)
{
    mix_attention(p, layer);
    wf_norm_forward(
        p, wf_tstage_field(p, layer, FIELD_A1), wf_tstage_floats(p, layer, FIELD_MEAN1),
        wf_tstage_floats(p, layer, FIELD_RSTD1), norm_input(p, layer, FIELD_X1, FIELD_H1),
        param(p, layer, WF_ROLE_ATTN_NORM), param(p, layer, WF_ROLE_ATTN_NORM_BIAS));
    queries_keys_values(p, layer);
    int64_t start = wf_clock_ns();

    struct attention_job job = {p->t, attention_of(p, layer)};
    wf_pool_run(p->t->spec.pool, wf_attention_forward_tasks(&job.a), attend, &job);
    wf_tstage_add_time(p->t, WF_TIMER_ATTENTION, start);
}

static void attention_output(struct pass *p, uint32_t layer)
{
    struct wf_param *w = param(p, layer, WF_ROLE_PROJECT);
    bool opens = wf_layer_opens_block(p, layer);
    wf_tstage_run_gemm(p,
                       &(struct gemm_call){.which = opens ? GEMM_PROJECT_NO_ADD : GEMM_PROJECT,
                                           .a = wf_tstage_field(p, layer, FIELD_ATT),
                                           .b = forward_factor(p, w),
                                           .bias = param(p, layer, WF_ROLE_PROJECT_BIAS),
                                           .add = open_sum(p, layer),
                                           .c = wf_tstage_field(p, layer, FIELD_X2)},
                       p->tokens);
}

struct mlp_job {
    const struct wf_tstage *t;
    struct wf_mat gate, up, act, dact;
};

static void activate(void *arg, size_t row0, size_t row1, size_t col0, size_t col1,
                     unsigned worker)
{
    const struct mlp_job *j = arg;
    struct wf_mat act = wf_mat_at(j->act, row0, col0), up = wf_mat_at(j->up, row0, col0);
    (void)worker;
    if (j->t->llama)
        j->t->ops->swiglu_forward(act, wf_mat_at(j->gate, row0, col0), up, row1 - row0,
                                  col1 - col0);
    else
        j->t->ops->gelu_forward(act, up, row1 - row0, col1 - col0);
}

static void activate_backward(void *arg, size_t row0, size_t row1, size_t col0, size_t col1,
                              unsigned worker)
{
    const struct mlp_job *j = arg;
    struct wf_mat dact = wf_mat_at(j->dact, row0, col0), up = wf_mat_at(j->up, row0, col0);
    (void)worker;
    if (j->t->llama) {
        struct wf_mat gate = wf_mat_at(j->gate, row0, col0);
        j->t->ops->swiglu_backward(gate, up, dact, gate, up, row1 - row0, col1 - col0);
    } else {
        j->t->ops->gelu_backward(up, dact, up, row1 - row0, col1 - col0);
    }
}

static struct mlp_job mlp_of(const struct pass *p, uint32_t layer)
{
    struct mlp_job job = {.t = p->t,
                          .up = wf_tstage_field(p, layer, FIELD_UP),
                          .act = wf_tstage_field(p, layer, FIELD_ACT),
                          .dact = p->t->wide};
    if (p->t->llama)
        job.gate = wf_tstage_field(p, layer, FIELD_GATE);
    return job;
}

/* Runs the MLP sublayer from its input to the output of the activation function. */
static void mlp_hidden(struct pass *p, uint32_t layer)
{
    mix_mlp(p, layer);
    struct wf_mat a = wf_tstage_field(p, layer, FIELD_A2);
    wf_norm_forward(p, a, wf_tstage_floats(p, layer, FIELD_MEAN2),
                    wf_tstage_floats(p, layer, FIELD_RSTD2),
                    norm_input(p, layer, FIELD_X2, FIELD_H2), param(p, layer, WF_ROLE_MLP_NORM),
                    param(p, layer, WF_ROLE_MLP_NORM_BIAS));

    struct mlp_job job = mlp_of(p, layer);
    if (p->t->llama)
        wf_tstage_run_gemm(
            p,
            &(struct gemm_call){.which = GEMM_UP,
                                .a = a,
                                .b = forward_factor(p, param(p, layer, WF_ROLE_GATE)),
                                .c = job.gate},
            p->tokens);
    wf_tstage_run_gemm(p,
                       &(struct gemm_call){.which = GEMM_UP,
                                           .a = a,
                                           .b = forward_factor(p, param(p, layer, WF_ROLE_UP)),
                                           .bias = param(p, layer, WF_ROLE_UP_BIAS),
                                           .c = job.up,
                                           .after = activate,
                                           .after_arg = &job},
                       p->tokens);
}

void wf_layer_forward(struct pass *p, uint32_t layer, struct wf_mat out)
{
    attention_core(p, layer);
    attention_output(p, layer);
    mlp_hidden(p, layer);
    wf_tstage_run_gemm(
        p,
        &(struct gemm_call){.which = GEMM_DOWN,
                            .a = wf_tstage_field(p, layer, FIELD_ACT),
                            .b = forward_factor(p, param(p, layer, WF_ROLE_DOWN)),
                            .bias = param(p, layer, WF_ROLE_DOWN_BIAS),
                            .add = wf_tstage_field(p, layer, FIELD_X2),
                            .c = out},
        p->tokens);
}

void wf_layer_recompute(struct pass *p, uint32_t layer)
{
    if (wf_layer_recomputes(p->t, layer, FIELD_QKV))
        attention_core(p, layer);
    if (wf_layer_recomputes(p->t, layer, FIELD_X2)) {
        attention_output(p, layer);
        mlp_hidden(p, layer);
    }
}

/* -- backward: inputs ---------------------------------------------------------------------- */

/* Returns the gradient of a sublayer's output as a factor of products.  This is the gradient of
 * the stream, converted to bf16 if needed. */
static struct wf_mat output_gradient(struct pass *p, uint32_t layer, enum stage_field field)
{
    if (p->t->spec.precision == WF_DTYPE_F32)
        return p->g;
    struct wf_mat narrow = wf_tstage_field(p, layer, field);
    wf_convert_rows(p, narrow, p->g, p->t->dim);
    return narrow;
}

/* Returns the gradient that backward_input stored for backward_weight: see FIELD_G1. */
static struct wf_mat stored_gradient(const struct pass *p, uint32_t layer, enum stage_field x,
                                     enum stage_field h, enum stage_field g)
{
    if (p->t->spec.precision != WF_DTYPE_F32)
        return wf_tstage_field(p, layer, g);
    return wf_tstage_field(p, layer, p->t->block_mix ? h : x);
}

/* The fields and parameters of the norm before a sublayer, and of the mix before that norm. */
struct norm_fields {
    enum stage_field x, h, g, mean, rstd, alpha, mix;
    enum wf_role norm, bias, query;
};

/* Propagates the gradient through a norm, and the mix before it, into the stream's gradient. */
static enum weft_status backward_into_stream(struct pass *p, uint32_t layer,
                                             const struct norm_fields *n, struct wf_mat open,
                                             struct weft_error *err)
{
    struct wf_tstage *t = p->t;
    struct wf_mat dy = t->narrow, copy = none();
    const float *mean = wf_tstage_floats(p, layer, n->mean);
    const float *rstd = wf_tstage_floats(p, layer, n->rstd);
    struct wf_param *w = param(p, layer, n->norm), *b = param(p, layer, n->bias);

    if (!t->block_mix) {
        if (t->spec.precision == WF_DTYPE_F32)
            copy = wf_tstage_field(p, layer, n->x);
        return wf_norm_backward(p, p->g, p->g, copy, dy, wf_tstage_field(p, layer, n->x), mean,
                                rstd, w, b, err);
    }

    struct wf_mat h = wf_tstage_field(p, layer, n->h);
    WEFT_TRY(wf_norm_backward(p, t->mix_grad, none(), none(), dy, h, mean, rstd, w, b, err));
    if (t->spec.precision == WF_DTYPE_F32)
        wf_convert_rows(p, h, p->g, t->dim);
    if (open.at == NULL) /* the sublayer's output was the whole sum: no gradient bypasses it */
        memset(p->g.at, 0, p->tokens * t->dim * sizeof(float));
    return wf_mix_backward(p, t->mix_grad, wf_tstage_floats(p, layer, n->alpha),
                           wf_tstage_floats(p, layer, n->mix), n_finished(p, layer), open,
                           param(p, layer, n->query), param(p, layer, n->query + 1), err);
}

/* Computes the gradient of a product's input: narrow = a w^T (+ add). */
static void backward_product(struct pass *p, enum stage_gemm which, struct wf_mat a,
                             const struct wf_param *w, struct wf_mat add)
{
    wf_tstage_run_gemm(
        p,
        &(struct gemm_call){
            .which = which, .a = a, .b = backward_factor(p, w), .add = add, .c = p->t->narrow},
        p->tokens);
}

static enum weft_status mlp_backward(struct pass *p, uint32_t layer, struct weft_error *err)
{
    static const struct norm_fields norm = {FIELD_X2,
                                            FIELD_H2,
                                            FIELD_G2,
                                            FIELD_MEAN2,
                                            FIELD_RSTD2,
                                            FIELD_ALPHA2,
                                            FIELD_MIX2,
                                            WF_ROLE_MLP_NORM,
                                            WF_ROLE_MLP_NORM_BIAS,
                                            WF_ROLE_MLP_MIX_QUERY};
    struct wf_tstage *t = p->t;
    struct mlp_job job = mlp_of(p, layer);
    wf_tstage_run_gemm(
        p,
        &(struct gemm_call){.which = GEMM_DOWN_BACK,
                            .a = output_gradient(p, layer, FIELD_G2),
                            .b = backward_factor(p, param(p, layer, WF_ROLE_DOWN)),
                            .c = t->wide,
                            .after = activate_backward,
                            .after_arg = &job},
        p->tokens);

    backward_product(p, GEMM_UP_BACK, job.up, param(p, layer, WF_ROLE_UP), none());
    if (t->llama)
        backward_product(p, GEMM_UP_BACK_ADD, job.gate, param(p, layer, WF_ROLE_GATE),
                         t->narrow);
    return backward_into_stream(p, layer, &norm, wf_tstage_field(p, layer, FIELD_X2), err);
}

/* Overwrites queries, keys and values with their gradients.  `narrow` contains the gradient of
 * the output. */
static struct wf_attention attention_core_backward(struct pass *p, uint32_t layer)
{
    struct wf_tstage *t = p->t;
    int64_t start = wf_clock_ns();
    struct attention_job job = {t, attention_of(p, layer)};
    job.a.dout = t->narrow;
    job.a.dq = job.a.q;
    job.a.dk = job.a.k;
    job.a.dv = job.a.v;
    wf_pool_run(t->spec.pool, wf_attention_backward_tasks(&job.a), attend_backward, &job);
    wf_tstage_add_time(t, WF_TIMER_ATTENTION_BACK, start);
    apply_rope(p, job.a.dq, true);
    return job.a;
}

static enum weft_status attention_backward(struct pass *p, uint32_t layer,
                                           struct weft_error *err)
{
    static const struct norm_fields norm = {FIELD_X1,
                                            FIELD_H1,
                                            FIELD_G1,
                                            FIELD_MEAN1,
                                            FIELD_RSTD1,
                                            FIELD_ALPHA1,
                                            FIELD_MIX1,
                                            WF_ROLE_ATTN_NORM,
                                            WF_ROLE_ATTN_NORM_BIAS,
                                            WF_ROLE_ATTN_MIX_QUERY};
    struct wf_tstage *t = p->t;
    backward_product(p, GEMM_PROJECT_BACK, output_gradient(p, layer, FIELD_G1),
                     param(p, layer, WF_ROLE_PROJECT), none());
    struct wf_attention a = attention_core_backward(p, layer);

    if (t->llama) {
        backward_product(p, GEMM_QKV_BACK, a.dq, param(p, layer, WF_ROLE_QUERY), none());
        backward_product(p, GEMM_KV_BACK_ADD, a.dk, param(p, layer, WF_ROLE_KEY), t->narrow);
        backward_product(p, GEMM_KV_BACK_ADD, a.dv, param(p, layer, WF_ROLE_VALUE), t->narrow);
    } else {
        backward_product(p, GEMM_QKV_BACK, a.dq, param(p, layer, WF_ROLE_QKV), none());
    }
    return backward_into_stream(p, layer, &norm, open_sum(p, layer), err);
}

enum weft_status wf_layer_backward_input(struct pass *p, uint32_t layer, struct weft_error *err)
{
    WEFT_TRY(mlp_backward(p, layer, err));
    WEFT_TRY(attention_backward(p, layer, err));
    /* Before this layer, the stream was a block, whose gradient is now complete.  If another
     * stage produced that block, its gradient flows only through the block's sum, and p->g is
     * zero. */
    if (wf_layer_opens_block(p, layer) && n_finished(p, layer) > p->t->blocks_in)
        wf_block_load_grad(p, n_finished(p, layer) - 1);
    return WEFT_OK;
}

/* -- backward: weights --------------------------------------------------------------------- */

/* Adds to the gradients of the weight and bias that map x to y, given x and dy. */
static enum weft_status add_weight(struct pass *p, struct wf_param *w, struct wf_param *bias,
                                   struct wf_mat x, struct wf_mat dy, struct weft_error *err)
{
    if (p->t->llama)
        WEFT_TRY(wf_grad_add_product(p, p->t->wgrad, w, dy, x, p->tokens, err));
    else
        WEFT_TRY(wf_grad_add_product(p, p->t->wgrad, w, x, dy, p->tokens, err));
    return bias != NULL ? wf_grad_add_bias(p, bias, dy, err) : WEFT_OK;
}

static enum weft_status attention_weights(struct pass *p, uint32_t layer,
                                          struct weft_error *err)
{
    struct wf_mat x = wf_tstage_field(p, layer, FIELD_A1);
    struct wf_mat dqkv = wf_tstage_field(p, layer, FIELD_QKV);
    if (!p->t->llama)
        return add_weight(p, param(p, layer, WF_ROLE_QKV), param(p, layer, WF_ROLE_QKV_BIAS), x,
                          dqkv, err);
    static const enum wf_role roles[] = {WF_ROLE_QUERY, WF_ROLE_KEY, WF_ROLE_VALUE};
    size_t col = 0;
    for (size_t i = 0; i < 3; i++) {
        struct wf_param *w = param(p, layer, roles[i]);
        WEFT_TRY(add_weight(p, w, NULL, x, wf_mat_at(dqkv, 0, col), err));
        col += w->desc.shape[0];
    }
    return WEFT_OK;
}

enum weft_status wf_layer_backward_weight(struct pass *p, uint32_t layer,
                                          struct weft_error *err)
{
    WEFT_TRY(add_weight(p, param(p, layer, WF_ROLE_DOWN), param(p, layer, WF_ROLE_DOWN_BIAS),
                        wf_tstage_field(p, layer, FIELD_ACT),
                        stored_gradient(p, layer, FIELD_X2, FIELD_H2, FIELD_G2), err));

    struct wf_mat x = wf_tstage_field(p, layer, FIELD_A2);
    WEFT_TRY(add_weight(p, param(p, layer, WF_ROLE_UP), param(p, layer, WF_ROLE_UP_BIAS), x,
                        wf_tstage_field(p, layer, FIELD_UP), err));
    if (p->t->llama)
        WEFT_TRY(add_weight(p, param(p, layer, WF_ROLE_GATE), NULL, x,
                            wf_tstage_field(p, layer, FIELD_GATE), err));

    WEFT_TRY(add_weight(p, param(p, layer, WF_ROLE_PROJECT),
                        param(p, layer, WF_ROLE_PROJECT_BIAS),
                        wf_tstage_field(p, layer, FIELD_ATT),
                        stored_gradient(p, layer, FIELD_X1, FIELD_H1, FIELD_G1), err));
    return attention_weights(p, layer, err);
}
