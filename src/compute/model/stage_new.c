/* Creates and frees a stage: its parameters, products, scratch memory and slots, all allocated
 * once.  The same functions count the memory of a stage that is not created. */
#include "compute/model/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/model/rope.h"
#include "compute/model/stage_priv.h"

/* Returns true if the parameter is a factor of matrix products. */
static bool is_factor(const struct wf_tstage *t, const struct wf_param_desc *d)
{
    switch (d->role) {
    case WF_ROLE_TOKEN_EMBEDDING:
        return t->has_head && t->spec.model.tied;
    case WF_ROLE_QKV:
    case WF_ROLE_QUERY:
    case WF_ROLE_KEY:
    case WF_ROLE_VALUE:
    case WF_ROLE_PROJECT:
    case WF_ROLE_GATE:
    case WF_ROLE_UP:
    case WF_ROLE_DOWN:
    case WF_ROLE_HEAD:
        return true;
    default:
        return false;
    }
}

static enum weft_status list_params(struct wf_tstage *t, struct weft_error *err)
{
    const struct wf_tstage_spec *s = &t->spec;
    struct wf_param_list list;
    WEFT_TRY(wf_param_list_init(&list, &s->model, s->item0, s->item1, err));
    t->n_params = list.n;
    t->params = calloc(list.n, sizeof *t->params);
    t->by_role = calloc((size_t)(s->item1 - s->item0) * WF_N_ROLES, sizeof *t->by_role);
    if (t->params != NULL && t->by_role != NULL)
        for (size_t i = 0; i < list.n; i++) {
            struct wf_param *param = &t->params[i];
            param->desc = list.at[i];
            param->n = wf_param_size(&list.at[i]);
            t->by_role[(size_t)(param->desc.item - s->item0) * WF_N_ROLES + param->desc.role] =
                param;
        }

    wf_param_list_release(&list);
    if (t->params == NULL || t->by_role == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "stage: out of memory for parameters");
    return WEFT_OK;
}

/* Allocates zeroed memory.  Zeroing causes all page faults here instead of in the first
 * step. */
static char *allocate(size_t bytes)
{
    char *at = wf_pages_alloc(bytes + 2 * ALIGN);
    if (at != NULL)
        memset(at, 0, bytes + 2 * ALIGN);
    return at;
}

static enum weft_status no_memory(const char *what, size_t bytes, struct weft_error *err)
{
    return WEFT_FAIL(
        err, WEFT_NOMEM,
        "stage: out of memory for %s (%zu bytes); use more stages, a smaller model or "
        "smaller micro-batches",
        what, bytes);
}

static struct wf_packed packed_of(size_t k, size_t n, enum wf_pack form)
{
    return (struct wf_packed){.k = k, .n = n, .form = form};
}

static size_t packed_bytes(const struct wf_packed *p)
{
    return wf_size_round_up(wf_packed_bytes(p->k, p->n, p->form), ALIGN);
}

/* Returns true if the gradient of a matrix is a single product over all tokens of the step.
 * For a tied embedding, one scatter call at the end of the backward adds the rows of the
 * embedding itself.  A stage that does not have both the embedding and the head returns false
 * for it, since two stages then contribute to its gradient. */
static bool has_one_contribution(const struct wf_tstage *t, const struct wf_param *p)
{
    if (!t->spec.one_micro || !is_factor(t, &p->desc))
        return false;
    if (p->desc.role == WF_ROLE_TOKEN_EMBEDDING && !t->whole)
        return false;
    bool head = p->desc.role == WF_ROLE_TOKEN_EMBEDDING || p->desc.role == WF_ROLE_HEAD;
    return t->max_tokens <= (head ? HEAD_TOKENS : WF_WGRAD_TOKENS);
}

/* Sets the offsets and packed forms of all parameters.  Returns the total number of elements
 * and the total size of packed forms in bytes. */
static void lay_out_params(struct wf_tstage *t, size_t *elements, size_t *packed)
{
    enum wf_pack form = wf_pack_form(t->spec.precision);
    *elements = *packed = 0;
    for (size_t i = 0; i < t->n_params; i++) {
        struct wf_param *p = &t->params[i];
        size_t rows = p->desc.shape[0], cols = p->desc.shape[1];
        p->offset = *elements;
        *elements += wf_size_round_up(p->n, WF_PARAM_ALIGN);
        if (!is_factor(t, &p->desc))
            continue;

        /* The gradient of the head has as many columns as the padded vocabulary. */
        bool head = p->desc.role == WF_ROLE_HEAD || p->desc.role == WF_ROLE_TOKEN_EMBEDDING;
        p->direct = packed_of(head ? t->vocab_padded : rows, cols, form);
        p->transposed = packed_of(cols, rows, form);
        *packed += packed_bytes(&p->direct) + packed_bytes(&p->transposed);
    }
}

/* Points every parameter to its memory. */
static void assign_params(struct wf_tstage *t)
{
    float *value = (float *)wf_align(t->values);
    char *gradient = wf_align(t->gradients);
    char *factor = wf_align(t->packed);
    for (size_t i = 0; i < t->n_params; i++) {
        struct wf_param *p = &t->params[i];
        p->value = value + p->offset;
        if (t->spec.fast_sums)
            p->fast = (float *)gradient + p->offset;
        else
            p->exact = (int64_t *)gradient + p->offset;
        if (p->exact != NULL && has_one_contribution(t, p)) {
            p->fast = (float *)p->exact;
            p->exact = NULL;
            p->single = true;
        }
        if (!is_factor(t, &p->desc))
            continue;

        p->direct.at = factor;
        factor += packed_bytes(&p->direct);
        p->transposed.at = factor;
        factor += packed_bytes(&p->transposed);
    }
}

static enum weft_status allocate_params(struct wf_tstage *t, struct weft_error *err)
{
    size_t elements, packed;
    lay_out_params(t, &elements, &packed);

    size_t values = elements * sizeof(float);
    size_t gradients = elements * (t->spec.fast_sums ? sizeof(float) : sizeof(int64_t));
    t->memory.weights = values;
    t->memory.gradients = gradients;
    t->memory.packed = packed;
    if (t->counting)
        return WEFT_OK;

    t->values = allocate(values);
    t->gradients = allocate(gradients);
    t->packed = allocate(packed);
    if (t->values == NULL || t->gradients == NULL || t->packed == NULL)
        return no_memory("weights", values + gradients + packed, err);

    assign_params(t);
    return WEFT_OK;
}

/* Writes the possible row counts of the layers' products, or of the head's products, and
 * returns how many there are. */
static size_t row_counts(const struct wf_tstage *t, bool head, size_t out[4])
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->spec.n_row_counts; i++) {
        size_t tokens = (size_t)t->spec.row_counts[i] * t->spec.seq;
        if (!head) {
            out[n++] = tokens;
            continue;
        }
        if (tokens >= HEAD_TOKENS)
            out[n++] = HEAD_TOKENS;
        if (tokens % HEAD_TOKENS != 0)
            out[n++] = tokens % HEAD_TOKENS;
    }
    return n;
}

static enum weft_status make_gemm(struct wf_tstage *t, enum stage_gemm which, size_t n,
                                  size_t k, size_t lda, enum wf_dtype c_type, size_t ldc,
                                  bool bias, bool add, struct weft_error *err)
{
    size_t counts[4];
    size_t n_counts = row_counts(t, which == GEMM_LOGITS || which == GEMM_LOGITS_BACK, counts);
    struct wf_gemm_shape shape = {.n = n,
                                  .k = k,
                                  .type = t->spec.precision,
                                  .lda = lda,
                                  .c_type = c_type,
                                  .ldc = ldc,
                                  .bias = bias,
                                  .add = add};
    t->memory.scratch += wf_gemm_count_bytes(&shape, counts, n_counts, t->workers);
    if (t->counting)
        return WEFT_OK;
    return wf_gemm_new(&shape, counts, n_counts, t->spec.pool, &t->gemm[which], err);
}

static enum weft_status make_wgrad(struct wf_tstage *t, size_t tokens, size_t widest,
                                   struct wf_wgrad **out, struct weft_error *err)
{
    enum wf_dtype type = t->spec.precision;
    t->memory.scratch += wf_wgrad_count_bytes(tokens, widest, type, t->workers);
    if (t->counting)
        return WEFT_OK;
    return wf_wgrad_new(tokens, widest, type, t->spec.pool, out, err);
}

static enum weft_status make_layer_gemms(struct wf_tstage *t, struct weft_error *err)
{
    enum wf_dtype type = t->spec.precision;
    size_t dim = t->dim, ffn = t->ffn, a = t->fields[FIELD_A1].ld,
           qkv = t->fields[FIELD_QKV].ld;
    size_t up = t->fields[FIELD_UP].ld, act = t->fields[FIELD_ACT].ld,
           att = t->fields[FIELD_ATT].ld;
    size_t g = type == WF_DTYPE_F32 ? dim : t->fields[FIELD_G1].ld;
    bool bias = !t->llama;
    WEFT_TRY(
        make_gemm(t, GEMM_QKV, t->llama ? dim : 3 * dim, dim, a, type, qkv, bias, false, err));

    if (t->llama)
        WEFT_TRY(make_gemm(t, GEMM_KV, t->kv_cols, dim, a, type, qkv, false, false, err));
    WEFT_TRY(make_gemm(t, GEMM_PROJECT, dim, dim, att, WF_DTYPE_F32, dim, bias, true, err));
    if (t->block_mix)
        WEFT_TRY(make_gemm(t, GEMM_PROJECT_NO_ADD, dim, dim, att, WF_DTYPE_F32, dim, bias,
                           false, err));

    WEFT_TRY(make_gemm(t, GEMM_UP, ffn, dim, a, type, up, bias, false, err));
    WEFT_TRY(make_gemm(t, GEMM_DOWN, dim, ffn, act, WF_DTYPE_F32, dim, bias, true, err));

    WEFT_TRY(
        make_gemm(t, GEMM_DOWN_BACK, ffn, dim, g, WF_DTYPE_F32, t->wide.ld, false, false, err));
    WEFT_TRY(make_gemm(t, GEMM_UP_BACK, dim, ffn, up, WF_DTYPE_F32, dim, false, false, err));
    WEFT_TRY(
        make_gemm(t, GEMM_PROJECT_BACK, dim, dim, g, WF_DTYPE_F32, dim, false, false, err));
    WEFT_TRY(make_gemm(t, GEMM_QKV_BACK, dim, t->llama ? dim : 3 * dim, qkv, WF_DTYPE_F32, dim,
                       false, false, err));
    if (t->llama) {
        WEFT_TRY(
            make_gemm(t, GEMM_UP_BACK_ADD, dim, ffn, up, WF_DTYPE_F32, dim, false, true, err));
        WEFT_TRY(make_gemm(t, GEMM_KV_BACK_ADD, dim, t->kv_cols, qkv, WF_DTYPE_F32, dim, false,
                           true, err));
    }

    size_t widest = wf_size_max(wf_size_max(dim, ffn), 3 * dim);
    return make_wgrad(t, t->max_tokens, widest, &t->wgrad, err);
}

static enum weft_status make_head_gemms(struct wf_tstage *t, struct weft_error *err)
{
    WEFT_TRY(make_gemm(t, GEMM_LOGITS, t->vocab, t->dim, t->normed.ld, WF_DTYPE_F32,
                       t->logits.ld, false, false, err));
    WEFT_TRY(make_gemm(t, GEMM_LOGITS_BACK, t->dim, t->vocab_padded, t->dlogits.ld,
                       WF_DTYPE_F32, t->dim, false, false, err));
    return make_wgrad(t, wf_size_min(HEAD_TOKENS, t->max_tokens), t->dim, &t->head_wgrad, err);
}

/* Reserves a matrix in scratch memory.  Its `at` is an offset until the memory is allocated. */
static struct wf_mat scratch_mat(size_t *end, size_t rows, size_t cols, enum wf_dtype type,
                                 bool padded)
{
    size_t ld = padded ? wf_row_length(cols, type) : cols;
    return (struct wf_mat){
        (void *)(uintptr_t)wf_take_bytes(end, rows * ld * wf_dtype_size(type)), ld, type};
}

static size_t worker_bytes(const struct wf_tstage *t)
{
    struct wf_attention a = {.batch = 1,
                             .seq = t->spec.seq,
                             .heads = t->spec.model.heads,
                             .kv_heads = t->spec.model.kv_heads,
                             .head = t->head,
                             .q.type = t->spec.precision,
                             .k.type = t->spec.precision,
                             .v.type = t->spec.precision,
                             .out.type = t->spec.precision};
    size_t mix = t->block_mix ? (t->n_blocks + 1) * MIX_ROWS * t->dim * sizeof(float) : 0;
    size_t bytes = 0;
    for (uint32_t i = 0; i < t->spec.n_row_counts; i++) {
        a.batch = t->spec.row_counts[i];
        bytes = wf_size_max(bytes, wf_attention_scratch(&a));
    }
    return wf_size_round_up(wf_size_max(bytes, mix), ALIGN) + ALIGN;
}

static enum weft_status allocate_scratch(struct wf_tstage *t, struct weft_error *err)
{
    /* MIX_ROWS is the smallest row tile, so mixes have the largest number of tiles. */
    size_t end = 0, n = t->max_tokens, parts = n / MIX_ROWS + 1;
    size_t head_rows = n < HEAD_TOKENS ? n : HEAD_TOKENS;
    enum wf_dtype type = t->spec.precision;
    t->wide = scratch_mat(&end, n, t->ffn, WF_DTYPE_F32, true);
    t->narrow = scratch_mat(&end, n, t->dim, WF_DTYPE_F32, false);
    t->g = scratch_mat(&end, n, t->dim, WF_DTYPE_F32, false);
    if (t->block_mix)
        t->mix_grad = scratch_mat(&end, n, t->dim, WF_DTYPE_F32, false);
    if (t->has_head) {
        t->normed = scratch_mat(&end, n, t->dim, type, true);
        t->logits = scratch_mat(&end, head_rows, t->vocab_padded, WF_DTYPE_F32, true);
        t->dlogits = t->logits;
        if (type != WF_DTYPE_F32)
            t->dlogits = scratch_mat(&end, head_rows, t->vocab_padded, type, true);
    }

    size_t partial = wf_take_bytes(&end, parts * 2 * t->dim * sizeof(float));
    size_t widest = wf_size_max(wf_size_max(t->ffn, 3 * t->dim), t->qkv_cols);
    size_t sums = wf_take_bytes(&end, widest * sizeof(float));
    size_t losses = wf_take_bytes(&end, n * sizeof(double));
    size_t own_blocks = t->whole ? t->n_blocks : 0;
    size_t block_sums = wf_take_bytes(&end, own_blocks * n * t->dim * sizeof(int64_t));
    size_t block_fresh = wf_take_bytes(&end, own_blocks);
    t->per_worker_bytes = worker_bytes(t);
    size_t per_worker = wf_take_bytes(&end, t->per_worker_bytes * t->workers);

    t->memory.scratch += end;
    if (t->counting)
        return WEFT_OK;
    t->scratch = allocate(end);
    if (t->scratch == NULL)
        return no_memory("scratch", end, err);

    char *base = wf_align(t->scratch);
    struct wf_mat *mats[] = {&t->wide,   &t->narrow, &t->g,      &t->mix_grad,
                             &t->normed, &t->logits, &t->dlogits};
    for (size_t i = 0; i < sizeof mats / sizeof *mats; i++)
        mats[i]->at = base + (uintptr_t)mats[i]->at;

    t->partial = (float *)(base + partial);
    t->sums = (float *)(base + sums);
    t->losses = (double *)(base + losses);
    t->block_sums = (int64_t *)(base + block_sums);
    t->block_fresh = (bool *)(base + block_fresh);
    t->per_worker = base + per_worker;
    return WEFT_OK;
}

static enum weft_status allocate_slots(struct wf_tstage *t, struct weft_error *err)
{
    const struct wf_tstage_spec *s = &t->spec;
    size_t work = t->layout.max_work + s->split_slots * t->layout.all_work;
    size_t slots = s->slot_at == NULL ? t->layout.bytes * s->slots : 0;
    t->memory.activations = slots + work;
    if (t->counting)
        return WEFT_OK;

    if (s->slot_at == NULL)
        t->slots = allocate(slots);
    t->work = allocate(work);
    t->work_index = malloc(s->slots * sizeof *t->work_index);
    t->work_used = calloc(s->split_slots + 1, sizeof *t->work_used);
    if ((t->slots == NULL && s->slot_at == NULL) || t->work == NULL || t->work_index == NULL ||
        t->work_used == NULL)
        return no_memory("activations", t->memory.activations, err);

    for (uint32_t i = 0; i < s->slots; i++)
        t->work_index[i] = -1;
    return WEFT_OK;
}

static enum weft_status make_tables(struct wf_tstage *t, struct weft_error *err)
{
    size_t half = t->head / 2, seq = t->spec.seq;
    t->memory.scratch +=
        t->max_tokens * sizeof *t->positions + 2 * (seq * half + 1) * sizeof *t->cosines;
    if (t->counting)
        return WEFT_OK;

    t->positions = malloc(t->max_tokens * sizeof *t->positions);
    t->cosines = malloc((seq * half + 1) * sizeof *t->cosines);
    t->sines = malloc((seq * half + 1) * sizeof *t->sines);
    if (t->positions == NULL || t->cosines == NULL || t->sines == NULL)
        return no_memory("tables of positions", seq * half * 8, err);
    for (size_t i = 0; i < t->max_tokens; i++)
        t->positions[i] = (int32_t)(i % seq);
    if (t->llama)
        wf_rope_fill(&t->spec.model, seq, t->cosines, t->sines);
    return WEFT_OK;
}

static enum weft_status build(struct wf_tstage *t, struct weft_error *err)
{
    WEFT_TRY(list_params(t, err));
    WEFT_TRY(allocate_params(t, err));
    WEFT_TRY(allocate_slots(t, err));
    WEFT_TRY(allocate_scratch(t, err));
    WEFT_TRY(make_tables(t, err));
    if (t->n_layers != 0)
        WEFT_TRY(make_layer_gemms(t, err));
    if (t->has_head)
        WEFT_TRY(make_head_gemms(t, err));
    return WEFT_OK;
}

enum weft_status wf_tstage_new(const struct wf_tstage_spec *spec, struct wf_tstage **out,
                               struct weft_error *err)
{
    WEFT_TRY(wf_tstage_check_spec(spec, err));
    struct wf_tstage *t = calloc(1, sizeof *t);
    if (t == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "stage: out of memory");

    t->spec = *spec;
    t->ops = wf_ops();
    t->workers = wf_pool_threads(spec->pool);
    wf_tstage_set_sizes(t);
    t->layers = calloc((size_t)t->n_layers + 1, sizeof *t->layers);
    enum weft_status st = WEFT_OK;
    if (t->layers == NULL)
        st = no_memory("layers", t->n_layers * sizeof *t->layers, err);
    if (st == WEFT_OK) {
        wf_tstage_lay_out_slot(t);
        st = build(t, err);
    }
    if (st != WEFT_OK) {
        wf_tstage_free(t);
        return st;
    }

    t->spec.layer_recompute = NULL; /* borrowed during this call only */
    wf_tstage_begin_step(t);
    *out = t;
    return WEFT_OK;
}

enum weft_status wf_tstage_count_bytes(const struct wf_tstage_spec *spec, unsigned threads,
                                       struct wf_tstage_bytes *out, struct weft_error *err)
{
    struct wf_tstage t = {.spec = *spec, .workers = threads, .counting = true};
    t.spec.slot_at = NULL; /* the addresses may not be known yet */
    WEFT_TRY(wf_tstage_check_spec(&t.spec, err));
    t.spec.slot_at = spec->slot_at;
    wf_tstage_set_sizes(&t);
    wf_tstage_lay_out_slot(&t);
    enum weft_status st = build(&t, err);
    free(t.params);
    free(t.by_role);
    free(t.work_index); /* NULL: counting allocates neither */
    free(t.work_used);
    if (st == WEFT_OK)
        *out = t.memory;
    return st;
}

void wf_tstage_free(struct wf_tstage *t)
{
    if (t == NULL)
        return;

    for (size_t i = 0; i < N_GEMMS; i++)
        wf_gemm_free(t->gemm[i]);
    wf_wgrad_free(t->wgrad);
    wf_wgrad_free(t->head_wgrad);

    free(t->values);
    free(t->gradients);
    free(t->packed);
    free(t->slots);
    free(t->work);
    free(t->work_index);
    free(t->work_used);
    free(t->positions);
    free(t->cosines);
    free(t->sines);
    free(t->scratch);
    free(t->layers);
    free(t->params);
    free(t->by_role);

    free(t);
}
