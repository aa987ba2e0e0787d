/* Checks the simulation of a plan on a cluster: bounds, summary, samples, residual blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planning/planner/simulation.h"

static struct wf_plan make_plan(const struct weft_cost *cost)
{
    const struct wf_plan_input in = {.schedule = "1f1b",
                                     .params = {.ranks = 4, .micros = 8, .cost = cost}};
    struct wf_plan p;
    assert_int_equal(wf_plan_init(&p, &in, NULL), WEFT_OK);
    return p;
}

/* Idle times of all ranks add up; 1F1B keeps no micro between I and W. */
static void check_summary(void **state)
{
    static const double bytes = 100;
    struct wf_plan plan = make_plan(NULL);
    const struct wf_simulation_input in = {.options = {.bytes = {&bytes, 1}},
                                           .n_samples = 32,
                                           .jitter = {.sigma = 0.05, .seed = 1}};
    struct wf_simulation s;
    (void)state;
    assert_int_equal(wf_simulation_init(&s, &plan, &in, NULL), WEFT_OK);
    struct wf_simulation_summary sum = wf_simulation_summarize(&s);
    double idle = sum.idle.warm_up + sum.idle.drain + sum.idle.communication +
                  sum.idle.imbalance + sum.idle.data;
    assert_true(idle > 4 * 33 - 4 * 24 - 1e-9 && idle < 4 * 33 - 4 * 24 + 1e-9);
    assert_int_equal(sum.peak_pending_w, 0);
    assert_true(sum.bytes == 2 * 3 * 8 * 100);
    assert_non_null(sum.busiest);
    assert_true(s.bounds.makespan > 0 && s.bounds.makespan <= 33);
    assert_int_equal(s.samples.n, 32);
    for (uint32_t r = 0; r < 4; r++)
        assert_true(s.samples.slow_rank[sum.slowest] >= s.samples.slow_rank[r]);
    wf_simulation_release(&s);
    wf_plan_release(&plan);
}

/* There is no bound for ranks of different speed. */
static void check_speed(void **state)
{
    static const double speed[] = {1, 2, 1, 1};
    struct wf_plan plan = make_plan(NULL);
    const struct wf_simulation_input in = {.options = {.speed = {speed, 4}}};
    struct wf_simulation s;
    (void)state;
    assert_int_equal(wf_simulation_init(&s, &plan, &in, NULL), WEFT_OK);
    assert_true(s.bounds.makespan == 0 && s.sim.metrics.makespan > 33);
    assert_int_equal(s.samples.n, 0);
    assert_null(s.traffic);
    wf_simulation_release(&s);
    wf_plan_release(&plan);
}

static void check_blocks(void **state)
{
    struct wf_plan plan = make_plan(NULL);
    const struct wf_simulation_input in = {
        .block_layers = 1, .block_cache = WEFT_BLOCK_CACHE_FULL, .payload = {100, 800}};
    struct wf_simulation s;
    (void)state;
    assert_int_equal(wf_simulation_init(&s, &plan, &in, NULL), WEFT_OK);
    assert_non_null(s.traffic);
    /* Stage 0 finishes two blocks, the others one each: 2 + 3 + 4 sends per micro. */
    assert_int_equal(s.traffic_report.step.blocks, 8 * (2 + 3 + 4));
    wf_simulation_release(&s);
    wf_plan_release(&plan);
}

static void check_hop_on_cluster(void **state)
{
    const struct weft_cost cost = {.hop = 1};
    const struct weft_cluster cluster = {.nodes = 1, .ranks_per_node = 4};
    struct wf_plan plan = make_plan(&cost);
    const struct wf_simulation_input in = {.options = {.cluster = &cluster}};
    struct wf_simulation s;
    (void)state;
    assert_int_equal(wf_simulation_init(&s, &plan, &in, NULL), WEFT_USAGE);
    wf_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_summary),
        cmocka_unit_test(check_speed),
        cmocka_unit_test(check_blocks),
        cmocka_unit_test(check_hop_on_cluster),
    };
    return cmocka_run_group_tests_name("simulation", tests, NULL, NULL) != 0;
}
