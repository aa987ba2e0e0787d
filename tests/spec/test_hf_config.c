/* Tests config.json of Hugging Face: reading, errors, and round trips through writing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include "base/error.h"
#include "planning/spec/hf_config.h"

static bool same_rope(const struct weft_rope *a, const struct weft_rope *b)
{
    return a->kind == b->kind && a->theta == b->theta && a->factor == b->factor &&
           a->low == b->low && a->high == b->high && a->ctx == b->ctx;
}

static void assert_same(const struct weft_model *a, const struct weft_model *b)
{
    assert_int_equal(a->arch, b->arch);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->kv_heads, b->kv_heads);
    assert_int_equal(a->ffn, b->ffn);
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->ctx, b->ctx);
    assert_int_equal(a->tied, b->tied);
    assert_true(a->norm_eps == b->norm_eps);
    assert_int_equal(a->residual_block_layers, b->residual_block_layers);
    assert_true(a->arch == WEFT_ARCH_GPT2 || same_rope(&a->rope, &b->rope));
}

/* -- reading ------------------------------------------------------------------------------- */

/* The defaults of transformers' GPT2Config and LlamaConfig. */
#define GPT2_TEXT(rest) "{\"model_type\":\"gpt2\"" rest "}"
#define GPT2_MODEL                                                                             \
    .arch = WEFT_ARCH_GPT2, .layers = 12, .dim = 768, .heads = 12, .kv_heads = 12,             \
    .ffn = 3072, .vocab = 50257, .ctx = 1024, .tied = true, .norm_eps = 1e-5F
#define LLAMA_TEXT(rest) "{\"model_type\":\"llama\"" rest "}"
#define LLAMA_SHAPE                                                                            \
    .arch = WEFT_ARCH_LLAMA, .layers = 32, .dim = 4096, .heads = 32, .kv_heads = 32,           \
    .ffn = 11008, .vocab = 32000, .ctx = 2048, .norm_eps = 1e-6F
#define LLAMA_MODEL LLAMA_SHAPE, .rope.theta = 10000
#define LLAMA3_FIELDS                                                                          \
    "\"factor\":8.0,\"low_freq_factor\":1,\"high_freq_factor\":4.0,"                           \
    "\"original_max_position_embeddings\":8192"
#define LLAMA3_MODEL LLAMA_SHAPE, .rope = {WEFT_ROPE_LLAMA3, 500000, 8, 1, 4, 8192}

/* clang-format off */
static struct good_case {
    const char *name, *text;
    struct weft_model want;
} good_cases[] = {
    {"gpt2 defaults", GPT2_TEXT(""), {GPT2_MODEL}},
    {"gpt2 as published",
     GPT2_TEXT(",\"activation_function\":\"gelu_new\",\"architectures\":[\"GPT2LMHeadModel\"],"
               "\"attn_pdrop\":0.1,\"bos_token_id\":50256,\"initializer_range\":0.02,"
               "\"layer_norm_epsilon\":1e-05,\"n_ctx\":1024,\"n_embd\":1024,\"n_head\":16,"
               "\"n_layer\":24,\"n_positions\":1024,\"vocab_size\":50257,\"task_specific_params\":"
               "{\"text-generation\":{\"do_sample\":true}}"),
     {.arch = WEFT_ARCH_GPT2, .layers = 24, .dim = 1024, .heads = 16, .kv_heads = 16,
      .ffn = 4096, .vocab = 50257, .ctx = 1024, .tied = true, .norm_eps = 1e-5F}},
    {"gpt2 by the other names",
     GPT2_TEXT(",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
               "\"max_position_embeddings\":32,\"n_inner\":100,\"vocab_size\":7,"
               "\"activation_function\":\"gelu_pytorch_tanh\",\"layer_norm_epsilon\":0.5,"
               "\"tie_word_embeddings\":false,\"residual_block_layers\":2"),
     {.arch = WEFT_ARCH_GPT2, .layers = 2, .dim = 64, .heads = 4, .kv_heads = 4, .ffn = 100,
      .vocab = 7, .ctx = 32, .tied = false, .norm_eps = 0.5F, .residual_block_layers = 2}},
    {"gpt2 with both names", GPT2_TEXT(",\"hidden_size\":768,\"n_embd\":768"), {GPT2_MODEL}},
    {"gpt2 switches as they are",
     GPT2_TEXT(",\"scale_attn_weights\":true,\"scale_attn_by_inverse_layer_idx\":false,"
               "\"reorder_and_upcast_attn\":false,\"add_cross_attention\":false,\"n_inner\":null,"
               "\"quantization_config\":null"), {GPT2_MODEL}},
    {"llama defaults", LLAMA_TEXT(""), {LLAMA_MODEL}},
    {"llama nulls",
     LLAMA_TEXT(",\"num_key_value_heads\":null,\"head_dim\":null,\"rope_scaling\":null,"
                "\"rope_parameters\":null"), {LLAMA_MODEL}},
    {"llama all",
     LLAMA_TEXT(",\"hidden_size\":48,\"num_hidden_layers\":4,\"num_attention_heads\":6,"
                "\"num_key_value_heads\":2,\"intermediate_size\":112,\"vocab_size\":128,"
                "\"max_position_embeddings\":64,\"rms_norm_eps\":1,\"rope_theta\":100,"
                "\"hidden_act\":\"silu\",\"tie_word_embeddings\":true,\"head_dim\":8,"
                "\"attention_bias\":false,\"mlp_bias\":false,\"eos_token_id\":[1,2]"),
     {.arch = WEFT_ARCH_LLAMA, .layers = 4, .dim = 48, .heads = 6, .kv_heads = 2, .ffn = 112,
      .vocab = 128, .ctx = 64, .tied = true, .norm_eps = 1, .rope.theta = 100}},
    {"rope of version 4",
     LLAMA_TEXT(",\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\","
                LLAMA3_FIELDS "}"), {LLAMA3_MODEL}},
    {"rope of version 5",
     LLAMA_TEXT(",\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500000.0,"
                LLAMA3_FIELDS "}"), {LLAMA3_MODEL}},
    {"rope of both versions",
     LLAMA_TEXT(",\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\","
                LLAMA3_FIELDS "},\"rope_parameters\":{\"rope_type\":\"llama3\","
                "\"rope_theta\":500000.0," LLAMA3_FIELDS "}"), {LLAMA3_MODEL}},
    {"plain rope of both versions",
     LLAMA_TEXT(",\"rope_theta\":7,\"rope_scaling\":null,"
                "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7.0}"),
     {LLAMA_SHAPE, .rope.theta = 7}},
    {"rope of version 5 uses the outer theta",
     LLAMA_TEXT(",\"rope_theta\":9,\"rope_parameters\":{}"), {LLAMA_SHAPE, .rope.theta = 9}},
    {"linear rope by its old name",
     LLAMA_TEXT(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}"),
     {LLAMA_SHAPE, .rope = {WEFT_ROPE_LINEAR, 10000, 2, 0, 0, 0}}},
    {"whole heads are rotated",
     LLAMA_TEXT(",\"rope_parameters\":{\"partial_rotary_factor\":1.0}"), {LLAMA_MODEL}},
};
/* clang-format on */

static void check_good(void **state)
{
    const struct good_case *c = *state;
    struct weft_model m;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_hf_config_parse(c->text, strlen(c->text), "dir", &m, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);
    assert_same(&m, &c->want);
}

/* -- errors -------------------------------------------------------------------------------- */

/* clang-format off */
static struct bad_case {
    const char *name, *text, *want;
} bad_cases[] = {
    {"empty", "", "x/config.json:1:0: invalid JSON"},
    {"truncated", "{\"model_type\":\"gpt2\"", "invalid JSON"},
    {"trailing text", "{\"model_type\":\"gpt2\"} {", "invalid JSON"},
    {"key twice", "{\"model_type\":\"gpt2\",\n\"model\\u005ftype\":\"llama\"}",
     "x/config.json:2:17: invalid JSON: duplicate object key"},
    {"control byte", "{\"a\":\033[31m}", "invalid JSON: invalid token near '?'"},
    {"a list", "[]", "x/config.json: the file is a list; expected an object"},
    {"missing type", "{}", "x/config.json: model_type is missing; give gpt2 or llama"},
    {"type of another type", "{\"model_type\":3}",
     "x/config.json: model_type is an integer; give a string"},
    {"null type", "{\"model_type\":null}", "model_type is null; give a string"},
    {"unknown type", "{\"model_type\":\"mis\\u001btral\"}",
     "x/config.json: model_type is 'mis?tral': weft reads gpt2 and llama"},
    {"quantized", LLAMA_TEXT(",\"quantization_config\":{}"),
     "quantization_config is set: weft reads weights of type F32, BF16 and F16"},
    {"unscaled", GPT2_TEXT(",\"scale_attn_weights\":false"), "scale_attn_weights is false: weft"},
    {"scaled by layer", GPT2_TEXT(",\"scale_attn_by_inverse_layer_idx\":true"),
     "scale_attn_by_inverse_layer_idx is true: weft scales the scores of all layers equally; "
     "use a model where it is false"},
    {"reordered", GPT2_TEXT(",\"reorder_and_upcast_attn\":true"), "reorder_and_upcast_attn is true"},
    {"cross-attention", GPT2_TEXT(",\"add_cross_attention\":true"), "add_cross_attention is true"},
    {"switch of another type", GPT2_TEXT(",\"reorder_and_upcast_attn\":1"),
     "reorder_and_upcast_attn is an integer; give true or false"},
    {"null switch", GPT2_TEXT(",\"tie_word_embeddings\":null"), "tie_word_embeddings is null; give"},
    {"relu", GPT2_TEXT(",\"activation_function\":\"relu\""),
     "activation_function is 'relu', which is not supported; use a model with gelu_new"},
    {"exact gelu", GPT2_TEXT(",\"activation_function\":\"gelu\""), "activation_function is 'gelu'"},
    {"no activation", GPT2_TEXT(",\"activation_function\":null"), "activation_function is null"},
    {"llama with gelu", LLAMA_TEXT(",\"hidden_act\":\"gelu\""), "hidden_act is 'gelu', which is not supported; use a model with silu"},
    {"llama with attention biases", LLAMA_TEXT(",\"attention_bias\":true"),
     "attention_bias is true: weft's Llama has no biases; use a model where it is false"},
    {"llama with MLP biases", LLAMA_TEXT(",\"mlp_bias\":true"), "mlp_bias is true"},
    {"size of another type", GPT2_TEXT(",\"n_layer\":\"12\""), "n_layer is a string; give an integer"},
    {"size with a fraction", GPT2_TEXT(",\"n_layer\":12.0"), "n_layer is a number with a fraction"},
    {"true size", GPT2_TEXT(",\"n_layer\":true"), "n_layer is true; give an integer"},
    {"null size", GPT2_TEXT(",\"n_layer\":null"), "n_layer is null; give an integer"},
    {"negative size", GPT2_TEXT(",\"n_embd\":-1"), "n_embd is -1; give 0 to 4294967295"},
    {"large size", LLAMA_TEXT(",\"vocab_size\":4294967296"), "vocab_size is 4294967296; give 0 to"},
    {"huge size", LLAMA_TEXT(",\"vocab_size\":99999999999999999999"), "invalid JSON: too big integer"},
    {"zero size", LLAMA_TEXT(",\"vocab_size\":0"), "x/config.json: the model's vocab is 0"},
    {"too many layers", LLAMA_TEXT(",\"num_hidden_layers\":2000000"), "2000000 layers; give at most"},
    {"two names", GPT2_TEXT(",\"n_embd\":768,\"hidden_size\":769"),
     "n_embd and hidden_size are names of the same number but differ; remove one"},
    {"other name of another type", GPT2_TEXT(",\"hidden_size\":[]"), "hidden_size is a list"},
    {"width times 4", GPT2_TEXT(",\"n_embd\":1073741824"),
     "n_embd is 1073741824; give at most 1073741823"},
    {"uneven heads", GPT2_TEXT(",\"n_head\":7"), "dim 768 is not a multiple of heads 7"},
    {"no heads", LLAMA_TEXT(",\"num_attention_heads\":0,\"head_dim\":128"), "head_dim is 128, but"},
    {"uneven groups", LLAMA_TEXT(",\"num_key_value_heads\":5"), "heads 32 is not a multiple"},
    {"head size", LLAMA_TEXT(",\"head_dim\":64"),
     "head_dim is 64, but hidden_size 4096 / num_attention_heads 32 is different"},
    {"head size that overflows", LLAMA_TEXT(",\"head_dim\":134217856"), "head_dim is 134217856, but"},
    {"odd heads", LLAMA_TEXT(",\"hidden_size\":96"), "heads of 3 elements"},
    {"eps of another type", LLAMA_TEXT(",\"rms_norm_eps\":\"1e-5\""), "rms_norm_eps is a string; give a number"},
    {"negative eps", GPT2_TEXT(",\"layer_norm_epsilon\":-1e-5"),
     "layer_norm_epsilon is -1e-05; give a number greater than 0"},
    {"eps too small for fp32", GPT2_TEXT(",\"layer_norm_epsilon\":1e-60"),
     "layer_norm_epsilon is 1e-60; give a value in the range of fp32"},
    {"eps too large for fp32", GPT2_TEXT(",\"layer_norm_epsilon\":1e60"), "is 1e+60; give a value"},
    {"eps too large for double", GPT2_TEXT(",\"layer_norm_epsilon\":1e999"), "invalid JSON: real number overflow"},
    {"large blocks", LLAMA_TEXT(",\"residual_block_layers\":33"), "residual_block_layers 33 is more"},
    {"theta", LLAMA_TEXT(",\"rope_theta\":0"), "rope_theta is 0; give a number greater than 0"},
    {"rope of another type", LLAMA_TEXT(",\"rope_scaling\":\"llama3\""),
     "rope_scaling is a string; give an object or null"},
    {"rope without a type", LLAMA_TEXT(",\"rope_scaling\":{\"factor\":2}"),
     "rope_scaling.rope_type is missing; give default, linear or llama3"},
    {"unknown rope", LLAMA_TEXT(",\"rope_parameters\":{\"rope_type\":\"yarn\"}"),
     "rope_parameters.rope_type is 'yarn', which is not supported; use a model with default"},
    {"unknown rope by its old name", LLAMA_TEXT(",\"rope_scaling\":{\"type\":\"dynamic\"}"),
     "rope_scaling.rope_type is 'dynamic'"},
    {"rope type of another type", LLAMA_TEXT(",\"rope_scaling\":{\"type\":[]}"),
     "rope_scaling.type is a list; give a string"},
    {"linear without factor", LLAMA_TEXT(",\"rope_scaling\":{\"type\":\"linear\"}"),
     "rope_scaling.factor is missing: this kind of rope needs it"},
    {"llama3 without factor", LLAMA_TEXT(",\"rope_scaling\":{\"rope_type\":\"llama3\"}"),
     "rope_scaling.factor is missing"},
    {"llama3 without low",
     LLAMA_TEXT(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":2}"),
     "rope_scaling.low_freq_factor is missing"},
    {"llama3 without high",
     LLAMA_TEXT(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":2,\"low_freq_factor\":1}"),
     "rope_scaling.high_freq_factor is missing"},
    {"llama3 without context",
     LLAMA_TEXT(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":2,\"low_freq_factor\":1,"
                "\"high_freq_factor\":4}"),
     "rope_scaling.original_max_position_embeddings is missing"},
    {"llama3 with low above high",
     LLAMA_TEXT(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4,"
                "\"high_freq_factor\":1,\"original_max_position_embeddings\":8}"),
     "low frequency factor 4 is not less than the high one, 1"},
    {"ropes that differ",
     LLAMA_TEXT(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"
                "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4}"),
     "rope_parameters contradicts rope_scaling and rope_theta; remove one"},
    {"thetas that differ",
     LLAMA_TEXT(",\"rope_theta\":10,\"rope_parameters\":{\"rope_theta\":11}"),
     "rope_parameters contradicts rope_theta; remove one"},
    {"ropes by layer", LLAMA_TEXT(",\"rope_parameters\":{\"rope_type\":{}}"),
     "rope_parameters.rope_type is an object; give a string"},
    {"partial rotation", LLAMA_TEXT(",\"rope_parameters\":{\"partial_rotary_factor\":0.5}"),
     "rope_parameters.partial_rotary_factor is 0.5: weft rotates whole heads"},
};
/* clang-format on */

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    struct weft_model m = {.layers = 77};
    struct weft_error err = {.msg = ""};
    assert_int_equal(wf_hf_config_parse(c->text, strlen(c->text), "x/config.json", &m, &err),
                     WEFT_CKPT);
    if (strstr(err.msg, c->want) == NULL)
        fail_msg("'%s' is not in '%s'", c->want, err.msg);
    assert_int_equal(strncmp(err.msg, "x/config.json", 13), 0);
    assert_null(strchr(err.msg, '\n'));
    assert_int_equal(m.layers, 77);
    assert_int_equal(wf_hf_config_parse(c->text, strlen(c->text), "x", &m, NULL), WEFT_CKPT);
}

/* Deep nesting is an error of the JSON parser, not an overflow of the stack. */
static void check_deep(void **state)
{
    (void)state;
    size_t n = 1 << 20;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, '[', n);
    struct weft_model m;
    struct weft_error err;
    assert_int_equal(wf_hf_config_parse(text, n, "x", &m, &err), WEFT_CKPT);
    free(text);
}

/* -- writing ------------------------------------------------------------------------------- */

static void check_round_trip(const struct weft_model *m)
{
    struct wf_text text = {0};
    struct weft_error err = {.msg = ""};
    struct wf_hf_metadata about = {.dtype = "bfloat16", .eos = "2"};
    assert_int_equal(wf_hf_config_write(m, &about, &text, &err), WEFT_OK);
    struct weft_model again;
    enum weft_status st = wf_hf_config_parse(text.at, text.len, "again", &again, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);
    assert_same(&again, m);
    wf_text_release(&text);
}

static void check_round_trips(void **state)
{
    (void)state;
    size_t n;
    const struct weft_preset *all = weft_presets(&n);
    for (size_t i = 0; i < n; i++)
        check_round_trip(&all[i].model);
    for (size_t i = 0; i < WEFT_LEN(good_cases); i++)
        check_round_trip(&good_cases[i].want);
    struct weft_model m = all[n - 1].model;
    m.norm_eps = nextafterf(1e-5F, 1); /* needs all nine digits */
    m.rope.theta = 1.0 / 3;
    m.rope.factor = nextafter(8, 9);
    check_round_trip(&m);
}

/* The keys of both versions of transformers are present and have the right types. */
static void check_written_keys(void **state)
{
    (void)state;
    struct weft_model m;

    assert_int_equal(weft_model_find("llama3-405b", &m, NULL), WEFT_OK);
    m.residual_block_layers = 3;
    struct wf_text text = {0};
    struct wf_hf_metadata about = {.dtype = "float32", .bos = "128000"};
    assert_int_equal(wf_hf_config_write(&m, &about, &text, NULL), WEFT_OK);
    json_t *root = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    const char *architecture, *torch_dtype, *dtype, *old_type, *new_type;
    double old_theta, new_theta, factor, eps;
    int original, block_layers, bos;
    int st = json_unpack(root,
                         "{s:[s], s:s, s:s, s:f, s:{s:s, s:f, s:i}, s:{s:s, s:f}, s:f, "
                         "s:i, s:i, s:n}",
                         "architectures", &architecture, "torch_dtype", &torch_dtype, "dtype",
                         &dtype, "rope_theta", &old_theta, "rope_scaling", "rope_type",
                         &old_type, "factor", &factor, "original_max_position_embeddings",
                         &original, "rope_parameters", "rope_type", &new_type, "rope_theta",
                         &new_theta, "rms_norm_eps", &eps, "residual_block_layers",
                         &block_layers, "bos_token_id", &bos, "eos_token_id");
    assert_int_equal(st, 0);
    assert_string_equal(architecture, "WeftLlamaForCausalLM");
    assert_string_equal(torch_dtype, "float32");
    assert_string_equal(dtype, "float32");
    assert_string_equal(old_type, "llama3");
    assert_string_equal(new_type, "llama3");
    assert_true(old_theta == 500000 && new_theta == 500000 && factor == 8 && eps == 1e-5);
    assert_int_equal(original, 8192);
    assert_int_equal(block_layers, 3);
    assert_int_equal(bos, 128000);
    json_decref(root);
    wf_text_release(&text);
}

static void check_write_error(void **state)
{
    (void)state;
    struct wf_text text = {0};
    struct weft_error err;
    struct wf_hf_metadata about = {.dtype = "float32"};
    assert_int_equal(wf_hf_config_write(&(struct weft_model){0}, &about, &text, &err),
                     WEFT_USAGE);
    assert_int_equal(text.len, 0);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(good_cases) + WEFT_LEN(bad_cases) + 4];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(good_cases); i++)
        tests[n++] =
            (struct CMUnitTest){good_cases[i].name, check_good, NULL, NULL, &good_cases[i]};
    for (size_t i = 0; i < WEFT_LEN(bad_cases); i++)
        tests[n++] =
            (struct CMUnitTest){bad_cases[i].name, check_bad, NULL, NULL, &bad_cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_deep);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_round_trips);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_written_keys);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_write_error);
    return cmocka_run_group_tests_name("hf_config", tests, NULL, NULL) != 0;
}
