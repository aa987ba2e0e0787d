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

/* A line of metrics.jsonl.  Missing values are NAN. */
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
    bool complete; /* the checkpoint has its manifest, which is written last */
};

/* A trace with the busy and idle times of its ranks. */
struct wf_run_trace {
    struct weft_trace trace;
    struct wf_trace_usage usage;
};

struct wf_run {
    char *dir;                   /* owned */
    char *name;                  /* owned: the last part of the directory, printable */
    struct wf_run_point *points; /* owned: in ascending order of steps */
    size_t n_points, cap_points;
    size_t n_restarts;         /* number of times that steps were repeated after a stop */
    size_t n_malformed;        /* number of lines that are not metrics */
    unsigned long long n_read; /* number of bytes of metrics.jsonl that were read so far */
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
    /* Of the last update: the first file that exists but cannot be read or is malformed, and
     * why; empty: none.  The status is WEFT_DATA, or WEFT_NOMEM or WEFT_IO if the cause is
     * outside of the file. */
    char problem[300];
    enum weft_status problem_status;
};

/* Records a problem and its status, unless one is recorded already. */
void wf_run_note(struct wf_run *run, enum weft_status status, const char *problem);

/* Initializes a run without reading it.  The caller releases *run with wf_run_release(). */
enum weft_status wf_run_init(struct wf_run *run, const char *dir, struct weft_error *err);
void wf_run_release(struct wf_run *run); /* a zeroed struct is allowed */

/* Reads what was added or changed since the last call.  Missing files are ignored.  Files that
 * cannot be read or are malformed are left out and recorded in run->problem.  A malformed line
 * of metrics.jsonl is only counted, because a killed run may leave one.  Returns WEFT_DATA if
 * the directory is not the directory of a run. */
enum weft_status wf_run_update(struct wf_run *run, struct weft_error *err);

/* -- figures ------------------------------------------------------------------------------- */

enum wf_run_state {
    WF_RUN_STATE_EMPTY,
    WF_RUN_STATE_RUNNING,
    WF_RUN_STATE_STOPPED,
    WF_RUN_STATE_FINISHED
};

/* Returns the state of a run.  A run counts as stopped if no process has locked its directory,
 * or if it has written nothing for much longer than its steps take. */
enum wf_run_state wf_run_state(const struct wf_run *run, time_t now);

/* Returns the mean of the last `max` values of a column, or NAN if the column has no value. */
double wf_run_mean(const struct wf_run *run, size_t column, size_t max);
/* Returns the last value of a column, or NAN if the column has no value. */
double wf_run_last(const struct wf_run *run, size_t column);
/* Returns the minimum of a column, or NAN if the column has no value. */
double wf_run_min(const struct wf_run *run, size_t column);
/* Returns the sum of a column, or 0 if the column has no value. */
double wf_run_sum(const struct wf_run *run, size_t column);

#define WF_RUN_COLUMN(name) offsetof(struct wf_run_point, name)
/* Returns the value of a column at one point. */
static inline double wf_run_value(const struct wf_run_point *p, size_t column)
{
    return *(const double *)((const char *)p + column);
}

/* -- traces: traces.c ---------------------------------------------------------------------- */

/* Reads the newest trace, if the traces changed, and simulates the schedule of the run with the
 * times measured in it. */
void wf_run_update_traces(struct wf_run *run);
void wf_run_trace_release(struct wf_run_trace *t);

#endif
