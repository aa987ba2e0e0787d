/* Creates and frees a model for inference, and loads its weights. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/model/infer_priv.h"
#include "compute/model/rope.h"
#include "planning/spec/params.h"

/* -- sizes --------------------------------------------------------------------------------- */

static enum weft_status check_spec(const struct wf_infer_spec *s, struct weft_error *err)
{
    WEFT_TRY(weft_model_check(&s->model, err));
    if (s->max_tokens == 0 || s->max_tokens > s->model.ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "maximum of %u tokens is out of range (the model accepts 1 to %u)",
                         s->max_tokens, s->model.ctx);
    if (s->model.residual_block_layers != 0 &&
        s->model.layers / s->model.residual_block_layers + 3 > WF_MAX_MIX)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "model: too many residual blocks (maximum %d); use larger blocks",
                         WF_MAX_MIX - 3);
    if (s->type != WF_DTYPE_F32 && s->type != WF_DTYPE_BF16)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "weights cannot be stored as %s (expected f32 or bf16)",
                         wf_dtype_name(s->type));
    return WEFT_OK;
}

static void set_sizes(struct wf_infer *m)
{
    const struct weft_model *model = &m->spec.model;
    m->llama = model->arch == WEFT_ARCH_LLAMA;
    m->block_mix = model->residual_block_layers != 0;
    m->dim = model->dim;
    m->head = model->dim / model->heads;
    m->kv_cols = m->head * model->kv_heads;
    m->qkv_cols = m->dim + 2 * m->kv_cols;
    m->ffn = model->ffn;
    m->n_blocks = wf_model_n_blocks(model);
}

static enum weft_status no_memory(const char *what, size_t bytes, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "inference: out of memory for %s (%zu bytes)", what,
                     bytes);
}

static enum weft_status too_large(const char *what, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "inference: %s exceed the address space", what);
}

/* Reserves rows * cols elements of `size` bytes at *end, sets *at to their offset, and advances
 * *end, rounded up.  Returns false on overflow. */
static bool take(size_t *end, size_t *at, size_t rows, size_t cols, size_t size)
{
    size_t bytes;
    *at = *end;
    return wf_size_mul(rows, cols, &bytes) && wf_size_mul(bytes, size, &bytes) &&
           wf_size_add(bytes, WF_INFER_ALIGN - 1, &bytes) &&
           wf_size_add(*end, bytes / WF_INFER_ALIGN * WF_INFER_ALIGN, end);
}

/* -- weights ------------------------------------------------------------------------------- */

/* Returns true if the file stores the matrix as (inputs, outputs), as GPT-2 files do. */
static bool is_transposed(const struct wf_infer *m, enum wf_role role)
{
    return !m->llama && (role == WF_ROLE_QKV || role == WF_ROLE_PROJECT || role == WF_ROLE_UP ||
                         role == WF_ROLE_DOWN);
}

/* Returns the storage type of a parameter.  Position embeddings stay in fp32: a token reads
 * only one row of them, so a shorter type has no benefit. */
static enum wf_dtype stored_type(const struct wf_infer *m, const struct wf_param_desc *d)
{
    return d->n_dims == 2 && d->role != WF_ROLE_POSITION_EMBEDDING ? m->spec.type
                                                                   : WF_DTYPE_F32;
}

static enum weft_status make_weights(struct wf_infer *m, struct weft_error *err)
{
    uint32_t items = m->spec.model.layers + 2;
    WEFT_TRY(wf_param_list_init(&m->params, &m->spec.model, 0, items, err));
    m->weights = calloc((size_t)items * WF_N_ROLES, sizeof *m->weights);
    size_t *at = malloc((m->params.n + 1) * sizeof *at);
    enum weft_status st = WEFT_OK;
    if (m->weights == NULL || at == NULL)
        st = no_memory("the list of weights", m->params.n * sizeof *at, err);
    for (size_t i = 0; st == WEFT_OK && i < m->params.n; i++) {
        const struct wf_param_desc *d = &m->params.at[i];
        if (!take(&m->value_bytes, &at[i], d->shape[0], d->shape[1],
                  wf_dtype_size(stored_type(m, d))))
            st = too_large("the weights", err);
    }

    if (st == WEFT_OK && !m->counting && (m->values = wf_pages_alloc(m->value_bytes)) == NULL)
        st = no_memory("the weights", m->value_bytes, err);
    for (size_t i = 0; st == WEFT_OK && !m->counting && i < m->params.n; i++) {
        const struct wf_param_desc *d = &m->params.at[i];
        bool transposed = is_transposed(m, d->role);
        size_t rows = d->shape[transposed ? 1 : 0], cols = d->shape[transposed ? 0 : 1];
        m->weights[(size_t)d->item * WF_N_ROLES + d->role] = (struct infer_weight){
            {m->values + at[i], cols, stored_type(m, d)}, rows, cols, transposed};
    }
    free(at);
    return st;
}

struct store_job {
    const struct wf_infer *m;
    const struct infer_weight *w;
    const float *from;
};

enum { TILE = 32 };

/* Stores TILE rows of a weight, starting at row task * TILE, converted from the layout and type
 * of the file. */
static void store_rows(void *arg, size_t task, unsigned worker)
{
    const struct store_job *j = arg;
    const struct infer_weight *w = j->w;
    size_t row = task * TILE, rows = wf_size_min(TILE, w->rows - row);
    float tile[TILE * TILE];
    (void)worker;
    if (!w->transposed) {
        struct wf_mat from = {(float *)j->from + row * w->cols, w->cols, WF_DTYPE_F32};
        j->m->ops->convert(wf_mat_at(w->mat, row, 0), from, rows, w->cols);
        return;
    }
    for (size_t col = 0; col < w->cols; col += TILE) {
        size_t cols = wf_size_min(TILE, w->cols - col);
        for (size_t c = 0; c < cols; c++)
            for (size_t r = 0; r < rows; r++)
                tile[r * TILE + c] = j->from[(col + c) * w->rows + row + r];
        j->m->ops->convert(wf_mat_at(w->mat, row, col),
                           (struct wf_mat){tile, TILE, WF_DTYPE_F32}, rows, cols);
    }
}

static bool stored_as_read(const struct infer_weight *w)
{
    return w->mat.type == WF_DTYPE_F32 && !w->transposed;
}

static size_t largest_param(const struct wf_infer *m)
{
    size_t max = 0;
    for (size_t i = 0; i < m->params.n; i++)
        max = wf_size_max(max, wf_param_size(&m->params.at[i]));
    return max;
}

enum weft_status wf_infer_load(struct wf_infer *m, wf_infer_read_fn *read, void *arg,
                               struct weft_error *err)
{
    size_t max = largest_param(m);
    float *buffer = wf_pages_alloc(max * sizeof *buffer);
    enum weft_status st =
        buffer == NULL ? no_memory("reading weights", max * sizeof *buffer, err) : WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < m->params.n; i++) {
        const struct wf_param_desc *d = &m->params.at[i];
        const struct infer_weight *w = wf_infer_weight(m, d->item, d->role);
        bool as_read = stored_as_read(w);
        st = read(arg, d, as_read ? w->mat.at : buffer, err);
        struct store_job job = {m, w, buffer};
        if (st == WEFT_OK && !as_read)
            wf_pool_run(m->spec.pool, (w->rows + TILE - 1) / TILE, store_rows, &job);
    }
    free(buffer);
    return st;
}

struct init_job {
    struct wf_pool *pool;
    uint64_t seed;
};

static enum weft_status init_weight(void *arg, const struct wf_param_desc *d, float *out,
                                    struct weft_error *err)
{
    const struct init_job *j = arg;
    (void)err;
    wf_param_fill_all(d, j->seed, j->pool, out);
    return WEFT_OK;
}

enum weft_status wf_infer_init_weights(struct wf_infer *m, uint64_t seed,
                                       struct weft_error *err)
{
    struct init_job job = {m->spec.pool, seed};
    return wf_infer_load(m, init_weight, &job, err);
}

/* -- activations --------------------------------------------------------------------------- */

static enum weft_status make_cache(struct wf_infer *m, struct weft_error *err)
{
    size_t n, half = m->head / 2, max_tokens = m->spec.max_tokens;
    if (!wf_size_mul(m->kv_cols, m->spec.model.layers, &n) || !wf_size_mul(n, max_tokens, &n) ||
        !wf_size_mul(n, 2 * sizeof(float), &m->cache_bytes))
        return too_large("the keys and values", err);
    if (m->counting)
        return WEFT_OK;

    m->keys = wf_pages_alloc(n * sizeof(float));
    m->cached_values = wf_pages_alloc(n * sizeof(float));
    if (m->keys == NULL || m->cached_values == NULL)
        return no_memory("keys and values", m->cache_bytes, err);

    if (!m->llama)
        return WEFT_OK;
    m->cosines = malloc((max_tokens * half + 1) * sizeof *m->cosines);
    m->sines = malloc((max_tokens * half + 1) * sizeof *m->sines);
    if (m->cosines == NULL || m->sines == NULL)
        return no_memory("the tables of positions", max_tokens * half * 8, err);
    wf_rope_fill(&m->spec.model, max_tokens, m->cosines, m->sines);
    return WEFT_OK;
}

static enum weft_status make_activations(struct wf_infer *m, struct weft_error *err)
{
    size_t n = WF_INFER_BATCH, block_mix = m->n_blocks == 0 ? 0 : m->n_blocks + 1;
    struct {
        float **at;
        size_t rows, cols, offset;
    } parts[] = {
        {&m->x, n, m->dim, 0},
        {&m->h, n, m->block_mix ? m->dim : 0, 0},
        {&m->normed, n, m->dim, 0},
        {&m->qkv, n, m->qkv_cols, 0},
        {&m->att, n, m->dim, 0},
        {&m->up, n, m->ffn, 0},
        {&m->gate, n, m->llama ? m->ffn : 0, 0},
        {&m->act, n, m->llama ? m->ffn : 0, 0},
        {&m->blocks, n * m->n_blocks, m->dim, 0},
        {&m->alpha, n, block_mix, 0},
        {&m->mix_rstd, n, block_mix, 0},
        {&m->scores, m->workers, m->spec.max_tokens, 0},
    };
    for (size_t i = 0; i < WEFT_LEN(parts); i++)
        if (!take(&m->activation_bytes, &parts[i].offset, parts[i].rows, parts[i].cols,
                  sizeof(float)))
            return too_large("the activations", err);
    if (m->counting)
        return WEFT_OK;

    m->activations = wf_pages_alloc(m->activation_bytes);
    if (m->activations == NULL)
        return no_memory("activations", m->activation_bytes, err);
    for (size_t i = 0; i < WEFT_LEN(parts); i++)
        *parts[i].at = (float *)(m->activations + parts[i].offset);
    if (!m->llama)
        m->act = m->up;
    return WEFT_OK;
}

static enum weft_status build(struct wf_infer *m, struct weft_error *err)
{
    set_sizes(m);
    WEFT_TRY(make_weights(m, err));
    WEFT_TRY(make_cache(m, err));
    return make_activations(m, err);
}

enum weft_status wf_infer_new(const struct wf_infer_spec *spec, struct wf_infer **out,
                              struct weft_error *err)
{
    WEFT_TRY(check_spec(spec, err));
    struct wf_infer *m = calloc(1, sizeof *m);
    if (m == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "inference: out of memory");

    m->spec = *spec;
    m->ops = wf_ops();
    m->workers = wf_pool_threads(spec->pool);
    enum weft_status st = build(m, err);
    if (st != WEFT_OK) {
        wf_infer_free(m);
        return st;
    }
    *out = m;
    return WEFT_OK;
}

enum weft_status wf_infer_count_bytes(const struct wf_infer_spec *spec, unsigned threads,
                                      size_t *out, struct weft_error *err)
{
    WEFT_TRY(check_spec(spec, err));
    struct wf_infer m = {.spec = *spec, .workers = threads, .counting = true};
    enum weft_status st = build(&m, err);
    if (st == WEFT_OK)
        *out = m.value_bytes + m.cache_bytes + m.activation_bytes +
               largest_param(&m) * sizeof(float);
    wf_param_list_release(&m.params);
    free(m.weights);
    return st;
}

void wf_infer_free(struct wf_infer *m)
{
    if (m == NULL)
        return;
    wf_param_list_release(&m->params);
    free(m->weights);
    free(m->values);
    free(m->keys);
    free(m->cached_values);
    free(m->cosines);
    free(m->sines);
    free(m->activations);
    free(m);
}

/* -- sizes of a model ---------------------------------------------------------------------- */

size_t wf_infer_token_bytes(const struct wf_infer *m)
{
    size_t bytes = 0;
    for (size_t i = 0; i < m->params.n; i++) {
        const struct wf_param_desc *d = &m->params.at[i];
        bool looked_up = d->role == WF_ROLE_POSITION_EMBEDDING ||
                         (d->role == WF_ROLE_TOKEN_EMBEDDING && !m->spec.model.tied);
        bytes +=
            (looked_up ? d->shape[1] : wf_param_size(d)) * wf_dtype_size(stored_type(m, d));
    }
    return bytes;
}
