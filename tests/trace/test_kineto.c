/* Profiles of PyTorch: the expected times are read off the JSON by hand.  kineto_zb_v_rank1.json is
 * the profile of rank 1 of zb-v on 2 ranks with 8 micro-batches, recorded with torch 2.13 and
 * gloo; of the operators it has only the first three of three actions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/input.h"
#include "base/text.h"
#include "planning/trace/json_scan.h"
#include "weft/sim.h"
#include "weft/trace.h"

/* One complete event of a profile. */
#define EVENT(cat, name, tid, ts, dur)                                                         \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" tid           \
    ",\"ts\":" ts ",\"dur\":" dur "}"
#define PP(cell, ts, dur) EVENT("user_annotation", "PP:" cell, "7", ts, dur)
#define OP(ts) EVENT("cpu_op", "aten::mm", "7", ts, "1")
#define RECEIVE(ts, dur) EVENT("user_annotation", "gloo:recv", "7", ts, dur)
#define FILE_OF(rank, base, events)                                                            \
    "{\"schemaVersion\":1,\"distributedInfo\":{\"backend\":\"gloo\",\"rank\":" rank            \
    "},\"baseTimeNanoseconds\":" base ",\"traceEvents\":[" events "]}"

static enum weft_status read_profiles(const char *const *texts, size_t n,
                                      struct weft_trace *out, struct weft_error *err)
{
    struct weft_kineto *k = NULL;
    assert_int_equal(weft_kineto_new(&k, NULL), WEFT_OK);
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; i < n && st == WEFT_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "file%zu", i);
        st = weft_kineto_add(k, texts[i], strlen(texts[i]), name, WEFT_NO_RANK, err);
    }
    if (st == WEFT_OK)
        st = weft_kineto_trace(k, -1, out, err);
    weft_kineto_free(k);
    return st;
}

static struct weft_trace profiles(const char *const *texts, size_t n)
{
    struct weft_trace t;
    struct weft_error err = {.msg = ""};
    if (read_profiles(texts, n, &t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return t;
}

/* Checks one event: "1 compute 1F0" with start and length. */
static void has_event(const struct weft_trace *t, const char *what, double start, double length)
{
    for (size_t i = 0; i < t->n_events; i++) {
        const struct weft_trace_event *e = &t->events[i];
        char text[128], a[WEFT_ACTION_TEXT_MAX], b[WEFT_ACTION_TEXT_MAX];
        weft_action_print(e->action, a);
        weft_action_print(e->partner, b);
        snprintf(text, sizeof text, "%u %s %s%s%s", e->rank, weft_lane_name(e->lane), a,
                 e->action.paired ? "&" : "", e->action.paired ? b : "");
        if (strcmp(text, what) != 0)
            continue;
        if (e->start != start || e->length != length)
            fail_msg("%s: %.17g %.17g, expected %.17g %.17g", what, e->start, e->length, start,
                     length);
        return;
    }
    fail_msg("no event %s", what);
}

/* The recorded profile.  Its first event, PP:1UNSHARD, starts at 4108074034116.201 us. */
static void recorded(void **state)
{
    char *text = NULL;
    size_t len = 0, n[WEFT_LANE_COUNT] = {0};
    struct weft_trace t;
    (void)state;
    assert_int_equal(wf_input_read(WEFT_TEST_DATA "/kineto_zb_v_rank1.json", &text, &len, NULL),
                     WEFT_OK);
    t = profiles((const char *const[]){text}, 1);
    free(text);

    /* Rank 0 has no file, and with it stage 0 is missing: rank 1 keeps its number. */
    assert_int_equal(t.n_ranks, 2);
    assert_int_equal(t.n_stages, 3);
    assert_int_equal(t.n_micros, 8);
    assert_true(t.unit_seconds == 1e-9);
    assert_string_equal(t.name, "torch");
    for (size_t i = 0; i < t.n_events; i++)
        n[t.events[i].lane]++;
    assert_int_equal(n[WEFT_LANE_COMPUTE], 48); /* F, I and W of 2 stages and 8 micros */
    assert_int_equal(n[WEFT_LANE_SEND], 16);
    assert_int_equal(n[WEFT_LANE_RECV], 16);
    assert_int_equal(n[WEFT_LANE_COLLECTIVE], 6);
    assert_int_equal(n[WEFT_LANE_WAIT], 16); /* one for each receive */

    has_event(&t, "1 collective 1UNSHARD", 0, 80028);
    /* The annotation starts at ..57774.421, its first operator at ..61690.846 and its end is at
     * ..79436.242. */
    has_event(&t, "1 wait 1F0", 23658220, 3916425);
    has_event(&t, "1 compute 1F0", 27574645, 17745396);
    /* Posted at ..57567.324; gloo:recv ends at ..57695.494 + 3829.426. */
    has_event(&t, "1 receive 1RECV_F0", 23451123, 3957596);
    /* Without operators, and no receive ends inside. */
    has_event(&t, "1 compute 2F0", 53245649, 15678101);
    has_event(&t, "1 send 2SEND_F0", 68960294, 8393783);
    /* Without operators: from ..111652.328 until gloo:recv ends at ..87217.787 + 24463.584. */
    has_event(&t, "1 wait 1F1", 77536127, 29043);
    has_event(&t, "1 compute 1F1", 77565170, 19268353);
    has_event(&t, "1 compute 2I0", 150550311, 17159677);
    has_event(&t, "1 collective 1RESHARD", 2582354591, 25157);
    assert_true(t.makespan == 2582379748);
    weft_trace_release(&t);
}

/* Two ranks with different base times.  0F0 ends at 13 us; 1F0 waits from 3 us on and starts
 * when its receive ends, at 16 us.  1B0 ends at 30 us; 0B0 waits from 20 us to its operator. */
static const char *const two_ranks[] = {
    FILE_OF("0", "2000",
            OP("1") "," PP("0F0", "1", "10") "," PP("0SEND_F0", "11", "0.5") "," PP(
                "0B0", "18", "25") "," OP("30.25") "," OP("31")),
    FILE_OF("1", "0",
            PP("1RECV_F0", "1", "1") "," RECEIVE("1.5", "14.5") "," PP("1F0", "3", "20") "," PP(
                "1B0", "23", "7") "," PP("1REDUCE_GRAD", "30",
                                         "2") "," PP("1WAIT_SEND_B0", "32",
                                                     "1.5") "," PP("1WAIT_REDUCE_GRAD", "33.5",
                                                                   "0.001")),
};

static void two_files(void **state)
{
    const char *const reversed[] = {two_ranks[1], two_ranks[0]};
    struct weft_trace t;
    (void)state;
    for (int order = 0; order < 2; order++) {
        t = profiles(order == 0 ? two_ranks : reversed, 2);
        assert_int_equal(t.n_ranks, 2);
        assert_int_equal(t.n_micros, 1);
        /* Time 0 is the start of 0F0 at 3 us.  1RECV_F0 was posted at 1 us. */
        has_event(&t, "1 receive 1RECV_F0", 0, 13000);
        has_event(&t, "0 compute 0F0", 0, 10000);
        has_event(&t, "0 send 0SEND_F0", 10000, 500);
        has_event(&t, "1 wait 1F0", 0, 13000);
        has_event(&t, "1 compute 1F0", 13000, 7000);
        has_event(&t, "0 wait 0B0", 17000, 12250);
        has_event(&t, "0 compute 0B0", 29250, 12750);
        has_event(&t, "1 collective 1REDUCE_GRAD", 27000, 2000);
        has_event(&t, "1 wait 1SEND_B0", 29000, 1500);
        has_event(&t, "1 wait 1REDUCE_GRAD", 30500, 1);
        assert_int_equal(t.n_events, 11);
        weft_trace_release(&t);
    }
}

/* The hops are 16 - 13 and 32.25 - 30 us. */
static void measured_costs(void **state)
{
    struct weft_trace t = profiles(two_ranks, 2);
    struct weft_cost_spread s;
    (void)state;
    assert_int_equal(weft_cost_spread_init(&s, &t, NULL), WEFT_OK);
    assert_int_equal(s.n_stages, 2);
    assert_int_equal(s.hop.n, 2);
    assert_true(s.hop.mean == 2625 && s.hop.min == 2250 && s.hop.median == 2625 &&
                s.hop.max == 3000);
    assert_true(s.f[0].n == 1 && s.f[0].mean == 10000 && s.f[1].max == 7000);
    assert_true(s.b[0].min == 12750 && s.b[1].median == 7000);
    assert_true(s.i[0].n == 0 && s.w[1].n == 0 && s.fb[0].n == 0 && s.i[0].mean == 0);
    weft_cost_spread_release(&s);
    weft_trace_release(&t);
}

/* Rank 0 of a pipeline whose I of stage 0 is empty, and a pair. */
static void first_stage(void **state)
{
    const char *const text = FILE_OF(
        "0", "0",
        PP("0F0", "0", "10") "," PP("1F0", "10", "10") "," PP("1I0", "20", "11") "," PP(
            "1W0", "31",
            "9") "," PP("0I0", "40",
                        "0.1") "," PP("0W0", "41",
                                      "21") "," PP("0F1", "62",
                                                   "12") "," PP("(1F1;0B0)OVERLAP_F_B", "74",
                                                                "30") "," PP("1B1", "104",
                                                                             "18") "," PP("0F2",
                                                                                          "122",
                                                                                          "14"));
    struct weft_trace t = profiles(&text, 1);
    struct weft_measured_cost m;
    struct weft_cost_spread s;
    (void)state;
    has_event(&t, "0 compute 1F1&0B0", 74000, 30000);
    assert_int_equal(weft_measured_cost_init(&m, &t, NULL), WEFT_OK);
    assert_true(m.i[0] == 100 && m.w[0] == 21000);
    assert_true(m.i[1] == 11000 && m.w[1] == 9000 && m.b[1] == 18000);
    assert_true(m.f[0] == 12000 && m.fb[1] == 30000);
    weft_measured_cost_release(&m);
    assert_int_equal(weft_cost_spread_init(&s, &t, NULL), WEFT_OK);
    assert_true(s.fb[1].n == 1 && s.fb[1].mean == 30000 && s.fb[0].n == 0 && s.hop.n == 0);
    assert_true(s.f[0].n == 3 && s.f[0].min == 10000 && s.f[0].median == 12000 &&
                s.f[0].max == 14000);
    weft_cost_spread_release(&s);
    weft_trace_release(&t);
}

/* With FSDP, operators that gather the parameters run before the wait.  The work starts with the
 * first operator after the receive.  In a pair, the receive may be that of its second half. */
static void operators_before_a_wait(void **state)
{
    const char *const text = FILE_OF(
        "0", "0",
        RECEIVE("0.5", "9.5") "," PP("0F0", "1", "19") "," OP("2") "," OP("11.5") "," OP("12") "," RECEIVE(
            "20",
            "15") "," PP("(0F1;0B0)OVERLAP_F_B", "21",
                         "29") "," OP("22") "," OP("36") "," RECEIVE("50",
                                                                     "10") "," PP("0B1", "51",
                                                                                  "19") "," OP("52"));
    struct weft_trace t = profiles(&text, 1);
    (void)state;
    has_event(&t, "0 wait 0F0", 0, 10500);
    has_event(&t, "0 compute 0F0", 10500, 8500);
    has_event(&t, "0 wait 0F1&0B0", 20000, 1000);
    has_event(&t, "0 compute 0F1&0B0", 21000, 28000);
    has_event(&t, "0 compute 0B1", 59000, 10000); /* no operator after the receive */
    weft_trace_release(&t);
}

#define STEP(at) PP("0F0", at "0", "5") "," PP("0B0", at "6", "3")

static void last_complete_step(void **state)
{
    /* Three steps; the third ends after its forward. */
    const char *const text =
        FILE_OF("0", "0", STEP("1") "," STEP("3") "," PP("0F0", "50", "5"));
    /* The window starts in the middle of a step: the first B0 belongs to no F0. */
    const char *const cut =
        FILE_OF("0", "0", PP("0B0", "6", "3") "," STEP("1") "," PP("0F0", "50", "5"));
    struct weft_error err = {.msg = ""};
    struct weft_trace t = profiles(&text, 1);
    (void)state;
    has_event(&t, "0 compute 0F0", 0, 5000);
    has_event(&t, "0 compute 0B0", 6000, 3000);
    assert_int_equal(t.n_events, 2);
    weft_trace_release(&t);
    assert_int_equal(read_profiles(&cut, 1, &t, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "no complete step"));
}

#define GPU(cell, stream, ts, dur)                                                             \
    "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"PP:" cell                        \
    "\",\"pid\":0,\"tid\":" stream ",\"ts\":" ts ",\"dur\":" dur "}"

static void kernels(void **state)
{
    /* The longest stream counts, and the kernels of a step start after its annotation. */
    const char *const text = FILE_OF(
        "0", "0",
        GPU("0F0", "7", "112", "20") "," GPU("0F0", "9", "113", "2") "," STEP("1") "," OP(
            "12") "," STEP("10") "," OP("102") "," GPU("0F0", "7", "12", "4"));
    const char *const gpu_only =
        FILE_OF("0", "0", GPU("0F0", "7", "112", "20") "," GPU("0B0", "7", "140", "2.5"));
    struct weft_trace t = profiles(&text, 1);
    (void)state;
    /* The step starts with the annotation of 0B0 at 106 us. */
    has_event(&t, "0 compute 0F0", 6000, 20000);
    has_event(&t, "0 compute 0B0", 0, 3000);
    assert_int_equal(t.n_events, 2);
    weft_trace_release(&t);
    t = profiles(&gpu_only, 1);
    has_event(&t, "0 compute 0F0", 0, 20000);
    has_event(&t, "0 compute 0B0", 28000, 2500);
    weft_trace_release(&t);
}

static void ranks(void **state)
{
    /* All stages are present: the ranks 1 and 3 of the world are the ranks 0 and 1. */
    const char *const mesh[] = {FILE_OF("3", "0", PP("1F0", "2", "1")),
                                FILE_OF("1", "0", PP("0F0", "1", "1"))};
    /* Without distributedInfo the order of the files counts. */
    const char *const plain[] = {"{\"traceEvents\":[" PP("0F0", "1", "1") "]}",
                                 "{\"traceEvents\":[" PP("1F0", "2", "1") "]}"};
    struct weft_kineto *k = NULL;
    struct weft_trace t = profiles(mesh, 2);
    (void)state;
    assert_int_equal(t.n_ranks, 2);
    has_event(&t, "0 compute 0F0", 0, 1000);
    has_event(&t, "1 compute 1F0", 1000, 1000);
    weft_trace_release(&t);
    t = profiles(plain, 2);
    has_event(&t, "1 compute 1F0", 1000, 1000);
    weft_trace_release(&t);

    /* A rank of the caller overrides that of the file. */
    assert_int_equal(weft_kineto_new(&k, NULL), WEFT_OK);
    assert_int_equal(weft_kineto_add(k, mesh[0], strlen(mesh[0]), "a", 0, NULL), WEFT_OK);
    assert_int_equal(weft_kineto_add(k, mesh[1], strlen(mesh[1]), "b", 1, NULL), WEFT_OK);
    assert_int_equal(weft_kineto_trace(k, -1, &t, NULL), WEFT_OK);
    has_event(&t, "0 compute 1F0", 1000, 1000);
    weft_trace_release(&t);
    weft_kineto_free(k);
}

static void several_steps(void **state)
{
    static const struct {
        int64_t step;
        double length; /* 0: there is no such step */
    } cases[] = {{0, 1000}, {1, 2000}, {2, 3000}, {3, 0}, {-1, 3000}, {-3, 1000}, {-4, 0}};
    const char *text = "{\"traceEvents\":[" PP("0F0", "1", "1") "," PP("0F0", "10", "2") "," PP(
        "0F0", "20", "3") "]}";
    struct weft_kineto *k = NULL;
    (void)state;
    assert_int_equal(weft_kineto_new(&k, NULL), WEFT_OK);
    assert_int_equal(weft_kineto_add(k, text, strlen(text), "a", 0, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_error err;
        struct weft_trace t;
        enum weft_status st = weft_kineto_trace(k, cases[i].step, &t, &err);
        if (cases[i].length == 0) {
            assert_int_equal(st, WEFT_DATA);
            assert_non_null(strstr(err.msg, "complete steps: 3"));
            continue;
        }
        assert_int_equal(st, WEFT_OK);
        has_event(&t, "0 compute 0F0", 0, cases[i].length);
        weft_trace_release(&t);
    }
    weft_kineto_free(k);
}

static void rejected(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "byte 1: the JSON text is incomplete; expected an object"},
        {"[1]", "byte 1: expected an object"},
        {"{\"a\":1}", "no traceEvents"},
        {"{\"a\":1} x", "byte 9: expected the end of the text"},
        {"{\"traceEvents\":[]}", "no annotations such as PP:0F0"},
        {"{\"traceEvents\":[1]}", "byte 17: expected an object, {"},
        {"{\"traceEvents\":[" PP("0X0", "1", "1") "]}", "no annotations"},
        {"{\"traceEvents\":[" PP("0WAIT_F0", "1", "1") "]}", "no annotations"},
        {"{\"traceEvents\":[" PP("0F0", "\"x\"", "1") "]}", "the times of PP:0F0"},
        {"{\"traceEvents\":[" PP("0F0", "1", "-1") "]}", "the times of PP:0F0"},
        {"{\"traceEvents\":[" PP("0F0", "9e15", "9e15") "]}", "the times of PP:0F0"},
        {"{\"traceEvents\":[" PP("0F0", "1", "1") "," PP("0F1", "1e14", "1") "]}",
         "a time is out of range"},
        {"{\"traceEvents\":[" PP("5F0", "1", "1") "]}", "6 stages, but only 1 events"},
        {"{\"traceEvents\":[" PP("0F4000000000", "1", "1") "]}", "but only 1 events"},
        {FILE_OF("-1", "0", PP("0F0", "1", "1")), "distributedInfo.rank is not"},
        {FILE_OF("0", "\"a\"", PP("0F0", "1", "1")), "baseTimeNanoseconds is not"},
        {FILE_OF("0", "9223372036854775807", PP("0F0", "1", "1")), "a time is out of range"},
        {"{\"traceEvents\":[{\"ph\":\"X\",}]}", "expected a key in quotes"},
        {"{\"traceEvents\":[{\"ph\" \"X\"}]}", "expected : after a key"},
        {"{\"traceEvents\":[{\"ph\":}]}", "expected a value"},
        {"{\"traceEvents\":[{} {}]}", "expected , or ]"},
        {"{\"traceEvents\":[{\"name\":\"a\\\"]}", "the closing quote of a string"},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_error err = {.msg = ""};
        struct weft_trace t;
        if (read_profiles(&cases[i].text, 1, &t, &err) != WEFT_DATA ||
            strstr(err.msg, cases[i].message) == NULL)
            fail_msg("case %zu: '%s', expected '%s'", i, err.msg, cases[i].message);
    }

    const char *const twice[] = {two_ranks[0], two_ranks[0]};
    struct weft_error err = {.msg = ""};
    struct weft_trace t;
    assert_int_equal(read_profiles(twice, 2, &t, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "file1: rank 0 is also the rank of file0"));
}

/* Every RECV contains every receive: reading takes n log n steps, not n * n, which would take
 * minutes. */
static void overlapping_receives(void **state)
{
    enum { N = 500000, HANG_SECONDS = 200 };
    struct wf_text text = {0};
    (void)state;
    wf_text_adds(&text, "{\"traceEvents\":[");
    for (int i = 0; i < N; i++)
        wf_text_adds(&text, RECEIVE("1", "1") "," PP("0RECV_F0", "0", "9") ",");
    wf_text_adds(&text, PP("0F0", "0", "9") "]}");
    assert_false(text.failed);

    struct weft_kineto *k = NULL;
    assert_int_equal(weft_kineto_new(&k, NULL), WEFT_OK);
    alarm(HANG_SECONDS);
    assert_int_equal(weft_kineto_add(k, text.at, text.len, "file", WEFT_NO_RANK, NULL),
                     WEFT_OK);
    alarm(0);
    weft_kineto_free(k);
    wf_text_release(&text);
}

/* A RECV ends with the last of the receives that start inside it, whatever their order. */
static void extended_receives(void **state)
{
    const char *const text =
        FILE_OF("0", "0",
                PP("0F0", "0", "1") "," RECEIVE("5", "1") "," RECEIVE("2", "8") "," RECEIVE(
                    "3", "4") "," RECEIVE("6", "30") "," PP("0RECV_F1", "2",
                                                            "3") "," PP("0B0", "50", "1"));
    struct weft_trace t = profiles(&text, 1);
    (void)state;
    has_event(&t, "0 receive 0RECV_F1", 2000, 8000); /* to 10: not the one that starts at 6 */
    weft_trace_release(&t);
}

/* Nested values are skipped up to the limit. */
static void nesting(void **state)
{
    (void)state;
    for (int depth = WF_SCAN_MAX_DEPTH - 4; depth <= WF_SCAN_MAX_DEPTH; depth++) {
        struct wf_text text = {0};
        for (int i = 0; i < depth; i++)
            wf_text_adds(&text, i % 2 == 0 ? "[" : "{\"a\":");
        wf_text_adds(&text, "[1,\"]\",{}]");
        for (int i = depth; i-- > 0;)
            wf_text_adds(&text, i % 2 == 0 ? "]" : "}");
        struct wf_scan s = {"t", text.at, text.at, text.at + text.len, NULL};
        bool fits = depth + 2 <= WF_SCAN_MAX_DEPTH; /* the array and the object inside */
        assert_int_equal(wf_scan_skip(&s), fits ? WEFT_OK : WEFT_DATA);
        assert_int_equal(*s.at == '\0', fits);
        wf_text_release(&text);
    }
}

static void decimals(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t value; /* times 1000 */
    } cases[] = {
        {"4108074051493.491", true, 4108074051493491},
        {"0.0005", true, 1},
        {"0.0004999", true, 0},
        {"-2.5", true, -2500},
        {"1e3", true, 1000000},
        {"1.5E-2", true, 15},
        {"12345.6785", true, 12345679},
        {"0.00000000000000000000000000000001", true, 0},
        {"1e-400", true, 0},
        {"0e900", true, 0},
        {"9223372036854775.807", true, INT64_MAX},
        {"9223372036854775.808", false, 0},
        {"99999999999999999999", false, 0},
        {"1e900", false, 0},
        {"1e99999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {".", false, 0},
        {"1.2.3", false, 0},
        {"1e", false, 0},
        {"0x10", false, 0},
        {"NaN", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        int64_t value = 0;
        struct wf_scan_text t = {cases[i].text, strlen(cases[i].text)};
        if (wf_scan_decimal(t, 3, &value) != cases[i].ok || value != cases[i].value)
            fail_msg("%s: %lld", cases[i].text, (long long)value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded),
        cmocka_unit_test(two_files),
        cmocka_unit_test(measured_costs),
        cmocka_unit_test(first_stage),
        cmocka_unit_test(operators_before_a_wait),
        cmocka_unit_test(last_complete_step),
        cmocka_unit_test(several_steps),
        cmocka_unit_test(kernels),
        cmocka_unit_test(ranks),
        cmocka_unit_test(rejected),
        cmocka_unit_test(overlapping_receives),
        cmocka_unit_test(extended_receives),
        cmocka_unit_test(nesting),
        cmocka_unit_test(decimals),
    };
    return cmocka_run_group_tests_name("kineto", tests, NULL, NULL) != 0;
}
