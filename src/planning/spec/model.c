/* Models: presets, checks, and parameter counts. */
#include "weft/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "planning/spec/params.h"

enum { MAX_D = 256 };

#define GPT2_SHAPE(n_layers, width, n_heads)                                                   \
    {                                                                                          \
        .arch = WEFT_ARCH_GPT2, .layers = n_layers, .dim = width, .heads = n_heads,            \
        .kv_heads = n_heads, .ffn = 4 * (width), .vocab = 50257, .ctx = 1024, .tied = true,    \
        .norm_eps = WEFT_NORM_EPS_DEFAULT, .rope = {.theta = WEFT_ROPE_THETA_DEFAULT},         \
    }
#define GPT2(name, help, ...)                                                                  \
    {                                                                                          \
        name, help, GPT2_SHAPE(__VA_ARGS__)                                                    \
    }
#define LLAMA_SHAPE(n_layers, width, n_heads, n_kv_heads, inside, n_vocab, n_ctx)              \
    .arch = WEFT_ARCH_LLAMA, .layers = n_layers, .dim = width, .heads = n_heads,               \
    .kv_heads = n_kv_heads, .ffn = inside, .vocab = n_vocab, .ctx = n_ctx,                     \
    .norm_eps = WEFT_NORM_EPS_DEFAULT
#define PLAIN(base)                                                                            \
    {                                                                                          \
        .theta = base                                                                          \
    }
/* Arguments: name, help, rope; then layers, dim, heads, kv_heads, ffn, vocab, ctx. */
#define LLAMA(name, help, rope_of, ...)                                                        \
    {                                                                                          \
        name, help,                                                                            \
        {                                                                                      \
            LLAMA_SHAPE(__VA_ARGS__), .rope = rope_of                                          \
        }                                                                                      \
    }
#define LLAMA2(name, help, ...) LLAMA(name, help, PLAIN(WEFT_ROPE_THETA_DEFAULT), __VA_ARGS__)
#define LLAMA3(name, help, ...) LLAMA(name, help, PLAIN(500000), __VA_ARGS__)

static const struct weft_preset presets[] = {
    GPT2("d6", "GPT-2 with 6 layers of dimension 384", 6, 384, 6),
    GPT2("d12", "the shape of gpt2-124m", 12, 768, 12),
    GPT2("gpt2-124m", "GPT-2 small", 12, 768, 12),
    GPT2("gpt2-355m", "GPT-2 medium", 24, 1024, 16),
    GPT2("gpt2-774m", "GPT-2 large", 36, 1280, 20),
    GPT2("gpt2-1558m", "GPT-2 XL", 48, 1600, 25),
    LLAMA2("llama2-7b", "Llama 2 7B", 32, 4096, 32, 32, 11008, 32000, 4096),
    LLAMA2("llama2-13b", "Llama 2 13B", 40, 5120, 40, 40, 13824, 32000, 4096),
    LLAMA2("llama2-70b", "Llama 2 70B", 80, 8192, 64, 8, 28672, 32000, 4096),
    LLAMA3("llama3-8b", "Llama 3 8B", 32, 4096, 32, 8, 14336, 128256, 8192),
    LLAMA3("llama3-70b", "Llama 3 70B", 80, 8192, 64, 8, 28672, 128256, 8192),
    {"llama3-405b",
     "Llama 3.1 405B",
     {LLAMA_SHAPE(126, 16384, 128, 8, 53248, 128256, 131072), .rope = {.kind = WEFT_ROPE_LLAMA3,
                                                                       .theta = 500000,
                                                                       .factor = 8,
                                                                       .low = 1,
                                                                       .high = 4,
                                                                       .ctx = 8192}}},
};

const char *weft_arch_name(enum weft_arch arch)
{
    switch (arch) {
    case WEFT_ARCH_GPT2:
        return "gpt2";
    case WEFT_ARCH_LLAMA:
        return "llama";
    }
    return "unknown";
}

const struct weft_preset *weft_presets(size_t *n)
{
    *n = WEFT_LEN(presets);
    return presets;
}

/* Returns the number of layers in a name such as "d12", or 0 for other names.  Leading zeros
 * are rejected, so that every model has only one name. */
static uint32_t d_layers(const char *name)
{
    if (name[0] != 'd' || name[1] < '1' || name[1] > '9')
        return 0;
    uint32_t n = 0;
    for (const char *c = name + 1; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return 0;
        n = n * 10 + (uint32_t)(*c - '0');
        if (n > MAX_D)
            return 0;
    }
    return n;
}

enum weft_status weft_model_find(const char *name, struct weft_model *out,
                                 struct weft_error *err)
{
    for (size_t i = 0; i < WEFT_LEN(presets); i++) {
        if (strcmp(name, presets[i].name) == 0) {
            *out = presets[i].model;
            return WEFT_OK;
        }
    }
    uint32_t n = d_layers(name);
    if (n > 0) {
        *out = (struct weft_model)GPT2_SHAPE(n, 64 * n, n);
        return WEFT_OK;
    }

    const char *near =
        wf_text_nearest(name, &presets[0].name, WEFT_LEN(presets), sizeof presets[0]);
    if (near != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "unknown model '%.40s': did you mean %s?", name,
                         near);
    return WEFT_FAIL(
        err, WEFT_USAGE,
        "unknown model '%.40s'; give the name of a preset, or dN for a GPT-2 of N layers, N from "
        "1 to %d",
        name, MAX_D);
}

static enum weft_status check_sizes(const struct weft_model *m, struct weft_error *err)
{
    const struct {
        const char *name;
        uint32_t value;
        const char *advice;
    } sizes[] = {
        {"layers", m->layers, "give at least 1"},
        {"dim", m->dim, "give the width of the model"},
        {"heads", m->heads, "give the number of attention heads"},
        {"kv_heads", m->kv_heads, "give the number of key-value heads, or that of heads"},
        {"ffn", m->ffn, "give the width of the MLP, such as 4 times dim"},
        {"vocab", m->vocab, "give the number of tokens in the vocabulary"},
        {"ctx", m->ctx, "give the maximum sequence length"},
    };
    for (size_t i = 0; i < WEFT_LEN(sizes); i++)
        if (sizes[i].value == 0)
            return WEFT_FAIL(err, WEFT_USAGE, "the model's %s is 0; %s", sizes[i].name,
                             sizes[i].advice);

    if (m->arch != WEFT_ARCH_GPT2 && m->arch != WEFT_ARCH_LLAMA)
        return WEFT_FAIL(err, WEFT_USAGE, "the model's arch is unknown; give gpt2 or llama");
    if (m->layers > WEFT_MAX_LAYERS)
        return WEFT_FAIL(err, WEFT_USAGE, "the model has %u layers; give at most %d", m->layers,
                         WEFT_MAX_LAYERS);
    if (m->residual_block_layers > m->layers)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "residual_block_layers %u is more than the model's %u layers; give at "
                         "most %u, or 0 for plain residuals",
                         m->residual_block_layers, m->layers, m->layers);
    return WEFT_OK;
}

static enum weft_status check_heads(const struct weft_model *m, struct weft_error *err)
{
    if (m->dim % m->heads != 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "dim %u is not a multiple of heads %u: every head has dim / heads elements", m->dim,
            m->heads);

    if (m->arch == WEFT_ARCH_GPT2 && m->kv_heads != m->heads)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "GPT-2 has no grouped queries: kv_heads %u must be %u", m->kv_heads,
                         m->heads);
    if (m->heads % m->kv_heads != 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "heads %u is not a multiple of kv_heads %u: all groups have the same size",
            m->heads, m->kv_heads);

    if (m->arch == WEFT_ARCH_LLAMA && m->dim / m->heads % 2 != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "heads of %u elements (dim %u, heads %u) cannot be rotated; give an "
                         "even size",
                         m->dim / m->heads, m->dim, m->heads);
    return WEFT_OK;
}

static enum weft_status check_positive(const char *name, double value, struct weft_error *err)
{
    if (isfinite(value) && value > 0)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "the model's %s is %g; give a finite number greater than 0", name, value);
}

static enum weft_status check_rope(const struct weft_rope *r, struct weft_error *err)
{
    WEFT_TRY(check_positive("rope theta", r->theta, err));

    switch (r->kind) {
    case WEFT_ROPE_PLAIN:
        return WEFT_OK;
    case WEFT_ROPE_LINEAR:
        return check_positive("rope factor", r->factor, err);
    case WEFT_ROPE_LLAMA3:
        WEFT_TRY(check_positive("rope factor", r->factor, err));
        WEFT_TRY(check_positive("rope low frequency factor", r->low, err));
        WEFT_TRY(check_positive("rope high frequency factor", r->high, err));
        if (r->low >= r->high)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "the model's rope low frequency factor %g is not less than the "
                             "high one, %g; give a lower one",
                             r->low, r->high);
        if (r->ctx == 0)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "the model's rope ctx is 0; give the maximum sequence length "
                             "before the context was extended");
        return WEFT_OK;
    }

    return WEFT_FAIL(err, WEFT_USAGE,
                     "the model's rope is unknown; give plain, linear or llama3");
}

enum weft_status weft_model_check(const struct weft_model *m, struct weft_error *err)
{
    WEFT_TRY(check_sizes(m, err));
    WEFT_TRY(check_heads(m, err));
    WEFT_TRY(check_positive("norm_eps", m->norm_eps, err));
    return m->arch == WEFT_ARCH_LLAMA ? check_rope(&m->rope, err) : WEFT_OK;
}

/* Computes sum += a * b; returns false on overflow. */
static bool add_product(size_t *sum, size_t a, size_t b)
{
    size_t product;
    return wf_size_mul(a, b, &product) && wf_size_add(*sum, product, sum);
}

static bool count_gpt2(const struct weft_model *m, struct wf_param_counts *p)
{
    size_t d = m->dim, matrices = 0, vectors = 0, embedding = 0, word = 0;
    bool fits = add_product(&matrices, 4 * d, d)            /* query, key, value, output */
                && add_product(&matrices, 2 * d, m->ffn)    /* two matrices of the MLP */
                && add_product(&vectors, d, 4 + 3 + 1 + 1)  /* two norms; biases of dim */
                && wf_size_add(vectors, m->ffn, &vectors)   /* the bias inside the MLP */
                && add_product(&word, d, m->vocab)          /* word embedding and head */
                && add_product(&embedding, d, m->ctx)       /* position embedding */
                && wf_size_add(embedding, word, &embedding) /* plus word embedding */
                && wf_size_add(matrices, vectors, &p->layer) &&
                wf_size_add(word, 2 * d, &p->head); /* the final norm */
    p->layer_matrices = matrices;
    p->embedding = embedding;
    p->shared = m->tied ? word : 0;
    return fits;
}

static bool count_llama(const struct weft_model *m, struct wf_param_counts *p)
{
    size_t d = m->dim, kv = (size_t)(m->dim / m->heads) * m->kv_heads, matrices = 0, word = 0;
    bool fits = add_product(&matrices, 2 * d, d)           /* query, output */
                && add_product(&matrices, 2 * d, kv)       /* key, value */
                && add_product(&matrices, 3 * d, m->ffn)   /* gate, up, down */
                && wf_size_add(matrices, 2 * d, &p->layer) /* two norms */
                && add_product(&word, d, m->vocab) && wf_size_add(word, d, &p->head);
    p->layer_matrices = matrices;
    p->embedding = word;
    p->shared = m->tied ? word : 0;
    return fits;
}

/* Adds the parameters of block attention residuals: each mix of blocks has a query and the
 * weight of a norm. */
static bool count_residual(const struct weft_model *m, struct wf_param_counts *p)
{
    size_t mixer = m->residual_block_layers > 0 ? 2 * (size_t)m->dim : 0;
    return wf_size_add(p->layer, 2 * mixer, &p->layer) && wf_size_add(p->head, mixer, &p->head);
}

enum weft_status wf_model_item_params(const struct weft_model *m, struct wf_param_counts *out,
                                      struct weft_error *err)
{
    struct wf_param_counts p = {0};
    WEFT_TRY(weft_model_check(m, err));
    if (!(m->arch == WEFT_ARCH_GPT2 ? count_gpt2(m, &p) : count_llama(m, &p)) ||
        !count_residual(m, &p))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "the model's parameters overflow: dim %u, ffn %u, vocab %u, ctx %u are "
            "too large together",
            m->dim, m->ffn, m->vocab, m->ctx);
    *out = p;
    return WEFT_OK;
}

enum weft_status weft_model_count_params(const struct weft_model *m, size_t *out,
                                         struct weft_error *err)
{
    struct wf_param_counts p;
    WEFT_TRY(wf_model_item_params(m, &p, err));
    size_t total = p.embedding;
    if (!add_product(&total, p.layer, m->layers) || !wf_size_add(total, p.head, &total))
        return WEFT_FAIL(err, WEFT_USAGE, "the model's parameters overflow: %u layers of %zu",
                         m->layers, p.layer);
    *out = total - p.shared;
    return WEFT_OK;
}

enum weft_status weft_model_token_flops(const struct weft_model *m, uint32_t seq, double *out,
                                        struct weft_error *err)
{
    struct wf_param_counts p;
    WEFT_TRY(wf_model_item_params(m, &p, err));
    double head = (double)m->vocab * m->dim;
    double products = (double)p.layer_matrices * m->layers + head;
    *out = 6 * products + 6.0 * m->layers * seq * m->dim;
    return WEFT_OK;
}
