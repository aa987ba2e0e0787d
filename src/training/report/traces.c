/* Reads a run's newest trace and its plan with the measured times. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "training/report/run.h"
#include "training/run/rundir_trace.h"

/* Longer traces are not shown: their times could overflow in milliseconds. */
static const double MAX_MS = 1e15;

static bool is_shown(const struct weft_trace *t)
{
    return t->makespan * (t->unit_seconds > 0 ? t->unit_seconds * 1e3 : 1) <= MAX_MS;
}

static enum weft_status read_both(struct wf_run *run, const char *trace, struct weft_error *err)
{
    WEFT_TRY(wf_rundir_read_traces(run->dir, trace, NULL, &run->planned.trace,
                                   &run->measured.trace, err));
    WEFT_TRY(wf_trace_usage_init(&run->measured.usage, &run->measured.trace, err));
    return wf_trace_usage_init(&run->planned.usage, &run->planned.trace, err);
}

/* Reads a trace unless it is the one that was read last. */
static void update_trace(struct wf_run *run, const char *trace, unsigned step, time_t written)
{
    char key[sizeof run->traces_key];
    struct weft_error err = {0};
    snprintf(key, sizeof key, "%u %lld", step, (long long)written);
    if (strcmp(key, run->traces_key) == 0)
        return;

    wf_run_trace_release(&run->planned);
    wf_run_trace_release(&run->measured);
    enum weft_status st = read_both(run, trace, &err);
    if (st != WEFT_OK)
        wf_run_note(run, st, err.msg);
    run->has_traces =
        st == WEFT_OK && is_shown(&run->planned.trace) && is_shown(&run->measured.trace);
    run->trace_step = step;
    memcpy(run->traces_key, key, sizeof key);
}

void wf_run_update_traces(struct wf_run *run)
{
    char *trace = NULL;
    unsigned step = 0;
    struct stat info;
    struct weft_error err = {0};
    enum weft_status st = wf_rundir_find_trace(run->dir, &trace, &step, &err);
    if (st == WEFT_OK && stat(trace, &info) != 0)
        st = WEFT_FAIL(&err, wf_errno_status(errno, WEFT_DATA), "%.200s: %s", trace,
                       strerror(errno));

    if (st == WEFT_OK) {
        update_trace(run, trace, step, info.st_mtime);
    } else {
        run->has_traces = false;
        run->traces_key[0] = '\0';
        if (st != WEFT_DATA) /* else the run has no traces */
            wf_run_note(run, st, err.msg);
    }
    free(trace);
}

void wf_run_trace_release(struct wf_run_trace *t)
{
    weft_trace_release(&t->trace);
    wf_trace_usage_release(&t->usage);
    *t = (struct wf_run_trace){0};
}
