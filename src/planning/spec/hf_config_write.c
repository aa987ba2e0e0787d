/* Writes config.json. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "config/json_input.h"
#include "planning/spec/hf_config.h"

/* The lines of an object: "key": value, separated by commas. */
struct lines {
    struct wf_text *text; /* borrowed */
    int indent;
    bool comma;
    const json_t *source; /* borrowed: the object whose other keys are kept, or NULL */
};

static void begin_line(struct lines *l, const char *key)
{
    wf_text_adds(l->text, l->comma ? ",\n" : "\n");
    wf_text_addf(l->text, "%*s\"%s\": ", l->indent, "", key);
    l->comma = true;
}

/* Writes a value that is already formatted as JSON. */
static void put(struct lines *l, const char *key, const char *value)
{
    begin_line(l, key);
    wf_text_adds(l->text, value);
}

static void put_value(struct lines *l, const json_t *value);

/* Writes a value that does not affect the results: that of the source, or a default. */
static void put_default(struct lines *l, const char *key, const char *value)
{
    const json_t *own = json_object_get(l->source, key);
    begin_line(l, key);
    if (own == NULL)
        wf_text_adds(l->text, value);
    else
        put_value(l, own);
}

static void put_uint(struct lines *l, const char *key, uint32_t value)
{
    begin_line(l, key);
    wf_text_addu(l->text, value);
}

static void put_string(struct lines *l, const char *key, const char *plain)
{
    begin_line(l, key);
    wf_text_addf(l->text, "\"%s\"", plain);
}

static void put_token(struct lines *l, const char *key, const char *token)
{
    put(l, key, token == NULL ? "null" : token);
}

/* Adds a number with a fraction.  Python distinguishes 10000.0 from 10000, and some checks of
 * transformers require a float. */
static void add_fraction(struct wf_text *text, const char *number)
{
    wf_text_adds(text, number);
    if (strpbrk(number, ".en") == NULL)
        wf_text_adds(text, ".0");
}

static void put_double(struct lines *l, const char *key, double value)
{
    char number[WF_NUMBER_CHARS];
    wf_number_print_short(value, number);
    begin_line(l, key);
    add_fraction(l->text, number);
}

/* Writes the shortest text that reads back as the same fp32 value: 1e-05, not
 * 9.99999974737875e-06. */
static void put_float(struct lines *l, const char *key, float value)
{
    char number[WF_NUMBER_CHARS];
    wf_number_print_float(value, number);
    begin_line(l, key);
    add_fraction(l->text, number);
}

/* Writes the type of the model.  transformers has no block attention residuals and would
 * ignore them.  Such a model therefore has a type that transformers does not know, and the key
 * auto_map names the classes that compute it. */
static void put_type(struct lines *l, const struct weft_model *m, const char *architecture,
                     const char *type)
{
    begin_line(l, "architectures");
    if (m->residual_block_layers == 0) {
        wf_text_addf(l->text, "[\"%s\"]", architecture);
        put_string(l, "model_type", type);
        return;
    }
    const char *class = m->arch == WEFT_ARCH_GPT2 ? "WeftGPT2" : "WeftLlama";
    wf_text_addf(l->text, "[\"%sForCausalLM\"]", class);
    begin_line(l, "model_type");
    wf_text_addf(l->text, "\"weft_%s\"", type);
    begin_line(l, "auto_map");
    wf_text_addf(l->text,
                 "{\n    \"AutoConfig\": \"modeling_weft.%sConfig\",\n"
                 "    \"AutoModelForCausalLM\": \"modeling_weft.%sForCausalLM\"\n  }",
                 class, class);
}

/* -- GPT-2 --------------------------------------------------------------------------------- */

static void put_gpt2(struct lines *l, const struct weft_model *m)
{
    put_type(l, m, "GPT2LMHeadModel", "gpt2");
    put_uint(l, "vocab_size", m->vocab);
    put_uint(l, "n_positions", m->ctx);
    put_uint(l, "n_ctx", m->ctx);
    put_uint(l, "n_embd", m->dim);
    put_uint(l, "n_layer", m->layers);
    put_uint(l, "n_head", m->heads);
    if (m->ffn == 4 * (uint64_t)m->dim)
        put(l, "n_inner", "null");
    else
        put_uint(l, "n_inner", m->ffn);
    put_string(l, "activation_function", "gelu_new");
    put_float(l, "layer_norm_epsilon", m->norm_eps);
    put_default(l, "resid_pdrop", "0.0");
    put_default(l, "embd_pdrop", "0.0");
    put_default(l, "attn_pdrop", "0.0");
}

/* -- Llama --------------------------------------------------------------------------------- */

static void put_rope_fields(struct lines *l, const struct weft_rope *r)
{
    static const char *const names[] = {
        [WEFT_ROPE_PLAIN] = "default",
        [WEFT_ROPE_LINEAR] = "linear",
        [WEFT_ROPE_LLAMA3] = "llama3",
    };
    put_string(l, "rope_type", names[r->kind]);
    if (r->kind == WEFT_ROPE_PLAIN)
        return;
    put_double(l, "factor", r->factor);
    if (r->kind == WEFT_ROPE_LINEAR)
        return;
    put_double(l, "low_freq_factor", r->low);
    put_double(l, "high_freq_factor", r->high);
    put_uint(l, "original_max_position_embeddings", r->ctx);
}

static void put_ropes(struct lines *l, const struct weft_rope *r)
{
    struct lines inside = {l->text, l->indent + 2, false, NULL};
    put_double(l, "rope_theta", r->theta);
    if (r->kind == WEFT_ROPE_PLAIN) {
        put(l, "rope_scaling", "null");
    } else {
        put(l, "rope_scaling", "{");
        put_rope_fields(&inside, r);
        wf_text_addf(l->text, "\n%*s}", l->indent, "");
    }
    inside.comma = false;
    put(l, "rope_parameters", "{");
    put_double(&inside, "rope_theta", r->theta);
    put_rope_fields(&inside, r);
    wf_text_addf(l->text, "\n%*s}", l->indent, "");
}

static void put_llama(struct lines *l, const struct weft_model *m)
{
    put_type(l, m, "LlamaForCausalLM", "llama");
    put_uint(l, "vocab_size", m->vocab);
    put_uint(l, "max_position_embeddings", m->ctx);
    put_uint(l, "hidden_size", m->dim);
    put_uint(l, "intermediate_size", m->ffn);
    put_uint(l, "num_hidden_layers", m->layers);
    put_uint(l, "num_attention_heads", m->heads);
    put_uint(l, "num_key_value_heads", m->kv_heads);
    put_uint(l, "head_dim", m->dim / m->heads);
    put_string(l, "hidden_act", "silu");
    put_float(l, "rms_norm_eps", m->norm_eps);
    put_ropes(l, &m->rope);
    put(l, "attention_bias", "false");
    put(l, "mlp_bias", "false");
    put_default(l, "attention_dropout", "0.0");
}

/* -- keys of another file ------------------------------------------------------------------ */

/* Writes a value that is neither a list nor an object nor a fraction. */
static void put_scalar(struct wf_text *out, const json_t *value)
{
    char *text = wf_json_dump(value, JSON_ENCODE_ANY);
    if (text == NULL)
        out->failed = true;
    else
        wf_text_adds(out, text);
    free(text);
}

/* Begins the line of a key that may contain any characters. */
static void put_key(struct lines *l, const char *key)
{
    json_t *name = json_string(key);
    wf_text_addf(l->text, "%s\n%*s", l->comma ? "," : "", l->indent, "");
    put_scalar(l->text, name);
    wf_text_adds(l->text, ": ");
    l->comma = true;
    json_decref(name);
}

static void put_object(struct lines *l, const json_t *object)
{
    struct lines inside = {l->text, l->indent + 2, false, NULL};
    const char *key;
    json_t *value;
    wf_text_addc(l->text, '{');
    json_object_foreach((json_t *)object, key, value)
    {
        put_key(&inside, key);
        put_value(&inside, value);
    }
    if (inside.comma)
        wf_text_addf(l->text, "\n%*s", l->indent, "");
    wf_text_addc(l->text, '}');
}

static void put_list(struct lines *l, const json_t *list)
{
    struct lines inside = {l->text, l->indent + 2, false, NULL};
    const json_t *value;
    size_t i;
    wf_text_addc(l->text, '[');
    json_array_foreach(list, i, value)
    {
        wf_text_addf(l->text, "%s\n%*s", i == 0 ? "" : ",", inside.indent, "");
        put_value(&inside, value);
    }
    if (i > 0)
        wf_text_addf(l->text, "\n%*s", l->indent, "");
    wf_text_addc(l->text, ']');
}

/* Writes a value so that it reads back as the same value. */
static void put_value(struct lines *l, const json_t *value)
{
    char number[WF_NUMBER_CHARS];
    if (json_is_object(value)) {
        put_object(l, value);
    } else if (json_is_array(value)) {
        put_list(l, value);
    } else if (json_is_real(value)) {
        wf_number_print_short(json_real_value(value), number);
        add_fraction(l->text, number);
    } else {
        put_scalar(l->text, value);
    }
}

/* Returns true if weft writes the key only for some models.  Such a key of another file would
 * change the model. */
static bool is_replaced(const char *key)
{
    return strcmp(key, "auto_map") == 0 || strcmp(key, "residual_block_layers") == 0;
}

/* Adds the keys of the source that the text so far does not have. */
static enum weft_status put_other_keys(struct lines *l, const struct weft_model *m,
                                       struct weft_error *err)
{
    struct wf_text so_far = {0};
    wf_text_add(&so_far, l->text->at, l->text->len);
    wf_text_addc(&so_far, '}');
    json_t *own = NULL;
    json_error_t why;
    enum weft_status st = WEFT_OK;
    if (!so_far.failed)
        st = wf_json_load(so_far.at, so_far.len, 0, "config.json", &own, &why, err);
    wf_text_release(&so_far);
    WEFT_TRY(st);
    if (own == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for config.json");

    const char *key;
    json_t *value;
    json_object_foreach((json_t *)l->source, key, value)
    {
        bool drop = m->residual_block_layers > 0 && is_replaced(key);
        if (drop || json_object_get(own, key) != NULL)
            continue;
        put_key(l, key);
        put_value(l, value);
    }
    json_decref(own);
    return WEFT_OK;
}

static enum weft_status put_all(struct lines *l, const struct weft_model *m,
                                const struct wf_hf_metadata *about, struct weft_error *err)
{
    wf_text_adds(l->text, "{");
    if (m->arch == WEFT_ARCH_GPT2)
        put_gpt2(l, m);
    else
        put_llama(l, m);

    put_default(l, "initializer_range", "0.02");
    put_token(l, "bos_token_id", about->bos);
    put_token(l, "eos_token_id", about->eos);
    put_token(l, "pad_token_id", about->pad);
    put(l, "tie_word_embeddings", m->tied ? "true" : "false");
    put_string(l, "torch_dtype", about->dtype);
    put_string(l, "dtype", about->dtype);
    if (m->residual_block_layers > 0)
        put_uint(l, "residual_block_layers", m->residual_block_layers);
    if (l->source != NULL)
        WEFT_TRY(put_other_keys(l, m, err));

    wf_text_adds(l->text, "\n}\n");
    return l->text->failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for config.json") : WEFT_OK;
}

enum weft_status wf_hf_config_write(const struct weft_model *m,
                                    const struct wf_hf_metadata *about, struct wf_text *out,
                                    struct weft_error *err)
{
    WEFT_TRY(weft_model_check(m, err));
    json_t *source = NULL;
    json_error_t why;
    if (about->source != NULL)
        WEFT_TRY(wf_json_load(about->source, strlen(about->source), 0, "config.json", &source,
                              &why, err));
    struct lines l = {out, 2, false, json_is_object(source) ? source : NULL};
    enum weft_status st = put_all(&l, m, about, err);
    json_decref(source);
    return st;
}
