/* Checks that traces are read from trace files, schedules and runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/error.h"
#include "config/values.h"
#include "folder.h"
#include "planning/planner/costs.h"
#include "training/run/trace_list.h"

/* One rank: F takes 2 ms or 4 ms, B takes 4 ms. */
#define TRACE(f)                                                                               \
    "# weft trace 1\n# weft ranks 1 stages 1 micros 1\n# weft unit 0.001\n"                    \
    "0 compute 0F0 0 " f "\n0 compute 0B0 5 4\n"

static void put(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

/* Writes a run with two traces, and a trace and a schedule beside it. */
static struct folder make_files(void)
{
    struct folder dir = folder_new();
    assert_int_equal(mkdir(folder_in(&dir, "run"), 0777), 0);
    assert_int_equal(mkdir(folder_in(&dir, "run/trace"), 0777), 0);
    put(folder_in(&dir, "run/schedule.csv"), "0F0,0B0\n");
    put(folder_in(&dir, "run/trace/step-000002.trace"), TRACE("2"));
    put(folder_in(&dir, "run/trace/step-000010.trace"), TRACE("4"));
    put(folder_in(&dir, "a.trace"), TRACE("2"));
    put(folder_in(&dir, "s.csv"), "0F0,0B0\n");
    return dir;
}

static void check_list(void **state)
{
    struct folder dir = make_files();
    const char *paths[] = {folder_in(&dir, "a.trace"), folder_in(&dir, "run"),
                           folder_in(&dir, "s.csv")};
    struct weft_cost cost = {0};
    struct weft_memory_cost memory = {0};
    struct wf_trace_list l;
    assert_int_equal(wf_trace_list_init(&l, paths, 2, wf_input_read_as, &cost, &memory, NULL),
                     WEFT_OK);
    assert_int_equal(l.set.n, 3); /* a run has two traces */
    assert_false(l.mixed_units);
    assert_string_equal(l.set.at[1].name, "planned");
    assert_string_equal(l.set.at[2].name, "measured");
    assert_true(l.set.at[1].makespan == 4 + 4); /* no idle time, with the newest trace */
    assert_true(l.set.at[2].makespan == 9);
    wf_trace_list_release(&l);

    struct wf_cost_units units = wf_cost_units_make(1e-3);
    assert_int_equal(wf_cost_parse("F=3,B=7", "cost", &units, &cost, NULL), WEFT_OK);
    assert_int_equal(wf_trace_list_init(&l, paths, 3, wf_input_read_as, &cost, &memory, NULL),
                     WEFT_OK);
    assert_true(l.set.n == 4 && l.mixed_units);
    assert_true(l.set.at[3].makespan == 3 + 7 && l.set.at[3].unit_seconds == 0);
    wf_trace_list_release(&l);
    assert_int_equal(
        wf_trace_list_init(&l, paths + 2, 1, wf_input_read_as, &cost, &memory, NULL), WEFT_OK);
    assert_true(l.set.n == 1 && !l.mixed_units);
    wf_trace_list_release(&l);

    paths[2] = folder_in(&dir, "missing");
    assert_int_equal(wf_trace_list_init(&l, paths, 3, wf_input_read_as, &cost, &memory, NULL),
                     WEFT_SCHEDULE);
    paths[2] = dir.path; /* has no traces */
    assert_int_equal(wf_trace_list_init(&l, paths, 3, wf_input_read_as, &cost, &memory, NULL),
                     WEFT_DATA);
    wf_costs_release(&cost, &memory);
    folder_remove(&dir);
    (void)state;
}

static void check_cost(void **state)
{
    struct folder dir = make_files();
    struct weft_memory_cost memory = {0};
    static const struct {
        const char *name;
        double f;
    } cases[] = {{"a.trace", 2}, {"run", 4}};
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_cost cost = {0};
        struct wf_cost_units units = wf_cost_units_make(1e-3);
        assert_int_equal(wf_cost_read_measured(folder_in(&dir, cases[i].name), wf_input_read_as,
                                               &units, &cost, NULL),
                         WEFT_OK);
        assert_true(cost.f.n == 1 && cost.f.at[0] == cases[i].f && cost.b.at[0] == 4);
        wf_costs_release(&cost, &memory);
    }
    struct weft_cost cost = {0};
    struct wf_cost_units units = wf_cost_units_make(1e-3);
    assert_int_equal(wf_cost_read_measured(dir.path, wf_input_read_as, &units, &cost, NULL),
                     WEFT_DATA);
    assert_int_equal(
        wf_cost_read_measured(folder_in(&dir, "s.csv"), wf_input_read_as, &units, &cost, NULL),
        WEFT_DATA);
    folder_remove(&dir);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_list),
        cmocka_unit_test(check_cost),
    };
    return cmocka_run_group_tests_name("trace_list", tests, NULL, NULL) != 0;
}
