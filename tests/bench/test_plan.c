/* Checks that the planning benchmarks return figures for every case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/json.h"
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
    size_t actions = 0;
    double rate = 0, seconds = 0;
    assert_int_equal(wf_bench_sim(&small, 2, &actions, &rate, NULL), WEFT_OK);
    assert_true(actions == 64 && rate > 0);
    assert_int_equal(wf_bench_fleet(&small, 16, 2, &rate, &seconds, NULL), WEFT_OK);
    assert_true(rate > 0 && seconds > 0);
    (void)state;
}

/* -- all cases ------------------------------------------------------------------------------- */

struct seen {
    size_t n, n_large, n_limited;
};

static void count_case(void *ctx, const struct wf_bench_case *c, const struct wf_bench_plan *f)
{
    struct seen *seen = ctx;
    assert_true(f->actions > 0);
    assert_int_equal(f->over_limit, c->limit_ns > 0 && f->limited_ns > c->limit_ns);
    seen->n++;
    seen->n_large += c->large;
    seen->n_limited += c->limit_ns > 0;
}

static void check_plans(void **state)
{
    struct seen seen = {0};
    assert_int_equal(wf_bench_plans(1, false, count_case, &seen, NULL), WEFT_OK);
    assert_true(seen.n > 0 && seen.n_large == 0 && seen.n_limited > 0);
    (void)state;
}

/* The limit applies to the measured time. */
static void check_limit(void **state)
{
    struct wf_bench_case c = small;
    struct wf_bench_plan f;
    c.limit_ns = 1e-6;
    assert_int_equal(wf_bench_plan(&c, 1, &f, NULL), WEFT_OK);
    assert_true(f.over_limit);
    c.limit_ns = 1e12;
    assert_int_equal(wf_bench_plan(&c, 1, &f, NULL), WEFT_OK);
    assert_false(f.over_limit);
    (void)state;
}

static void check_sims(void **state)
{
    struct wf_bench_sim_figures f;
    char text[2000];
    assert_int_equal(wf_bench_sims(1, false, &f, NULL), WEFT_OK);
    assert_int_equal(f.n_cases, WF_BENCH_N_SIM - 1); /* one case is large */
    for (size_t i = 0; i < f.n_cases; i++) {
        assert_false(f.cases[i].shape->large);
        assert_true(f.cases[i].actions > 0 && f.cases[i].rate > 0);
    }
    assert_true(f.scenarios_rate > 0 && f.fleet_seconds > 0);
    assert_true(f.cache[WF_BENCH_N_CACHE - 1].ns[WF_BENCH_N_IN_FLIGHT - 1] > 0);

    FILE *out = tmpfile();
    assert_non_null(out);
    wf_bench_sim_write_json(&(struct wf_json){.out = out}, &f);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    static const char begin[] = "{\"schedules\":[{\"schedule\":\"1f1b\",\"ranks\":8,"
                                "\"micros\":32,\"actions\":512,";
    assert_memory_equal(text, begin, sizeof begin - 1);
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
        cmocka_unit_test(check_plans),
        cmocka_unit_test(check_limit),
        cmocka_unit_test(check_sims),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL) != 0;
}
