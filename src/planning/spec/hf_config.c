/* Reads config.json.  hf_config_write.c writes it. */
#include "planning/spec/hf_config.h"

#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"

struct config {
    const char *path; /* borrowed */
    const json_t *at; /* borrowed: the object whose keys are read */
    const char *part; /* borrowed: prefix of the keys in messages, "" or "rope_scaling." */
    struct weft_error *err;
};

#define FAIL_KEY(c, key, format, ...)                                                          \
    WEFT_FAIL((c)->err, WEFT_CKPT, "%.160s: %s%s " format, (c)->path, (c)->part, key,          \
              __VA_ARGS__)

static const char *type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or an exponent";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "unknown";
}

/* Returns the value of a key, or NULL if the key is missing or its value is null (Python's
 * None). */
static const json_t *get_or_null(const struct config *c, const char *key)
{
    const json_t *v = json_object_get(c->at, key);
    return json_is_null(v) ? NULL : v;
}

/* Reads a size.  Like every getter, leaves *out unchanged if the key is missing. */

static enum weft_status read_size(const struct config *c, const char *key, const json_t *v,
                                  uint32_t *out)
{
    if (v == NULL)
        return WEFT_OK;
    if (!json_is_integer(v))
        return FAIL_KEY(c, key, "is %s; give an integer", type_name(v));
    json_int_t n = json_integer_value(v);
    if (n < 0 || n > (json_int_t)UINT32_MAX)
        return FAIL_KEY(c, key, "is %" JSON_INTEGER_FORMAT "; give 0 to %" PRIu32, n,
                        UINT32_MAX);
    *out = (uint32_t)n;
    return WEFT_OK;
}

/* Reads a size that may have a second name, because transformers renamed some keys. */
static enum weft_status get_size(const struct config *c, const char *key, const char *alias,
                                 uint32_t *out)
{
    const json_t *v = json_object_get(c->at, key);
    const json_t *other = alias != NULL ? json_object_get(c->at, alias) : NULL;
    if (v != NULL && other != NULL && !json_equal(v, other))
        return FAIL_KEY(c, key, "and %s are names of the same number but differ; remove one",
                        alias);
    return v != NULL ? read_size(c, key, v, out) : read_size(c, alias, other, out);
}

static enum weft_status read_number(const struct config *c, const char *key, const json_t *v,
                                    double *out)
{
    if (v == NULL)
        return WEFT_OK;
    if (!json_is_number(v))
        return FAIL_KEY(c, key, "is %s; give a number", type_name(v));
    double n = json_number_value(v);
    if (!(isfinite(n) && n > 0))
        return FAIL_KEY(c, key, "is %g; give a number greater than 0", n);
    *out = n;
    return WEFT_OK;
}

static enum weft_status get_number(const struct config *c, const char *key, double *out)
{
    return read_number(c, key, json_object_get(c->at, key), out);
}

static enum weft_status require_number(const struct config *c, const char *key, double *out)
{
    if (json_object_get(c->at, key) == NULL)
        return FAIL_KEY(c, key, "is missing: %s", "this kind of rope needs it");
    return get_number(c, key, out);
}

static enum weft_status get_bool(const struct config *c, const char *key, bool *out)
{
    const json_t *v = json_object_get(c->at, key);
    if (v == NULL)
        return WEFT_OK;
    if (!json_is_boolean(v))
        return FAIL_KEY(c, key, "is %s; give true or false", type_name(v));
    *out = json_is_true(v);
    return WEFT_OK;
}

static enum weft_status read_string(const struct config *c, const char *key, const json_t *v,
                                    const char **out)
{
    if (v == NULL)
        return WEFT_OK;
    if (!json_is_string(v))
        return FAIL_KEY(c, key, "is %s; give a string", type_name(v));
    *out = json_string_value(v);
    return WEFT_OK;
}

static enum weft_status get_string(const struct config *c, const char *key, const char **out)
{
    return read_string(c, key, json_object_get(c->at, key), out);
}

/* Checks that the name of the activation function is one of two accepted spellings. */
static enum weft_status require_activation(const struct config *c, const char *key,
                                           const char *usual, const char *same)
{
    const char *name = usual;
    WEFT_TRY(get_string(c, key, &name));
    if (strcmp(name, usual) == 0 || strcmp(name, same) == 0)
        return WEFT_OK;
    return FAIL_KEY(c, key, "is '%s', which is not supported; use a model with %s",
                    wf_printable(name).at, usual);
}

/* Checks that a boolean key that affects the computation has the value that weft implements. */
static enum weft_status require_bool(const struct config *c, const char *key, bool want,
                                     const char *why)
{
    bool value = want;
    WEFT_TRY(get_bool(c, key, &value));
    if (value == want)
        return WEFT_OK;
    return FAIL_KEY(c, key, "is %s: %s; use a model where it is %s", value ? "true" : "false",
                    why, want ? "true" : "false");
}

static enum weft_status get_eps(const struct config *c, const char *key, float *out)
{
    double eps = *out;
    WEFT_TRY(get_number(c, key, &eps));
    if (eps > FLT_MAX || (float)eps <= 0)
        return FAIL_KEY(c, key, "is %g; give a value in the range of fp32", eps);
    *out = (float)eps;
    return WEFT_OK;
}

static enum weft_status parse_gpt2(const struct config *c, struct weft_model *m)
{
    *m = (struct weft_model){.arch = WEFT_ARCH_GPT2,
                             .layers = 12,
                             .dim = 768,
                             .heads = 12,
                             .vocab = 50257,
                             .ctx = 1024,
                             .tied = true,
                             .norm_eps = 1e-5F,
                             .rope = {.theta = WEFT_ROPE_THETA_DEFAULT}};
    WEFT_TRY(require_bool(c, "scale_attn_weights", true, "weft scales attention's scores"));
    WEFT_TRY(require_bool(c, "scale_attn_by_inverse_layer_idx", false,
                          "weft scales the scores of all layers equally"));
    WEFT_TRY(require_bool(c, "reorder_and_upcast_attn", false,
                          "weft computes attention in the usual order"));
    WEFT_TRY(require_bool(c, "add_cross_attention", false, "weft has no cross-attention"));
    WEFT_TRY(require_activation(c, "activation_function", "gelu_new", "gelu_pytorch_tanh"));
    WEFT_TRY(get_size(c, "n_layer", "num_hidden_layers", &m->layers));
    WEFT_TRY(get_size(c, "n_embd", "hidden_size", &m->dim));
    WEFT_TRY(get_size(c, "n_head", "num_attention_heads", &m->heads));
    WEFT_TRY(get_size(c, "vocab_size", NULL, &m->vocab));
    WEFT_TRY(get_size(c, "n_positions", "max_position_embeddings", &m->ctx));
    WEFT_TRY(get_eps(c, "layer_norm_epsilon", &m->norm_eps));
    WEFT_TRY(get_bool(c, "tie_word_embeddings", &m->tied));
    m->kv_heads = m->heads;

    const json_t *inner = get_or_null(c, "n_inner");
    if (inner == NULL && m->dim > UINT32_MAX / 4)
        return FAIL_KEY(c, "n_embd", "is %" PRIu32 "; give at most %" PRIu32, m->dim,
                        UINT32_MAX / 4);
    m->ffn = 4 * m->dim;
    return read_size(c, "n_inner", inner, &m->ffn);
}

/* -- Llama --------------------------------------------------------------------------------- */

/* Reads one object that describes rotary embeddings: rope_scaling or rope_parameters. */
static enum weft_status parse_rope(const struct config *c, const char *kind,
                                   struct weft_rope *rope)
{
    double partial = 1;
    WEFT_TRY(get_number(c, "partial_rotary_factor", &partial));
    if (partial != 1)
        return FAIL_KEY(c, "partial_rotary_factor", "is %g: weft rotates whole heads; %s",
                        partial, "use a model where it is 1");
    WEFT_TRY(get_string(c, "type", &kind)); /* the older name of "rope_type" */
    WEFT_TRY(get_string(c, "rope_type", &kind));
    WEFT_TRY(get_number(c, "rope_theta", &rope->theta));

    if (kind == NULL)
        return FAIL_KEY(c, "rope_type", "is missing; give %s", "default, linear or llama3");
    if (strcmp(kind, "default") == 0)
        return WEFT_OK;
    if (strcmp(kind, "linear") == 0) {
        rope->kind = WEFT_ROPE_LINEAR;
        return require_number(c, "factor", &rope->factor);
    }
    if (strcmp(kind, "llama3") != 0)
        return FAIL_KEY(c, "rope_type",
                        "is '%s', which is not supported; use a model with default, linear or "
                        "llama3",
                        wf_printable(kind).at);

    rope->kind = WEFT_ROPE_LLAMA3;
    WEFT_TRY(require_number(c, "factor", &rope->factor));
    WEFT_TRY(require_number(c, "low_freq_factor", &rope->low));
    WEFT_TRY(require_number(c, "high_freq_factor", &rope->high));
    const char *before = "original_max_position_embeddings";
    if (json_object_get(c->at, before) == NULL)
        return FAIL_KEY(c, before, "is missing: %s", "this kind of rope needs it");
    return get_size(c, before, NULL, &rope->ctx);
}

static bool rope_equal(const struct weft_rope *a, const struct weft_rope *b)
{
    return a->kind == b->kind && a->theta == b->theta && a->factor == b->factor &&
           a->low == b->low && a->high == b->high && a->ctx == b->ctx;
}

/* Reads the object `key` into *rope if it is present, and sets *found accordingly. */
static enum weft_status get_rope(const struct config *c, const char *key, const char *part,
                                 const char *kind, struct weft_rope *rope, bool *found)
{
    const json_t *v = get_or_null(c, key);
    *found = v != NULL;
    if (v == NULL)
        return WEFT_OK;
    if (!json_is_object(v))
        return FAIL_KEY(c, key, "is %s; give an object or null", type_name(v));
    struct config inside = {c->path, v, part, c->err};
    return parse_rope(&inside, kind, rope);
}

/* Reads the rotary embeddings.  Version 4 of transformers uses rope_theta and rope_scaling,
 * version 5 uses rope_parameters.  A file may contain both forms if they agree. */
static enum weft_status parse_ropes(const struct config *c, struct weft_rope *out)
{
    struct weft_rope old = {.theta = WEFT_ROPE_THETA_DEFAULT};
    bool has_old, has_new;
    WEFT_TRY(get_number(c, "rope_theta", &old.theta));
    struct weft_rope new = old;
    WEFT_TRY(get_rope(c, "rope_scaling", "rope_scaling.", NULL, &old, &has_old));
    WEFT_TRY(get_rope(c, "rope_parameters", "rope_parameters.", "default", &new, &has_new));
    bool has_theta = json_object_get(c->at, "rope_theta") != NULL;
    if (has_new &&
        ((has_old && !rope_equal(&old, &new)) || (has_theta && old.theta != new.theta)))
        return FAIL_KEY(c, "rope_parameters", "contradicts %s; remove one",
                        has_old ? "rope_scaling and rope_theta" : "rope_theta");
    *out = has_new ? new : old;
    return WEFT_OK;
}

static enum weft_status check_head_dim(const struct config *c, const struct weft_model *m)
{
    uint32_t size = 0;
    const json_t *v = get_or_null(c, "head_dim");
    WEFT_TRY(read_size(c, "head_dim", v, &size));
    if (v == NULL || (m->heads != 0 && (uint64_t)size * m->heads == m->dim))
        return WEFT_OK;
    return FAIL_KEY(c, "head_dim",
                    "is %" PRIu32 ", but hidden_size %" PRIu32 " / num_attention_heads %" PRIu32
                    " is different: weft requires that they are equal",
                    size, m->dim, m->heads);
}

static enum weft_status parse_llama(const struct config *c, struct weft_model *m)
{
    *m = (struct weft_model){.arch = WEFT_ARCH_LLAMA,
                             .layers = 32,
                             .dim = 4096,
                             .heads = 32,
                             .ffn = 11008,
                             .vocab = 32000,
                             .ctx = 2048,
                             .norm_eps = 1e-6F};

    WEFT_TRY(require_bool(c, "attention_bias", false, "weft's Llama has no biases"));
    WEFT_TRY(require_bool(c, "mlp_bias", false, "weft's Llama has no biases"));
    WEFT_TRY(require_activation(c, "hidden_act", "silu", "silu"));
    WEFT_TRY(get_size(c, "num_hidden_layers", NULL, &m->layers));
    WEFT_TRY(get_size(c, "hidden_size", NULL, &m->dim));
    WEFT_TRY(get_size(c, "num_attention_heads", NULL, &m->heads));

    m->kv_heads = m->heads;
    WEFT_TRY(read_size(c, "num_key_value_heads", get_or_null(c, "num_key_value_heads"),
                       &m->kv_heads));
    WEFT_TRY(check_head_dim(c, m));
    WEFT_TRY(get_size(c, "intermediate_size", NULL, &m->ffn));
    WEFT_TRY(get_size(c, "vocab_size", NULL, &m->vocab));
    WEFT_TRY(get_size(c, "max_position_embeddings", NULL, &m->ctx));
    WEFT_TRY(get_eps(c, "rms_norm_eps", &m->norm_eps));
    WEFT_TRY(get_bool(c, "tie_word_embeddings", &m->tied));
    return parse_ropes(c, &m->rope);
}

/* -- any model ----------------------------------------------------------------------------- */

static enum weft_status parse_model(const struct config *c, struct weft_model *m)
{
    const char *type = NULL;
    WEFT_TRY(get_string(c, "model_type", &type));
    if (type == NULL)
        return FAIL_KEY(c, "model_type", "is missing; give %s", "gpt2 or llama");
    if (get_or_null(c, "quantization_config") != NULL)
        return FAIL_KEY(c, "quantization_config", "is set: weft reads %s",
                        "weights of type F32, BF16 and F16; use the model before it was "
                        "quantized");

    bool blocks = strncmp(type, "weft_", 5) == 0; /* with block attention residuals */
    const char *plain = blocks ? type + 5 : type;
    if (strcmp(plain, "gpt2") == 0)
        WEFT_TRY(parse_gpt2(c, m));
    else if (strcmp(plain, "llama") == 0)
        WEFT_TRY(parse_llama(c, m));
    else
        return FAIL_KEY(c, "model_type", "is '%s': weft reads gpt2 and llama",
                        wf_printable(type).at);

    WEFT_TRY(get_size(c, "residual_block_layers", NULL, &m->residual_block_layers));
    if (blocks && m->residual_block_layers == 0)
        return FAIL_KEY(c, "residual_block_layers", "is missing or 0; model_type '%s' needs it",
                        type);
    struct weft_error why;
    if (weft_model_check(m, &why) != WEFT_OK)
        return WEFT_FAIL(c->err, WEFT_CKPT, "%.160s: %s", c->path, why.msg);
    return WEFT_OK;
}

enum weft_status wf_hf_config_parse(const char *text, size_t len, const char *path,
                                    struct weft_model *out, struct weft_error *err)
{
    json_error_t why;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s:%d:%d: invalid JSON: %s", path, why.line,
                         why.column, wf_printable(why.text).at);

    struct config c = {path, root, "", err};
    struct weft_model model = {0};
    enum weft_status st;
    if (!json_is_object(root))
        st = WEFT_FAIL(err, WEFT_CKPT, "%.160s: the file is %s; expected an object", path,
                       type_name(root));
    else
        st = parse_model(&c, &model);
    if (st == WEFT_OK)
        *out = model;
    json_decref(root);
    return st;
}
