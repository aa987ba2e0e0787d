/* Checks the search for layouts: links, limits of chunks and time, duplicates, partitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "weft/sim.h"
#include "weft/tune.h"

static struct weft_layout_problem small(void)
{
    return (struct weft_layout_problem){.layers = 8,
                                        .layer = {1, 1, 1, 100, 10},
                                        .head = {.f = 2, .i = 2, .w = 2},
                                        .global_batch = 8,
                                        .ranks = 4,
                                        .minimize = WEFT_MINIMIZE_MAKESPAN,
                                        .iterations = 500};
}

/* Simulates the schedule of a layout with the sums of its partition on its cluster. */
static double simulate(const struct weft_layout_problem *p, const struct weft_layout *l)
{
    struct weft_item all[3] = {p->layer, p->embedding, p->head};
    struct weft_items items;
    struct weft_stage_sums sums;
    struct weft_sim sim;

    for (int i = 0; i < 3; i++) {
        all[i].f *= l->rows;
        all[i].i *= l->rows;
        all[i].w *= l->rows;
    }

    assert_int_equal(weft_items_init_uniform(&items, p->layers, all[0], all[1], all[2], NULL),
                     WEFT_OK);
    assert_int_equal(weft_stage_sums_init(&sums, &l->partition, &items, NULL), WEFT_OK);

    struct weft_cost cost = weft_stage_sums_cost(&sums);
    cost.hop = p->hop;
    const double bytes = p->boundary_bytes * l->rows;
    const struct weft_sim_options options = {
        .cost = &cost, .cluster = l->cluster.nodes ? &l->cluster : NULL, .bytes = {&bytes, 1}};

    assert_int_equal(weft_sim_init(&sim, l->result, &options, NULL), WEFT_OK);
    double makespan = sim.metrics.makespan;

    weft_sim_release(&sim);
    weft_stage_sums_release(&sums);
    weft_items_release(&items);
    return makespan;
}

/* On unequal links the time of every layout is that of the simulator, the bound is valid, and
 * the partition has all layers.  The order of a layout on a cluster is tuned as well: for one
 * pipeline of eight ranks, tuning improves on all generators. */
static void check_cluster(void **state)
{
    const struct weft_cluster cluster = {2, 4, {1e9, 1e-5}, {1e8, 1e-4}};
    struct weft_layout_problem p = small();

    (void)state;
    p.layers = 11;
    p.cluster = &cluster;
    p.boundary_bytes = 5e5;
    p.layer.state_bytes = 1000;
    p.global_batch = 16;
    p.iterations = 3000;

    for (uint32_t ranks = 0; ranks <= 8; ranks += 8) {
        struct weft_layouts all;
        p.ranks = ranks;
        assert_int_equal(weft_tune_layouts(&p, 20, &all, NULL), WEFT_OK);
        assert_false(all.stopped);

        for (size_t i = 0; i < all.n; i++) {
            const struct weft_layout *l = &all.at[i];
            uint32_t stages = weft_schedule_placement(l->result)->n_stages;
            assert_true(simulate(&p, l) == l->makespan);
            assert_true(l->bound <= l->makespan * (1 + 1e-9));
            assert_int_equal(l->partition.n_stages, stages);
            assert_int_equal(l->partition.at[stages - 1].end_layer, 11);
            assert_true(l->message_bytes == 5e5 * l->rows);
        }

        assert_true(ranks == 0 || strcmp(all.at[0].schedule, "tuned") == 0);
        weft_layouts_release(&all);
    }
}

/* A link with only latency is a constant hop: the search finds the same layouts with it. */
static void check_uniform_link(void **state)
{
    struct weft_cluster cluster = {1, 4, {0, 5e-3}, {0, 5e-3}};
    struct weft_layout_problem by_hop = small(), by_cluster = small();
    struct weft_layouts a, b;
    (void)state;
    by_hop.hop = 5;
    by_cluster.cluster = &cluster;
    assert_int_equal(weft_tune_layouts(&by_hop, 10, &a, NULL), WEFT_OK);
    assert_int_equal(weft_tune_layouts(&by_cluster, 10, &b, NULL), WEFT_OK);
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_string_equal(a.at[i].schedule, b.at[i].schedule);
        assert_true(a.at[i].makespan == b.at[i].makespan && a.at[i].bound == b.at[i].bound);
        assert_int_equal(a.at[i].micros, b.at[i].micros);
    }
    weft_layouts_release(&a);
    weft_layouts_release(&b);
}

/* Replicas of a whole model exchange 8 bytes of gradient sums and 4 bytes of weights per
 * parameter, or 4 and 4 with fast sums; the time of a message is its bytes over the bandwidth. */
static void check_reduction(void **state)
{
    (void)state;
    const struct weft_cluster cluster = {1, 2, {1e9, 0}, {1e9, 0}};
    const struct weft_training fast = {.fast_sums = true};
    struct weft_model model;
    size_t params;
    assert_int_equal(weft_model_find("d2", &model, NULL), WEFT_OK);
    assert_int_equal(weft_model_count_params(&model, &params, NULL), WEFT_OK);
    for (int is_fast = 0; is_fast < 2; is_fast++) {
        const struct weft_layout_problem p = {.model = &model,
                                              .training = is_fast ? &fast : NULL,
                                              .seq = 64,
                                              .flops = 1e12,
                                              .global_batch = 4,
                                              .ranks = 1,
                                              .cluster = &cluster};
        struct weft_layouts all;
        assert_int_equal(weft_tune_layouts(&p, 1, &all, NULL), WEFT_OK);
        double bytes = (is_fast ? 8.0 : 12.0) * (double)params / 2; /* half from each rank */
        assert_float_equal(all.at[0].reduction, bytes / 1e9 / 1e-3, 1e-6);
        weft_layouts_release(&all);
    }
}

/* Recomputation reduces the memory of a layout and adds its operations. */
static void check_recompute(void **state)
{
    (void)state;
    const uint8_t full[2] = {WEFT_RECOMPUTE_FULL, WEFT_RECOMPUTE_FULL};
    const struct weft_training how = {.recompute = full};
    struct weft_model model;
    struct weft_layouts none, all;
    assert_int_equal(weft_model_find("d2", &model, NULL), WEFT_OK);
    struct weft_layout_problem p = {.model = &model, .seq = 512, .global_batch = 1, .ranks = 1};
    assert_int_equal(weft_tune_layouts(&p, 1, &none, NULL), WEFT_OK);
    p.training = &how;
    assert_int_equal(weft_tune_layouts(&p, 1, &all, NULL), WEFT_OK);
    assert_true(all.at[0].peak_bytes < none.at[0].peak_bytes);
    assert_true(all.at[0].makespan > none.at[0].makespan);
    weft_layouts_release(&all);
    weft_layouts_release(&none);
}

/* Chimera and DualPipe have one stage of each pipe on a rank, which are two stages. */
static void check_max_chunks(void **state)
{
    struct weft_layout_problem p = small();
    struct weft_layouts all;
    struct weft_error err;
    (void)state;
    for (uint32_t most = 1; most <= 3; most++) {
        p.max_chunks = most;
        assert_int_equal(weft_tune_layouts(&p, 200, &all, NULL), WEFT_OK);
        for (size_t i = 0; i < all.n; i++)
            assert_in_range(weft_schedule_n_chunks(all.at[i].result), 1, most);
        assert_true(most > 1 || all.n > 10);
        weft_layouts_release(&all);
    }
    p.max_chunks = 65;
    assert_int_equal(weft_tune_layouts(&p, 5, &all, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "maximum 64"));
}

/* Returns the orders, the partition and the arrangement of a layout as one text. */
static char *describe(const struct weft_layout *l)
{
    char *csv = NULL, *text = NULL, *orders;
    size_t len = 0;
    assert_int_equal(weft_schedule_print(l->result, WEFT_TEXT_FORMAT_PYTORCH, &csv, NULL, NULL),
                     WEFT_OK);
    orders = csv;
    FILE *out = open_memstream(&text, &len);
    fprintf(out, "%u %u %d %u %u\n", l->ranks, l->replicas, l->replicas_adjacent, l->micros,
            l->rows);
    for (uint32_t s = 0; s < l->partition.n_stages; s++)
        fprintf(out, "%u ", l->partition.at[s].end_layer);
    fprintf(out, "\n%s", orders);
    fclose(out);
    free(csv);
    return text;
}

/* 8 layers on 4 ranks: without a head the even partition is the balanced one, and several
 * generators with one chunk give the same order.  No two rows are the same. */
static void check_duplicates(void **state)
{
    struct weft_layout_problem p = small();
    struct weft_layouts all;
    (void)state;
    p.head = (struct weft_item){0};
    assert_int_equal(weft_tune_layouts(&p, 60, &all, NULL), WEFT_OK);
    char **texts = calloc(all.n, sizeof *texts);
    for (size_t i = 0; i < all.n; i++) {
        texts[i] = describe(&all.at[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(texts[i], texts[k]) == 0) {
                print_error("rows %zu (%s) and %zu (%s) are the same\n", k, all.at[k].schedule,
                            i, all.at[i].schedule);
                fail();
            }
    }
    for (size_t i = 0; i < all.n; i++)
        free(texts[i]);
    free(texts);
    weft_layouts_release(&all);
}

static bool stop_after(const struct weft_layout_progress *progress, void *user)
{
    int *calls = user;
    assert_true(progress->share >= 0 && progress->share <= 1 && progress->schedule != NULL);
    return --*calls > 0;
}

/* A stopped search returns the best layouts so far; one that is stopped at once has none. */
static void check_stop(void **state)
{
    struct weft_layout_problem p = small();
    struct weft_layouts all;
    struct weft_error err;
    int calls = 4;

    (void)state;
    p.progress = stop_after;
    p.user = &calls;

    assert_int_equal(weft_tune_layouts(&p, 5, &all, NULL), WEFT_OK);
    assert_true(all.stopped && all.n > 0 && calls == 0);
    assert_true(all.at[0].bound > 0);
    weft_layouts_release(&all);

    calls = 1;
    assert_int_equal(weft_tune_layouts(&p, 5, &all, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "stopped before it found a layout"));

    p.progress = NULL;
    p.seconds = 1e-9;
    assert_int_equal(weft_tune_layouts(&p, 5, &all, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "stopped before it found a layout"));

    p.seconds = 1e6;
    assert_int_equal(weft_tune_layouts(&p, 5, &all, NULL), WEFT_OK);
    assert_false(all.stopped);
    weft_layouts_release(&all);
}

/* The largest global batch has 32 divisors, and each is tried as a number of micros. */
static void check_large_batch(void **state)
{
    struct weft_layout_problem p = small();
    struct weft_layouts all;
    struct weft_error err;
    int calls = 1;
    (void)state;
    p.global_batch = UINT32_MAX;
    p.progress = stop_after;
    p.user = &calls;
    assert_int_equal(weft_tune_layouts(&p, 5, &all, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "stopped before it found a layout"));
    assert_int_equal(calls, 0);
}

/* All divisors of the batch are tried, in ascending order, and nothing else. */
static void check_divisors(void **state)
{
    static const uint32_t batches[] = {1, 2, 12, 16, 36, 97};
    struct weft_layout_problem p = small();
    (void)state;
    p.iterations = 0;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        struct weft_layouts all;
        bool seen[128] = {0};
        p.global_batch = batches[i];
        assert_int_equal(weft_tune_layouts(&p, 100000, &all, NULL), WEFT_OK);
        for (size_t k = 0; k < all.n; k++) {
            assert_int_equal(all.at[k].rows * all.at[k].micros, batches[i]);
            seen[all.at[k].rows] = true;
        }
        for (uint32_t rows = 1; rows <= batches[i]; rows++)
            assert_int_equal(seen[rows], batches[i] % rows == 0);
        weft_layouts_release(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_cluster),    cmocka_unit_test(check_uniform_link),
        cmocka_unit_test(check_reduction),  cmocka_unit_test(check_recompute),
        cmocka_unit_test(check_max_chunks), cmocka_unit_test(check_duplicates),
        cmocka_unit_test(check_stop),       cmocka_unit_test(check_large_batch),
        cmocka_unit_test(check_divisors),
    };
    return cmocka_run_group_tests_name("layouts", tests, NULL, NULL) != 0;
}
