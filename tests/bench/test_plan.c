/* Checks that the planning benchmarks return figures for every case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "bench/plan.h"

static const struct wf_bench_case small = {"1f1b", 4, 0, 8, 0, false, false};

static void check_plan(void **state)
{
    struct wf_bench_plan f;
    assert_int_equal(wf_bench_plan(&small, 2, &f, NULL), WEFT_OK);
    assert_int_equal(f.actions, 4 * 8 * 2); /* a forward and a backward each */
    assert_true(f.generate_ns > 0 && f.verify_ns > 0);
    assert_true(f.lower_ns > 0 && f.lowered_verify_ns > 0);
    assert_true(f.limited_ns == f.generate_ns + f.verify_ns);
    assert_true(f.stored_bytes >= 8);
    assert_true(f.peak_bytes == 0);
    (void)state;
}

static void check_generate_only(void **state)
{
    static const struct wf_bench_case c = {"greedy-1f1b", 4, 2, 8, 15, true, false};
    struct wf_bench_plan f;
    assert_int_equal(wf_bench_plan(&c, 1, &f, NULL), WEFT_OK);
    assert_true(f.lower_ns == 0 && f.limited_ns == f.generate_ns);
    (void)state;
}

static void check_unknown_schedule(void **state)
{
    static const struct wf_bench_case c = {"nothing", 4, 0, 8, 0, false, false};
    struct wf_bench_plan f;
    assert_int_equal(wf_bench_plan(&c, 1, &f, NULL), WEFT_USAGE);
    (void)state;
}

static void check_sim(void **state)
{
    size_t actions = 0, n = 0;
    double rate = 0, seconds = 0;
    assert_int_equal(wf_bench_sim(&small, 2, &actions, &rate, NULL), WEFT_OK);
    assert_true(actions == 64 && rate > 0);
    assert_int_equal(wf_bench_fleet(&small, 16, 2, &rate, &seconds, NULL), WEFT_OK);
    assert_true(rate > 0 && seconds > 0);
    assert_non_null(wf_bench_sim_cases(&n));
    assert_true(n > 0);
    (void)state;
}

static void check_cache(void **state)
{
    struct wf_bench_cache f[WF_BENCH_N_CACHE];
    assert_int_equal(wf_bench_cache(1, f, NULL), WEFT_OK);
    for (size_t k = 0; k < WF_BENCH_N_CACHE; k++)
        for (size_t i = 0; i < WF_BENCH_N_IN_FLIGHT; i++)
            assert_true(f[k].ns[i] > 0);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_plan),
        cmocka_unit_test(check_generate_only),
        cmocka_unit_test(check_unknown_schedule),
        cmocka_unit_test(check_sim),
        cmocka_unit_test(check_cache),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL) != 0;
}
