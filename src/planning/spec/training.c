/* The memory of training: what a parameter takes, what recomputation saves and costs, and the
 * buffers of a stage.  All other code uses these functions. */
#include "planning/spec/training.h"
#include "base/error.h"
#include "base/size.h"
#include "planning/spec/params.h"

enum { FP32 = 4, BF16 = 2, EXACT = 8, N_MOMENTS = 2, N_COPIES = 2 };

static const struct weft_training plain;

static const struct weft_training *or_plain(const struct weft_training *how)
{
    return how != NULL ? how : &plain;
}

/* -- parameters ---------------------------------------------------------------------------- */

size_t weft_gradient_bytes(const struct weft_training *how)
{
    return or_plain(how)->fast_sums ? FP32 : EXACT;
}

static size_t packed_bytes(const struct weft_training *how)
{
    return N_COPIES * (size_t)(how->bf16 && how->bf16_packed ? BF16 : FP32);
}

enum weft_status weft_state_bytes_init(struct weft_state_bytes *out, size_t n_params,
                                       size_t n_factors, const struct weft_training *how,
                                       struct weft_error *err)
{
    struct weft_state_bytes b;
    size_t sum;
    if (!wf_size_mul(n_params, FP32, &b.weights) ||
        !wf_size_mul(n_factors, packed_bytes(or_plain(how)), &b.packed) ||
        !wf_size_mul(n_params, weft_gradient_bytes(how), &b.gradients) ||
        !wf_size_mul(n_params, N_MOMENTS * FP32, &b.moments) ||
        !wf_size_add(b.weights, b.packed, &sum) || !wf_size_add(sum, b.gradients, &sum) ||
        !wf_size_add(sum, b.moments, &sum))
        return WEFT_FAIL(err, WEFT_USAGE, "bytes overflow: %zu parameters", n_params);
    *out = b;
    return WEFT_OK;
}

size_t weft_state_bytes_total(const struct weft_state_bytes *b)
{
    return b->weights + b->packed + b->gradients + b->moments;
}

size_t weft_state_params(size_t state_bytes, const struct weft_training *how)
{
    return state_bytes / (FP32 + weft_gradient_bytes(how) + N_MOMENTS * FP32);
}

/* -- recomputation ------------------------------------------------------------------------- */

const char *weft_recompute_name(enum weft_recompute r)
{
    switch (r) {
    case WEFT_RECOMPUTE_NONE:
        return "none";
    case WEFT_RECOMPUTE_ATTENTION:
        return "attention";
    case WEFT_RECOMPUTE_FULL:
        return "full";
    }
    return "";
}

double weft_recompute_share(const struct weft_model *m, enum weft_recompute r, uint32_t seq)
{
    double dim = m->dim, kv = dim / m->heads * m->kv_heads, scores = 2.0 * seq * dim;
    double n_mlp = m->arch == WEFT_ARCH_GPT2 ? 2 : 3;
    double attention = dim * (dim + 2 * kv) + scores;
    double all = attention + dim * dim + n_mlp * dim * m->ffn;
    switch (r) {
    case WEFT_RECOMPUTE_NONE:
        return 0;
    case WEFT_RECOMPUTE_ATTENTION:
        return attention / all;
    case WEFT_RECOMPUTE_FULL:
        return (all - dim * m->ffn) / all;
    }
    return 0;
}

/* -- activations of a layer ---------------------------------------------------------------- */

/* Saved elements per token: in fp32, and in the type of matrix products. */
struct elements {
    uint64_t fp32, factors;
};

static struct elements attention_elements(const struct weft_model *m)
{
    uint64_t mean = m->arch == WEFT_ARCH_GPT2, mix = wf_model_n_blocks(m);
    struct elements e = {1 + mean + m->heads, /* deviation, mean, log-sum-exp */
                         2 * (uint64_t)m->dim + m->dim +
                             2 * (uint64_t)(m->dim / m->heads) * m->kv_heads};
    if (m->residual_block_layers != 0) /* the mix, its weights and their deviations */
        e.fp32 += m->dim + 2 * (mix + 1);
    return e;
}

/* Returns the elements that the MLP of a layer saves per token. */
static struct elements mlp_elements(const struct weft_model *m, const struct weft_training *how)
{
    uint64_t gpt2 = m->arch == WEFT_ARCH_GPT2, mix = wf_model_n_blocks(m);
    struct elements e = {1 + gpt2 + m->dim, m->dim + (gpt2 ? 2 : 3) * (uint64_t)m->ffn};
    if (how->bf16) /* the gradients of both sublayers' outputs, as factors */
        e.factors += 2 * (uint64_t)m->dim;
    if (m->residual_block_layers != 0)
        e.fp32 += m->dim + 2 * (mix + 1);
    return e;
}

static uint64_t bytes_of(struct elements e, const struct weft_training *how)
{
    return FP32 * e.fp32 + (how->bf16 ? BF16 : FP32) * e.factors;
}

void wf_layer_token_bytes(const struct weft_model *m, const struct weft_training *how,
                          enum weft_recompute r, uint64_t *saved, uint64_t *work)
{
    how = or_plain(how);
    uint64_t attention = bytes_of(attention_elements(m), how);
    uint64_t mlp = bytes_of(mlp_elements(m, how), how);
    *work = (r != WEFT_RECOMPUTE_NONE ? attention : 0) + (r == WEFT_RECOMPUTE_FULL ? mlp : 0);
    *saved = FP32 * (uint64_t)m->dim + attention + mlp - *work;
    if (m->residual_block_layers != 0) /* this layer's share of the sums of blocks */
        *saved += FP32 * ((uint64_t)m->dim * (wf_model_n_blocks(m) - 1) / m->layers);
}

/* -- buffers of a stage -------------------------------------------------------------------- */

/* Sizes of the kernels, see compute/kern: columns of a panel, rows of a strip, tokens of one
 * contribution to a weight gradient, bytes of the strips of a task, rows of a partial sum, and
 * lanes and queries of a block of attention. */
enum {
    PANEL = 48,
    STRIP = 8,
    WGRAD_TOKENS = 1024,
    STRIPS_BYTES = 640 << 10,
    MAX_STRIPS = 48,
    PARTIAL_ROWS = 8,
    LANES = 16,
    SEGMENT = 64,
};

/* Returns the bytes of the packed factors of a weight gradient over at most k tokens. */
static size_t wgrad_bytes(size_t k, size_t columns, const struct weft_training *how)
{
    size_t element = how->bf16 && how->bf16_packed ? BF16 : FP32, strip;
    k = wf_size_min(k, WGRAD_TOKENS);
    strip = k * STRIP * element;
    return k * wf_size_round_up(columns, PANEL) * element +
           wf_size_min(MAX_STRIPS * strip, STRIPS_BYTES);
}

/* Returns the bytes that the backward of attention needs for one head. */
static size_t attention_bytes(const struct weft_model *m, uint32_t seq)
{
    size_t row = wf_size_round_up(m->dim / m->heads, LANES);
    size_t rows = 4 * wf_size_round_up(seq, LANES) + 5 * (size_t)SEGMENT;
    return FP32 * (row * rows + 2 * SEGMENT + 2 * (size_t)SEGMENT * SEGMENT);
}

bool wf_scratch_bytes_init(struct wf_scratch_bytes *out, const struct weft_model *m,
                           const struct weft_training *how, size_t tokens, uint32_t seq)
{
    how = or_plain(how);
    size_t dim = m->dim, ffn = m->ffn, half = dim / m->heads / 2;
    size_t widest = wf_size_max(ffn, 3 * dim),
           head_tokens = wf_size_min(tokens, WF_HEAD_TOKENS);
    size_t logit = FP32 + (how->bf16 ? BF16 : 0), factor = how->bf16 ? BF16 : FP32;
    size_t n_streams = m->residual_block_layers != 0 ? 3 : 2;

    /* Per token: the MLP, the streams of gradients, partial sums, the loss and the position. */
    size_t token = FP32 * (ffn + n_streams * dim) + FP32 * 2 * dim / PARTIAL_ROWS +
                   sizeof(double) + sizeof(int32_t);
    struct wf_scratch_bytes b = {.layer = wgrad_bytes(tokens, widest, how),
                                 .head =
                                     head_tokens * logit * wf_size_round_up(m->vocab, PANEL) +
                                     wgrad_bytes(head_tokens, dim, how)};
    size_t normed;
    bool ok = wf_size_mul(tokens, token, &b.stage) &&
              wf_size_add(b.stage, attention_bytes(m, seq) + 2 * FP32 * seq * half, &b.stage) &&
              wf_size_mul(tokens, factor * dim, &normed) &&
              wf_size_add(b.head, normed, &b.head);
    if (ok)
        *out = b;
    return ok;
}
