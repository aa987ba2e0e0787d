/* The contents of a run's directory, as far as the page shows them. */
#ifndef TRAINING_REPORT_RUN_H
#define TRAINING_REPORT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "planning/sim/trace_usage.h"
#include "training/run/planfile.h"
#include "training/settings/settings.h"
#include "weft/status.h"

/* A line of metrics.jsonl; NAN for missing values. */
struct wf_run_point {
    double step, loss, grad_norm, lr, tokens, ms, tok_s, mfu, bubble, bubble_plan, val_loss;
};

struct wf_run_sample {
    double step;
    char *text; /* owned */
};

struct wf_run_checkpoint {
    unsigned long long step, bytes;
    time_t written;
    bool complete; /* it has its manifest, which is written last */
};

/* A trace with the busy and idle times of its ranks. */
struct wf_run_trace {
    struct weft_trace trace;
    struct wf_trace_usage usage;
};

struct wf_run {
    char *dir;                   /* owned */
    char *name;                  /* owned: the last part of the directory, printable */
    struct wf_run_point *points; /* owned: steps ascend */
    size_t n_points, cap_points;
    size_t n_restarts;         /* how often steps were repeated after a stop */
    size_t n_malformed;        /* lines that are not metrics */
    unsigned long long n_read; /* bytes of metrics.jsonl read so far */
    time_t changed;            /* modification time of metrics.jsonl */
    bool finished;             /* the final weights exist */
    bool unlocked;             /* no process has locked the directory */
    bool has_settings, has_plan, has_traces;
    struct wf_train_settings settings;
    struct wf_planfile plan;
    unsigned trace_step;
    struct wf_run_trace planned, measured;
    char traces_key[300];          /* identifies the trace that was read */
    struct wf_run_sample *samples; /* owned: by step */
    size_t n_samples;
    struct wf_run_checkpoint *checkpoints; /* owned: by step */
    size_t n_checkpoints;
};

/* Initializes a run without reading it.  wf_run_release() frees. */
enum weft_status wf_run_init(struct wf_run *run, const char *dir, struct weft_error *err);
void wf_run_release(struct wf_run *run); /* a zeroed struct is allowed */

/* Reads what was added or changed since the last call.  Missing and malformed files are left out.
 * Returns WEFT_DATA if the directory is not that of a run. */
enum weft_status wf_run_update(struct wf_run *run, struct weft_error *err);

/* -- figures --------------------------------------------------------------------------------- */

enum wf_run_state {
    WF_RUN_STATE_EMPTY,
    WF_RUN_STATE_RUNNING,
    WF_RUN_STATE_STOPPED,
    WF_RUN_STATE_FINISHED
};

/* Returns the state of a run.  It counts as stopped if no process has locked it, or if it has not
 * written for much longer than its steps take. */
enum wf_run_state wf_run_state(const struct wf_run *run, time_t now);

/* Returns the mean of the last `max` values of a column; NAN if it has none. */
double wf_run_mean(const struct wf_run *run, size_t column, size_t max);
/* Return the last value, the minimum and the sum of a column; NAN (sum: 0) if it has none. */
double wf_run_last(const struct wf_run *run, size_t column);
double wf_run_min(const struct wf_run *run, size_t column);
double wf_run_sum(const struct wf_run *run, size_t column);

#define WF_RUN_COLUMN(name) offsetof(struct wf_run_point, name)
static inline double wf_run_value(const struct wf_run_point *p, size_t column)
{
    return *(const double *)((const char *)p + column);
}

/* -- traces: traces.c ------------------------------------------------------------------------- */

/* Reads the newest trace, and the run's schedule with the times measured in it, if they changed. */
void wf_run_update_traces(struct wf_run *run);
void wf_run_trace_release(struct wf_run_trace *t);

#endif
