/* Runs tokens through the layers, with the stored keys and values of previous tokens.  The
 * arithmetic is the same as in layer.c, block_mix.c and embed_head.c, but nothing is stored for
 * a backward. */
#include "compute/model/infer.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "compute/kern/decode.h"
#include "compute/model/infer_priv.h"

enum { TASK_BYTES = 1 << 16 }; /* bytes of weights per task */

/* Tokens that are processed together. */
struct token_batch {
    struct wf_infer *m;
    size_t n;
    const int32_t *tokens;
};

static struct wf_mat rows_f32(float *at, size_t ld)
{
    return (struct wf_mat){at, ld, WF_DTYPE_F32};
}

static const float *vector(const struct wf_infer *m, uint32_t item, enum wf_role role)
{
    return wf_infer_weight(m, item, role)->mat.at;
}

/* -- products ------------------------------------------------------------------------------ */

enum { MAX_PARTS = 3 };

/* Products of the same vectors with several weights, run together. */
struct products {
    size_t n_parts;
    struct {
        struct wf_gemv gemv;
        size_t rows, task_rows, tasks;
    } part[MAX_PARTS];
};

static void product_task(void *arg, size_t task, unsigned worker)
{
    const struct products *p = arg;
    size_t i = 0;
    (void)worker;
    for (; task >= p->part[i].tasks; i++)
        task -= p->part[i].tasks;
    size_t row = task * p->part[i].task_rows;
    wf_gemv_rows(&p->part[i].gemv, row,
                 wf_size_min(row + p->part[i].task_rows, p->part[i].rows));
}

/* Adds the product y = x w^T + bias + add to those that are computed together.  `add` may be
 * y. */
static void add_product(struct products *p, const struct infer_weight *w, const float *bias,
                        const float *x, size_t n, const float *add, float *y, size_t y_ld)
{
    size_t bytes = w->cols * wf_dtype_size(w->mat.type);
    size_t task_rows = wf_size_max(TASK_BYTES / bytes, 1);
    struct wf_gemv gemv = {.w = w->mat,
                           .k = w->cols,
                           .n = n,
                           .x = x,
                           .x_ld = w->cols,
                           .bias = bias,
                           .add = add,
                           .y = y,
                           .y_ld = y_ld};
    p->part[p->n_parts].gemv = gemv;
    p->part[p->n_parts].rows = w->rows;
    p->part[p->n_parts].task_rows = task_rows;
    p->part[p->n_parts].tasks = (w->rows + task_rows - 1) / task_rows;
    p->n_parts++;
}

static void run_products(const struct wf_infer *m, struct products *p)
{
    size_t tasks = 0;
    for (size_t i = 0; i < p->n_parts; i++)
        tasks += p->part[i].tasks;
    wf_pool_run(m->spec.pool, tasks, product_task, p);
}

static void multiply(const struct wf_infer *m, const struct infer_weight *w, const float *bias,
                     const float *x, size_t n, const float *add, float *y)
{
    struct products p = {0};
    add_product(&p, w, bias, x, n, add, y, w->rows);
    run_products(m, &p);
}

/* -- norms and mixes ----------------------------------------------------------------------- */

/* Arguments of the mix and the norm before a sublayer; one task per row. */
struct norm_rows_job {
    struct wf_infer *m;
    size_t n_mixed; /* block attention residuals: number of mixed vectors */
    /* Block attention residuals: the open sum, which is the last mixed vector, or NULL. */
    float *open;
    const float *query, *mix_norm;
    const float *norm, *bias;
};

static void mix_row(const struct norm_rows_job *b, size_t row)
{
    struct wf_infer *m = b->m;
    struct wf_mat v[WF_MAX_MIX];
    size_t finished = b->n_mixed - (b->open != NULL);
    for (size_t j = 0; j < finished; j++)
        v[j] = rows_f32(m->blocks + (j * WF_INFER_BATCH + row) * m->dim, m->dim);
    if (b->open != NULL)
        v[finished] = rows_f32(b->open + row * m->dim, m->dim);
    size_t n_max = m->n_blocks + 1;
    m->ops->mix_forward(rows_f32(m->h + row * m->dim, m->dim), m->alpha + row * n_max,
                        m->mix_rstd + row * n_max, v, b->n_mixed, b->query, b->mix_norm,
                        m->spec.model.norm_eps, 1, m->dim);
}

static void normalize_row(void *arg, size_t row, unsigned worker)
{
    const struct norm_rows_job *b = arg;
    struct wf_infer *m = b->m;
    (void)worker;
    if (m->block_mix)
        mix_row(b, row);
    struct wf_mat out = rows_f32(m->normed + row * m->dim, m->dim);
    struct wf_mat x = rows_f32((m->block_mix ? m->h : m->x) + row * m->dim, m->dim);
    float eps = m->spec.model.norm_eps;
    if (m->llama)
        m->ops->rmsnorm_forward(out, m->rstd + row, x, b->norm, eps, 1, m->dim);
    else
        m->ops->layernorm_forward(out, m->mean + row, m->rstd + row, x, b->norm, b->bias, eps,
                                  1, m->dim);
}

/* Returns the number of blocks that are finished before layer `layer` runs.  Only for models
 * with block residuals. */
static size_t n_finished(const struct wf_infer *m, uint32_t layer)
{
    return 1 + layer / m->spec.model.residual_block_layers;
}

static bool opens_block(const struct wf_infer *m, uint32_t layer)
{
    return m->block_mix && layer % m->spec.model.residual_block_layers == 0;
}

static void normalize_rows(const struct token_batch *c, uint32_t layer, bool open,
                           enum wf_role query, enum wf_role norm)
{
    struct wf_infer *m = c->m;
    uint32_t item = layer + 1;
    struct norm_rows_job b = {.m = m,
                              .open = open ? m->x : NULL,
                              .query = vector(m, item, query),
                              .mix_norm = vector(m, item, query + 1),
                              .norm = vector(m, item, norm),
                              .bias = vector(m, item, norm + 1)};
    if (m->block_mix)
        b.n_mixed = n_finished(m, layer) + open;
    wf_pool_run(m->spec.pool, c->n, normalize_row, &b);
}

/* -- attention ----------------------------------------------------------------------------- */

/* Returns the stored keys, or values, of one head of a layer. */
static float *cache_at(const struct wf_infer *m, float *cache, uint32_t layer, size_t kv_head)
{
    return cache +
           ((size_t)layer * m->spec.model.kv_heads + kv_head) * m->spec.max_tokens * m->head;
}

static void queries_keys_values(const struct token_batch *c, uint32_t layer)
{
    struct wf_infer *m = c->m;
    struct products p = {0};
    uint32_t item = layer + 1;
    if (!m->llama) {
        add_product(&p, wf_infer_weight(m, item, WF_ROLE_QKV),
                    vector(m, item, WF_ROLE_QKV_BIAS), m->normed, c->n, NULL, m->qkv,
                    m->qkv_cols);
        run_products(m, &p);
        return;
    }

    static const enum wf_role roles[] = {WF_ROLE_QUERY, WF_ROLE_KEY, WF_ROLE_VALUE};
    size_t col = 0;
    for (size_t i = 0; i < WEFT_LEN(roles); i++) {
        const struct infer_weight *w = wf_infer_weight(m, item, roles[i]);
        add_product(&p, w, NULL, m->normed, c->n, NULL, m->qkv + col, m->qkv_cols);
        col += w->rows;
    }
    run_products(m, &p);

    struct wf_mat qkv = rows_f32(m->qkv, m->qkv_cols);
    m->ops->rope(qkv, m->cosines, m->sines, m->positions, false, c->n, m->spec.model.heads,
                 m->head);
    m->ops->rope(wf_mat_at(qkv, 0, m->dim), m->cosines, m->sines, m->positions, false, c->n,
                 m->spec.model.kv_heads, m->head);
}

static void store_kv(const struct token_batch *c, uint32_t layer)
{
    struct wf_infer *m = c->m;
    for (size_t t = 0; t < c->n; t++)
        for (size_t g = 0; g < m->spec.model.kv_heads; g++) {
            const float *k = m->qkv + t * m->qkv_cols + m->dim + g * m->head;
            size_t at = (size_t)m->positions[t] * m->head, bytes = m->head * sizeof(float);
            memcpy(cache_at(m, m->keys, layer, g) + at, k, bytes);
            memcpy(cache_at(m, m->cached_values, layer, g) + at, k + m->kv_cols, bytes);
        }
}

struct attend_job {
    const struct token_batch *c;
    uint32_t layer;
};

static void attend_task(void *arg, size_t task, unsigned worker)
{
    const struct attend_job *j = arg;
    struct wf_infer *m = j->c->m;
    uint32_t heads = m->spec.model.heads;
    size_t t = task / heads, h = task % heads, g = h / (heads / m->spec.model.kv_heads);
    struct wf_attend a = {.n = (size_t)m->positions[t] + 1,
                          .head = m->head,
                          .scale = 1.0F / sqrtf((float)m->head),
                          .q = m->qkv + t * m->qkv_cols + h * m->head,
                          .k = cache_at(m, m->keys, j->layer, g),
                          .v = cache_at(m, m->cached_values, j->layer, g),
                          .scores = m->scores + worker * (size_t)m->spec.max_tokens,
                          .out = m->att + t * m->dim + h * m->head};
    wf_attend(&a);
}

static void attention(const struct token_batch *c, uint32_t layer)
{
    struct wf_infer *m = c->m;
    bool opens = opens_block(m, layer);
    normalize_rows(c, layer, !opens, WF_ROLE_ATTN_MIX_QUERY, WF_ROLE_ATTN_NORM);
    queries_keys_values(c, layer);
    store_kv(c, layer);
    struct attend_job job = {c, layer};
    wf_pool_run(m->spec.pool, c->n * m->spec.model.heads, attend_task, &job);
    multiply(m, wf_infer_weight(m, layer + 1, WF_ROLE_PROJECT),
             vector(m, layer + 1, WF_ROLE_PROJECT_BIAS), m->att, c->n, opens ? NULL : m->x,
             m->x);
}

/* -- MLP ----------------------------------------------------------------------------------- */

static void activate_row(void *arg, size_t row, unsigned worker)
{
    const struct wf_infer *m = arg;
    struct wf_mat up = rows_f32(m->up + row * m->ffn, m->ffn);
    struct wf_mat act = rows_f32(m->act + row * m->ffn, m->ffn);
    (void)worker;
    if (m->llama)
        m->ops->swiglu_forward(act, rows_f32(m->gate + row * m->ffn, m->ffn), up, 1, m->ffn);
    else
        m->ops->gelu_forward(act, up, 1, m->ffn);
}

/* Returns the destination of a layer's output: the residual stream, or a block if the layer is
 * the last one of that block. */
static float *output_of(const struct wf_infer *m, uint32_t layer)
{
    const struct weft_model *model = &m->spec.model;
    if (!m->block_mix)
        return m->x;
    size_t block = m->n_blocks - 1;
    if (layer + 1 < model->layers) {
        if (!opens_block(m, layer + 1))
            return m->x;
        block = (layer + 1) / model->residual_block_layers;
    }
    return m->blocks + block * WF_INFER_BATCH * m->dim;
}

static void mlp(const struct token_batch *c, uint32_t layer)
{
    struct wf_infer *m = c->m;
    struct products p = {0};
    uint32_t item = layer + 1;
    normalize_rows(c, layer, true, WF_ROLE_MLP_MIX_QUERY, WF_ROLE_MLP_NORM);
    if (m->llama)
        add_product(&p, wf_infer_weight(m, item, WF_ROLE_GATE), NULL, m->normed, c->n, NULL,
                    m->gate, m->ffn);
    add_product(&p, wf_infer_weight(m, item, WF_ROLE_UP), vector(m, item, WF_ROLE_UP_BIAS),
                m->normed, c->n, NULL, m->up, m->ffn);

    run_products(m, &p);
    wf_pool_run(m->spec.pool, c->n, activate_row, m);
    multiply(m, wf_infer_weight(m, item, WF_ROLE_DOWN), vector(m, item, WF_ROLE_DOWN_BIAS),
             m->act, c->n, m->x, output_of(m, layer));
}

/* -- embedding and head -------------------------------------------------------------------- */

static void embed(const struct token_batch *c)
{
    struct wf_infer *m = c->m;
    const struct infer_weight *w = wf_infer_weight(m, 0, WF_ROLE_TOKEN_EMBEDDING);
    const float *wpe = vector(m, 0, WF_ROLE_POSITION_EMBEDDING);
    float *out = m->block_mix ? m->blocks : m->x;
    for (size_t t = 0; t < c->n; t++) {
        struct wf_mat row = rows_f32(out + t * m->dim, m->dim);
        m->ops->convert(row, wf_mat_at(w->mat, (size_t)c->tokens[t], 0), 1, m->dim);
        if (wpe == NULL)
            continue;
        struct wf_mat position = rows_f32((float *)wpe + m->positions[t] * m->dim, m->dim);
        m->ops->add(row, row, position, 1, m->dim);
    }
}

static void head(const struct token_batch *c, float *logits)
{
    struct wf_infer *m = c->m;
    uint32_t item = m->spec.model.layers + 1;
    struct norm_rows_job b = {.m = m,
                              .n_mixed = m->n_blocks,
                              .query = vector(m, item, WF_ROLE_OUT_MIX_QUERY),
                              .mix_norm = vector(m, item, WF_ROLE_OUT_MIX_NORM),
                              .norm = vector(m, item, WF_ROLE_OUT_NORM),
                              .bias = vector(m, item, WF_ROLE_OUT_NORM_BIAS)};
    normalize_row(&b, c->n - 1, 0);
    const struct infer_weight *w = m->spec.model.tied
                                       ? wf_infer_weight(m, 0, WF_ROLE_TOKEN_EMBEDDING)
                                       : wf_infer_weight(m, item, WF_ROLE_HEAD);
    multiply(m, w, NULL, m->normed + (c->n - 1) * m->dim, 1, NULL, logits);
}

/* -- interface ----------------------------------------------------------------------------- */

static enum weft_status check_tokens(const struct wf_infer *m, const int32_t *tokens, size_t n,
                                     struct weft_error *err)
{
    if (n == 0 || n > m->spec.max_tokens - m->position)
        return WEFT_FAIL(err, WEFT_USAGE, "%zu tokens after %u exceed the maximum of %u", n,
                         m->position, m->spec.max_tokens);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= m->spec.model.vocab)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "token %d is out of range (the model has 0 to %u)", tokens[i],
                             m->spec.model.vocab - 1);
    return WEFT_OK;
}

enum weft_status wf_infer_feed(struct wf_infer *m, const int32_t *tokens, size_t n,
                               float *logits, struct weft_error *err)
{
    WEFT_TRY(check_tokens(m, tokens, n, err));
    for (size_t done = 0; done < n; done += WF_INFER_BATCH) {
        struct token_batch c = {m, wf_size_min(n - done, WF_INFER_BATCH), tokens + done};
        for (size_t t = 0; t < c.n; t++)
            m->positions[t] = (int32_t)(m->position + t);
        embed(&c);
        for (uint32_t layer = 0; layer < m->spec.model.layers; layer++) {
            attention(&c, layer);
            mlp(&c, layer);
        }
        m->position += (uint32_t)c.n;
        if (logits != NULL && done + c.n == n)
            head(&c, logits);
    }

    size_t vocab = m->spec.model.vocab;
    size_t bad =
        logits == NULL ? SIZE_MAX : m->ops->find_nonfinite(rows_f32(logits, vocab), 1, vocab);
    if (bad != SIZE_MAX)
        return WEFT_FAIL(
            err, WEFT_NUMERIC,
            "non-finite logit of token %zu after token %u; the weights are damaged or "
            "belong to another model",
            bad, m->position - 1);
    return WEFT_OK;
}

uint32_t wf_infer_position(const struct wf_infer *m)
{
    return m->position;
}

void wf_infer_rewind(struct wf_infer *m, uint32_t position)
{
    m->position = position < m->position ? position : m->position;
}
