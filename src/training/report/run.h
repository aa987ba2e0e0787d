/* A run's directory, read: all that a page shows of it. */
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

/* A line of metrics.jsonl; NAN for what it does not have. */
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
    bool whole; /* it has its manifest, which is written last */
};

/* A trace, and why its ranks were idle. */
struct wf_run_trace {
    struct weft_trace trace;
    struct wf_trace_usage usage;
};

struct wf_run {
    char *dir;                   /* owned */
    char *name;                  /* owned: the last part of the directory, fit to be shown */
    struct wf_run_point *points; /* owned: steps ascend */
    size_t n_points, cap_points;
    size_t n_restarts;         /* times that steps were done again, after a stop */
    size_t n_malformed;        /* lines that were no metrics */
    unsigned long long n_read; /* bytes of metrics.jsonl so far */
    time_t changed;            /* when metrics.jsonl was last */
    bool finished;             /* there are final weights */
    bool left;                 /* no process has the directory */
    bool has_settings, has_plan, has_traces;
    struct wf_train_settings settings;
    struct wf_planfile plan;
    unsigned trace_step;
    struct wf_run_trace planned, measured;
    char traces_key[300];          /* what was read, to tell whether it is still the newest */
    struct wf_run_sample *samples; /* owned: in order */
    size_t n_samples;
    struct wf_run_checkpoint *checkpoints; /* owned: by step */
    size_t n_checkpoints;
};

/* An empty one.  wf_run_release() frees. */
enum weft_status wf_run_init(struct wf_run *run, const char *dir, struct weft_error *err);
void wf_run_release(struct wf_run *run); /* a zeroed one is allowed */

/* Reads what has been added or changed since the last time.  What is missing or broken is left
 * out; WEFT_DATA only when the directory is none of a run. */
enum weft_status wf_run_update(struct wf_run *run, struct weft_error *err);

/* -- about it -------------------------------------------------------------------------------- */

enum wf_run_state {
    WF_RUN_STATE_EMPTY,
    WF_RUN_STATE_RUNNING,
    WF_RUN_STATE_STOPPED,
    WF_RUN_STATE_FINISHED
};

/* A run that no process has any more, or that has not written for much longer than its steps take,
 * has stopped. */
enum wf_run_state wf_run_state(const struct wf_run *run, time_t now);

/* The mean of the last `most` points of a column; NAN when it has none. */
double wf_run_mean(const struct wf_run *run, size_t column, size_t most);
double wf_run_last(const struct wf_run *run, size_t column);
double wf_run_min(const struct wf_run *run, size_t column);
double wf_run_sum(const struct wf_run *run, size_t column);

#define WF_RUN_COLUMN(name) offsetof(struct wf_run_point, name)
static inline double wf_run_value(const struct wf_run_point *p, size_t column)
{
    return *(const double *)((const char *)p + column);
}

/* -- its traces: traces.c --------------------------------------------------------------------- */

/* The newest trace, and the run's schedule with the times measured in it. */
void wf_run_update_traces(struct wf_run *run);
void wf_run_trace_release(struct wf_run_trace *t);

#endif
