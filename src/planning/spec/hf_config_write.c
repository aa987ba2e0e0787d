/* Writes config.json. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "planning/spec/hf_config.h"

/* The lines of an object: "key": value, separated by commas. */
struct lines {
    struct wf_text *text; /* borrowed */
    int indent;
    bool comma;
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

static void put_token(struct lines *l, const char *key, int64_t token)
{
    begin_line(l, key);
    if (token < 0)
        wf_text_adds(l->text, "null");
    else
        wf_text_addf(l->text, "%" PRId64, token);
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

/* -- GPT-2 --------------------------------------------------------------------------------- */

static void put_gpt2(struct lines *l, const struct weft_model *m)
{
    put(l, "architectures", "[\"GPT2LMHeadModel\"]");
    put_string(l, "model_type", "gpt2");
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
    put(l, "resid_pdrop", "0.0");
    put(l, "embd_pdrop", "0.0");
    put(l, "attn_pdrop", "0.0");
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
    struct lines inside = {l->text, l->indent + 2, false};
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
    put(l, "architectures", "[\"LlamaForCausalLM\"]");
    put_string(l, "model_type", "llama");
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
    put(l, "attention_dropout", "0.0");
}

enum weft_status wf_hf_config_write(const struct weft_model *m,
                                    const struct wf_hf_metadata *about, struct wf_text *out,
                                    struct weft_error *err)
{
    WEFT_TRY(weft_model_check(m, err));
    struct lines l = {out, 2, false};
    wf_text_adds(out, "{");
    if (m->arch == WEFT_ARCH_GPT2)
        put_gpt2(&l, m);
    else
        put_llama(&l, m);

    put(&l, "initializer_range", "0.02");
    put_token(&l, "bos_token_id", about->bos);
    put_token(&l, "eos_token_id", about->eos);
    put(&l, "tie_word_embeddings", m->tied ? "true" : "false");
    put_string(&l, "torch_dtype", about->dtype);
    put_string(&l, "dtype", about->dtype);
    if (m->residual_block_layers > 0)
        put_uint(&l, "residual_block_layers", m->residual_block_layers);
    wf_text_adds(out, "\n}\n");
    if (out->failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for config.json");
    return WEFT_OK;
}
