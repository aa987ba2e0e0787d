/* Runs training from the settings to the final weights: starts the ranks, chooses the layout,
 * steps, evaluates, samples, saves checkpoints, logs, stops on signals, and writes the report.
 * A front end reads the settings, shows the events, and turns the status into an exit code.
 *
 *     wf_session_prepare(&settings, &err);
 *     struct wf_session session = {.settings = &settings, .on_event = show, .arg = &view};
 *     wf_session_run(&session, &err);
 */
#ifndef TRAINING_SESSION_SESSION_H
#define TRAINING_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "training/layout/choose.h"
#include "training/run/metrics.h"
#include "training/settings/settings.h"
#include "training/trainer/rank_totals.h"
#include "training/trainer/trainer.h"
#include "weft/comm.h"
#include "weft/status.h"

/* -- events -------------------------------------------------------------------------------- */

/* Each kind names the fields of struct wf_session_event that it sets. */
enum wf_session_event_kind {
    WF_SESSION_EVENT_LAYOUT,     /* parallel.auto has chosen a layout: choice */
    WF_SESSION_EVENT_SERVING,    /* the report is served at port settings->log.serve */
    WF_SESSION_EVENT_READY,      /* all ranks are ready: start */
    WF_SESSION_EVENT_STARTED,    /* the first step follows: step is the number of steps done */
    WF_SESSION_EVENT_STEP,       /* a step is done: record, seconds until the last step */
    WF_SESSION_EVENT_SAMPLE,     /* the model generated text after a step: step, text */
    WF_SESSION_EVENT_CHECKPOINT, /* a checkpoint is saved: step, seconds that it took */
    WF_SESSION_EVENT_WARNING,    /* something failed, and the run continues: text */
    WF_SESSION_EVENT_ENDED, /* no more steps follow: step is the number of steps done, end */
    WF_SESSION_EVENT_MODEL_SAVED, /* the weights are saved: text is their directory */
    WF_SESSION_EVENT_UNFINISHED, /* steps are left: step of the newest checkpoint or 0, has_weights */
    WF_SESSION_EVENT_FINISHED, /* an earlier process has done all steps: step is their number */
    WF_SESSION_EVENT_REPORT,   /* the report is written: text is its path */
    WF_SESSION_EVENT_DRY_RUN,  /* the figures of a dry run are computed: dry_run */
};

/* Why a session takes no more steps. */
enum wf_session_end {
    WF_SESSION_END_DONE,   /* all steps are done */
    WF_SESSION_END_SIGNAL, /* a rank received a signal */
    WF_SESSION_END_TIME,   /* train.max_time elapsed */
    WF_SESSION_END_FAILED, /* a step failed */
};

/* The state of a run before its first step. */
struct wf_session_start {
    struct wf_trainer_info info; /* information of rank 0 */
    struct wf_rank_totals totals;
    const char *transport;
    /* path to which the weights of a finished run were moved, or NULL */
    const char *archived_model;
    /* path to which the metrics of an unfinished run were moved, or NULL */
    const char *archived_metrics;
};

struct wf_dry_run; /* training/session/dry_run.h */

/* All pointers are borrowed until the callback returns. */
struct wf_session_event {
    enum wf_session_event_kind kind;
    const struct wf_train_settings *settings;
    uint32_t n_ranks;
    uint64_t step;
    double seconds;
    const char *text;
    const struct wf_layout_choice *choice;
    const struct wf_session_start *start;
    const struct wf_metrics_record *record;
    const struct wf_dry_run *dry_run;
    enum wf_session_end end;
    bool has_weights;
};

/* Receives the events of rank 0, in order, on the thread of rank 0.  The other ranks emit no
 * events. */
typedef void wf_session_event_fn(void *arg, const struct wf_session_event *event);

struct wf_session {
    struct wf_train_settings *settings; /* borrowed; parallel.auto changes these settings */
    wf_session_event_fn *on_event;      /* NULL: events are dropped */
    /* rank 0 stops before the next step once *stop is true; NULL: never */
    const bool *stop;
    weft_hang_fn *on_hang; /* callback for weft_comm_on_hang(); NULL: none */
    void *arg;             /* argument of on_event and on_hang */
};

/* -- running ------------------------------------------------------------------------------- */

/* Completes and checks the settings before a session or a dry run: infers model.vocab, compares
 * parallel.transport with how this process was started, and divides the cores among ranks if
 * parallel.threads is auto.  Returns WEFT_USAGE if settings contradict each other.  Local. */
enum weft_status wf_session_prepare(struct wf_train_settings *s, struct weft_error *err);

/* Runs the session: one rank if an MPI launcher started this process, otherwise all ranks with
 * one thread each.  Collective. */
enum weft_status wf_session_run(struct wf_session *session, struct weft_error *err);

/* Ends an MPI run in which this rank fails before it connects to the others, as
 * wf_session_run() does: the other ranks receive the error of this rank instead of waiting for
 * it.  Does nothing without a launcher.  Returns `st`.  Collective. */
enum weft_status wf_session_fail(enum weft_status st, struct weft_error *err);

/* Compares the settings of all ranks.  With parallel.auto, then chooses the layout and stores
 * the reasons in *out, which the caller releases after success and after failure.  *out stays
 * zeroed without parallel.auto and on ranks other than 0.  If comm is NULL, ranks are threads.
 * Collective. */
enum weft_status wf_session_choose_layout(struct wf_train_settings *s, struct weft_comm *comm,
                                          struct wf_layout_choice *out, struct weft_error *err);

/* Returns WEFT_NOMEM if the ranks of this process need more memory than the machine has.
 * Processes of an MPI run may be on any machine and are not checked.  Local. */
enum weft_status wf_session_check_memory(const struct wf_topology *topology,
                                         struct weft_error *err);

#endif
