/* Checks stages that fail and a stage that takes too long: every rank ends or continues as
 * specified, with an error that names the action, and no freed memory is read. */
#include "weft/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/comm/comm_priv.h"
#include "table.h"
#include "tracer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { N_CASES = 30 };
#else
enum { N_CASES = 100 };
#endif

static const struct {
    const char *name;
    struct weft_gen_params params;
} schedules[] = {
    {"1f1b", {.ranks = 4, .micros = 6}},
    {"zb-h1", {.ranks = 3, .micros = 4}},
    {"interleaved-1f1b", {.ranks = 2, .micros = 4, .chunks = 3}},
    {"zb-v", {.ranks = 4, .micros = 4}},
    {"chimera", {.ranks = 4, .micros = 4}},
    {"dualpipe-v", {.ranks = 2, .micros = 4}},
    {"gpipe", {.ranks = 1, .micros = 3}},
};

struct case_ {
    struct weft_schedule *schedule; /* owned */
    struct tracer_model model;
    struct tracer_run run;
    uint32_t rank; /* the rank that fails */
};

/* Chooses a random schedule, and the call that fails. */
static void make_case(struct case_ *c, struct dice *d)
{
    size_t i = dice_below(d, WEFT_LEN(schedules));
    struct weft_schedule *s = NULL;

    assert_int_equal(weft_schedule_generate(schedules[i].name, &schedules[i].params, &s, NULL),
                     WEFT_OK);
    const struct weft_placement *place = weft_schedule_placement(s);
    *c = (struct case_){.schedule = s, .rank = dice_below(d, place->n_ranks)};
    tracer_model_init(&c->model, place, 2, d->stream);

    /* Any compute action of the rank fails. */
    struct weft_action_span row = weft_schedule_rank(s, c->rank);
    struct weft_action a;
    do
        a = row.at[dice_below(d, (uint32_t)row.len)];
    while (!weft_act_is_compute(a.kind));
    c->model.delays = dice_once_in(d, 2);
    c->model.event = (struct tracer_event){
        .on = true, .kind = a.kind, .stage = a.stage, .micro = a.micro, .step = 1};

    if (dice_once_in(d, 3)) {
        c->model.n_blocks = place->n_stages;
        c->model.row_elements = 6;
        for (uint32_t b = 0; b < place->n_stages; b++) {
            c->model.finished_by[b] = b;
            c->model.words[b] = 3;
        }
        for (uint32_t m = 0; m < place->n_micros; m++)
            c->model.rows[m] = 2;
    }

    c->run = (struct tracer_run){.schedule = s,
                                 .model = &c->model,
                                 .steps = 3,
                                 .cache = (enum weft_block_cache)dice_below(d, 3),
                                 .copying = (enum copying)dice_below(d, 3)};

    snprintf(c->run.label, sizeof c->run.label, "case %zu: %s, rank %u, %u%s%u",
             (size_t)d->stream, schedules[i].name, c->rank, (unsigned)a.stage,
             weft_act_name(a.kind), a.micro);
}

/* After a non-finite value or a data error the step is lost, and the next step works. */
static void test_continues(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < N_CASES; i++) {
        struct dice d = {.seed = 31, .stream = i};
        struct weft_error err = {.msg = ""};
        struct case_ c;

        make_case(&c, &d);
        struct tracer_event *event = &c.model.event;
        event->status = i % 4 == 0 ? WEFT_DATA : WEFT_NUMERIC;
        event->silent = i % 8 == 1;

        if (tracer_run(&c.run, 1, &err) != WEFT_OK)
            fail_msg("%s: %s", c.run.label, err.msg);
        for (uint32_t r = 0; r < weft_schedule_placement(c.schedule)->n_ranks; r++) {
            assert_int_equal(c.run.status[r], r == c.rank ? event->status : WEFT_OK);
            assert_int_equal(c.run.steps_done[r], 3);
        }

        assert_int_equal(c.run.failed_at[c.rank].stage, event->stage);
        assert_int_equal(c.run.failed_at[c.rank].micro, event->micro);
        assert_int_equal(c.run.err[c.rank].status, event->status);
        if (!event->silent)
            assert_non_null(strstr(c.run.err[c.rank].msg, "step 1 fails"));

        weft_schedule_free(c.schedule);
    }
}

/* Any other failure ends all ranks, except those that have finished all their steps. */
static void test_ends(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < N_CASES; i++) {
        struct dice d = {.seed = 32, .stream = i};
        struct weft_error err = {.msg = ""};
        struct case_ c;

        make_case(&c, &d);
        struct tracer_event *event = &c.model.event;
        event->status = WEFT_INTERNAL;
        event->silent = i % 8 == 1;
        event->step = i % 3;

        if (tracer_run(&c.run, 1, &err) != WEFT_INTERNAL ||
            (!event->silent && strstr(err.msg, " fails") == NULL))
            fail_msg("%s: %s", c.run.label, err.msg);

        for (uint32_t r = 0; r < weft_schedule_placement(c.schedule)->n_ranks; r++) {
            if (r != c.rank && c.run.status[r] == WEFT_OK && c.run.steps_done[r] == 3)
                continue;
            /* A rank that needs nothing more of this step may have started the next one. */
            if (c.run.status[r] != WEFT_INTERNAL || c.run.steps_done[r] > event->step + 1)
                fail_msg("%s: rank %u: %s", c.run.label, r, c.run.err[r].msg);
        }

        weft_schedule_free(c.schedule);
    }
}

/* If a call takes longer than the time-out, all ranks name its rank and its action. */
static void test_sleeps(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        struct weft_schedule *s = NULL;
        struct weft_error err = {.msg = ""};
        struct tracer_model model;
        char rank[64];

        assert_int_equal(weft_schedule_generate("1f1b", &schedules[0].params, &s, NULL),
                         WEFT_OK);
        tracer_model_init(&model, weft_schedule_placement(s), 2, i);
        model.event = (struct tracer_event){.on = true,
                                            .kind = i % 2 == 0 ? WEFT_ACT_F : WEFT_ACT_B,
                                            .stage = (uint32_t)i,
                                            .micro = 2,
                                            .step = 1,
                                            .sleep_ns = 2000000000};

        struct tracer_run run = {.schedule = s,
                                 .model = &model,
                                 .steps = 2,
                                 .timeout = 0.8,
                                 .copying = i == 3 ? COPYING_SOME_EAGER : COPYING_NONE};

        int64_t begin = wf_clock_ns();
        snprintf(rank, sizeof rank, "rank %u has sent no heartbeat", (unsigned)i);
        enum weft_status st = tracer_run(&run, 1, &err);
        assert_true(wf_clock_ns() - begin < INT64_C(60000000000));

        const char *where[] = {" 0F2)", " 1B2)", " 2F2)", " 3B2)"};
        if (st != WEFT_PEER || strstr(err.msg, rank) == NULL ||
            strstr(err.msg, where[i]) == NULL || strstr(err.msg, "step 1") == NULL)
            fail_msg("status %d: %s", st, err.msg);

        for (uint32_t r = 0; r < 4; r++)
            if (run.status[r] != WEFT_PEER || strcmp(run.err[r].msg, err.msg) != 0)
                fail_msg("rank %u: status %d: %s", r, run.status[r], run.err[r].msg);

        weft_schedule_free(s);
    }
}

/* No rank waits for a rank that could not be opened. */
static void test_missing(void **state)
{
    struct wf_inproc *group = NULL;
    struct weft_comm *comm = NULL;
    struct weft_error err = {.msg = ""}, missing;
    uint64_t value = 0;
    (void)state;
    (void)WEFT_FAIL(&missing, WEFT_NOMEM, "no memory for rank 1");
    assert_int_equal(wf_inproc_new(3, &group, &err), WEFT_OK);
    assert_int_equal(wf_inproc_open(group, 0, &comm, &err), WEFT_OK);
    wf_inproc_cancel(group, 2, &missing);
    struct weft_message in = {.peer = 1, .bytes = sizeof value, .data = &value};
    assert_int_equal(weft_comm_post(comm, &in, &err), WEFT_OK);
    assert_int_equal(weft_comm_wait(comm, &in, &err), WEFT_NOMEM);
    assert_string_equal(err.msg, missing.msg);
    weft_comm_close(comm);
    wf_inproc_free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_continues),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_sleeps),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests_name("failure", tests, NULL, NULL) != 0;
}
