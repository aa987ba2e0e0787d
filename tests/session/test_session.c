/* Runs sessions of two ranks and checks their events and the steps at which these occur. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <signal.h>

#include "../trainer/runs.h"
#include "base/error.h"
#include "training/session/session.h"
#include "training/session/stop.h"

enum { MAX_EVENTS = 4096 };

struct event {
    enum wf_session_event_kind kind;
    uint64_t step;
    bool evaluated;
    enum wf_session_end end;
    char text[200];
};

/* The events of a session. */
struct log {
    struct event at[MAX_EVENTS];
    size_t n;
    uint64_t resumed;
    uint64_t raise_at; /* the step after which SIGTERM is raised; 0: never */
};

static void record(void *arg, const struct wf_session_event *e)
{
    struct log *log = arg;
    assert_true(log->n < MAX_EVENTS);
    struct event *out = &log->at[log->n++];
    *out = (struct event){.kind = e->kind, .step = e->step, .end = e->end};
    assert_int_equal(e->n_ranks, 2);
    assert_non_null(e->settings);
    snprintf(out->text, sizeof out->text, "%s", e->text == NULL ? "" : e->text);
    if (e->kind == WF_SESSION_EVENT_READY)
        log->resumed = e->start->info.resumed;
    if (e->kind == WF_SESSION_EVENT_STEP) {
        out->step = e->record->step;
        out->evaluated = e->record->val_loss != 0;
        if (e->record->step == log->raise_at)
            raise(SIGTERM);
    }
}

static size_t count(const struct log *log, enum wf_session_event_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < log->n; i++)
        n += log->at[i].kind == kind;
    return n;
}

/* Returns the only event of its kind. */
static const struct event *only(const struct log *log, enum wf_session_event_kind kind)
{
    assert_int_equal(count(log, kind), 1);
    size_t i = 0;
    while (log->at[i].kind != kind)
        i++;
    return &log->at[i];
}

/* A temporary run directory, and the settings of a run of two ranks in it. */
struct fixture {
    char dir[64];
    struct wf_train_settings settings;
    struct log log;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    strcpy(f->dir, "/tmp/weft_session_XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    run_settings(&f->settings, "gpt2-tiny");
    static const char *const values[][2] = {
        {"parallel.pp", "2"},          {"parallel.threads", "1"}, {"checkpoint.every", "3"},
        {"checkpoint.async", "false"}, {"train.slow", "off"},     {"train.timeout", "600"},
    };
    for (size_t i = 0; i < WEFT_LEN(values); i++)
        run_set(&f->settings, values[i][0], values[i][1]);
    run_set(&f->settings, "log.dir", f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", f->dir);
    int failed = system(command);
    wf_settings_release(wf_train_setting_list(), &f->settings);
    free(f);
    return failed;
}

static enum weft_status run(struct fixture *f, struct weft_error *err)
{
    struct wf_session session = {.settings = &f->settings, .on_event = record, .arg = &f->log};
    f->log.n = 0;
    WEFT_TRY(wf_session_prepare(&f->settings, err));
    return wf_session_run(&session, err);
}

static void run_ok(struct fixture *f)
{
    struct weft_error err = {0};
    if (run(f, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

static bool exists(const struct fixture *f, const char *name)
{
    char path[200];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    return stat(path, &info) == 0;
}

/* Evaluations, samples and checkpoints occur at multiples of their settings and at the end. */
static void check_cadence(void **state)
{
    struct fixture *f = *state;
    run_set(&f->settings, "train.steps", "7");
    run_set(&f->settings, "data.val", run_path("gpt2-tiny", "tokens.bin"));
    run_set(&f->settings, "eval.every", "4");
    run_set(&f->settings, "eval.batches", "1");
    run_set(&f->settings, "log.sample", "5");
    run_set(&f->settings, "log.sample_tokens", "2");
    run_set(&f->settings, "log.trace_steps", "1");
    run_set(&f->settings, "log.tensorboard", "true");
    run_ok(f);

    uint64_t step = 0, samples[2] = {0}, checkpoints[3] = {0};
    size_t n_samples = 0, n_checkpoints = 0;
    for (size_t i = 0; i < f->log.n; i++) {
        const struct event *e = &f->log.at[i];
        if (e->kind == WF_SESSION_EVENT_STEP) {
            assert_int_equal(e->step, ++step);
            assert_int_equal(e->evaluated, step == 4 || step == 7);
        }
        if (e->kind == WF_SESSION_EVENT_SAMPLE)
            samples[n_samples++] = e->step;
        if (e->kind == WF_SESSION_EVENT_CHECKPOINT)
            checkpoints[n_checkpoints++] = e->step;
    }
    assert_int_equal(step, 7);
    assert_int_equal(n_samples, 2);
    assert_int_equal(samples[0], 5);
    assert_int_equal(samples[1], 7);
    assert_int_equal(n_checkpoints, 3);
    assert_int_equal(checkpoints[0], 3);
    assert_int_equal(checkpoints[1], 6);
    assert_int_equal(checkpoints[2], 7);

    assert_int_equal(f->log.at[0].kind, WF_SESSION_EVENT_READY);
    assert_int_equal(f->log.at[1].kind, WF_SESSION_EVENT_STARTED);
    assert_int_equal(only(&f->log, WF_SESSION_EVENT_ENDED)->end, WF_SESSION_END_DONE);
    assert_int_equal(f->log.at[f->log.n - 1].kind, WF_SESSION_EVENT_REPORT);
    assert_int_equal(count(&f->log, WF_SESSION_EVENT_UNFINISHED), 0);
    assert_int_equal(count(&f->log, WF_SESSION_EVENT_WARNING), 0);
    static const char *const files[] = {
        "config.yaml", "metrics.jsonl",    "samples.jsonl", "schedule.csv",
        "plan.json",   "report.html",      "tensorboard",   "trace/step-000001.trace",
        "ranks/1",     "model/config.json"};
    for (size_t i = 0; i < WEFT_LEN(files); i++)
        if (!exists(f, files[i]))
            fail_msg("%s is missing", files[i]);
    assert_false(exists(f, "trace/step-000002.trace"));
}

/* A run that reaches train.max_time saves a checkpoint, and the next session
 * continues from it. */
static void check_time(void **state)
{
    struct fixture *f = *state;
    run_set(&f->settings, "train.steps", "100000");
    run_set(&f->settings, "train.max_time", "0.02");
    run_ok(f);
    const struct event *end = only(&f->log, WF_SESSION_EVENT_ENDED);
    uint64_t done = end->step;
    assert_int_equal(end->end, WF_SESSION_END_TIME);
    assert_in_range(done, 1, 99999);
    assert_int_equal(only(&f->log, WF_SESSION_EVENT_UNFINISHED)->step, done);
    assert_false(exists(f, "model"));

    char steps[32];
    snprintf(steps, sizeof steps, "%llu", (unsigned long long)done + 2);
    run_set(&f->settings, "train.steps", steps);
    run_set(&f->settings, "train.max_time", "off");
    run_set(&f->settings, "checkpoint.resume", "auto");
    run_ok(f);
    assert_int_equal(f->log.resumed, done);
    assert_int_equal(count(&f->log, WF_SESSION_EVENT_STEP), 2);
    assert_true(exists(f, "model"));
}

/* A report that cannot be written is a warning. */
static void check_warning(void **state)
{
    struct fixture *f = *state;
    char path[100];
    snprintf(path, sizeof path, "%s/report.html", f->dir);
    assert_int_equal(mkdir(path, 0777), 0);
    run_set(&f->settings, "train.steps", "1");
    run_ok(f);
    assert_non_null(
        strstr(only(&f->log, WF_SESSION_EVENT_WARNING)->text, "report is not written"));
    assert_int_equal(count(&f->log, WF_SESSION_EVENT_REPORT), 0);
}

/* Settings that do not match the launcher are rejected before any file is created. */
static void check_prepare(void **state)
{
    struct fixture *f = *state;
    struct weft_error err = {0};
    run_set(&f->settings, "parallel.transport", "mpi");
    assert_int_equal(run(f, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "started without MPI; start it with mpirun -n 2"));
    run_set(&f->settings, "parallel.transport", "auto");
    run_set(&f->settings, "parallel.dp", "1000");
    run_set(&f->settings, "data.batch", "2000");
    run_set(&f->settings, "parallel.micros", "2000");
    assert_int_equal(run(f, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "one process runs at most 1024 ranks"));
    assert_int_equal(f->log.n, 0);
    assert_false(exists(f, "config.yaml"));
}

/* The first signal stops the session after a step, even if an earlier session has finished. */
static void check_signal(void **state)
{
    struct fixture *f = *state;
    f->log.raise_at = 2;
    run_set(&f->settings, "train.steps", "100000");
    wf_stop_catch_signals(NULL, NULL);
    assert_int_equal(wf_stop_signal(), 0);
    run_ok(f);
    const struct event *end = only(&f->log, WF_SESSION_EVENT_ENDED);
    assert_int_equal(end->end, WF_SESSION_END_SIGNAL);
    assert_in_range(end->step, 2, 4);
    assert_int_equal(wf_stop_signal(), SIGTERM);
    assert_int_equal(only(&f->log, WF_SESSION_EVENT_UNFINISHED)->step, end->step);
    wf_stop_finish();
    assert_int_equal(wf_stop_signal(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(check_prepare, set_up, tear_down),
        cmocka_unit_test_setup_teardown(check_cadence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(check_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(check_warning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(check_signal, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL) != 0;
}
