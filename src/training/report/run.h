/* A run's directory, read: all that a page shows of it. */
#ifndef TRAINING_REPORT_RUN_H
#define TRAINING_REPORT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "training/run/planfile.h"
#include "training/settings/settings.h"
#include "weft/sim.h"
#include "weft/status.h"
#include "weft/trace.h"

/* A line of metrics.jsonl; NAN for what it does not have. */
struct weft_run_point {
    double step, loss, grad_norm, lr, tokens, ms, tok_s, mfu, bubble, bubble_plan, val_loss;
};

struct weft_run_sample {
    double step;
    char *text; /* owned */
};

struct weft_run_checkpoint {
    unsigned long long step, bytes;
    time_t written;
    bool whole; /* it has its manifest, which is written last */
};

/* A trace, and why its ranks were idle. */
struct weft_run_trace {
    struct weft_trace trace;
    double *busy;                /* owned: (ranks, WEFT_N_KINDS), time in each kind */
    struct weft_idle_time *idle; /* owned: (ranks) */
};

struct weft_run {
    char *dir;                     /* owned */
    char *name;                    /* owned: the last part of the directory, fit to be shown */
    struct weft_run_point *points; /* owned: steps ascend */
    size_t n_points, cap_points;
    size_t n_restarts;         /* times that steps were done again, after a stop */
    size_t n_lost;             /* lines that were no metrics */
    unsigned long long n_read; /* bytes of metrics.jsonl so far */
    time_t changed;            /* when metrics.jsonl was last */
    bool finished;             /* there are final weights */
    bool left;                 /* no process has the directory */
    bool has_settings, has_plan, has_traces;
    struct weft_train_settings settings;
    struct weft_planfile plan;
    unsigned trace_step;
    struct weft_run_trace planned, measured;
    char traces_from[300];           /* what was read, to tell whether it is still the newest */
    struct weft_run_sample *samples; /* owned: in order */
    size_t n_samples;
    struct weft_run_checkpoint *checkpoints; /* owned: by step */
    size_t n_checkpoints;
};

/* An empty one.  weft_run_release() frees. */
enum weft_status weft_run_init(struct weft_run *run, const char *dir, struct weft_error *err);
void weft_run_release(struct weft_run *run); /* a zeroed one is allowed */

/* Reads what has been added or changed since the last time.  What is missing or broken is left
 * out; WEFT_DATA only when the directory is none of a run. */
enum weft_status weft_run_update(struct weft_run *run, struct weft_error *err);

/* -- about it -------------------------------------------------------------------------------- */

enum weft_run_state { WEFT_RUN_EMPTY, WEFT_RUN_GOING, WEFT_RUN_STOPPED, WEFT_RUN_FINISHED };

/* A run that no process has any more, or that has not written for much longer than its steps take,
 * has stopped. */
enum weft_run_state weft_run_state(const struct weft_run *run, time_t now);

/* The mean of the last `most` points of a column; NAN when it has none. */
double weft_run_mean(const struct weft_run *run, size_t column, size_t most);
double weft_run_last(const struct weft_run *run, size_t column);
double weft_run_least(const struct weft_run *run, size_t column);
double weft_run_sum(const struct weft_run *run, size_t column);

#define WEFT_RUN_COLUMN(name) offsetof(struct weft_run_point, name)
static inline double weft_run_value(const struct weft_run_point *p, size_t column)
{
    return *(const double *)((const char *)p + column);
}

/* -- its traces: traces.c --------------------------------------------------------------------- */

/* The newest trace, and the run's schedule with the times measured in it. */
void weft_run_update_traces(struct weft_run *run);
void weft_run_trace_release(struct weft_run_trace *t);

/* Fills in busy and idle.  Idle time is explained as in weft/sim.h: while what a rank waited for
 * had been computed, it was communication. */
enum weft_status weft_run_trace_explain(struct weft_run_trace *t, struct weft_error *err);

#endif
