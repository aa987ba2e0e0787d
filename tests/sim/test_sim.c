/* Compares simulations with results by hand, with the plain clock, and with published bubble
 * rates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "weft/sim.h"
#include "weft/weft.h"

static struct weft_schedule *make(const char *name, uint32_t ranks, uint32_t chunks,
                                  uint32_t micros)
{
    struct weft_gen_params params = {.ranks = ranks, .chunks = chunks, .micros = micros};
    struct weft_schedule *s = NULL;
    assert_int_equal(weft_schedule_generate(name, &params, &s, NULL), WEFT_OK);
    return s;
}

/* GPipe on two ranks, two micros, F = 1, B = 2; a message takes 2 and no latency.
 *
 *     delay   0: F0 0 F1 1    B0 7 B1 9     1: F0 3 F1 4 B0 5 B1 7
 *     link    the second message waits for the first: F1 5 on rank 1
 *     ranks   rank 0 sends until 3, then F1, sends until 6; rank 1 receives for 2 before each F
 *             and sends after each B; an action starts when its rank starts to receive for it
 */
static struct transfer_case {
    const char *name;
    enum weft_contention contention;
    double start[2][4];
} transfers[] = {
    {"a transfer only delays", WEFT_CONTENTION_NONE, {{0, 1, 9, 11}, {3, 4, 5, 7}}},
    {"transfers share their link", WEFT_CONTENTION_LINK, {{0, 1, 10, 12}, {3, 5, 6, 8}}},
    {"transfers keep both ranks busy", WEFT_CONTENTION_RANKS, {{0, 3, 13, 17}, {3, 6, 9, 13}}},
};

static void check_transfers(void **state)
{
    const struct transfer_case *c = *state;
    struct weft_cluster cluster;
    const double bytes = 2e9;

    assert_int_equal(weft_cluster_parse("rank:2 intra:1GB/s", &cluster, NULL), WEFT_OK);
    struct weft_sim_options options = {.cluster = &cluster,
                                       .unit_seconds = 1,
                                       .bytes = {&bytes, 1},
                                       .contention = c->contention};

    struct weft_schedule *s = make("gpipe", 2, 1, 2);
    struct weft_sim sim;
    assert_int_equal(weft_sim_init(&sim, s, &options, NULL), WEFT_OK);

    for (uint32_t r = 0; r < 2; r++)
        for (size_t i = 0; i < 4; i++)
            if (fabs(sim.metrics.start[4 * r + i] - c->start[r][i]) > 1e-12) {
                print_error("rank %u, action %zu starts at %g, not %g\n", r, i,
                            sim.metrics.start[4 * r + i], c->start[r][i]);
                fail();
            }

    assert_int_equal(sim.n_links, 2);
    assert_int_equal(sim.links[0].messages, 2);
    assert_true(sim.links[0].forward_bytes == 4e9 && sim.links[0].backward_bytes == 0);
    assert_true(sim.links[1].backward_bytes == 4e9 && sim.links[1].busy == 4);

    weft_sim_release(&sim);
    weft_schedule_free(s);
}

/* Checks for every schedule: without a cluster the times are those of the plain clock; idle
 * times add up; the critical path is as long as the makespan. */
static void check_sums(void **state)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    const double f = 10, i = 12, w = 8, slow[] = {1, 1.3, 1, 2};

    (void)state;
    for (size_t g = 0; g < n; g++) {
        struct weft_gen_params params = {.ranks = 4, .micros = 8};
        struct weft_cost cost = {.f = {&f, 1}, .i = {&i, 1}, .w = {&w, 1}, .hop = 3};
        struct weft_schedule *s = NULL;
        struct weft_metrics m;
        struct weft_sim sim;

        assert_int_equal(weft_schedule_generate(all[g].name, &params, &s, NULL), WEFT_OK);

        struct weft_sim_options options = {.cost = &cost};
        assert_int_equal(weft_metrics_init(&m, s, &cost, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_sim_init(&sim, s, &options, NULL), WEFT_OK);
        assert_memory_equal(sim.metrics.start, m.start,
                            sizeof *m.start * weft_schedule_n_actions(s));

        weft_metrics_release(&m);
        weft_sim_release(&sim);

        options.speed = (struct weft_values){slow, 4};
        assert_int_equal(weft_sim_init(&sim, s, &options, NULL), WEFT_OK);
        for (uint32_t r = 0; r < 4; r++) {
            const struct weft_idle_time *t = &sim.idle[r];
            double sum = t->warm_up + t->drain + t->communication + t->imbalance + t->data;
            assert_true(fabs(sum - sim.metrics.idle[r]) < 1e-9);
            assert_true(t->drain >= 0 && t->data >= 0 && t->communication >= 0);
        }

        double path = sim.path_compute + sim.path_hops + sim.path_wait;
        if (fabs(path - sim.metrics.makespan) > 1e-9 || sim.path_wait != 0) {
            print_error("%s: a path of %g for a makespan of %g\n", all[g].name, path,
                        sim.metrics.makespan);
            fail();
        }

        weft_sim_release(&sim);
        /* Transfers that occupy ranks are part of the actions: no time is lost
         * or counted twice. */

        struct weft_cluster cluster = {2, 2, {1e9, 1e-4}, {5e8, 5e-4}};
        const double bytes = 1e6;
        options = (struct weft_sim_options){
            .cluster = &cluster, .bytes = {&bytes, 1}, .contention = WEFT_CONTENTION_RANKS};
        assert_int_equal(weft_sim_init(&sim, s, &options, NULL), WEFT_OK);

        for (uint32_t r = 0; r < 4; r++) {
            const struct weft_idle_time *t = &sim.idle[r];
            double sum = t->warm_up + t->drain + t->communication + t->imbalance + t->data;
            assert_true(fabs(sum + sim.metrics.busy[r] - sim.metrics.makespan) < 1e-6);
        }

        if (sim.path_wait > 1e-9 || sim.path_compute > sim.metrics.makespan + 1e-6) {
            print_error("%s: the path begins at %g\n", all[g].name, sim.path_wait);
            fail();
        }

        weft_sim_release(&sim);
        weft_schedule_free(s);
    }
}

/* Bubble rates by span as printed in arXiv 2401.10241, table 5, from its profiled times. */
static struct published {
    const char *schedule;
    uint32_t ranks, micros;
    double f, i, w, hop, rate;
} table5[] = {
    {"1f1b", 8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431},
    {"zb-h1", 8, 24, 18.522, 18.086, 9.337, 0.601, 0.1585},
    {"zb-h2", 8, 24, 18.522, 18.086, 9.337, 0.601, 0.1083},
    {"1f1b", 8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347},
    {"zb-h1", 8, 24, 29.718, 29.444, 19.927, 0.527, 0.1323},
    {"zb-h2", 8, 24, 29.718, 29.444, 19.927, 0.527, 0.0698},
    {"1f1b", 16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552},
    {"zb-h1", 16, 48, 11.347, 11.248, 8.132, 0.377, 0.1397},
    {"zb-h2", 16, 48, 11.347, 11.248, 8.132, 0.377, 0.0672},
    {"1f1b", 32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646},
    {"zb-h1", 32, 96, 10.419, 10.207, 7.715, 0.408, 0.1421},
    {"zb-h2", 32, 96, 10.419, 10.207, 7.715, 0.408, 0.0641},
};

static void check_published(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof table5 / sizeof table5[0]; k++) {
        const struct published *p = &table5[k];
        struct weft_cost cost = {
            .f = {&p->f, 1}, .i = {&p->i, 1}, .w = {&p->w, 1}, .hop = p->hop};
        struct weft_sim_options options = {.cost = &cost};
        struct weft_schedule *s = make(p->schedule, p->ranks, 0, p->micros);
        struct weft_sim sim;
        assert_int_equal(weft_sim_init(&sim, s, &options, NULL), WEFT_OK);
        double rate = (sim.metrics.span - p->micros * (p->f + p->i + p->w)) / sim.metrics.span;
        assert_true(fabs(rate - p->rate) < 0.5e-4);
        weft_sim_release(&sim);
        weft_schedule_free(s);
    }
}

/* ZB-1p and ZB-2p are the search at one and two times P activations. */
static void check_searched(void **state)
{
    const double f = 18.522, i = 18.086, w = 9.337, limits[] = {8, 16},
                 rates[] = {0.1585, 0.0433};
    const double after_f = 201216, after_i = 73728, mf = 1, mi = (after_i - after_f) / after_f;
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct weft_cost cost = {.f = {&f, 1}, .i = {&i, 1}, .w = {&w, 1}, .hop = 0.601};
        struct weft_memory_cost memory = {
            .f = {&mf, 1}, .i = {&mi, 1}, .limit = {&limits[k], 1}};
        struct weft_gen_params params = {
            .ranks = 8, .micros = 24, .cost = &cost, .memory = &memory};
        struct weft_schedule *s = NULL;
        struct weft_metrics m;
        assert_int_equal(weft_schedule_generate("zb-auto", &params, &s, NULL), WEFT_OK);
        assert_int_equal(weft_metrics_init(&m, s, &cost, &memory, NULL), WEFT_OK);
        assert_true((m.span - 24 * (f + i + w)) / m.span < rates[k] + 0.5e-4);
        weft_metrics_release(&m);
        weft_schedule_free(s);
    }
}

static struct cluster_case {
    const char *text, *words; /* words of the error message; NULL: accepted */
    struct weft_cluster want;
} clusters[] = {
    {"node:4 rank:2 intra:200GB/s,2us inter:25GB/s,8us",
     NULL,
     {4, 2, {200e9, 2e-6}, {25e9, 8e-6}}},
    {"rank:8 intra:100Gb/s,5us", NULL, {1, 8, {12.5e9, 5e-6}, {12.5e9, 5e-6}}},
    {"  rank:3   ", NULL, {1, 3, {0, 0}, {0, 0}}},
    {"inter:1MB/s rank:2 node:2", NULL, {2, 2, {0, 0}, {1e6, 0}}},
    {"", "rank: is missing", {0}},
    {"rank:0", "column 6: expected a number from 1", {0}},
    {"rank:2 rank:3", "column 8: expected node:, rank:", {0}},
    {"rank:2intra:1GB/s", "column 7: expected a blank", {0}},
    {"rank:2 intra:1GB", "expected a unit of bandwidth", {0}},
    {"rank:2 intra:0GB/s", "the bandwidth is 0", {0}},
    {"rank:2 intra:-1GB/s", "column 14: expected a number", {0}},
    {"rank:2 intra:nanGB/s", "expected a number", {0}},
    {"rank:2 intra:1GB/s,5", "expected a unit of latency", {0}},
    {"rank:99999999999", "a number from 1", {0}},
    {"gpu:2", "column 1: expected node:, rank:", {0}},
};

static void check_clusters(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof clusters / sizeof clusters[0]; k++) {
        const struct cluster_case *c = &clusters[k];
        struct weft_cluster got;
        struct weft_error err = {.msg = ""};

        enum weft_status st = weft_cluster_parse(c->text, &got, &err);
        assert_int_equal(st, c->words == NULL ? WEFT_OK : WEFT_USAGE);
        if (c->words != NULL && strstr(err.msg, c->words) == NULL) {
            print_error("'%s': %s\n", c->text, err.msg);
            fail();
        }

        if (c->words == NULL) {
            assert_int_equal(got.nodes, c->want.nodes);
            assert_int_equal(got.ranks_per_node, c->want.ranks_per_node);
            assert_true(got.intra.bytes_per_second == c->want.intra.bytes_per_second);
            assert_true(fabs(got.inter.latency_seconds - c->want.inter.latency_seconds) <
                        1e-15);
            assert_true(got.inter.bytes_per_second == c->want.inter.bytes_per_second);
        }
    }
}

static void check_refusals(void **state)
{
    struct weft_schedule *s = make("1f1b", 4, 0, 8);
    struct weft_cluster small = {.nodes = 1, .ranks_per_node = 2};
    const double bad[] = {1, -1, 1, 1}, nan_bytes = NAN, three[] = {1, 2, 3};
    const struct {
        struct weft_sim_options options;
        const char *words;
    } cases[] = {
        {{.cluster = &small}, "too small for 4 ranks"},
        {{.speed = {bad, 4}}, "speed: -1 is out of range"},
        {{.speed = {three, 3}}, "3 values for 4"},
        {{.bytes = {&nan_bytes, 1}}, "bytes"},
        {{.contention = WEFT_CONTENTION_LINK}, "cluster"},
        {{.unit_seconds = -1}, "unit"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct weft_sim sim;
        struct weft_error err = {.msg = ""};
        assert_int_equal(weft_sim_init(&sim, s, &cases[k].options, &err), WEFT_USAGE);
        assert_non_null(strstr(err.msg, cases[k].words));
    }

    weft_schedule_free(s);
}

/* -- many scenarios ------------------------------------------------------------------------ */

static void check_alike(void **state)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);

    (void)state;
    for (size_t g = 0; g < n; g++) {
        struct weft_schedule *s = NULL;
        struct weft_gen_params params = {.ranks = 4, .micros = 8};
        const double f = 10, i = 12, w = 8, slower[] = {1, 1, 1.1, 1};
        struct weft_cost cost = {.f = {&f, 1}, .i = {&i, 1}, .w = {&w, 1}, .hop = 1};
        struct weft_sim_options options = {.cost = &cost};
        struct weft_samples samples;
        struct weft_sim plain, slow;

        assert_int_equal(weft_schedule_generate(all[g].name, &params, &s, NULL), WEFT_OK);
        assert_int_equal(weft_samples_init(&samples, s, &options, NULL, 20, NULL), WEFT_OK);
        assert_int_equal(weft_sim_init(&plain, s, &options, NULL), WEFT_OK);
        options.speed = (struct weft_values){slower, 4};
        assert_int_equal(weft_sim_init(&slow, s, &options, NULL), WEFT_OK);

        double grown = slow.metrics.makespan - plain.metrics.makespan;
        if (fabs(samples.makespan[0] - plain.metrics.makespan) > 1e-3 ||
            fabs(samples.makespan[19] - plain.metrics.makespan) > 1e-3 ||
            fabs(samples.slow_rank[2] - grown) > 1e-2) {
            print_error("%s: %g and %g, not %g; slow rank 2 adds %g, not %g\n", all[g].name,
                        (double)samples.makespan[0], (double)samples.makespan[19],
                        plain.metrics.makespan, (double)samples.slow_rank[2], grown);
            fail();
        }

        weft_samples_release(&samples);
        weft_sim_release(&plain);
        weft_sim_release(&slow);
        weft_schedule_free(s);
    }
}

/* One rank runs many micros: the makespan is a sum of independent times with mean 3 and known
 * standard deviation. */
static void check_jitter(void **state)
{
    struct weft_schedule *s = make("1f1b", 1, 0, 400);
    struct weft_sim_options options = {.cost = NULL};
    struct weft_jitter jitter = {.sigma = 0.1, .seed = 7};
    struct weft_samples a, b;
    (void)state;
    assert_int_equal(weft_samples_init(&a, s, &options, &jitter, 4000, NULL), WEFT_OK);
    assert_int_equal(weft_samples_init(&b, s, &options, &jitter, 4000, NULL), WEFT_OK);
    assert_memory_equal(a.makespan, b.makespan, sizeof *a.makespan * 4000);
    double spread = 0.1 * sqrt(400 * (1 * 1 + 2 * 2)); /* of 400 F of 1 and 400 B of 2 */
    assert_true(fabs(a.mean - 1200) < 0.5);
    assert_true(a.p95 - a.p5 > 2 * spread && a.p95 - a.p5 < 5 * spread);
    assert_true(a.p5 < a.p50 && a.p50 < a.p95);
    weft_samples_release(&a);
    weft_samples_release(&b);
    weft_schedule_free(s);
}

/* ZB-H1 runs W with a delay of r micros on rank r; 1F1B has no I. */
static void check_held(void **state)
{
    struct weft_sim_options options = {.cost = NULL};
    struct weft_schedule *late = make("zb-h1", 4, 0, 12), *whole = make("1f1b", 4, 0, 12);
    struct weft_sim sim;

    (void)state;
    assert_int_equal(weft_sim_init(&sim, late, &options, NULL), WEFT_OK);
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(sim.peak_pending_w[r], r + 1);
    weft_sim_release(&sim);

    assert_int_equal(weft_sim_init(&sim, whole, &options, NULL), WEFT_OK);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(sim.peak_pending_w[r], 0);
        assert_in_range(sim.peak_receive[r], 1, 12);
    }

    weft_sim_release(&sim);
    weft_schedule_free(late);
    weft_schedule_free(whole);

    /* All outputs of rank 0 arrive before rank 1, ten times slower, has used the first. */
    struct weft_schedule *all = make("gpipe", 2, 0, 6);
    const double slow[] = {1, 10};
    options.speed = (struct weft_values){slow, 2};

    assert_int_equal(weft_sim_init(&sim, all, &options, NULL), WEFT_OK);
    assert_int_equal(sim.peak_receive[1], 6);
    weft_sim_release(&sim);
    weft_schedule_free(all);
}

static void check_fleet(void **state)
{
    enum { PIPELINES = 37, RANKS = 3 };
    struct weft_schedule *s = make("zb-h1", RANKS, 0, 7);
    struct weft_sim_options options = {.cost = NULL};
    float speeds[PIPELINES * RANKS], makespans[PIPELINES];
    (void)state;
    for (size_t k = 0; k < PIPELINES * RANKS; k++)
        speeds[k] = 1 + (float)(k % 11) / 8;
    assert_int_equal(weft_fleet_run(s, &options, speeds, PIPELINES, makespans, NULL), WEFT_OK);
    for (size_t k = 0; k < PIPELINES; k++) {
        const double own[] = {speeds[3 * k], speeds[3 * k + 1], speeds[3 * k + 2]};
        struct weft_sim sim;
        options.speed = (struct weft_values){own, RANKS};
        assert_int_equal(weft_sim_init(&sim, s, &options, NULL), WEFT_OK);
        assert_true(fabs(sim.metrics.makespan - makespans[k]) < 1e-3);
        weft_sim_release(&sim);
    }
    weft_schedule_free(s);
}

int main(void)
{
    enum { N = sizeof transfers / sizeof transfers[0] };
    struct CMUnitTest by_hand[N];
    for (size_t i = 0; i < N; i++)
        by_hand[i] =
            (struct CMUnitTest){transfers[i].name, check_transfers, NULL, NULL, &transfers[i]};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_sums),     cmocka_unit_test(check_published),
        cmocka_unit_test(check_searched), cmocka_unit_test(check_clusters),
        cmocka_unit_test(check_refusals), cmocka_unit_test(check_alike),
        cmocka_unit_test(check_held),     cmocka_unit_test(check_jitter),
        cmocka_unit_test(check_fleet),
    };
    int failed = cmocka_run_group_tests_name("transfers", by_hand, NULL, NULL);
    return failed + cmocka_run_group_tests_name("sim", tests, NULL, NULL) != 0;
}
