/* Reads the newest trace of a run, and simulates its schedule with the measured costs. */
#include "training/run/rundir_trace.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "base/step_name.h"
#include "weft/schedule.h"
#include "weft/sim.h"
#include "weft/verify.h"

/* Parses the file name step-000003.trace or, for the first of several replicas,
 * step-000003-replica-0.trace. */
static bool is_trace(const char *name, unsigned *step)
{
    uint64_t number;
    const char *rest;
    if (!wf_step_name_parse(name, WF_STEP_DIGITS_TRACE, &number, &rest) || number > UINT_MAX)
        return false;
    *step = (unsigned)number;
    return strcmp(rest, ".trace") == 0 || strcmp(rest, "-replica-0.trace") == 0;
}

/* Finds the newest trace of a directory.  A missing directory has none. */
static enum weft_status find_newest(const char *folder, char newest[256], unsigned *step,
                                    bool *out, struct weft_error *err)
{
    DIR *list = opendir(folder);
    bool found = false;
    unsigned number;
    for (const struct dirent *entry;
         list != NULL && (errno = 0, (entry = readdir(list)) != NULL);)
        if (is_trace(entry->d_name, &number) && (!found || number > *step)) {
            snprintf(newest, 256, "%s", entry->d_name);
            *step = number;
            found = true;
        }
    int cause = errno; /* of opendir() or of the last readdir() */
    if (list != NULL)
        closedir(list);
    if (cause != 0 && wf_errno_status(cause, WEFT_DATA) != WEFT_DATA)
        return WEFT_FAIL(err, wf_errno_status(cause, WEFT_DATA), "%.200s: %s", folder,
                         strerror(cause));
    *out = found;
    return WEFT_OK;
}

enum weft_status wf_rundir_find_trace(const char *dir, char **out, unsigned *step,
                                      struct weft_error *err)
{
    char newest[256];
    unsigned number = 0;
    char *folder = wf_path_join(dir, "trace");
    bool found = false;
    enum weft_status st = folder == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path")
                                         : find_newest(folder, newest, &number, &found, err);
    char *path = found ? wf_path_join(folder, newest) : NULL;

    if (found && path == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
    else if (st == WEFT_OK && !found)
        st = WEFT_FAIL(err, WEFT_DATA,
                       "%.200s has no traces; set log.trace_steps to record some", dir);
    free(folder);

    if (st != WEFT_OK)
        return st;
    *out = path;
    if (step != NULL)
        *step = number;
    return WEFT_OK;
}

static enum weft_status read_measured(const char *path, struct weft_trace *out,
                                      struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(wf_input_read_as(WEFT_DATA, path, &text, &len, err));
    enum weft_status st = weft_trace_parse(text, len, path, out, err);
    free(text);
    return st;
}

static bool has_sizes_of(const struct weft_placement *p, const struct weft_trace *t)
{
    return p->n_ranks == t->n_ranks && p->n_stages == t->n_stages && p->n_micros == t->n_micros;
}

static enum weft_status time_schedule(const struct weft_schedule *s,
                                      const struct weft_trace *measured,
                                      const struct weft_measured_cost *m,
                                      const struct weft_memory_cost *memory, const char *path,
                                      struct weft_trace *out, struct weft_error *err)
{
    const struct weft_cost cost = {.f = {m->f, m->n_stages},
                                   .i = {m->i, m->n_stages},
                                   .w = {m->w, m->n_stages},
                                   .b = {m->b, m->n_stages},
                                   .fb = {m->fb, m->n_stages}};

    struct weft_verify_result findings;
    struct weft_metrics metrics;
    WEFT_TRY(weft_verify(s, NULL, &findings, err));
    size_t n = findings.n_findings;
    weft_verify_result_release(&findings);
    if (n > 0)
        return WEFT_FAIL(err, WEFT_SCHEDULE, "%.200s is not a valid schedule", path);

    if (!has_sizes_of(weft_schedule_placement(s), measured))
        return WEFT_FAIL(err, WEFT_SCHEDULE, "%.200s does not match the sizes of the trace",
                         path);
    WEFT_TRY(weft_metrics_init(&metrics, s, &cost, memory, err));
    enum weft_status st = weft_trace_init_plan(out, s, &metrics, memory, err);
    weft_metrics_release(&metrics);
    return st;
}

static enum weft_status make_planned(const char *path, const struct weft_trace *measured,
                                     const struct weft_memory_cost *memory,
                                     struct weft_trace *out, struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    struct weft_schedule *s = NULL;
    struct weft_measured_cost m = {0};
    WEFT_TRY(wf_input_read_as(WEFT_SCHEDULE, path, &text, &len, err));
    enum weft_status st = weft_schedule_parse(text, len, path, &s, err);
    if (st == WEFT_OK)
        st = weft_measured_cost_init(&m, measured, err);
    if (st == WEFT_OK)
        st = time_schedule(s, measured, &m, memory, path, out, err);
    if (st == WEFT_OK)
        out->unit_seconds = measured->unit_seconds;
    weft_measured_cost_release(&m);
    weft_schedule_free(s);
    free(text);
    return st;
}

enum weft_status wf_rundir_read_traces(const char *dir, const char *path,
                                       const struct weft_memory_cost *memory,
                                       struct weft_trace *planned, struct weft_trace *measured,
                                       struct weft_error *err)
{
    struct weft_trace own = {0};
    char *schedule = wf_path_join(dir, "schedule.csv");
    enum weft_status st =
        schedule == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path") : WEFT_OK;
    if (st == WEFT_OK)
        st = read_measured(path, &own, err);
    if (st == WEFT_OK)
        st = make_planned(schedule, &own, memory, planned, err);
    free(schedule);
    if (st != WEFT_OK) {
        weft_trace_release(&own);
        return st;
    }
    *measured = own;
    snprintf(planned->name, sizeof planned->name, "planned");
    snprintf(measured->name, sizeof measured->name, "measured");
    return WEFT_OK;
}
