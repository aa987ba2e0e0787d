/* Tests the times and bytes of items. */
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

static const struct weft_item layer = {
    .f = 1, .i = 2, .w = 3, .state_bytes = 40, .act_bytes = 5};
static const struct weft_item free_item;

static void check_uniform(void **state)
{
    (void)state;
    struct weft_items items;
    struct weft_item embedding = {.w = 7, .state_bytes = 9}, head = {.f = 8};
    assert_int_equal(weft_items_init_uniform(&items, 3, layer, embedding, head, NULL), WEFT_OK);
    assert_int_equal(items.n, 5);
    assert_int_equal(weft_items_n_layers(&items), 3);
    assert_memory_equal(&items.at[0], &embedding, sizeof embedding);
    for (size_t i = 1; i < 4; i++)
        assert_memory_equal(&items.at[i], &layer, sizeof layer);
    assert_memory_equal(&items.at[4], &head, sizeof head);
    assert_int_equal(items.shared_bytes, 0);
    assert_int_equal(weft_items_check(&items, NULL), WEFT_OK);
    weft_items_release(&items);
    assert_null(items.at);
    weft_items_release(&items);
}

/* GPT-2 with dim 8, 2 heads, ffn 32, vocabulary 10, ctx 6; two rows of 5 tokens.
 * Computed by hand:
 *   a layer's matrices 8*24 + 8*8 + 8*32 + 32*8 = 768, vectors 24 + 8 + 32 + 8 + 4*8 = 104
 *   embedding 10*8 + 6*8 = 128, head 80 + 16 (tied: the 80 are shared)
 */
static void check_gpt2(void **state)
{
    (void)state;
    struct weft_model m = {WEFT_ARCH_GPT2, 2, 8, 2, 2, 32, 10, 6, true, USUAL};
    struct weft_items items;

    assert_int_equal(weft_items_init_model(&items, &m, 2, 5, NULL), WEFT_OK);
    assert_int_equal(items.n, 4);
    const struct weft_item *e = &items.at[0], *l = &items.at[1], *h = &items.at[3];
    double linear = 2 * 10 * 768, scores = 2 * (2 * 2 * 5 * 5 * 8);
    assert_true(l->f == linear + scores);
    assert_true(l->i == linear + 2 * scores);
    assert_true(l->w == linear);
    assert_true(l->i + l->w == 2 * l->f);
    assert_int_equal(l->state_bytes, 20 * (768 + 104) + 8 * 768);
    assert_int_equal(l->act_bytes, 4 * 10 * (5 * 8 + 3 * 8 + 2 * 32 + 2 + 4));
    assert_true(e->f == 80 && e->i == 0 && e->w == 80);
    assert_int_equal(e->state_bytes, 20 * 128);
    assert_int_equal(e->act_bytes, 4 * 10);
    assert_true(h->f == 2 * 10 * 8 * 10 && h->i == h->f && h->w == h->f);
    assert_int_equal(h->state_bytes, 20 * 96 + 8 * 80);
    assert_int_equal(h->act_bytes, 4 * 10 * (2 * 8 + 4));
    assert_int_equal(items.shared_bytes, 20 * 80);
    assert_int_equal(l->state.weights, 4 * (768 + 104));
    assert_int_equal(l->state.gradients, 8 * (768 + 104));
    assert_int_equal(l->state.moments, 8 * (768 + 104));
    assert_int_equal(l->state.packed, 8 * 768);
    assert_int_equal(items.shared.weights, 4 * 80);
    assert_int_equal(items.boundary_bytes, 4 * 10 * 8);
    assert_int_equal(l->work_bytes, 0);
    weft_items_release(&items);
}

/* Llama with dim 8, 4 heads, 2 kv heads, ffn 16, vocabulary 10: k and v have 4 elements. */
static void check_llama(void **state)
{
    (void)state;
    struct weft_model m = {WEFT_ARCH_LLAMA, 1, 8, 4, 2, 16, 10, 6, false, USUAL};
    struct weft_items items;
    assert_int_equal(weft_items_init_model(&items, &m, 1, 6, NULL), WEFT_OK);
    const struct weft_item *l = &items.at[1], *h = &items.at[2];
    double matrices = 2 * 64 + 2 * 32 + 3 * 128;
    assert_true(l->w == 2 * 6 * matrices);
    assert_true(l->f == l->w + 4 * 6 * 6 * 8);
    assert_int_equal(l->state_bytes, 20 * (576 + 16) + 8 * 576);
    assert_int_equal(l->act_bytes, 4 * 6 * (5 * 8 + 8 + 2 * 4 + 3 * 16 + 4 + 2));
    assert_int_equal(items.at[0].state_bytes, 20 * 80);
    assert_int_equal(h->state_bytes, 20 * 88 + 8 * 80);
    assert_int_equal(h->act_bytes, 4 * 6 * (2 * 8 + 3));
    assert_int_equal(items.shared_bytes, 0);
    weft_items_release(&items);
}

/* The total state is 20 bytes per parameter, with the shared weight counted once, and 8 per
 * element of a matrix of a product. */
static void check_presets(void **state)
{
    (void)state;
    size_t n;
    const struct weft_preset *all = weft_presets(&n);
    for (size_t p = 0; p < n; p++) {
        struct weft_items items;
        size_t params, bytes = 0;
        assert_int_equal(weft_model_count_params(&all[p].model, &params, NULL), WEFT_OK);
        assert_int_equal(weft_items_init_model(&items, &all[p].model, 1, 1024, NULL), WEFT_OK);
        for (size_t i = 0; i < items.n; i++)
            bytes += items.at[i].state_bytes;
        const struct weft_model *m = &all[p].model;
        size_t dim = m->dim, kv = dim / m->heads * m->kv_heads;
        size_t mlp = (m->arch == WEFT_ARCH_GPT2 ? 2 : 3) * dim * m->ffn;
        size_t factors = m->layers * (2 * dim * dim + 2 * dim * kv + mlp) + dim * m->vocab;
        assert_int_equal(bytes - items.shared_bytes, 20 * params + 8 * factors);
        weft_items_release(&items);
    }
}

static struct uniform_error {
    const char *name, *want;
    uint32_t n_layers;
    struct weft_item layer, head;
} uniform_errors[] = {
    {.name = "no layers", .want = "0 layers; give at least 1"},
    {.name = "too many layers",
     .want = "1048577 layers; give at most 1048576",
     .n_layers = (1 << 20) + 1},
    {.name = "negative",
     .want = "item 1 (a layer) has times f=-1",
     .n_layers = 1,
     .layer = {-1, 0, 0, 0, 0}},
    {.name = "not a number",
     .want = "item 1 (a layer)",
     .n_layers = 1,
     .layer = {0, NAN, 0, 0, 0}},
    {.name = "infinite",
     .want = "item 2 (the head)",
     .n_layers = 1,
     .head = {0, 0, INFINITY, 0, 0}},
};

static void check_uniform_error(void **state)
{
    const struct uniform_error *c = *state;
    struct weft_items items = {0};
    struct weft_error err;
    assert_int_equal(
        weft_items_init_uniform(&items, c->n_layers, c->layer, free_item, c->head, &err),
        WEFT_USAGE);
    assert_non_null(strstr(err.msg, c->want));
    assert_null(items.at);
}

/* clang-format off */
static struct micro_error {
    const char *name, *want;
    uint32_t rows, seq;
    struct weft_model model;
} micro_errors[] = {
    {"no rows", "0 rows; give at least 1 sequence",
     0, 4, {WEFT_ARCH_GPT2, 1, 8, 2, 2, 32, 9, 4, true, USUAL}},
    {"no tokens", "seq is 0; give the tokens per sequence, 1 to 4",
     1, 0, {WEFT_ARCH_GPT2, 1, 8, 2, 2, 32, 9, 4, true, USUAL}},
    {"too long", "seq 5 is longer than the model's ctx 4",
     1, 5, {WEFT_ARCH_GPT2, 1, 8, 2, 2, 32, 9, 4, true, USUAL}},
    {"invalid model", "vocab is 0",
     1, 4, {WEFT_ARCH_GPT2, 1, 8, 2, 2, 32, 0, 4, true, USUAL}},
    {"overflow", "bytes overflow: 4294967295 rows of 4294967295 tokens",
     UINT32_MAX, UINT32_MAX, {WEFT_ARCH_GPT2, 1, 8, 2, 2, 32, 9, UINT32_MAX, true, USUAL}},
};
/* clang-format on */

static void check_micro_error(void **state)
{
    const struct micro_error *c = *state;
    struct weft_items items = {0};
    struct weft_error err;
    assert_int_equal(weft_items_init_model(&items, &c->model, c->rows, c->seq, &err),
                     WEFT_USAGE);
    assert_non_null(strstr(err.msg, c->want));
    assert_null(items.at);
}

static void check_shared_bytes(void **state)
{
    (void)state;
    struct weft_item at[3] = {{.state_bytes = 10}, {.f = 1}, {.state_bytes = 5}};
    struct weft_error err;
    assert_int_equal(
        weft_items_check(&(struct weft_items){.n = 3, .at = at, .shared_bytes = 5}, &err),
        WEFT_OK);
    assert_int_equal(
        weft_items_check(&(struct weft_items){.n = 3, .at = at, .shared_bytes = 6}, &err),
        WEFT_USAGE);
    assert_non_null(strstr(err.msg, "6 shared bytes"));
    assert_int_equal(weft_items_check(&(struct weft_items){0}, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "0 layers"));
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(uniform_errors) + WEFT_LEN(micro_errors) + 5];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(uniform_errors); i++)
        tests[n++] = (struct CMUnitTest){uniform_errors[i].name, check_uniform_error, NULL,
                                         NULL, &uniform_errors[i]};
    for (size_t i = 0; i < WEFT_LEN(micro_errors); i++)
        tests[n++] = (struct CMUnitTest){micro_errors[i].name, check_micro_error, NULL, NULL,
                                         &micro_errors[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_uniform);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_gpt2);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_llama);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_presets);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_shared_bytes);
    return cmocka_run_group_tests_name("items", tests, NULL, NULL) != 0;
}
