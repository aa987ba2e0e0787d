/* Checks schedule files: the proof, the sufficient channel depth, and traces from schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/planner/check.h"
#include "planning/planner/trace_source.h"

static char path[] = "/tmp/weft-check-XXXXXX";

static void write_file(const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static int make_path(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || fclose(fdopen(fd, "w")) != 0;
}

static int remove_path(void **state)
{
    (void)state;
    return remove(path);
}

static void check_depths(void **state)
{
    static const struct {
        const char *text;
        size_t depth;
    } right[] = {{NULL, WEFT_CHANNEL_BUFFERED},
                 {"buffered", WEFT_CHANNEL_BUFFERED},
                 {"rendezvous", 0},
                 {"depth=0", 0},
                 {"depth=12", 12}};
    static const char *const wrong[] = {"", "fast", "depth=", "depth=-1", "depth=1x"};
    struct weft_error err;
    size_t depth;
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(right); i++) {
        assert_int_equal(wf_channel_depth_parse(right[i].text, "x", &depth, NULL), WEFT_OK);
        assert_int_equal(depth, right[i].depth);
    }
    for (size_t i = 0; i < WEFT_LEN(wrong); i++) {
        assert_int_equal(wf_channel_depth_parse(wrong[i], "x", &depth, &err), WEFT_USAGE);
        assert_int_equal(strncmp(err.msg, "x: ", 3), 0);
    }
}

/* 1F1B with rendezvous: rank 0 sends F1 while rank 1 sends B0.  One message per channel is enough. */
static void check_enough(void **state)
{
    const struct weft_channel_model rendezvous = {0}, buffered = {WEFT_CHANNEL_BUFFERED, false};
    struct wf_check c;
    (void)state;
    write_file("0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, WEFT_LOWERING_LATE, NULL), WEFT_OK);
    assert_int_equal(c.result.n_findings, 0);
    assert_int_equal(wf_check_enough_depth(&c), 0);
    wf_check_release(&c);
    assert_int_equal(wf_check_init(&c, path, &rendezvous, WEFT_LOWERING_LATE, NULL), WEFT_OK);
    assert_true(c.result.n_findings > 0 && c.result.n_cycle > 0);
    assert_int_equal(wf_check_enough_depth(&c), 1);
    wf_check_release(&c);
    assert_int_equal(wf_check_init(&c, path, &rendezvous, WEFT_LOWERING_PYTORCH, NULL),
                     WEFT_OK);
    assert_int_equal(c.result.n_findings, 0);
    wf_check_release(&c);
}

/* A schedule without messages is lowered; an invalid one is described by its findings. */
static void check_without_messages(void **state)
{
    const struct weft_channel_model buffered = {WEFT_CHANNEL_BUFFERED, false};
    struct wf_check c;
    (void)state;
    write_file("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, WEFT_LOWERING_LATE, NULL), WEFT_OK);
    assert_int_equal(c.result.n_findings, 0);
    assert_ptr_equal(wf_check_schedule(&c), c.lowered);
    wf_check_release(&c);
    write_file("0F0,0B0\n1B0,1F0\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, WEFT_LOWERING_LATE, NULL), WEFT_OK);
    assert_true(wf_check_n_findings(&c) > 0);
    assert_ptr_equal(wf_check_schedule(&c), c.read);
    wf_check_release(&c);
    write_file("0F0,0G0\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, WEFT_LOWERING_LATE, NULL),
                     WEFT_SCHEDULE);
}

/* A valid schedule gives a trace with the given times; an invalid one is an error. */
static void check_trace(void **state)
{
    static const double three = 3;
    const struct weft_cost cost = {.f = {&three, 1}};
    const struct weft_memory_cost memory = {0};
    struct weft_trace t;
    (void)state;
    write_file("0F0,0B0\n");
    assert_int_equal(wf_trace_read(path, &cost, &memory, &t, NULL), WEFT_OK);
    assert_int_equal(t.n_events, 2);
    assert_true(t.events[1].start == 3 && t.events[1].length == 2);
    weft_trace_release(&t);
    write_file("0F0,0B0\n1B0,1F0\n");
    assert_int_equal(wf_trace_read(path, &cost, &memory, &t, NULL), WEFT_SCHEDULE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_depths),
        cmocka_unit_test(check_enough),
        cmocka_unit_test(check_without_messages),
        cmocka_unit_test(check_trace),
    };
    return cmocka_run_group_tests_name("check", tests, make_path, remove_path) != 0;
}
