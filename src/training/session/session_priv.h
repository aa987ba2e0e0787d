/* The part of a session that runs on one rank. */
#ifndef TRAINING_SESSION_SESSION_PRIV_H
#define TRAINING_SESSION_SESSION_PRIV_H

#include "base/cores.h"
#include "training/report/report.h"
#include "training/run/rundir.h"
#include "training/run/tensorboard.h"
#include "training/session/sampler.h"
#include "training/session/session.h"
#include "training/trainer/companions.h"

struct wf_session_rank {
    const struct wf_session *session; /* session, settings and comm are borrowed */
    const struct wf_train_settings *settings;
    struct weft_comm *comm;
    struct wf_trainer *trainer;         /* owned */
    struct wf_rundir dir;               /* used on rank 0 only; zeroed without log.dir */
    struct wf_report_server *server;    /* owned, on rank 0; NULL: the report is not served */
    struct wf_tensorboard *tensorboard; /* owned, on rank 0; NULL: no event file is written */
    struct wf_companions companions;    /* used on rank 0 only; zeroed without log.dir */
    struct wf_sampler sampler;
    bool sample_warned;
    double token_flops, peak_flops, bubble_plan;
    int64_t begin_ns;
    uint64_t resumed; /* the step of the checkpoint that the run continues from; 0: none */
    uint64_t saved;   /* the step of the newest checkpoint, on rank 0; 0: none */
    uint32_t rank, n_ranks;
    /* the slow rank of the last comparison; number of consecutive comparisons in which it was
     * slow */
    uint32_t slow_rank, n_slow;
};

/* Passes an event to the front end; does nothing on ranks other than 0. */
void wf_session_emit(const struct wf_session_rank *r, struct wf_session_event event);
void wf_session_warn(const struct wf_session_rank *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Emits WF_SESSION_EVENT_LAYOUT if parallel.auto chose a layout.  Does nothing for the empty
 * choice of other ranks than 0. */
void wf_session_emit_choice(const struct wf_session *session,
                            const struct wf_layout_choice *choice);

/* Opens the run directory, builds the trainer and opens the logs.  Collective. */
enum weft_status wf_session_open(struct wf_session_rank *r, struct weft_error *err);

/* Writes report.html into `dir` and emits an event or a warning.  The directory must not be
 * locked, so that the page shows that the run has ended.  Local. */
void wf_session_write_report(const struct wf_session_rank *r);

/* Gathers the speed and the memory of all ranks on rank 0, which fills *out.  All ranks measure
 * at the same time, since they will also compute at the same time.  `cores` are the cores that
 * this rank may use.  Collective. */
enum weft_status wf_session_gather_totals(struct weft_comm *comm,
                                          const struct wf_trainer *trainer,
                                          const struct wf_cores *cores,
                                          struct wf_rank_totals *out, struct weft_error *err);

/* Runs one rank of a session; `session` is a struct wf_session.  Collective. */
enum weft_status wf_session_run_rank(struct weft_comm *comm, void *session,
                                     struct weft_error *err);

#endif
