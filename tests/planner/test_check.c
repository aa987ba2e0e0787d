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

static void check_error_json(void **state)
{
    const struct wf_check_options buffered = {.depth = WEFT_CHANNEL_BUFFERED};
    struct wf_check c = {0};
    struct weft_error err = {.msg = ""};
    struct wf_json j = {.out = tmpfile()};
    char text[600], want[600];
    (void)state;
    write_file("nonsense\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, &err), WEFT_SCHEDULE);
    wf_check_write_error_json(&j, "a.csv", &err);
    rewind(j.out);
    text[fread(text, 1, sizeof text - 1, j.out)] = '\0';
    fclose(j.out);
    snprintf(want, sizeof want, "{\"file\":\"a.csv\",\"ok\":false,\"error\":\"%s\"}", err.msg);
    assert_string_equal(text, want);
    wf_check_release(&c);
}

/* 1F1B with rendezvous: rank 0 sends F1 while rank 1 sends B0.  One message per channel is enough. */
static void check_enough(void **state)
{
    const struct wf_check_options buffered = {.depth = WEFT_CHANNEL_BUFFERED};
    const struct wf_check_options late = {.channels = WF_CHECK_CHANNELS_DIRECTION,
                                          .lowering = "weft"};
    const struct wf_check_options torch = {.lowering = "torch-2.10"};
    struct wf_check c;
    size_t depth = 7;
    (void)state;
    write_file("0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, NULL), WEFT_OK);
    assert_int_equal(c.result.n_findings, 0);
    assert_int_equal(wf_check_enough_depth(&c, &depth, NULL), WEFT_OK);
    assert_int_equal(depth, 0);
    wf_check_release(&c);
    assert_int_equal(wf_check_init(&c, path, &late, NULL), WEFT_OK);
    assert_true(c.result.n_findings > 0 && c.result.n_cycle > 0);
    assert_int_equal(wf_check_enough_depth(&c, &depth, NULL), WEFT_OK);
    assert_int_equal(depth, 1);
    wf_check_release(&c);
    assert_int_equal(wf_check_init(&c, path, &torch, NULL), WEFT_OK);
    assert_int_equal(c.result.n_findings, 0);
    wf_check_release(&c);
}

/* A schedule without messages is lowered; an invalid one is described by its findings. */
static void check_without_messages(void **state)
{
    const struct wf_check_options buffered = {.depth = WEFT_CHANNEL_BUFFERED};
    struct wf_check c;
    (void)state;
    write_file("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, NULL), WEFT_OK);
    assert_int_equal(c.result.n_findings, 0);
    assert_ptr_equal(wf_check_schedule(&c), c.lowered);
    wf_check_release(&c);
    write_file("0F0,0B0\n1B0,1F0\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, NULL), WEFT_OK);
    assert_true(wf_check_n_findings(&c) > 0);
    assert_ptr_equal(wf_check_schedule(&c), c.read);
    wf_check_release(&c);
    write_file("0F0,0G0\n");
    assert_int_equal(wf_check_init(&c, path, &buffered, NULL), WEFT_SCHEDULE);
}

/* Rows without a header are checked as PyTorch runs them, files of weft as weft runs them.  The
 * result also states what holds with the other channels. */
static void check_models(void **state)
{
    /* Rank 0 sends F2 before B0 of stage 3; rank 1 receives them the other way round. */
    static const char swapped[] =
        "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,3B1,"
        "3SEND_B1,3RECV_F2,3F2,3B2,3SEND_B2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n"
        "1RECV_F0,1F0,2F0,2SEND_F0,1RECV_F1,1F1,2F1,2SEND_F1,2RECV_B0,2B0,1B0,1SEND_B0,"
        "1RECV_F2,1F2,2F2,2SEND_F2,2RECV_B1,2B1,1B1,1SEND_B1,2RECV_B2,2B2,1B2,1SEND_B2\n";
    const struct wf_check_options options = {.depth = WEFT_CHANNEL_BUFFERED};
    char with_header[2000];
    struct wf_check c;
    (void)state;
    write_file(swapped);
    assert_int_equal(wf_check_init(&c, path, &options, NULL), WEFT_OK);
    assert_true(c.channels_assumed && c.channels.by_pair && c.other_ok);
    assert_int_equal(c.result.findings[0].rule, WEFT_RULE_CHANNEL);
    wf_check_release(&c);

    snprintf(with_header, sizeof with_header, "# weft schedule 1\n%s", swapped);
    write_file(with_header);
    assert_int_equal(wf_check_init(&c, path, &options, NULL), WEFT_OK);
    assert_true(c.channels_assumed && !c.channels.by_pair && !c.other_ok);
    assert_int_equal(c.result.n_findings, 0);
    assert_non_null(strstr(c.other_finding, "3RECV_F2"));
    wf_check_release(&c);
}

/* What PyTorch refuses or runs with wrong results. */
static void check_for_torch(void **state)
{
    static const struct {
        const char *text;
        enum weft_torch_severity severity;
        const char *want; /* words of the first finding; NULL: only notes or nothing */
    } cases[] = {
        {"0F0,0B0,1F1,1B1\n1F0,1B0,0F1,0B1\n", WEFT_TORCH_SEVERITY_REFUSED, "on several ranks"},
        {"0F0,0F1\n1F0,1F1\n", WEFT_TORCH_SEVERITY_REFUSED, "no backward"},
        {"0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n", WEFT_TORCH_SEVERITY_WRONG,
         "micro 1 before micro 0"},
        {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
         "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
         WEFT_TORCH_SEVERITY_WRONG, "2 times too large"},
        {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", WEFT_TORCH_SEVERITY_NOTE, NULL},
        {"0F0,0I0,0W0\n1F0,1B0\n", WEFT_TORCH_SEVERITY_NOTE, NULL},
    };
    const struct wf_check_options options = {.depth = WEFT_CHANNEL_BUFFERED, .for_torch = true};
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_check c;
        write_file(cases[i].text);
        assert_int_equal(wf_check_init(&c, path, &options, NULL), WEFT_OK);
        assert_int_equal(c.result.n_findings, 0);
        if (cases[i].want != NULL) {
            assert_int_equal(c.torch.at[0].severity, cases[i].severity);
            assert_non_null(strstr(wf_check_failure(&c), cases[i].want));
            assert_int_equal(wf_torch_require(c.read, NULL), WEFT_SCHEDULE);
        } else {
            assert_null(wf_check_failure(&c));
            assert_int_equal(wf_torch_require(c.read, NULL), WEFT_OK);
        }
        wf_check_release(&c);
    }
}

/* A valid schedule gives a trace with the given times; an invalid one is an error. */
static void check_trace(void **state)
{
    static const double three = 3;
    const struct weft_cost cost = {.f = {&three, 1}};
    const struct weft_memory_cost memory = {0};
    const struct wf_trace_costs costs = {&cost, &memory};
    struct wf_trace_set set = {.read = wf_input_read_as};
    (void)state;
    write_file("0F0,0B0\n");
    assert_int_equal(wf_trace_set_add_file(&set, path, &costs, NULL), WEFT_OK);
    assert_int_equal(set.n, 1);
    assert_int_equal(set.at[0].n_events, 2);
    assert_true(set.at[0].events[1].start == 3 && set.at[0].events[1].length == 2);
    write_file("0F0,0B0\n1B0,1F0\n");
    assert_int_equal(wf_trace_set_add_file(&set, path, &costs, NULL), WEFT_SCHEDULE);
    wf_trace_set_release(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_depths), cmocka_unit_test(check_error_json),
        cmocka_unit_test(check_enough), cmocka_unit_test(check_without_messages),
        cmocka_unit_test(check_models), cmocka_unit_test(check_for_torch),
        cmocka_unit_test(check_trace),
    };
    return cmocka_run_group_tests_name("check", tests, make_path, remove_path) != 0;
}
