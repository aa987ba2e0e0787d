/* Checks that a plan predicts the memory that a run allocates.  wf_topology_rank_bytes() counts
 * what a run allocates; tests/trainer/test_memory.c compares it with real allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "config/settings.h"
#include "planning/planner/plan.h"
#include "training/layout/topology.h"

/* A plan is at most 5 % above what the run allocates, and at most 2 % below it. */
#define MAX_RATIO 1.05
#define MIN_RATIO 0.98

static void set(struct wf_train_settings *s, const char *key, const char *value)
{
    struct weft_error err;
    if (wf_settings_set(wf_train_setting_list(), key, value, s, &err) != WEFT_OK)
        fail_msg("%s: %s", key, err.msg);
}

static const struct planned_layout {
    const char *schedule;
    uint32_t pp, chunks, micros;
} layouts[] = {
    {"1f1b", 1, 0, 8},  {"1f1b", 2, 0, 8},     {"1f1b", 4, 0, 8},
    {"gpipe", 2, 0, 8}, {"gpipe", 4, 0, 8},    {"interleaved-1f1b", 2, 2, 8},
    {"zb-h1", 2, 0, 8}, {"zb-h1", 4, 0, 8},    {"zb-h2", 4, 0, 12},
    {"zb-v", 2, 0, 8},  {"zb-v", 4, 0, 12},    {"v-half", 4, 0, 12},
    {"v-min", 4, 0, 8}, {"dualpipe", 4, 0, 8},
};
static const char *const recomputes[] = {"none", "attention", "full", "full:0-5", "full:s0"};
static const char *const models[] = {"gpt2-124m", "d8", "llama3-8b"};

/* Builds the topology of a run of a named model on pp x dp ranks. */
static void init_topology(struct wf_topology *out, const char *model,
                          const struct planned_layout *l, uint32_t dp, const char *recompute)
{
    struct wf_train_settings s;
    struct weft_model m;
    struct weft_error err;
    assert_int_equal(wf_settings_init(wf_train_setting_list(), &s, NULL), WEFT_OK);
    set(&s, "parallel.schedule", l->schedule);
    set(&s, "parallel.threads", "1");
    set(&s, "train.recompute", recompute);
    s.parallel.pp = l->pp;
    s.parallel.dp = dp;
    s.parallel.chunks = l->chunks;
    s.parallel.micros = l->micros * dp;
    s.data.batch = l->micros * dp;
    s.data.seq = 512;
    assert_int_equal(weft_model_find(model, &m, NULL), WEFT_OK);
    if (wf_topology_init(out, &s, &m, &err) != WEFT_OK)
        fail_msg("%s, %s: %s", model, l->schedule, err.msg);
    wf_settings_release(wf_train_setting_list(), &s);
}

static void compare(const char *what, size_t planned, size_t counted, double max, double min)
{
    double ratio = (double)planned / (double)counted;
    if (getenv("WEFT_TEST_VERBOSE") != NULL)
        printf("%-70s %12zu, plan %.4f\n", what, counted, ratio);
    if (ratio > max || ratio < min)
        fail_msg("%s: planned %zu, the run allocates %zu (%.4f)", what, planned, counted,
                 ratio);
}

/* Compares all ranks of the first replica. */
static void compare_ranks(const char *name, const struct wf_planned_bytes *b,
                          const struct wf_topology *t)
{
    char what[160];
    for (uint32_t r = 0; r < b->n_ranks; r++) {
        struct wf_rank_bytes run;
        assert_int_equal(wf_topology_rank_bytes(t, r, true, &run, NULL), WEFT_OK);
        const struct {
            const char *name;
            size_t planned, counted;
        } parts[] = {
            {"weights", b->parts[r].weights, run.weights},
            {"gradients", b->parts[r].gradients, run.gradients},
            {"packed", b->parts[r].packed, run.packed},
            {"moments", b->parts[r].moments, run.moments},
            {"activations", b->activations[r], run.activations},
        };
        for (size_t i = 0; i < WEFT_LEN(parts); i++) {
            snprintf(what, sizeof what, "%s, rank %u: %s", name, r, parts[i].name);
            if (parts[i].counted > 0)
                compare(what, parts[i].planned, parts[i].counted, 1.02, MIN_RATIO);
        }
        snprintf(what, sizeof what, "%s, rank %u", name, r);
        compare(what, b->total[r], run.total, MAX_RATIO, MIN_RATIO);
    }
}

/* The partition of the plan is that of the run: both are balanced, but the plan counts the
 * backward of the head separately. */
static void print_counts(const struct wf_topology *t, char *out, size_t size)
{
    size_t n = 0;
    for (uint32_t s = 0; s < t->n_stages; s++)
        n += (size_t)snprintf(out + n, size - n, "%s%u", s > 0 ? "," : "",
                              t->partition.at[s].end_layer - t->partition.at[s].first_layer);
}

static void check_plan(void **state)
{
    (void)state;
    for (size_t m = 0; m < WEFT_LEN(models); m++)
        for (size_t l = 0; l < WEFT_LEN(layouts); l++)
            for (size_t r = 0; r < WEFT_LEN(recomputes); r++) {
                if (wf_schedule_searches(layouts[l].schedule))
                    continue; /* the run searches with the backward of the head in its forward */
                struct wf_topology t;
                struct wf_plan plan;
                struct weft_error err;
                char counts[200], name[120];
                init_topology(&t, models[m], &layouts[l], 1, recomputes[r]);
                print_counts(&t, counts, sizeof counts);
                const struct wf_plan_input in = {
                    .schedule = layouts[l].schedule,
                    .params = {.ranks = layouts[l].pp,
                               .micros = layouts[l].micros,
                               .chunks = layouts[l].chunks},
                    .model = models[m],
                    .seq = 512,
                    .recompute = recomputes[r],
                    .partition = {WF_PARTITION_COUNTS, counts},
                };
                if (wf_plan_init(&plan, &in, &err) != WEFT_OK)
                    fail_msg("%s", err.msg);
                snprintf(name, sizeof name, "%s, %s, %u ranks, %s", models[m],
                         layouts[l].schedule, layouts[l].pp, recomputes[r]);
                compare_ranks(name, &plan.bytes, &t);
                wf_plan_release(&plan);
                wf_topology_release(&t);
            }
}

static size_t largest(const struct wf_plan *p)
{
    return wf_planned_bytes_max(p->bytes.total, p->bytes.n_ranks);
}

/* A limit is never exceeded, and the bytes of a balanced plan are a limit that suffices. */
static void check_limits(void **state)
{
    (void)state;
    uint32_t n_adapted = 0;
    for (size_t k = 0; k < WEFT_LEN(recomputes) * WEFT_LEN(layouts); k++) {
        const struct planned_layout *l = &layouts[k / WEFT_LEN(recomputes)];
        double limit = 0;
        struct wf_plan_input in = {
            .schedule = l->schedule,
            .params = {.ranks = l->pp, .micros = l->micros, .chunks = l->chunks},
            .model = "gpt2-124m",
            .seq = 512,
            .recompute = recomputes[k % WEFT_LEN(recomputes)],
            .partition = {.kind = WF_PARTITION_BALANCED},
        };
        struct wf_plan plan;
        struct weft_error err;
        if (wf_schedule_searches(l->schedule) || strchr(in.recompute, 's') != NULL)
            continue; /* the order, or the layers that recompute, follow after the partition */
        assert_int_equal(wf_plan_init(&plan, &in, NULL), WEFT_OK);
        size_t max = largest(&plan);
        wf_plan_release(&plan);

        in.bytes_limit = (struct weft_values){&limit, 1};
        limit = (double)max;
        if (wf_plan_init(&plan, &in, &err) != WEFT_OK)
            fail_msg("%s: %s", l->schedule, err.msg);
        assert_true(largest(&plan) == max);
        wf_plan_release(&plan);

        limit = 0.97 * (double)max;
        if (wf_plan_init(&plan, &in, &err) == WEFT_OK) {
            n_adapted++;
            assert_true((double)largest(&plan) <= limit);
            wf_plan_release(&plan);
        } else {
            assert_non_null(strstr(err.msg, "do not fit into"));
        }
    }
    assert_true(n_adapted > 5);
}

/* Replicas divide the moments, and have buffers to sum gradients. */
static void check_replicas(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2 * WEFT_LEN(recomputes) * WEFT_LEN(layouts); k++) {
        size_t l = k / 2 / WEFT_LEN(recomputes);
        const char *recompute = recomputes[k / 2 % WEFT_LEN(recomputes)];
        uint32_t replicas = k % 2 == 0 ? 1 : 3;
        struct wf_topology t;
        struct weft_items items;
        struct wf_planned_bytes bytes;
        char name[120];
        init_topology(&t, "gpt2-124m", &layouts[l], replicas, recompute);
        const struct weft_training how = {.recompute = t.recompute};
        assert_int_equal(weft_items_init_training(&items, &t.model, 1, 512, &how, NULL),
                         WEFT_OK);
        assert_int_equal(wf_planned_bytes_init(&bytes, wf_topology_schedule(&t, 0),
                                               &t.partition, &items, replicas, NULL),
                         WEFT_OK);
        snprintf(name, sizeof name, "%u replicas, %s, %u ranks, %s", replicas,
                 layouts[l].schedule, layouts[l].pp, recompute);
        compare_ranks(name, &bytes, &t);
        wf_planned_bytes_release(&bytes);
        weft_items_release(&items);
        wf_topology_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_plan),
                                       cmocka_unit_test(check_limits),
                                       cmocka_unit_test(check_replicas)};
    return cmocka_run_group_tests_name("planned", tests, NULL, NULL) != 0;
}
