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

/* (M + P - 1) * (F + B) with F = 1 and B = 2; min(P, M) activations on rank 0. */
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

/* The cost, state and activations of a stage are the sums over its items. */
static void check_items(void **state)
{
    struct wf_plan_input in = input("gpipe");
    (void)state;
    in.layers = 8;
    in.item_costs = true;
    in.layer = (struct weft_item){.f = 1, .i = 1, .w = 1, .state_bytes = 100, .act_bytes = 3};
    in.head = (struct weft_item){.f = 5, .state_bytes = 7};
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
    static const enum wf_plan_lowering kinds[] = {WF_PLAN_LOWERED_LATE,
                                                  WF_PLAN_LOWERED_PYTORCH};
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(kinds); i++) {
        struct wf_plan_input in = input("zb-v");
        in.lowering = kinds[i];
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

int main(void)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(check_named),
        cmocka_unit_test(check_items),
        cmocka_unit_test(check_layers_and_ticks),
        cmocka_unit_test(check_lowering),
        cmocka_unit_test(check_file),
    };
    struct CMUnitTest tests[WEFT_LEN(refusals)];
    for (size_t i = 0; i < WEFT_LEN(refusals); i++)
        tests[i] = (struct CMUnitTest){refusals[i].name, check_error, NULL, NULL, &refusals[i]};
    return cmocka_run_group_tests_name("plan", plain, NULL, NULL) != 0 ||
           cmocka_run_group_tests_name("refusals", tests, NULL, NULL) != 0;
}
