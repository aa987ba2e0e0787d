/* Tests models by name and their checks, and compares parameter counts with published
 * totals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "weft/spec.h"

/* The last fields of a model, after `tied`. */
#define USUAL                                                                                  \
    WEFT_NORM_EPS_DEFAULT, 0,                                                                  \
    {                                                                                          \
        .theta = WEFT_ROPE_THETA_DEFAULT                                                       \
    }

static struct count_case {
    const char *name;
    size_t want;
} counts[] = {
    {"gpt2-124m", 124439808},
    {"gpt2-355m", 354823168},
    {"gpt2-774m", 774030080},
    {"gpt2-1558m", 1557611200},
    {"d12", 124439808},
    {"llama2-7b", 6738415616},
    {"llama2-13b", 13015864320},
    {"llama2-70b", 68976648192},
    {"llama3-8b", 8030261248},
    {"llama3-70b", 70553706496},
    {"llama3-405b", 405853388800},
};

static void check_count(void **state)
{
    const struct count_case *c = *state;
    struct weft_model m;
    struct weft_error err;
    size_t n = 0;
    assert_int_equal(weft_model_find(c->name, &m, &err), WEFT_OK);
    assert_int_equal(weft_model_count_params(&m, &n, &err), WEFT_OK);
    assert_int_equal(n, c->want);
}

/* Every preset is found by its name and is valid. */
static void check_presets(void **state)
{
    (void)state;
    size_t n;
    const struct weft_preset *all = weft_presets(&n);
    assert_true(n >= 12);
    for (size_t i = 0; i < n; i++) {
        struct weft_model m;
        struct weft_error err;
        assert_int_equal(weft_model_find(all[i].name, &m, &err), WEFT_OK);
        assert_memory_equal(&m, &all[i].model, sizeof m);
        assert_int_equal(weft_model_check(&m, &err), WEFT_OK);
        assert_true(strlen(all[i].help) > 0);
    }
    assert_string_equal(weft_arch_name(WEFT_ARCH_GPT2), "gpt2");
    assert_string_equal(weft_arch_name(WEFT_ARCH_LLAMA), "llama");
}

static void check_d_names(void **state)
{
    (void)state;
    struct weft_model m;
    struct weft_error err;
    assert_int_equal(weft_model_find("d3", &m, &err), WEFT_OK);
    assert_int_equal(m.layers, 3);
    assert_int_equal(m.dim, 192);
    assert_int_equal(m.heads, 3);
    assert_int_equal(m.ffn, 768);
    assert_int_equal(weft_model_find("d256", &m, &err), WEFT_OK);
    assert_int_equal(m.dim, 16384);
}

/* clang-format off */
static struct find_error {
    const char *name, *want;
} find_errors[] = {
    {"gpt2-125m", "did you mean gpt2-124m?"},
    {"lama3-8b", "did you mean llama3-8b?"},
    {"LLAMA3_8B", "did you mean llama3-8b?"},
    {"gpt2", "did you mean gpt2-124m?"},
    {"llama3", "did you mean llama3-8b?"},
    {"d0", "unknown model 'd0': did you mean d6?"},
    {"d06", "did you mean d6?"},
    {"d257", "unknown model 'd257'"},
    {"d99999999999999",
     "unknown model 'd99999999999999'; give the name of a preset, or dN"},
    {"", "unknown model ''; give the name of a preset, or dN"},
    {"entirely-else", "unknown model 'entirely-else'; give the name of a preset, or dN"},
    {"d12x", "did you mean d12?"},
    {"a name that is longer than any model's name, and by far, so that it is truncated",
     "unknown model 'a name that is longer than any model's n';"},
};
/* clang-format on */

static void check_find_error(void **state)
{
    const struct find_error *c = *state;
    struct weft_model m = {0};
    struct weft_error err;
    assert_int_equal(weft_model_find(c->name, &m, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, c->want));
    assert_int_equal(m.layers, 0);
    assert_int_equal(weft_model_find(c->name, &m, NULL), WEFT_USAGE);
}

#define ROPE(...)                                                                              \
    {                                                                                          \
        WEFT_ARCH_LLAMA, 1, 8, 2, 1, 32, 9, 4, true, 1e-5F, 0,                                 \
        {                                                                                      \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }

/* clang-format off */
static struct bad_model {
    const char *name, *want;
    struct weft_model model;
} bad_models[] = {
    {"no layers", "layers is 0; give at least 1",
     {WEFT_ARCH_GPT2, 0, 8, 2, 2, 32, 9, 4, true, USUAL}},
    {"no width", "dim is 0; give the width",
     {WEFT_ARCH_GPT2, 1, 0, 2, 2, 32, 9, 4, true, USUAL}},
    {"no heads", "heads is 0; give the number",
     {WEFT_ARCH_GPT2, 1, 8, 0, 2, 32, 9, 4, true, USUAL}},
    {"no kv heads", "kv_heads is 0; give the number",
     {WEFT_ARCH_LLAMA, 1, 8, 2, 0, 32, 9, 4, true, USUAL}},
    {"no ffn", "ffn is 0; give the width",
     {WEFT_ARCH_GPT2, 1, 8, 2, 2, 0, 9, 4, true, USUAL}},
    {"no vocabulary", "vocab is 0; give the number of tokens",
     {WEFT_ARCH_GPT2, 1, 8, 2, 2, 32, 0, 4, true, USUAL}},
    {"no context", "ctx is 0; give the maximum",
     {WEFT_ARCH_GPT2, 1, 8, 2, 2, 32, 9, 0, true, USUAL}},
    {"unknown arch", "give gpt2 or llama",
     {(enum weft_arch)7, 1, 8, 2, 2, 32, 9, 4, true, USUAL}},
    {"uneven heads", "dim 8 is not a multiple of heads 3",
     {WEFT_ARCH_GPT2, 1, 8, 3, 3, 32, 9, 4, true, USUAL}},
    {"grouped gpt2", "kv_heads 1 must be 2",
     {WEFT_ARCH_GPT2, 1, 8, 2, 1, 32, 9, 4, true, USUAL}},
    {"uneven groups", "heads 4 is not a multiple of kv_heads 3",
     {WEFT_ARCH_LLAMA, 1, 8, 4, 3, 32, 9, 4, true, USUAL}},
    {"too many layers", "2000000 layers; give at most 1048576",
     {WEFT_ARCH_GPT2, 2000000, 8, 2, 2, 32, 9, 4, true, USUAL}},
    {"block of too many layers", "residual_block_layers 3 is more than the model's 2 layers",
     {WEFT_ARCH_GPT2, 2, 8, 2, 2, 32, 9, 4, true, 1e-5F, 3, {.theta = 1}}},
    {"odd heads", "heads of 3 elements (dim 6, heads 2) cannot be rotated",
     {WEFT_ARCH_LLAMA, 1, 6, 2, 2, 32, 9, 4, true, USUAL}},
    {"no eps", "norm_eps is 0; give a finite number",
     {WEFT_ARCH_GPT2, 1, 6, 2, 2, 32, 9, 4, true, 0, 0, {.theta = 1}}},
    {"negative eps", "norm_eps is -1",
     {WEFT_ARCH_GPT2, 1, 6, 2, 2, 32, 9, 4, true, -1, 0, {.theta = 1}}},
    {"infinite eps", "norm_eps is inf",
     {WEFT_ARCH_GPT2, 1, 6, 2, 2, 32, 9, 4, true, INFINITY, 0, {.theta = 1}}},
    {"no theta", "rope theta is 0", ROPE(WEFT_ROPE_PLAIN, 0, 8, 1, 4, 16)},
    {"a NaN", "rope theta is nan", ROPE(WEFT_ROPE_PLAIN, NAN, 8, 1, 4, 16)},
    {"no factor", "rope factor is 0", ROPE(WEFT_ROPE_LINEAR, 100, 0, 1, 4, 16)},
    {"no llama3 factor", "rope factor is -8", ROPE(WEFT_ROPE_LLAMA3, 100, -8, 1, 4, 16)},
    {"no low", "low frequency factor is 0", ROPE(WEFT_ROPE_LLAMA3, 100, 8, 0, 4, 16)},
    {"no high", "high frequency factor is inf",
     ROPE(WEFT_ROPE_LLAMA3, 100, 8, 1, INFINITY, 16)},
    {"low above high", "low frequency factor 4 is not less than the high one, 4",
     ROPE(WEFT_ROPE_LLAMA3, 100, 8, 4, 4, 16)},
    {"no rope ctx", "rope ctx is 0", ROPE(WEFT_ROPE_LLAMA3, 100, 8, 1, 4, 0)},
    {"unknown rope", "rope is unknown; give plain, linear or llama3",
     ROPE((enum weft_rope_kind)9, 100, 8, 1, 4, 16)},
    {"overflow in a layer", "overflow: dim 4294967294",
     {WEFT_ARCH_LLAMA, 1, UINT32_MAX - 1, 1, 1, UINT32_MAX, UINT32_MAX, 1, false, USUAL}},
    {"overflow in gpt2", "overflow: dim 4294967295",
     {WEFT_ARCH_GPT2, 1, UINT32_MAX, 1, 1, UINT32_MAX, 1, 1, false, USUAL}},
    {"overflow over layers", "overflow: 1048576 layers",
     {WEFT_ARCH_LLAMA, 1 << 20, 1 << 24, 1, 1, 1 << 20, 1, 1, false, USUAL}},
};
/* clang-format on */

static void check_bad_model(void **state)
{
    const struct bad_model *c = *state;
    struct weft_error err;
    size_t n = 77;
    assert_int_equal(weft_model_count_params(&c->model, &n, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, c->want));
    assert_int_equal(n, 77);
}

/* A tied and an untied model differ by one matrix.  Llama may be tied, too. */
static void check_tied(void **state)
{
    (void)state;
    struct weft_model m;
    size_t untied, tied;
    assert_int_equal(weft_model_find("llama3-8b", &m, NULL), WEFT_OK);
    assert_int_equal(weft_model_count_params(&m, &untied, NULL), WEFT_OK);
    m.tied = true;
    assert_int_equal(weft_model_count_params(&m, &tied, NULL), WEFT_OK);
    assert_int_equal(untied - tied, (size_t)128256 * 4096);
}

/* Block residuals add a query and a norm of dim elements before each of 2 * layers sublayers
 * and before the head. */
static void check_residual(void **state)
{
    (void)state;
    const char *const names[] = {"gpt2-124m", "llama3-8b"};
    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        struct weft_model m;
        size_t plain, mixed;
        assert_int_equal(weft_model_find(names[i], &m, NULL), WEFT_OK);
        assert_int_equal(m.residual_block_layers, 0);
        assert_int_equal(weft_model_count_params(&m, &plain, NULL), WEFT_OK);
        m.residual_block_layers = 4;
        assert_int_equal(weft_model_count_params(&m, &mixed, NULL), WEFT_OK);
        assert_int_equal(mixed - plain, 2 * m.dim * (2 * m.layers + 1));
    }
}

/* The expected values are computed by hand: 6 flops per element of the layers' matrices and of
 * the head, and attention. */
static void check_flops(void **state)
{
    (void)state;
    struct weft_model m;
    double flops = 0;

    assert_int_equal(weft_model_find("gpt2-124m", &m, NULL), WEFT_OK);
    assert_int_equal(weft_model_token_flops(&m, 1024, &flops, NULL), WEFT_OK);
    double layer = 12.0 * 768 * 768, head = 50257.0 * 768;
    assert_true(flops == 6 * (12 * layer + head) + 6.0 * 12 * 1024 * 768);
    m.tied = false; /* the product is the same */
    double untied = 0;
    assert_int_equal(weft_model_token_flops(&m, 1024, &untied, NULL), WEFT_OK);
    assert_true(untied == flops);
    assert_int_equal(weft_model_find("llama3-8b", &m, NULL), WEFT_OK);
    assert_int_equal(weft_model_token_flops(&m, 2048, &flops, NULL), WEFT_OK);
    layer = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336;
    head = 128256.0 * 4096;
    assert_true(flops == 6 * (32 * layer + head) + 6.0 * 32 * 2048 * 4096);
    m.heads = 7;
    flops = 5;
    assert_int_equal(weft_model_token_flops(&m, 2048, &flops, NULL), WEFT_USAGE);
    assert_true(flops == 5);
}

/* Checks the values in the config.json files of the models. */
static void check_numbers(void **state)
{
    (void)state;
    struct weft_model m;
    assert_int_equal(weft_model_find("gpt2-124m", &m, NULL), WEFT_OK);
    assert_true(m.norm_eps == 1e-5F);
    assert_int_equal(weft_model_find("llama2-7b", &m, NULL), WEFT_OK);
    assert_true(m.rope.kind == WEFT_ROPE_PLAIN && m.rope.theta == 10000);
    assert_int_equal(weft_model_find("llama3-70b", &m, NULL), WEFT_OK);
    assert_true(m.rope.kind == WEFT_ROPE_PLAIN && m.rope.theta == 500000);
    assert_int_equal(weft_model_find("llama3-405b", &m, NULL), WEFT_OK);
    assert_true(m.rope.kind == WEFT_ROPE_LLAMA3 && m.rope.theta == 500000);
    assert_true(m.rope.factor == 8 && m.rope.low == 1 && m.rope.high == 4);
    assert_int_equal(m.rope.ctx, 8192);
}

int main(void)
{
    struct CMUnitTest
        tests[WEFT_LEN(counts) + WEFT_LEN(find_errors) + WEFT_LEN(bad_models) + 6];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(counts); i++)
        tests[n++] = (struct CMUnitTest){counts[i].name, check_count, NULL, NULL, &counts[i]};
    for (size_t i = 0; i < WEFT_LEN(find_errors); i++)
        tests[n++] = (struct CMUnitTest){find_errors[i].name, check_find_error, NULL, NULL,
                                         &find_errors[i]};
    for (size_t i = 0; i < WEFT_LEN(bad_models); i++)
        tests[n++] = (struct CMUnitTest){bad_models[i].name, check_bad_model, NULL, NULL,
                                         &bad_models[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_presets);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_d_names);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_tied);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_residual);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_flops);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_numbers);
    return cmocka_run_group_tests_name("model", tests, NULL, NULL) != 0;
}
