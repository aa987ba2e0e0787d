/* Tests the text form of traces: round trips bit for bit, and errors with line and column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "weft/trace.h"

#define HEAD "# weft trace 1\n# weft ranks 1 stages 1 micros 1\n"

static struct bad_case {
    const char *name, *text, *error;
} bad_cases[] = {
    {"empty", "", "begin with '# weft trace 1'"},
    {"no version", "# weft ranks 1 stages 1 micros 1\n", "t:1:8: the first header line must"},
    {"other version", "# weft trace 2\n", "t:1:14: unsupported version of the trace format"},
    {"a header twice", "# weft trace 1\n# weft trace 1\n", "t:2:8: 'trace' is given twice"},
    {"unknown header", "# weft trace 1\n# weft color red\n", "t:2:8: unknown header 'color'"},
    {"no sizes", "# weft trace 1\n0 compute 0F0 0 1\n",
     "t:2:1: missing header before the events"},
    {"no ranks", "# weft trace 1\n# weft ranks 0 stages 1 micros 1\n", "t:2:14: ranks"},
    {"truncated sizes", "# weft trace 1\n# weft ranks 1 stages 1\n", "t:2:24: expected"},
    {"only a header", HEAD, "no events"},
    {"more ranks than events",
     "# weft trace 1\n# weft ranks 4000000000 stages 1 micros 1\n0 compute 0F0 0 1\n",
     "t:2:1: 4000000000 ranks, but only 1 events"},
    {"a name too long",
     "# weft trace 1\n# weft name 0123456789012345678901234567890123456789012345678901234567890123"
     "\n",
     "t:2:13: the name must have 1 to 63"},
    {"a name that is not text", "# weft trace 1\n# weft name a\001b\n",
     "t:2:14: the name is not printable"},
    {"header after events", HEAD "0 compute 0F0 0 1\n# weft name x\n", "t:4:8: header lines"},
    {"rank", HEAD "1 compute 0F0 0 1\n", "t:3:1: rank 1 is out of range"},
    {"no rank", HEAD "x compute 0F0 0 1\n", "t:3:1: rank: 'x' is not a whole number"},
    {"rank too large", HEAD "99999999999 compute 0F0 0 1\n", "t:3:1: rank: 99999999999 is too"},
    {"stage", HEAD "0 compute 1F0 0 1\n", "t:3:1: 1F0 is out of range (1 stages"},
    {"micro", HEAD "0 compute 0F1 0 1\n", "t:3:1: 0F1 is out of range (1 stages, 1 micros"},
    {"lane", HEAD "0 disk 0F0 0 1\n", "t:3:3: 'disk' is not one of compute"},
    {"kind in a wrong lane", HEAD "0 send 0F0 0 1\n", "0F0 does not belong to lane send"},
    {"wait of a receive", HEAD "0 wait 0RECV_F0 0 1\n",
     "0RECV_F0 does not belong to lane wait"},
    {"collective", HEAD "0 collective 0F0 0 1\n", "0F0 does not belong to lane collective"},
    {"no action", HEAD "0 compute 0X0 0 1\n", "t:3:11: '0X0 0 1' is not an action"},
    {"half a pair", HEAD "0 compute (0F0;0B0) 0 1\n", "t:3:19: an overlapped pair ends in"},
    {"a pair of two F", HEAD "0 compute (0F0;0F0)OVERLAP_F_B 0 1\n", "t:3:11: an overlapped"},
    {"no blank after the action", HEAD "0 compute 0F0x 0 1\n", "t:3:14: a blank must follow"},
    {"no start", HEAD "0 compute 0F0\n", "t:3:14: start is missing"},
    {"no length", HEAD "0 compute 0F0 0\n", "t:3:16: length is missing"},
    {"negative start", HEAD "0 compute 0F0 -1 1\n", "t:3:15: start: -1 is out of range"},
    {"negative length", HEAD "0 compute 0F0 0 -0.5\n", "t:3:17: length: -0.5 is out of range"},
    {"nan", HEAD "0 compute 0F0 nan 1\n", "t:3:15: start: 'nan' is not a number"},
    {"inf", HEAD "0 compute 0F0 0 inf\n", "t:3:17: length: 'inf' is not a number"},
    {"too large", HEAD "0 compute 0F0 0 1e999\n", "t:3:17: length: 1e999 is out of range"},
    {"an end too large", HEAD "0 compute 0F0 1e308 1e308\n", "t:3:1: 0F0 starts at 1e+308"},
    {"hex", HEAD "0 compute 0F0 0x1 1\n", "t:3:15: start: '0x1' is not a number"},
    {"bytes", HEAD "0 send 0SEND_F0 0 1 -3\n", "t:3:21: bytes: '-3' is not a whole number"},
    {"peer", HEAD "0 send 0SEND_F0 0 1 8 1\n", "t:3:1: 0SEND_F0: peer 1 is out of range"},
    {"too many fields", HEAD "0 send 0SEND_F0 0 1 8 0 9\n",
     "t:3:25: unexpected '9' at the end"},
    {"memory of no rank", HEAD "7 memory 0 1\n", "t:3:1: rank 7"},
    {"memory without amount", HEAD "0 memory 0\n", "t:3:11: amount is missing"},
    {"unit", "# weft trace 1\n# weft unit -1\n", "t:2:13: unit: -1 is out of range"},
};

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    struct weft_trace t;
    struct weft_error err = {0};
    /* A copy of the exact length, so that a sanitizer detects a read past the end. */
    size_t len = strlen(c->text);
    char *text = malloc(len + (len == 0));
    assert_non_null(text);
    memcpy(text, c->text, len);
    assert_int_equal(weft_trace_parse(text, len, "t", &t, &err), WEFT_DATA);
    if (strstr(err.msg, c->error) == NULL)
        fail_msg("'%s' lacks '%s'", err.msg, c->error);
    assert_int_equal(err.status, WEFT_DATA);
    free(text);
}

static void require_same(const struct weft_trace *a, const struct weft_trace *b)
{
    assert_string_equal(a->name, b->name);

    assert_int_equal(a->n_ranks, b->n_ranks);
    assert_int_equal(a->n_stages, b->n_stages);
    assert_int_equal(a->n_micros, b->n_micros);
    assert_int_equal(a->n_chunks, b->n_chunks);
    assert_true(a->unit_seconds == b->unit_seconds && a->makespan == b->makespan);
    assert_int_equal(a->n_events, b->n_events);

    for (size_t i = 0; i < a->n_events; i++) {
        const struct weft_trace_event *x = &a->events[i], *y = &b->events[i];
        assert_true(x->start == y->start && x->length == y->length);
        assert_true(x->rank == y->rank && x->lane == y->lane && x->peer == y->peer &&
                    x->bytes == y->bytes);
        assert_memory_equal(&x->action, &y->action, sizeof x->action);
        assert_memory_equal(&x->partner, &y->partner, sizeof x->partner);
    }
    assert_int_equal(a->n_memory, b->n_memory);

    for (size_t i = 0; i < a->n_memory; i++)
        assert_true(a->memory[i].time == b->memory[i].time &&
                    a->memory[i].amount == b->memory[i].amount &&
                    a->memory[i].rank == b->memory[i].rank);
}

static void round_trip(const struct weft_trace *t)
{
    char *text = NULL;
    size_t len = 0;
    struct weft_trace again;
    struct weft_error err = {0};
    assert_int_equal(weft_trace_write(t, &text, &len, NULL), WEFT_OK);
    assert_true(weft_trace_detect(text, len));
    if (weft_trace_parse(text, len, "again", &again, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    require_same(t, &again);
    weft_trace_release(&again);
    free(text);
}

static void plans_round_trip(void **state)
{
    static const char *const names[] = {"1f1b", "zb-v", "dualpipe", "interleaved-1f1b"};
    static const double third = 1.0 / 3, f[] = {0.1};
    const struct weft_cost cost = {.f = {f, 1}, .i = {&third, 1}, .hop = 0.7};
    const struct weft_memory_cost memory = {0};
    (void)state;

    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        struct weft_gen_params params = {.ranks = 4, .micros = 8};
        struct weft_schedule *s = NULL;
        struct weft_metrics m;
        struct weft_trace t;
        assert_int_equal(weft_schedule_generate(names[i], &params, &s, NULL), WEFT_OK);
        assert_int_equal(weft_metrics_init(&m, s, &cost, &memory, NULL), WEFT_OK);
        assert_int_equal(weft_trace_init_plan(&t, s, &m, &memory, NULL), WEFT_OK);
        assert_string_equal(t.name, names[i]);
        assert_true(t.makespan == m.makespan);
        assert_int_equal(t.n_chunks, weft_schedule_n_chunks(s));
        for (size_t k = 0; k < t.n_events; k++)
            assert_int_equal(
                weft_trace_chunk(&t, t.events[k].rank, t.events[k].action.stage),
                weft_schedule_chunk(s, t.events[k].rank, t.events[k].action.stage));
        double peak[4] = {0};
        for (size_t k = 0; k < t.n_memory; k++)
            if (t.memory[k].amount > peak[t.memory[k].rank])
                peak[t.memory[k].rank] = t.memory[k].amount;
        for (uint32_t r = 0; r < 4; r++)
            assert_true(strcmp(names[i], "dualpipe") == 0 || peak[r] == m.peak_mem[r]);
        round_trip(&t);
        weft_trace_release(&t);
        weft_metrics_release(&m);
        weft_schedule_free(s);
    }
}

/* Events in random order are sorted by rank, lane and start; equal starts keep their order. */
static void any_order(void **state)
{
    struct weft_trace t;
    (void)state;

    assert_int_equal(weft_trace_init(&t, " a <b>\tname \n", 5, 3, 1000, 1e-9, NULL), WEFT_OK);
    assert_string_equal(t.name, "a <b>?name ?");
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t dice = wf_random_below(1, 2, i, 15);
        enum weft_lane lane = (enum weft_lane)(dice % 3);
        static const unsigned kinds[] = {WEFT_ACT_F, WEFT_ACT_SEND_B, WEFT_ACT_RECV_F};
        struct weft_trace_event e = {
            .start = wf_random_below(1, 3, i, 40) / 7.0,
            .length = wf_random_below(1, 4, i, 9) / 11.0,
            .rank = dice / 3,
            .lane = lane,
            .action = {.micro = i, .stage = i % 3, .kind = kinds[lane] & 0x7f},
            .bytes = lane == WEFT_LANE_COMPUTE ? 0 : UINT64_MAX - i,
            .peer = lane == WEFT_LANE_COMPUTE ? WEFT_NO_RANK : i % 5};
        assert_int_equal(weft_trace_add_event(&t, &e, NULL), WEFT_OK);
        struct weft_trace_memory sample = {e.start, -0.5 * i, i % 5};
        assert_int_equal(weft_trace_add_memory(&t, &sample, NULL), WEFT_OK);
    }
    assert_int_equal(weft_trace_finish(&t, NULL), WEFT_OK);

    for (size_t i = 1; i < t.n_events; i++) {
        const struct weft_trace_event *a = &t.events[i - 1], *b = &t.events[i];
        assert_true(a->rank <= b->rank);
        if (a->rank != b->rank)
            continue;
        assert_true(a->lane <= b->lane);
        if (a->lane == b->lane)
            assert_true(a->start < b->start ||
                        (a->start == b->start && a->action.micro < b->action.micro));
    }

    for (uint32_t r = 0; r < 5; r++)
        for (size_t i = t.first[r]; i < t.first[r + 1]; i++)
            assert_int_equal(t.events[i].rank, r);
    round_trip(&t);
    weft_trace_release(&t);
}

static void detected(void **state)
{
    (void)state;
    assert_true(weft_trace_detect("\n \r\n#weft trace 1", 16));
    assert_false(weft_trace_detect("# weft schedule 1\n", 18));
    assert_false(weft_trace_detect("0F0,0B0\n", 8));
    assert_false(weft_trace_detect("", 0));
    assert_false(weft_trace_detect("# weft trace", 8));
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(bad_cases) + 3];
    size_t n = 0;
    for (; n < WEFT_LEN(bad_cases); n++)
        tests[n] = (struct CMUnitTest){bad_cases[n].name, check_bad, NULL, NULL, &bad_cases[n]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(plans_round_trip);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(any_order);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(detected);
    return cmocka_run_group_tests_name("trace text", tests, NULL, NULL) != 0;
}
