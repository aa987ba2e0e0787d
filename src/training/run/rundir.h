/* Manages the directory of a run: which files it has, when it may be used, and what happens to
 * the files of an earlier run.
 *
 *     config.yaml     all settings
 *     metrics.jsonl   one line per step, appended
 *     samples.jsonl   texts of log.sample, appended
 *     schedule.csv    the schedule of the first replica
 *     plan.json       stages, memory and traffic of each rank: rundir_plan.h
 *     trace/          recorded actions of the first steps after each start: step-000001.trace
 *     ranks/          the last action of each rank, for weft inspect
 *     tokenizer.json  the tokenizer of the data, if it has one
 *     metrics-N.jsonl, samples-N.jsonl, trace-N/
 *                     files of earlier unfinished runs; traces also of earlier schedules
 *     model/          the final weights as a Hugging Face directory, if the run is finished
 *     model-step-N/   the final weights of a finished run that was continued after N steps
 */
#ifndef TRAINING_RUN_RUNDIR_H
#define TRAINING_RUN_RUNDIR_H

#include <stdbool.h>

#include "training/ckpt/store.h"
#include "training/run/metrics.h"
#include "training/run/rollback.h"
#include "training/settings/settings.h"
#include "weft/comm.h"
#include "weft/schedule.h"
#include "weft/status.h"
#include "weft/trace.h"

struct wf_rundir {
    char *model;                    /* owned: the path of the final weights */
    char *samples, *tokenizer;      /* owned: paths; the files may be missing */
    struct wf_metrics_log *metrics; /* owned */
    struct wf_store_lock *lock;     /* owned */
    struct wf_rollback rollback;    /* removes new directories if the run does not start */
    /* owned: path of the metrics of an earlier unfinished run; NULL: none */
    char *archived_metrics;
    /* owned: path of the weights of a finished run that continues; NULL: none */
    char *archived_model;
};

/* Makes the directory and its parents, and locks the directory for this process.  Returns
 * WEFT_USAGE if another process uses the directory, if it contains checkpoints and `resume`
 * is false, or if it contains a finished run that cannot be continued.  wf_rundir_release()
 * unlocks the directory and, unless wf_rundir_init() succeeded, removes what was made.
 * Local. */
enum weft_status wf_rundir_open(struct wf_rundir *run, const char *dir, bool resume,
                                struct weft_error *err);

/* Stores the number of steps of a run that has its final weights, or 0 if the directory has none
 * or does not exist.  A run that is stopped without checkpoints has weights, too; it is finished
 * if the number is at least train.steps.  Local. */
enum weft_status wf_rundir_finished_steps(const char *dir, uint64_t *out,
                                          struct weft_error *err);

/* Writes config.yaml, copies the tokenizer at `tokenizer` (NULL: none), and opens
 * metrics.jsonl.
 *
 * If the run continues after step `resumed` of this directory, the lines of later steps are
 * removed, since these steps will run again.  Otherwise the files of an earlier unfinished run
 * are archived as metrics-N.jsonl, samples-N.jsonl and trace-N.  The weights of a finished run
 * that continues are archived; it must have more steps to do.  Local. */
enum weft_status wf_rundir_init(struct wf_rundir *run, const char *dir,
                                const struct wf_train_settings *settings, const char *tokenizer,
                                uint64_t resumed, struct weft_error *err);

/* Makes a subdirectory.  Local. */
enum weft_status wf_rundir_make_dir(const char *dir, const char *name, struct weft_error *err);

/* Writes schedule.csv.  Archives the traces if the schedule differs from that of the old file.
 * Local. */
enum weft_status wf_rundir_write_schedule(const char *dir, const struct weft_schedule *schedule,
                                          struct weft_error *err);

/* Writes the trace of one step.  `replica` is -1 if the run has only one replica.  Local. */
enum weft_status wf_rundir_write_trace(const char *dir, uint64_t step, int replica,
                                       const struct weft_trace *trace, struct weft_error *err);

/* From now on, records the last action of this rank in ranks/.  Local. */
enum weft_status wf_rundir_record_activity(const char *dir, struct weft_comm *comm,
                                           struct weft_error *err);

/* Appends a generated text to samples.jsonl: {"step":100,"text":"..."}.  Local. */
enum weft_status wf_rundir_append_sample(const struct wf_rundir *run, uint64_t step,
                                         const char *text, struct weft_error *err);

void wf_rundir_release(struct wf_rundir *run); /* a zeroed struct is allowed */

#endif
