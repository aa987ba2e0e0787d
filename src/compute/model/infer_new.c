/* Making a model for inference, and its weights. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/model/infer_priv.h"
#include "compute/model/rope.h"
#include "compute/model/stage.h"

/* -- sizes ---------------------------------------------------------------------------------- */

static enum weft_status check_spec(const struct weft_infer_spec *s, struct weft_error *err)
{
    WEFT_TRY(weft_model_check(&s->model, err));
    if (s->room == 0 || s->room > s->model.ctx)
        return WEFT_FAIL(err, WEFT_USAGE, "room for %u tokens: the model takes 1 to %u",
                         s->room, s->model.ctx);
    if (s->model.residual_block_layers != 0 &&
        s->model.layers / s->model.residual_block_layers + 3 > WEFT_MAX_MIX)
        return WEFT_FAIL(err, WEFT_USAGE, "more than %d residual blocks: make them larger",
                         WEFT_MAX_MIX - 3);
    if (s->type != WEFT_F32 && s->type != WEFT_BF16)
        return WEFT_FAIL(err, WEFT_USAGE, "weights are stored as f32 or bf16, not %s",
                         weft_type_name(s->type));
    return WEFT_OK;
}

static void set_sizes(struct weft_infer *m)
{
    const struct weft_model *model = &m->spec.model;
    m->llama = model->arch == WEFT_ARCH_LLAMA;
    m->mixed = model->residual_block_layers != 0;
    m->dim = model->dim;
    m->head = model->dim / model->heads;
    m->kv_cols = m->head * model->kv_heads;
    m->qkv_cols = m->dim + 2 * m->kv_cols;
    m->ffn = model->ffn;
    m->n_blocks = weft_tstage_blocks(model);
}

static enum weft_status no_memory(const char *what, size_t bytes, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %s (%zu bytes)", what, bytes);
}

static enum weft_status too_large(const char *what, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "%s of this model need more memory than there can be",
                     what);
}

/* Adds rows * cols elements of `size` bytes, rounded up; false: too many. */
static bool take(size_t *end, size_t *at, size_t rows, size_t cols, size_t size)
{
    size_t bytes;
    *at = *end;
    return weft_size_mul(rows, cols, &bytes) && weft_size_mul(bytes, size, &bytes) &&
           weft_size_add(bytes, WEFT_INFER_ALIGN - 1, &bytes) &&
           weft_size_add(*end, bytes / WEFT_INFER_ALIGN * WEFT_INFER_ALIGN, end);
}

/* -- weights -------------------------------------------------------------------------------- */

/* GPT-2's files have (inputs, outputs). */
static bool is_turned(const struct weft_infer *m, enum weft_role role)
{
    return !m->llama &&
           (role == WEFT_QKV || role == WEFT_PROJECT || role == WEFT_UP || role == WEFT_DOWN);
}

/* Positions are looked up, one row a token: nothing is gained from storing them shorter. */
static enum weft_type stored_type(const struct weft_infer *m, const struct weft_param_desc *d)
{
    return d->rank == 2 && d->role != WEFT_POSITION_EMBEDDING ? m->spec.type : WEFT_F32;
}

static enum weft_status make_weights(struct weft_infer *m, struct weft_error *err)
{
    uint32_t items = m->spec.model.layers + 2;
    WEFT_TRY(weft_param_list_init(&m->params, &m->spec.model, 0, items, err));
    m->weights = calloc((size_t)items * WEFT_N_ROLES, sizeof *m->weights);
    size_t *at = malloc((m->params.n + 1) * sizeof *at);
    enum weft_status st = WEFT_OK;
    if (m->weights == NULL || at == NULL)
        st = no_memory("a list of weights", m->params.n * sizeof *at, err);
    for (size_t i = 0; st == WEFT_OK && i < m->params.n; i++) {
        const struct weft_param_desc *d = &m->params.at[i];
        if (!take(&m->value_bytes, &at[i], d->shape[0], d->shape[1],
                  weft_type_size(stored_type(m, d))))
            st = too_large("the weights", err);
    }
    if (st == WEFT_OK && (m->values = weft_pages_alloc(m->value_bytes)) == NULL)
        st = no_memory("the weights", m->value_bytes, err);
    for (size_t i = 0; st == WEFT_OK && i < m->params.n; i++) {
        const struct weft_param_desc *d = &m->params.at[i];
        bool turned = is_turned(m, d->role);
        size_t rows = d->shape[turned ? 1 : 0], cols = d->shape[turned ? 0 : 1];
        m->weights[(size_t)d->item * WEFT_N_ROLES + d->role] = (struct infer_weight){
            {m->values + at[i], cols, stored_type(m, d)}, rows, cols, turned};
    }
    free(at);
    return st;
}

struct store_job {
    const struct weft_infer *m;
    const struct infer_weight *w;
    const float *from;
};

enum { TILE = 32 };

/* Rows task * TILE .. of a weight, from the file's layout and into its type. */
static void store_rows(void *arg, size_t task, unsigned worker)
{
    const struct store_job *j = arg;
    const struct infer_weight *w = j->w;
    size_t row = task * TILE, rows = weft_size_min(TILE, w->rows - row);
    float tile[TILE * TILE];
    (void)worker;
    if (!w->turned) {
        struct weft_mat from = {(float *)j->from + row * w->cols, w->cols, WEFT_F32};
        j->m->ops->convert(weft_mat_at(w->mat, row, 0), from, rows, w->cols);
        return;
    }
    for (size_t col = 0; col < w->cols; col += TILE) {
        size_t cols = weft_size_min(TILE, w->cols - col);
        for (size_t c = 0; c < cols; c++)
            for (size_t r = 0; r < rows; r++)
                tile[r * TILE + c] = j->from[(col + c) * w->rows + row + r];
        j->m->ops->convert(weft_mat_at(w->mat, row, col),
                           (struct weft_mat){tile, TILE, WEFT_F32}, rows, cols);
    }
}

static bool stored_as_read(const struct infer_weight *w)
{
    return w->mat.type == WEFT_F32 && !w->turned;
}

enum weft_status weft_infer_load(struct weft_infer *m, weft_infer_read_fn *read, void *arg,
                                 struct weft_error *err)
{
    size_t most = 0;
    for (size_t i = 0; i < m->params.n; i++)
        most = weft_size_max(most, weft_param_size(&m->params.at[i]));
    float *room = weft_pages_alloc(most * sizeof *room);
    enum weft_status st =
        room == NULL ? no_memory("reading weights", most * sizeof *room, err) : WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < m->params.n; i++) {
        const struct weft_param_desc *d = &m->params.at[i];
        const struct infer_weight *w = weft_infer_weight(m, d->item, d->role);
        bool as_read = stored_as_read(w);
        st = read(arg, d, as_read ? w->mat.at : room, err);
        struct store_job job = {m, w, room};
        if (st == WEFT_OK && !as_read)
            weft_pool_run(m->spec.pool, (w->rows + TILE - 1) / TILE, store_rows, &job);
    }
    free(room);
    return st;
}

struct start {
    struct weft_pool *pool;
    uint64_t seed;
    const struct weft_param_desc *d;
    float *out;
};

enum { FILL = 1 << 14 };

static void fill_piece(void *arg, size_t task, unsigned worker)
{
    const struct start *s = arg;
    size_t from = task * FILL;
    (void)worker;
    weft_param_fill(s->d, s->seed, from, weft_size_min(from + FILL, weft_param_size(s->d)),
                    s->out + from);
}

static enum weft_status fill(void *arg, const struct weft_param_desc *d, float *out,
                             struct weft_error *err)
{
    struct start *s = arg;
    (void)err;
    s->d = d;
    s->out = out;
    weft_pool_run(s->pool, (weft_param_size(d) + FILL - 1) / FILL, fill_piece, s);
    return WEFT_OK;
}

enum weft_status weft_infer_start(struct weft_infer *m, uint64_t seed, struct weft_error *err)
{
    struct start s = {.pool = m->spec.pool, .seed = seed};
    return weft_infer_load(m, fill, &s, err);
}

/* -- memory for tokens ---------------------------------------------------------------------- */

static enum weft_status make_cache(struct weft_infer *m, struct weft_error *err)
{
    size_t n, half = m->head / 2, room = m->spec.room;
    if (!weft_size_mul(m->kv_cols, m->spec.model.layers, &n) || !weft_size_mul(n, room, &n) ||
        !weft_size_mul(n, 2 * sizeof(float), &m->cache_bytes))
        return too_large("the keys and values", err);
    m->keys = weft_pages_alloc(n * sizeof(float));
    m->values_kept = weft_pages_alloc(n * sizeof(float));
    if (m->keys == NULL || m->values_kept == NULL)
        return no_memory("keys and values", m->cache_bytes, err);
    if (!m->llama)
        return WEFT_OK;
    m->cosines = malloc((room * half + 1) * sizeof *m->cosines);
    m->sines = malloc((room * half + 1) * sizeof *m->sines);
    if (m->cosines == NULL || m->sines == NULL)
        return no_memory("the tables of positions", room * half * 8, err);
    weft_rope_fill(&m->spec.model, room, m->cosines, m->sines);
    return WEFT_OK;
}

static enum weft_status make_activity(struct weft_infer *m, struct weft_error *err)
{
    size_t n = WEFT_INFER_CHUNK, mixed = m->n_blocks == 0 ? 0 : m->n_blocks + 1;
    struct {
        float **at;
        size_t rows, cols, offset;
    } parts[] = {
        {&m->x, n, m->dim, 0},
        {&m->h, n, m->mixed ? m->dim : 0, 0},
        {&m->normed, n, m->dim, 0},
        {&m->qkv, n, m->qkv_cols, 0},
        {&m->att, n, m->dim, 0},
        {&m->up, n, m->ffn, 0},
        {&m->gate, n, m->llama ? m->ffn : 0, 0},
        {&m->act, n, m->llama ? m->ffn : 0, 0},
        {&m->blocks, n * m->n_blocks, m->dim, 0},
        {&m->alpha, n, mixed, 0},
        {&m->mix_rstd, n, mixed, 0},
        {&m->scores, weft_pool_threads(m->spec.pool), m->spec.room, 0},
    };
    for (size_t i = 0; i < WEFT_LEN(parts); i++)
        if (!take(&m->activity_bytes, &parts[i].offset, parts[i].rows, parts[i].cols,
                  sizeof(float)))
            return too_large("the activations", err);
    m->activity = weft_pages_alloc(m->activity_bytes);
    if (m->activity == NULL)
        return no_memory("activations", m->activity_bytes, err);
    for (size_t i = 0; i < WEFT_LEN(parts); i++)
        *parts[i].at = (float *)(m->activity + parts[i].offset);
    if (!m->llama)
        m->act = m->up;
    return WEFT_OK;
}

enum weft_status weft_infer_new(const struct weft_infer_spec *spec, struct weft_infer **out,
                                struct weft_error *err)
{
    WEFT_TRY(check_spec(spec, err));
    struct weft_infer *m = calloc(1, sizeof *m);
    if (m == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a model");
    m->spec = *spec;
    m->ops = weft_ops();
    set_sizes(m);
    enum weft_status st = make_weights(m, err);
    if (st == WEFT_OK)
        st = make_cache(m, err);
    if (st == WEFT_OK)
        st = make_activity(m, err);
    if (st != WEFT_OK) {
        weft_infer_free(m);
        return st;
    }
    *out = m;
    return WEFT_OK;
}

void weft_infer_free(struct weft_infer *m)
{
    if (m == NULL)
        return;
    weft_param_list_release(&m->params);
    free(m->weights);
    free(m->values);
    free(m->keys);
    free(m->values_kept);
    free(m->cosines);
    free(m->sines);
    free(m->activity);
    free(m);
}

/* -- about it ------------------------------------------------------------------------------- */

size_t weft_infer_token_bytes(const struct weft_infer *m)
{
    size_t bytes = 0;
    for (size_t i = 0; i < m->params.n; i++) {
        const struct weft_param_desc *d = &m->params.at[i];
        bool looked_up = d->role == WEFT_POSITION_EMBEDDING ||
                         (d->role == WEFT_TOKEN_EMBEDDING && !m->spec.model.tied);
        bytes +=
            (looked_up ? d->shape[1] : weft_param_size(d)) * weft_type_size(stored_type(m, d));
    }
    return bytes;
}

size_t weft_infer_bytes(const struct weft_infer *m)
{
    return m->value_bytes + m->cache_bytes + m->activity_bytes;
}
