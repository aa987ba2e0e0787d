/* Checks the planner: schedule, partition, costs, proof, times and lowering in one call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/planner/plan.h"

static struct wf_plan_input input(const char *schedule)
{
    return (struct wf_plan_input){.schedule = schedule, .params = {.ranks = 4, .micros = 8}};
}

static struct wf_plan make(const struct wf_plan_input *in)
{
    struct wf_plan p;
    struct weft_error err = {0};
    if (wf_plan_init(&p, in, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return p;
}

/* The makespan is (M + P - 1) * (F + B) with F = 1 and B = 2; rank 0 stores
 * min(P, M) activations. */
static void check_named(void **state)
{
    struct wf_plan_input in = input("1f1b");
    struct wf_plan p = make(&in);
    (void)state;
    assert_true(p.metrics.makespan == 33);
    assert_int_equal(p.metrics.peak_activations[0], 4);
    assert_int_equal(p.partition.n_stages, 4);
    assert_int_equal(p.proof.n_findings, 0);
    assert_int_equal(p.bytes.n_ranks, 0);
    assert_null(p.lowered);
    assert_false(p.from_file || p.in_ticks || p.costs_by_stage);
    wf_plan_release(&p);
}

/* Returns items of 8 equal layers and a head. */
static struct wf_plan_input with_items(const char *schedule)
{
    struct wf_plan_input in = input(schedule);
    in.layers = 8;
    in.item_costs = true;
    in.layer = (struct weft_item){.f = 1, .i = 1, .w = 1, .state_bytes = 100, .act_bytes = 3};
    in.head = (struct weft_item){.f = 5, .state_bytes = 7};
    return in;
}

/* The cost, state and activations of a stage are the sums over its items. */
static void check_items(void **state)
{
    struct wf_plan_input in = with_items("gpipe");
    (void)state;
    struct wf_plan p = make(&in);
    assert_true(p.cost.f.n == 4 && p.cost.f.at[0] == 2 && p.cost.f.at[3] == 7);
    assert_int_equal(p.bytes.state[0], 200);
    assert_int_equal(p.bytes.state[3], 207);
    assert_int_equal(p.bytes.total[0], 200 + 8 * 2 * 3); /* GPipe keeps all micros */
    assert_true(p.costs_by_stage && !p.from_model);
    wf_plan_release(&p);
}

/* Patterns determine the number of layers, and unit ticks apply without costs only. */
static void check_layers_and_ticks(void **state)
{
    static const double two = 2;
    const struct weft_cost cost = {.f = {&two, 1}};
    struct wf_plan_input in = input("greedy-gpipe");
    (void)state;
    in.partition = wf_partition_choice_parse("Et*3|(tt|)*2L", WF_PARTITION_EVEN);
    struct wf_plan p = make(&in);
    assert_int_equal(p.partition.at[3].end_layer, 7);
    assert_true(p.in_ticks);
    wf_plan_release(&p);
    in.params.cost = &cost;
    in.stage_costs = true;
    p = make(&in);
    assert_false(p.in_ticks);
    wf_plan_release(&p);
}

static void check_lowering(void **state)
{
    (void)state;
    for (int i = 0; i < WEFT_N_LOWERINGS; i++) {
        struct wf_plan_input in = input("zb-v");
        in.lower = true;
        in.lowering = (enum weft_lowering)i;
        struct wf_plan p = make(&in);
        assert_non_null(p.lowered);
        assert_true(weft_schedule_is_lowered(p.lowered));
        assert_false(weft_schedule_is_lowered(p.schedule));
        wf_plan_release(&p);
    }
}

/* A file is read, proven and planned like a generated schedule. */
static void check_file(void **state)
{
    char path[] = "/tmp/weft-plan-XXXXXX";
    char *text = NULL;
    size_t len = 0;
    struct wf_plan_input in = input("1f1b");
    struct wf_plan p = make(&in);
    (void)state;
    assert_int_equal(weft_schedule_print(p.schedule, WEFT_TEXT_FORMAT_CSV, &text, &len, NULL),
                     WEFT_OK);
    wf_plan_release(&p);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *out = fdopen(fd, "w");
    fwrite(text, 1, len, out);
    fclose(out);
    free(text);

    in = (struct wf_plan_input){.schedule = path};
    p = make(&in);
    assert_true(p.from_file && p.metrics.makespan == 33);
    wf_plan_release(&p);

    struct weft_error err;
    in.params.ranks = 3;
    assert_int_equal(wf_plan_init(&p, &in, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "has 4 ranks (3 given)"));
    remove(path);
    assert_int_equal(wf_plan_init(&p, &in, &err), WEFT_SCHEDULE);
}

static const double one = 1, three = 3, ten[] = {10, 10}, negative = -1;
static const struct weft_cost stage_cost = {.f = {&three, 1}};
static const struct weft_memory_cost tight = {.limit = {&three, 1}};

static struct refusal {
    const char *name;
    struct wf_plan_input in;
    const char *message; /* part of it */
} refusals[] = {
    {"an unknown name", {.schedule = "1f1c", .params = {.ranks = 2, .micros = 2}}, "1f1b"},
    {"no ranks", {.schedule = "1f1b", .params = {.micros = 2}}, "ranks"},
    {"memory over the limit",
     {.schedule = "1f1b", .params = {.ranks = 4, .micros = 8, .memory = &tight}},
     "rank 0 peaks at 4, over its memory limit of 3"},
    {"layers of another model",
     {.schedule = "1f1b", .params = {.ranks = 4, .micros = 8}, .model = "d12", .layers = 3},
     "d12 has 12 layers (3 given)"},
    {"costs of stages and of items",
     {.schedule = "1f1b",
      .params = {.ranks = 4, .micros = 8, .cost = &stage_cost},
      .stage_costs = true,
      .model = "d12"},
     "only C and FB"},
    {"a limit without balance",
     {.schedule = "1f1b", .params = {.ranks = 4, .micros = 8}, .bytes_limit = {&one, 1}},
     "balanced"},
    {"two limits for four ranks",
     {.schedule = "1f1b",
      .params = {.ranks = 4, .micros = 8},
      .partition = {.kind = WF_PARTITION_BALANCED},
      .bytes_limit = {ten, 2}},
     "2 values for 4 ranks (expected 1 or 4)"},
    {"a negative limit",
     {.schedule = "1f1b",
      .params = {.ranks = 4, .micros = 8},
      .partition = {.kind = WF_PARTITION_BALANCED},
      .bytes_limit = {&negative, 1}},
     "-1 is out of range"},
    {"more stages than layers",
     {.schedule = "1f1b", .params = {.ranks = 4, .micros = 8}, .layers = 2},
     "2 layers cannot fill 4 stages"},
};

/* Errors name the cause, and never a command-line option. */
static void check_error(void **state)
{
    const struct refusal *c = *state;
    struct wf_plan p = {0};
    struct weft_error err = {0};
    assert_int_equal(wf_plan_init(&p, &c->in, &err), WEFT_USAGE);
    if (strstr(err.msg, c->message) == NULL || strstr(err.msg, " --r") != NULL)
        fail_msg("%s", err.msg);
    assert_null(p.schedule);
}

/* Limits of all bytes leave what the state of a rank does not use to its activations: 2 layers of
 * 3 bytes per micro and stage. */
static void check_byte_limits(void **state)
{
    static const double limits[] = {212, 212, 212, 220};
    const struct weft_memory_cost memory = {.limit = {limits, 4}};
    struct wf_plan_input in = with_items("zb-auto");
    (void)state;
    in.params.memory = &memory;
    in.limits_are_bytes = true;
    struct wf_plan p = make(&in);
    assert_true(p.memory_is_bytes);
    assert_string_equal(p.memory_unit, "bytes");
    assert_true(p.memory.f.n == 4 && p.memory.f.at[0] == 6);
    assert_true(p.memory.limit.at[0] == 12 && p.memory.limit.at[3] == 13);
    for (uint32_t r = 0; r < 4; r++)
        assert_true(p.metrics.peak_activations[r] <= 2);
    wf_plan_release(&p);

    in.schedule = "1f1b"; /* rank 0 keeps 4 micros */
    struct weft_error err = {0};
    assert_int_equal(wf_plan_init(&p, &in, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "rank 0 peaks at 224B, over its memory limit of 212B"));
}

/* The costs for the search for an order: items are partitioned, ranks have speeds and hops. */
static void check_stages(void **state)
{
    static const double speed[] = {1, 2, 1, 1}, bytes = 1e6, limit = 212;
    const struct weft_cluster cluster = {1, 4, {1e9, 0}, {1e9, 0}};
    const struct weft_memory_cost no_memory = {0};
    const struct weft_sim_options machine = {
        .cluster = &cluster, .unit_seconds = 1e-3, .bytes = {&bytes, 1}, .speed = {speed, 4}};
    struct wf_plan_input in = with_items(NULL);
    struct wf_plan p;
    struct weft_error err = {0};
    (void)state;
    in.machine = &machine;
    in.unit_seconds = 1e-3;
    in.params.memory = &no_memory;
    in.bytes_limit = (struct weft_values){&limit, 1};
    assert_int_equal(wf_plan_init_stages(&p, &in, WEFT_PLACEMENT_LINEAR, &err), WEFT_OK);
    assert_null(p.schedule);
    assert_true(p.cost.f.n == 4 && p.cost.f.at[0] == 2 && p.cost.f.at[1] == 4);
    assert_true(p.cost.f.at[3] == 7);
    assert_true(weft_cost_hop(&p.cost, 4, 0, 0, false) == 1); /* 1 MB at 1 GB/s */
    assert_true(p.memory.limit.n == 4 && p.memory.limit.at[0] == 12);
    assert_string_equal(p.time.name, "ms");
    wf_plan_release(&p);

    in.bytes_limit = (struct weft_values){0};
    assert_int_equal(wf_plan_init_stages(&p, &in, WEFT_PLACEMENT_V, &err), WEFT_OK);
    assert_int_equal(p.partition.n_stages, 8);
    assert_true(p.cost.f.at[1] == 2 && p.cost.f.at[6] == 2 && p.cost.f.at[7] == 6);
    assert_int_equal(p.memory.limit.n, 0);
    wf_plan_release(&p);

    in.params.ranks = 1u << 30;
    in.params.chunks = 8;
    assert_int_equal(wf_plan_init_stages(&p, &in, WEFT_PLACEMENT_LOOP, &err), WEFT_USAGE);
}

/* The unit of times: real, ticks, operations, or unknown. */
static void check_units(void **state)
{
    static const struct {
        const char *schedule, *model;
        double unit_seconds, flops;
        const char *want;
    } cases[] = {
        {"1f1b", NULL, 0, 0, "time units"},
        {"greedy-1f1b", NULL, 0, 0, "ticks"},
        {"1f1b", "gpt2-124m", 0, 0, "operations"},
        {"1f1b", "gpt2-124m", 1e-3, 1e12, "ms"},
        {"1f1b", NULL, 1e-6, 0, "us"},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_plan_input in = input(cases[i].schedule);
        in.model = cases[i].model;
        in.unit_seconds = cases[i].unit_seconds;
        in.flops = cases[i].flops;
        struct wf_plan p = make(&in);
        assert_string_equal(p.time.name, cases[i].want);
        assert_string_equal(p.memory_unit, "activations");
        wf_plan_release(&p);
    }
}

static void check_same(const struct weft_schedule *a, const struct weft_schedule *b)
{
    char *text[2];
    assert_int_equal(weft_schedule_print(a, WEFT_TEXT_FORMAT_CSV, &text[0], NULL, NULL),
                     WEFT_OK);
    assert_int_equal(weft_schedule_print(b, WEFT_TEXT_FORMAT_CSV, &text[1], NULL, NULL),
                     WEFT_OK);
    assert_string_equal(text[0], text[1]);
    assert_int_equal(weft_schedule_placement_kind(a), weft_schedule_placement_kind(b));
    assert_int_equal(weft_schedule_n_chunks(a), weft_schedule_n_chunks(b));
    assert_int_equal(weft_schedule_is_lowered(a), weft_schedule_is_lowered(b));
    free(text[0]);
    free(text[1]);
}

/* The plan of a given schedule has its order and the given costs, even if the name is that of a
 * generator that searches or counts ticks. */
static void check_given(void **state)
{
    static const double forward = 10;
    const struct weft_cost cost = {.f = {&forward, 1}};
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        const uint32_t chunks = strcmp(all[i].name, "bitpipe") == 0 ? 4 : 0;
        const struct weft_gen_params params = {.ranks = 4, .micros = 8, .chunks = chunks};
        struct weft_schedule *s = NULL;
        struct weft_metrics m;
        struct wf_plan p;
        assert_int_equal(weft_schedule_generate(all[i].name, &params, &s, NULL), WEFT_OK);
        const struct wf_plan_input in = {
            .schedule = all[i].name, .given = s, .params = {.cost = &cost}};
        assert_int_equal(wf_plan_init(&p, &in, NULL), WEFT_OK);
        assert_true(p.schedule != s && p.from_file && !p.in_ticks);
        check_same(p.schedule, s);
        assert_int_equal(weft_metrics_init(&m, s, &cost, NULL, NULL), WEFT_OK);
        assert_true(p.metrics.makespan == m.makespan);
        weft_metrics_release(&m);
        wf_plan_release(&p);
        weft_schedule_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(check_named),
        cmocka_unit_test(check_items),
        cmocka_unit_test(check_layers_and_ticks),
        cmocka_unit_test(check_lowering),
        cmocka_unit_test(check_file),
        cmocka_unit_test(check_byte_limits),
        cmocka_unit_test(check_stages),
        cmocka_unit_test(check_units),
        cmocka_unit_test(check_given),
    };
    struct CMUnitTest tests[WEFT_LEN(refusals)];
    for (size_t i = 0; i < WEFT_LEN(refusals); i++)
        tests[i] = (struct CMUnitTest){refusals[i].name, check_error, NULL, NULL, &refusals[i]};
    return cmocka_run_group_tests_name("plan", plain, NULL, NULL) != 0 ||
           cmocka_run_group_tests_name("refusals", tests, NULL, NULL) != 0;
}
