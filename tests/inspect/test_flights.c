/* Checks which rank is reported as lost, from records of ranks that are done, failed, running,
 * gone or on other hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/inspect/flights.h"

enum { N = 3, NOW_S = 1000, TIMEOUT_S = 60, NO_PID = 0x7fffffff, NONE = -1 };

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

struct rank_case {
    enum weft_flight_state state;
    bool alive, away;
    int64_t last_ns;
    uint32_t waits_for;
    int64_t interval_ns;
};

static struct lost_case {
    const char *name;
    struct rank_case ranks[N];
    int lost;
    bool may_be_lost[N];
} cases[] = {
    {"all done",
     {{WEFT_FLIGHT_DONE, 0, 0, 1 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_DONE, 0, 0, 2 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_DONE, 0, 0, 3 * SECOND, UINT32_MAX, 2 * MS}},
     NONE,
     {0}},
    {"all running",
     {{WEFT_FLIGHT_RUNNING, true, 0, 999 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_RUNNING, true, 0, 999 * SECOND, 0, 2 * MS},
      {WEFT_FLIGHT_RUNNING, true, 0, 998 * SECOND, 1, 2 * MS}},
     NONE,
     {0}},
    {"one process is gone",
     {{WEFT_FLIGHT_RUNNING, true, 0, 900 * SECOND, 1, 2 * MS},
      {WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_FAILED, false, 0, 800 * SECOND, UINT32_MAX, 2 * MS}},
     1,
     {0}},
    {"the oldest heartbeat of several that are gone",
     {{WEFT_FLIGHT_RUNNING, false, 0, 952 * SECOND, 1, 2 * MS},
      {WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_RUNNING, false, 0, 951 * SECOND, UINT32_MAX, 2 * MS}},
     1,
     {0}},
    {"heartbeats that are too close",
     {{WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND + 2 * MS, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND + 3 * MS, 1, 2 * MS}},
     1,
     {true, false, true}}, /* rank 2 waits for the lost rank, but may have been killed then */
    {"late heartbeats on a busy machine",
     {{WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND + 30 * MS, 1, 2 * MS},
      {WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND, UINT32_MAX, 20 * MS},
      {WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND + 41 * MS, UINT32_MAX, 20 * MS}},
     1,
     {true, false, false}},
    {"an interval that is out of range",
     {{WEFT_FLIGHT_RUNNING, false, 0, 951 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_RUNNING, false, 0, 950 * SECOND, UINT32_MAX, INT64_MAX},
      {WEFT_FLIGHT_RUNNING, false, 0, 953 * SECOND, UINT32_MAX, INT64_MIN}},
     1,
     {true, false, false}},
    {"a rank on another host is silent for too long",
     {{WEFT_FLIGHT_RUNNING, true, 0, 999 * SECOND, 2, 2 * MS},
      {WEFT_FLIGHT_RUNNING, true, 0, 999 * SECOND, 2, 2 * MS},
      {WEFT_FLIGHT_RUNNING, false, true, 900 * SECOND, UINT32_MAX, 2 * MS}},
     2,
     {0}},
    {"a rank hangs, and another one has failed",
     {{WEFT_FLIGHT_FAILED, false, 0, 999 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_RUNNING, true, 0, 990 * SECOND, UINT32_MAX, 2 * MS},
      {WEFT_FLIGHT_RUNNING, true, 0, 995 * SECOND, 1, 2 * MS}},
     1,
     {0}},
};

static void check_lost(void **state)
{
    const struct lost_case *c = *state;
    struct weft_flight at[N] = {0};
    enum wf_fate fates[N];
    for (uint32_t i = 0; i < N; i++) {
        const struct rank_case *r = &c->ranks[i];
        at[i] = (struct weft_flight){.rank = i,
                                     .n_ranks = N,
                                     .state = r->state,
                                     .waits_for = r->waits_for,
                                     .time_ns = r->last_ns,
                                     .alive_ns = r->last_ns,
                                     .interval_ns = r->interval_ns,
                                     .pid = r->alive ? getpid() : NO_PID - (int)i};
        snprintf(at[i].host, sizeof at[i].host, "%s", r->away ? "there" : "here");
    }
    struct wf_flights f = {.at = at, .fates = fates, .n = N, .n_ranks = N};
    wf_flights_judge(&f, "here", NOW_S, TIMEOUT_S);
    assert_true(c->lost == NONE ? f.lost == SIZE_MAX : f.lost == (size_t)c->lost);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(wf_flights_may_be_lost(&f, i), c->may_be_lost[i]);
}

/* A rank without a recorded end ended with the process of the lost rank, or by the launcher. */
static void check_ending(void **state)
{
    struct weft_flight at[] = {{.pid = 7}, {.rank = 1, .pid = 7}, {.rank = 2, .pid = 8}};
    enum wf_fate fates[] = {WF_FATE_GONE, WF_FATE_GONE, WF_FATE_GONE};
    struct wf_flights f = {.at = at, .fates = fates, .n = 3, .n_ranks = 3, .lost = SIZE_MAX};
    assert_string_equal(wf_flights_ending(&f, 1), "ended unexpectedly");
    f.lost = 0;
    assert_string_equal(wf_flights_ending(&f, 1), "ended with its process");
    assert_string_equal(wf_flights_ending(&f, 2), "ended by the launcher");
    snprintf(at[1].host, sizeof at[1].host, "other");
    assert_string_equal(wf_flights_ending(&f, 1), "ended by the launcher");
    fates[2] = WF_FATE_FAILED;
    assert_string_equal(wf_flights_ending(&f, 2), "failed");
    (void)state;
}

static void check_malformed(void **state)
{
    struct folder dir = folder_new();
    struct wf_flights f;
    assert_int_equal(wf_flights_init(&f, dir.path, TIMEOUT_S, NULL), WEFT_OK);
    assert_true(f.n == 0 && f.lost == SIZE_MAX);
    wf_flights_release(&f);
    static const char *const names[] = {"0", "01", "notes"};
    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        FILE *out = fopen(folder_in(&dir, names[i]), "w");
        fputs("not a record", out);
        fclose(out);
        assert_int_equal(wf_flights_init(&f, dir.path, TIMEOUT_S, NULL), WEFT_DATA);
        remove(folder_in(&dir, names[i]));
    }
    folder_remove(&dir);
    assert_int_equal(wf_flights_init(&f, dir.path, TIMEOUT_S, NULL), WEFT_DATA);
    (void)state;
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 2];
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[i] = (struct CMUnitTest){cases[i].name, check_lost, NULL, NULL, &cases[i]};
    tests[WEFT_LEN(cases)] = (struct CMUnitTest)cmocka_unit_test(check_malformed);
    tests[WEFT_LEN(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(check_ending);
    return cmocka_run_group_tests_name("flights", tests, NULL, NULL) != 0;
}
