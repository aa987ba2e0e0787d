/* The directory of a run: what is written there, and when it may be used.
 *
 *     config.yaml     all settings, as merged
 *     metrics.jsonl   a line a step, appended
 *     samples.jsonl   texts of log.sample, appended
 *     schedule.csv    the schedule of the first replica
 *     trace/          what the actions of the first steps of a start took: step-000001.trace
 *     ranks/          what each rank was last at: for weft inspect
 *     tokenizer.json  that of the data, if it has one
 *     metrics-N.jsonl, samples-N.jsonl, trace-N/
 *                     those of unfinished runs that were here; traces also of another schedule
 *     model/          the final weights, a Hugging Face directory: there when the run is finished
 *     model-step-N/   those of N steps, when the run was finished then and went on later
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
    char *model;                    /* owned: the path of the weights to be */
    char *samples, *tokenizer;      /* owned: the paths; there may be none */
    struct wf_metrics_log *metrics; /* owned */
    struct wf_store_lock *lock;     /* owned */
    struct wf_rollback rollback;    /* taken back when the run does not begin */
    char *
        archived_metrics; /* owned: where those of a run are that was not finished; NULL: none */
    char *
        archived_model; /* owned: where the weights are of a finished run that goes on; NULL: none */
};

/* Makes the directory, and those above it, and takes it for this process: a second run in it is
 * refused, and so are one that has checkpoints unless it is resumed, and one that has finished and
 * has none.  wf_rundir_release() lets go and, when wf_rundir_init() did not follow, removes
 * what was rollback.  Local. */
enum weft_status wf_rundir_open(struct wf_rundir *run, const char *dir, bool resume,
                                struct weft_error *err);

/* Writes config.yaml, puts the tokenizer of the data there (training/trainer/load.h), of a model of `vocab`
 * tokens, and opens metrics.jsonl.  Of a run that goes on after step `resumed`, from a
 * checkpoint of this directory, the lines of later steps are taken out: they will come again.  Else
 * what an unfinished run has left is moved aside: metrics-1.jsonl, samples-1.jsonl, trace-1, or the
 * next number that is free.  A finished run goes on when it has more steps to do, and its weights
 * are moved aside.  Local. */
enum weft_status wf_rundir_init(struct wf_rundir *run, const char *dir,
                                const struct wf_train_settings *settings, const char *tokenizer,
                                uint64_t resumed, struct weft_error *err);
/* A directory within it.  Local. */
enum weft_status wf_rundir_make_dir(const char *dir, const char *name, struct weft_error *err);
/* Writes schedule.csv; when another one was there, the traces of it are moved aside.  Local. */
enum weft_status wf_rundir_write_schedule(const char *dir, const struct weft_schedule *schedule,
                                          struct weft_error *err);
/* replica -1: there is only one. */
enum weft_status wf_rundir_write_trace(const char *dir, uint64_t step, int replica,
                                       const struct weft_trace *trace, struct weft_error *err);
/* From now on what this rank does is recorded there.  Local. */
enum weft_status wf_rundir_record_activity(const char *dir, struct weft_comm *comm,
                                           struct weft_error *err);
/* Appends a text that was generated after a step: {"step":100,"text":"..."}.  Local. */
enum weft_status wf_rundir_append_sample(const struct wf_rundir *run, uint64_t step,
                                         const char *text, struct weft_error *err);

void wf_rundir_release(struct wf_rundir *run); /* a zeroed one is allowed */

#endif
