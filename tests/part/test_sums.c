/* Tests the sums over the stages of a partition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "weft/part.h"

/* Gives each item unique powers of two, so that every sum identifies its items. */
static void powers(struct weft_item *at, size_t n)
{
    for (size_t k = 0; k < n; k++)
        at[k] = (struct weft_item){.f = 1 << k,
                                   .i = 2 << k,
                                   .w = 4 << k,
                                   .state_bytes = (size_t)8 << k,
                                   .act_bytes = (size_t)16 << k};
}

static struct sums_case {
    const char *name, *counts;
    uint32_t n_stages;
    int want[4]; /* items of each stage, as bits */
} cases[] = {
    {"one stage", "4", 1, {0x3f}},
    {"two stages", "3,1", 2, {0x0f, 0x30}},
    {"an empty stage between", "2,0,2", 3, {0x07, 0, 0x38}},
    {"embedding and head alone", "0,3,1,0", 4, {0x01, 0x0e, 0x10, 0x20}},
};

static void check_sums(void **state)
{
    const struct sums_case *c = *state;
    struct weft_item at[6];

    powers(at, 6);
    const struct weft_items items = {.n = 6, .at = at};
    struct weft_partition p;
    struct weft_stage_sums sums;
    assert_int_equal(weft_partition_parse_counts(&p, c->counts, strlen(c->counts), 0, 4, NULL),
                     WEFT_OK);
    assert_int_equal(weft_stage_sums_init(&sums, &p, &items, NULL), WEFT_OK);
    assert_int_equal(sums.n_stages, c->n_stages);

    struct weft_cost cost = weft_stage_sums_cost(&sums);
    for (uint32_t s = 0; s < c->n_stages; s++) {
        assert_true(weft_values_get(cost.f, s, -1) == c->want[s]);
        assert_true(weft_values_get(cost.i, s, -1) == 2 * c->want[s]);
        assert_true(weft_values_get(cost.w, s, -1) == 4 * c->want[s]);
        assert_int_equal(sums.state_bytes[s], 8 * c->want[s]);
        assert_int_equal(sums.act_bytes[s], 16 * c->want[s]);
    }
    assert_int_equal(cost.b.n, 0);
    assert_int_equal(cost.fb.n, 0);
    assert_true(cost.hop == 0);
    weft_stage_sums_release(&sums);
    assert_null(sums.f);
    weft_partition_release(&p);
}

static void check_errors(void **state)
{
    (void)state;
    struct weft_item at[4];

    powers(at, 4);
    struct weft_items items = {.n = 4, .at = at};
    struct weft_partition p;
    struct weft_stage_sums sums = {0};
    struct weft_error err;
    size_t bytes[2];
    assert_int_equal(weft_partition_init_even(&p, 3, 2, NULL), WEFT_OK);
    assert_int_equal(weft_stage_sums_init(&sums, &p, &items, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "the stages have 3 layers, the model has 2"));
    weft_partition_release(&p);
    assert_int_equal(weft_partition_init_even(&p, 2, 2, NULL), WEFT_OK);
    at[0].state_bytes = at[1].state_bytes = SIZE_MAX / 2 + 1;
    assert_int_equal(weft_stage_sums_init(&sums, &p, &items, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "stage 0: the bytes of its items overflow"));
    at[0].state_bytes = at[1].state_bytes = SIZE_MAX / 2;
    assert_int_equal(weft_partition_rank_bytes(&p, &items, NULL, bytes, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "rank 0: the bytes of its stages overflow"));
    items.n = 2;
    assert_int_equal(weft_stage_sums_init(&sums, &p, &items, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "0 layers"));
    assert_null(sums.f);
    weft_partition_release(&p);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 1];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, check_sums, NULL, NULL, &cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_errors);
    return cmocka_run_group_tests_name("sums", tests, NULL, NULL) != 0;
}
