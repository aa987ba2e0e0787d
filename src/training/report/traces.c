/* Reads a run's newest trace and its plan with the measured times. */
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

void wf_run_update_traces(struct wf_run *run)
{
    char key[sizeof run->traces_key], *trace = NULL;
    unsigned step = 0;
    struct stat info;

    if (wf_rundir_find_trace(run->dir, &trace, &step, NULL) == WEFT_OK &&
        stat(trace, &info) == 0) {
        snprintf(key, sizeof key, "%u %lld", step, (long long)info.st_mtime);
        if (strcmp(key, run->traces_key) != 0) {
            wf_run_trace_release(&run->planned);
            wf_run_trace_release(&run->measured);
            struct weft_error err = {0};
            run->has_traces = read_both(run, trace, &err) == WEFT_OK;
            if (!run->has_traces)
                wf_run_note(run, err.msg);
            run->has_traces = run->has_traces && is_shown(&run->planned.trace) &&
                              is_shown(&run->measured.trace);
            run->trace_step = step;
            memcpy(run->traces_key, key, sizeof key);
        }
    } else {
        run->has_traces = false;
        run->traces_key[0] = '\0';
    }
    free(trace);
}

void wf_run_trace_release(struct wf_run_trace *t)
{
    weft_trace_release(&t->trace);
    wf_trace_usage_release(&t->usage);
    *t = (struct wf_run_trace){0};
}
