/* Checks that a search without memory fails: no failed allocation may drop a candidate silently,
 * which would give another result with success. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "counter.h"
#include "deep.h"
#include "weft/plan.h"

static const double costs[] = {1, 1.2, 0.8};
static const struct weft_cost cost = {
    .f = {&costs[0], 1}, .i = {&costs[1], 1}, .w = {&costs[2], 1}};

static enum weft_status tune(struct weft_tune_result *r)
{
    const struct weft_tune_problem p = {
        .ranks = 2, .micros = 3, .chunks = 2, .placement = WEFT_PLACEMENT_V, .cost = &cost};
    const struct weft_tune_options o = {.iterations = 20};
    return weft_tune(&p, &o, r, NULL);
}

static void check_tune(void **state)
{
    (void)state;
    struct weft_tune_result want, have;
    size_t n = 0, n_failed = 0;
    if (!COUNTER_WORKS)
        skip();
    assert_int_equal(tune(&want), WEFT_OK);
    for (enum weft_status st = WEFT_NOMEM; st != WEFT_OK; n_failed += st != WEFT_OK) {
        size_t before = counter_calls();
        counter_fail(++n);
        st = tune(&have);
        bool reached = counter_calls() - before >= n;
        counter_fail(0);
        if (reached)
            assert_int_equal(st, WEFT_NOMEM);
    }
    assert_true(n_failed > 50);
    assert_string_equal(have.start, want.start);
    assert_true(have.makespan == want.makespan && have.evaluations == want.evaluations);
    weft_tune_result_release(&have);
    weft_tune_result_release(&want);
}

static enum weft_status find_layouts(struct weft_layouts *r)
{
    const struct weft_layout_problem p = {
        .layers = 4,
        .layer = {.f = 1, .i = 1.2, .w = 0.8, .act_bytes = 1e6, .state_bytes = 1000000},
        .global_batch = 2,
        .ranks = 2,
        .max_chunks = 2,
        .iterations = 5};
    return weft_tune_layouts(&p, 4, r, NULL);
}

/* The search makes tens of thousands of allocations; every 97th of them fails here. */
static void check_layouts(void **state)
{
    (void)state;
    struct weft_layouts want = {0}, have = {0};
    size_t step = test_is_deep() ? 7 : 97, n_failed = 0;
    if (!COUNTER_WORKS)
        skip();
    assert_int_equal(find_layouts(&want), WEFT_OK);
    for (size_t n = 1;; n += step) {
        size_t before = counter_calls();
        counter_fail(n);
        enum weft_status st = find_layouts(&have);
        bool reached = counter_calls() - before >= n;
        counter_fail(0);
        if (!reached) {
            assert_int_equal(st, WEFT_OK);
            break;
        }
        assert_int_equal(st, WEFT_NOMEM);
        n_failed++;
    }
    assert_true(n_failed > 5);
    assert_int_equal(have.n, want.n);
    assert_int_equal(have.n_tried, want.n_tried);
    assert_string_equal(have.at[0].schedule, want.at[0].schedule);
    weft_layouts_release(&have);
    weft_layouts_release(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_tune),
        cmocka_unit_test(check_layouts),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL) != 0;
}
