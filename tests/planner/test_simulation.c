/* Checks the simulation of a plan on a cluster: bounds, summary, samples, residual blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* Rank 1 works 8 x 3 x 2 after the first forward and before the last whole backward of rank 0,
 * so 1 + 48 + 2 is a bound.  With several pipes a stage runs on ranks of different speed, and
 * there is no bound. */
static void check_speed(void **state)
{
    static const double speed[] = {1, 2, 1, 1};
    struct wf_plan plan = make_plan(NULL);
    const struct wf_simulation_input in = {.options = {.speed = {speed, 4}}};
    const struct wf_plan_input chimera = {.schedule = "chimera",
                                          .params = {.ranks = 4, .micros = 8}};
    struct wf_simulation s;
    (void)state;
    assert_int_equal(wf_simulation_init(&s, &plan, &in, NULL), WEFT_OK);
    assert_true(s.bounds.makespan >= 51 - 1e-9);
    assert_true(s.bounds.makespan <= s.sim.metrics.makespan + 1e-9);
    assert_int_equal(s.samples.n, 0);
    assert_null(s.traffic);
    wf_simulation_release(&s);
    wf_plan_release(&plan);
    assert_int_equal(wf_plan_init(&plan, &chimera, NULL), WEFT_OK);
    assert_int_equal(wf_simulation_init(&s, &plan, &in, NULL), WEFT_OK);
    assert_true(s.bounds.makespan == 0 && s.sim.metrics.makespan > 0);
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

/* -- searches on a cluster ----------------------------------------------------------------- */

static const char *const searches[] = {"zb-auto", "zb-v-auto", "v-half", "v-min", "1f1b-v"};
static const double f_time = 10, i_time = 12, w_time = 8;

static struct weft_cost times(double hop)
{
    return (struct weft_cost){
        .f = {&f_time, 1}, .i = {&i_time, 1}, .w = {&w_time, 1}, .hop = hop};
}

/* Plans a schedule that minimizes the makespan for `machine`, and simulates it on `real`. */
static struct wf_simulation search(const char *name, double hop,
                                   const struct weft_sim_options *machine,
                                   const struct weft_sim_options *real, char **csv)
{
    const struct weft_cost cost = times(hop);
    const struct wf_plan_input in = {
        .schedule = name,
        .params = {.ranks = 4, .micros = 8, .cost = &cost, .minimize = WEFT_MINIMIZE_MAKESPAN},
        .machine = machine};
    const struct wf_simulation_input how = {.options = *real};
    struct wf_plan p;
    struct wf_simulation s;
    assert_int_equal(wf_plan_init(&p, &in, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_print(p.schedule, WEFT_TEXT_FORMAT_CSV, csv, NULL, NULL),
                     WEFT_OK);
    assert_int_equal(wf_simulation_init(&s, &p, &how, NULL), WEFT_OK);
    wf_plan_release(&p);
    return s;
}

/* 1 ms of latency and 4 MB at 1 GB/s are a hop of 5: both searches find the same order. */
static void check_uniform_link(void **state)
{
    static const double bytes = 4e6;
    const struct weft_cluster cluster = {1, 4, {1e9, 1e-3}, {1e9, 1e-3}};
    const struct weft_sim_options machine = {.cluster = &cluster, .bytes = {&bytes, 1}};
    const struct weft_sim_options none = {0};
    (void)state;
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
        char *by_cluster = NULL, *by_hop = NULL;
        struct wf_simulation a = search(searches[i], 0, &machine, &machine, &by_cluster);
        struct wf_simulation b = search(searches[i], 5, &none, &none, &by_hop);
        assert_string_equal(by_cluster, by_hop);
        assert_true(a.sim.metrics.makespan == b.sim.metrics.makespan);
        assert_true(a.bounds.makespan == b.bounds.makespan);
        wf_simulation_release(&a);
        wf_simulation_release(&b);
        free(by_cluster);
        free(by_hop);
    }
}

/* With one slow link the search for the cluster is never worse than the search without hops,
 * and better for zb-auto.  The bound is valid and not below that without hops. */
static void check_unequal_links(void **state)
{
    static const double bytes = 20e6;
    const struct weft_cluster cluster = {2, 2, {1e11, 0}, {1e9, 0}};
    const struct weft_sim_options machine = {.cluster = &cluster, .bytes = {&bytes, 1}};
    const struct weft_sim_options none = {0};

    (void)state;
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
        char *text[3] = {NULL};
        struct wf_simulation with = search(searches[i], 0, &machine, &machine, &text[0]);
        struct wf_simulation without = search(searches[i], 0, NULL, &machine, &text[1]);
        struct wf_simulation free_hops = search(searches[i], 0, NULL, &none, &text[2]);

        double got = with.sim.metrics.makespan, old = without.sim.metrics.makespan;
        print_message("%s: %g with the links, %g without; bound %g\n", searches[i], got, old,
                      with.bounds.makespan);

        assert_true(got <= old * (1 + 1e-9));
        assert_true(i > 0 || got < old * 0.99);
        assert_true(with.bounds.makespan <= got * (1 + 1e-9));
        assert_true(with.bounds.makespan >= free_hops.bounds.makespan * (1 - 1e-9));

        wf_simulation_release(&with);
        wf_simulation_release(&without);
        wf_simulation_release(&free_hops);
        for (int k = 0; k < 3; k++)
            free(text[k]);
    }
}

/* A cluster that is too small is reported before the search. */
static void check_small_cluster(void **state)
{
    const struct weft_cluster cluster = {1, 2, {1e9, 0}, {1e9, 0}};
    const struct weft_sim_options machine = {.cluster = &cluster};
    const struct wf_plan_input in = {
        .schedule = "zb-auto", .params = {.ranks = 4, .micros = 8}, .machine = &machine};
    struct wf_plan p;
    struct weft_error err;
    (void)state;
    assert_int_equal(wf_plan_init(&p, &in, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "too small for 4 ranks"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_summary),       cmocka_unit_test(check_speed),
        cmocka_unit_test(check_blocks),        cmocka_unit_test(check_hop_on_cluster),
        cmocka_unit_test(check_uniform_link),  cmocka_unit_test(check_unequal_links),
        cmocka_unit_test(check_small_cluster),
    };
    return cmocka_run_group_tests_name("simulation", tests, NULL, NULL) != 0;
}
