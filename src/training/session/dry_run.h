/* The dry run of a training: checks the settings, the data and the memory of a run, and
 * computes its layout and the planned timeline of a step without training. */
#ifndef TRAINING_SESSION_DRY_RUN_H
#define TRAINING_SESSION_DRY_RUN_H

#include "training/layout/topology.h"
#include "training/session/session.h"
#include "weft/trace.h"
#include "weft/traffic.h"

struct wf_dry_run {
    struct wf_topology topology;
    size_t n_params;
    double token_flops;          /* operations per token */
    struct wf_rank_bytes *ranks; /* owned: (topology.n_ranks) */
    size_t total_bytes;          /* memory of all ranks; saturates at SIZE_MAX */
    char *recompute;             /* owned: recomputed layers in the syntax of the setting */

    /* Bytes per step.  pipeline_bytes: all messages of the first replica; 0 if there are none.
     * The link `busiest` sends most of them. */
    size_t pipeline_bytes;
    struct weft_traffic_link busiest;
    /* Gradients and new weights that the ranks send to other ranks with the same parameters. */
    size_t gradient_bytes, weight_bytes;

    double peak_flops;      /* measured peak of one rank in operations per second */
    struct weft_trace plan; /* a step of the first replica; 1 operation takes 1 / peak_flops */
};

/* Builds and checks the layout of a run, and computes all figures on rank 0.  The other ranks
 * set only `topology`.  If `comm` is NULL, ranks are threads, and all figures are computed.
 * The caller releases *out.  Local. */
enum weft_status wf_dry_run_init(struct wf_dry_run *out, const struct wf_train_settings *s,
                                 struct weft_comm *comm, struct weft_error *err);
void wf_dry_run_release(struct wf_dry_run *d); /* a zeroed struct is allowed */

/* Runs a session without training: chooses the layout, emits WF_SESSION_EVENT_LAYOUT with
 * parallel.auto, then WF_SESSION_EVENT_DRY_RUN with the figures.  Returns WEFT_NOMEM afterwards
 * if the run needs more memory than the machine has.  Collective. */
enum weft_status wf_session_dry_run(struct wf_session *session, struct weft_error *err);

#endif
