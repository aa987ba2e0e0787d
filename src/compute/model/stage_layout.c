/* The sizes of a stage, and the layout of a slot: the offset of each field in the memory of a
 * slot. */
#include "base/error.h"
#include "base/size.h"
#include "compute/model/stage_priv.h"
#include "planning/spec/params.h"

enum weft_status wf_tstage_check_spec(const struct wf_tstage_spec *s, struct weft_error *err)
{
    WEFT_TRY(weft_model_check(&s->model, err));
    if (s->item0 >= s->item1 || s->item1 > s->model.layers + 2)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "stage: items %u to %u are out of range (the model has %u)", s->item0,
                         s->item1, s->model.layers + 2);
    if (s->seq == 0 || s->seq > s->model.ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "sequence length %u is out of range (the model accepts 1 to %u)",
                         s->seq, s->model.ctx);
    if (s->n_row_counts == 0 || s->n_row_counts > 2 || s->row_counts[0] == 0 || s->slots == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "stage: micro-batches must have at least one sequence");
    if (s->model.residual_block_layers != 0 &&
        s->model.layers / s->model.residual_block_layers + 3 > WF_MAX_MIX)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "model: too many residual blocks (maximum %d); use larger blocks",
                         WF_MAX_MIX - 3);

    for (uint32_t l = 0; s->layer_recompute != NULL && l < s->model.layers; l++)
        if (s->layer_recompute[l] >= WEFT_N_RECOMPUTE)
            return WEFT_FAIL(err, WEFT_USAGE, "stage: layer %u has recomputation %u", l,
                             s->layer_recompute[l]);

    for (uint32_t i = 0; s->slot_at != NULL && i < s->slots; i++)
        if (s->slot_at[i] == NULL || (uintptr_t)s->slot_at[i] % ALIGN != 0)
            return WEFT_FAIL(err, WEFT_USAGE, "stage: slot %u is not aligned to %d bytes", i,
                             ALIGN);

    size_t check;
    if (!wf_size_mul((size_t)s->row_counts[0] * s->seq, 64 * (size_t)s->model.ffn, &check) ||
        !wf_size_mul(check, s->slots, &check) || check > SIZE_MAX / 64)
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "stage: micro-batches of %u sequences of %u tokens are too large",
                         s->row_counts[0], s->seq);
    return WEFT_OK;
}

void wf_tstage_set_sizes(struct wf_tstage *t)
{
    const struct wf_tstage_spec *s = &t->spec;
    const struct weft_model *m = &s->model;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < s->n_row_counts; i++)
        rows = s->row_counts[i] > rows ? s->row_counts[i] : rows;
    t->max_tokens = (size_t)rows * s->seq;

    t->has_embedding = s->item0 == 0;
    t->has_head = s->item1 == m->layers + 2;
    t->whole = t->has_embedding && t->has_head;
    t->layer0 = s->item0 == 0 ? 0 : s->item0 - 1;
    /* End of the stage's layers. */
    uint32_t end = s->item1 - 1 < m->layers ? s->item1 - 1 : m->layers;
    t->n_layers = end > t->layer0 ? end - t->layer0 : 0;

    t->block_mix = m->residual_block_layers != 0;
    t->llama = m->arch == WEFT_ARCH_LLAMA;
    t->dim = m->dim;
    t->boundary = (struct weft_tensor_shape){WEFT_DTYPE_F32, 2, {t->spec.seq, t->dim}};
    t->head = m->dim / m->heads;
    t->kv_cols = t->head * m->kv_heads;
    t->qkv_cols = t->dim + 2 * t->kv_cols;
    t->ffn = m->ffn;
    t->vocab = m->vocab;
    t->vocab_padded = (t->vocab + WF_PANEL - 1) / WF_PANEL * WF_PANEL;
    t->n_blocks = wf_model_n_blocks(m);

    if (!t->block_mix)
        return;
    t->blocks_in = t->has_embedding ? 0 : 1 + t->layer0 / m->residual_block_layers;
    t->blocks_out = t->has_head ? t->n_blocks : 1 + end / m->residual_block_layers;
}

static bool recomputed(enum weft_recompute recompute, enum stage_field f)
{
    switch (recompute) {
    case WEFT_RECOMPUTE_NONE:
        return false;
    case WEFT_RECOMPUTE_ATTENTION:
        return f >= FIELD_H1 && f <= FIELD_LSE;
    case WEFT_RECOMPUTE_FULL:
        return f != FIELD_X1;
    }
    return false;
}

static void put_field(struct wf_tstage *t, enum stage_field f, size_t rows, size_t cols,
                      enum wf_dtype type, bool padded)
{
    struct field_layout *at = &t->fields[f];
    at->present = true;
    at->type = type;
    at->ld = padded ? wf_row_length(cols, type) : cols;
    size_t bytes = rows * at->ld * wf_dtype_size(type);
    for (unsigned r = 0; r < WEFT_N_RECOMPUTE; r++) {
        at->in[r].recomputed = recomputed((enum weft_recompute)r, f);
        at->in[r].offset = wf_take_bytes(at->in[r].recomputed ? &t->layout.work_bytes[r]
                                                              : &t->layout.stored_bytes[r],
                                         bytes);
    }
}

static void lay_out_layer(struct wf_tstage *t)
{
    size_t n = t->max_tokens;
    enum wf_dtype type = t->spec.precision;
    put_field(t, FIELD_X1, n, t->dim, WF_DTYPE_F32, false);
    put_field(t, FIELD_A1, n, t->dim, type, true);
    put_field(t, FIELD_MEAN1, n, 1, WF_DTYPE_F32, false);
    put_field(t, FIELD_RSTD1, n, 1, WF_DTYPE_F32, false);
    put_field(t, FIELD_QKV, n, t->qkv_cols, type, true);
    put_field(t, FIELD_ATT, n, t->dim, type, true);
    put_field(t, FIELD_LSE, n, t->spec.model.heads, WF_DTYPE_F32, false);
    put_field(t, FIELD_X2, n, t->dim, WF_DTYPE_F32, false);
    put_field(t, FIELD_A2, n, t->dim, type, true);
    put_field(t, FIELD_MEAN2, n, 1, WF_DTYPE_F32, false);
    put_field(t, FIELD_RSTD2, n, 1, WF_DTYPE_F32, false);
    if (t->llama)
        put_field(t, FIELD_GATE, n, t->ffn, type, true);
    put_field(t, FIELD_UP, n, t->ffn, type, true);
    put_field(t, FIELD_ACT, n, t->ffn, type, true);

    if (type != WF_DTYPE_F32) {
        put_field(t, FIELD_G1, n, t->dim, type, true);
        put_field(t, FIELD_G2, n, t->dim, type, true);
    }

    if (!t->block_mix)
        return;
    put_field(t, FIELD_H1, n, t->dim, WF_DTYPE_F32, false);
    put_field(t, FIELD_ALPHA1, n, t->n_blocks + 1, WF_DTYPE_F32, false);
    put_field(t, FIELD_MIX1, n, t->n_blocks + 1, WF_DTYPE_F32, false);
    put_field(t, FIELD_H2, n, t->dim, WF_DTYPE_F32, false);
    put_field(t, FIELD_ALPHA2, n, t->n_blocks + 1, WF_DTYPE_F32, false);
    put_field(t, FIELD_MIX2, n, t->n_blocks + 1, WF_DTYPE_F32, false);
}

static enum weft_recompute layer_recompute(const struct wf_tstage *t, uint32_t layer)
{
    return t->spec.layer_recompute == NULL
               ? t->spec.recompute
               : (enum weft_recompute)t->spec.layer_recompute[t->layer0 + layer];
}

/* Places the layers in a slot, and their recomputed fields in a split slot. */
static void place_layers(struct wf_tstage *t)
{
    struct slot_layout *at = &t->layout;
    for (uint32_t l = 0; l < t->n_layers; l++) {
        enum weft_recompute r = layer_recompute(t, l);
        if (t->layers != NULL)
            t->layers[l] = (struct layer_place){r, at->bytes, at->all_work};
        at->bytes += at->stored_bytes[r];
        at->all_work += at->work_bytes[r];
        at->max_work = wf_size_max(at->max_work, at->work_bytes[r]);
    }
}

void wf_tstage_lay_out_slot(struct wf_tstage *t)
{
    struct slot_layout *at = &t->layout;
    size_t n = t->max_tokens, stream = n * t->dim * sizeof(float);
    lay_out_layer(t);
    place_layers(t);
    if (t->has_embedding)
        at->tokens = wf_take_bytes(&at->bytes, n * sizeof(int32_t));
    if (t->block_mix && t->whole) {
        at->block_bytes = wf_size_round_up(stream, ALIGN);
        at->blocks = wf_take_bytes(&at->bytes, t->n_blocks * at->block_bytes);
    }

    if (!t->has_head)
        return;
    at->head_x = t->block_mix ? 0 : wf_take_bytes(&at->bytes, stream);
    if (t->block_mix) {
        at->head_h = wf_take_bytes(&at->bytes, stream);
        at->head_alpha = wf_take_bytes(&at->bytes, n * t->n_blocks * sizeof(float));
        at->head_mix = wf_take_bytes(&at->bytes, n * t->n_blocks * sizeof(float));
    }
    at->head_dx = wf_take_bytes(&at->bytes, stream);
    at->head_mean = wf_take_bytes(&at->bytes, n * sizeof(float));
    at->head_rstd = wf_take_bytes(&at->bytes, n * sizeof(float));
}

enum weft_status wf_tstage_slot_bytes(const struct wf_tstage_spec *spec, size_t *out,
                                      struct weft_error *err)
{
    struct wf_tstage t = {.spec = *spec};
    t.spec.slot_at = NULL; /* not allocated yet */
    WEFT_TRY(wf_tstage_check_spec(&t.spec, err));
    wf_tstage_set_sizes(&t);
    wf_tstage_lay_out_slot(&t);
    *out = t.layout.bytes;
    return WEFT_OK;
}
