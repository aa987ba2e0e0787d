/* One training step: tokens, pipeline, reduction over ranks, loss and norm, update. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "compute/optim/lr_curve.h"
#include "training/trainer/trainer_priv.h"

/* The outcome that rank 0 broadcasts at the end of a step. */
struct step_outcome {
    uint32_t status;
    uint32_t stop;
    double loss, norm, bubble;
    int64_t pipeline_ns;
    struct wf_straggler straggler;
    char error[WF_SUMMARY_ERROR];
};

/* Returns the number of the current step for messages, counted from 1. */
static unsigned long long step_number(const struct wf_trainer *t)
{
    return (unsigned long long)t->done + 1;
}

/* Stores the first failure after which the ranks can continue.  Returns failures after which
 * they cannot. */
static enum weft_status keep_first(enum weft_status st, const struct weft_error *from,
                                   enum weft_status *first, struct weft_error *kept)
{
    if (st != WEFT_OK && st != WEFT_NUMERIC && st != WEFT_DATA)
        return st;
    if (st != WEFT_OK && *first == WEFT_OK) {
        *first = st;
        *kept = *from;
    }
    return WEFT_OK;
}

/* -- the end of a step --------------------------------------------------------------------- */

/* Divides by the number of targets of the step.  A step whose tokens are all masked has the
 * loss 0 and the gradient 0. */
static double mean_of(double sum, size_t n_targets)
{
    return sum / (double)(n_targets > 0 ? n_targets : 1);
}

static void decide_outcome(struct wf_trainer *t, size_t n_targets, struct step_outcome *out)
{
    struct wf_summaries *s = &t->summaries;
    const struct wf_step_summary *failure = wf_summaries_first_failure(s);
    *out = (struct step_outcome){.status = WEFT_OK};
    for (uint32_t r = 0; r < t->n_ranks; r++)
        out->stop |= s->all[r]->stop;
    out->bubble = wf_summaries_bubble(s, &out->pipeline_ns);
    out->straggler = wf_stragglers_check(&t->stragglers, s);
    if (failure != NULL) {
        out->status = failure->status;
        memcpy(out->error, failure->error, sizeof out->error);
        return;
    }

    out->loss = mean_of(wf_summaries_total_loss(s), n_targets);
    out->norm = wf_summaries_norm(s);
    if (!isfinite(out->loss)) {
        out->status = WEFT_NUMERIC;
        snprintf(out->error, sizeof out->error, "step %llu: the loss is not a finite number",
                 step_number(t));
    } else if (!isfinite(out->norm)) {
        out->status = WEFT_NUMERIC;
        snprintf(out->error, sizeof out->error,
                 "step %llu: the gradient of %s is not a finite number; the weights are "
                 "unchanged",
                 step_number(t), wf_summaries_find_nonfinite(s));
    }
}

/* Summarizes this rank's part and receives the outcome of all ranks. */
static enum weft_status exchange_outcome(struct wf_trainer *t, size_t n_targets,
                                         enum weft_status failed,
                                         const struct weft_error *failure,
                                         struct weft_cell_id where, struct step_outcome *out,
                                         struct weft_error *err)
{
    struct weft_exec_times times = weft_exec_times(t->exec);
    struct wf_step_summary head = {.status = (uint32_t)failed,
                                   .stage = where.stage,
                                   .micro = where.micro,
                                   .stop = t->stop,
                                   .begin_ns = times.begin_ns + t->clock_offset_ns,
                                   .end_ns = times.end_ns + t->clock_offset_ns,
                                   .compute_ns = times.compute_ns};
    size_t n;
    const double *squares = wf_optim_segment_squares(t->optim, &n);
    if (failed != WEFT_OK)
        snprintf(head.error, sizeof head.error, "%s", failure->msg);
    wf_summaries_set(&t->summaries, &head, t->data.losses, squares, n);

    WEFT_TRY(wf_summaries_gather(&t->summaries, true, err));
    if (t->rank == 0)
        decide_outcome(t, n_targets, out);
    return t->comm == NULL ? WEFT_OK : weft_comm_broadcast(t->comm, out, sizeof *out, err);
}

/* -- the pipeline -------------------------------------------------------------------------- */

/* Runs the pipeline on this rank.  `no_tokens` is the error of a rank that has no tokens; such
 * a rank only reports the failure. */
static enum weft_status run_pipeline(struct wf_trainer *t, size_t n_targets,
                                     const struct weft_error *no_tokens, struct weft_error *err)
{
    struct wf_trainer_data *d = &t->data;
    const struct weft_exec_io io = {
        .step = t->done + 1,
        .inputs = d->input_at,
        .targets = d->target_at,
        .scale = (float)mean_of(1, n_targets),
        .losses = d->losses,
        .failure = no_tokens,
    };
    for (uint32_t s = 0; s < t->topology.n_stages; s++)
        if (t->stages[s] != NULL)
            wf_tstage_begin_step(t->stages[s]);
    for (size_t i = 0; i < t->n_groups; i++)
        t->groups[i].reduced = false;
    memset(d->losses, 0, d->n_micros * sizeof *d->losses);
    return weft_exec_step(t->exec, &io, err);
}

/* Runs the pipeline and all reductions.  Returns errors after which the ranks cannot continue.
 * A failure after which they can continue is stored in *failed, and its stage and micro in
 * *where. */
static enum weft_status compute_gradients(struct wf_trainer *t, size_t *n_targets,
                                          enum weft_status *failed, struct weft_error *failure,
                                          struct weft_cell_id *where, struct weft_error *err)
{
    struct weft_error cause = {0}, no_tokens = {0};
    enum weft_status got = wf_trainer_data_read(&t->data, &t->data.batch, t->done, t->done + 1,
                                                n_targets, &no_tokens);
    if (got != WEFT_OK)
        *n_targets = 1;
    enum weft_status st =
        run_pipeline(t, *n_targets, got == WEFT_OK ? NULL : &no_tokens, &cause);
    if (got == WEFT_OK && (st == WEFT_NUMERIC || st == WEFT_DATA)) {
        char before[64];
        *where = weft_exec_failed_at(t->exec);
        where->micro += t->data.first_micro;
        snprintf(before, sizeof before, "step %llu, micro %u: ", step_number(t), where->micro);
        wf_error_wrap(&cause, before, "");
    }

    /* A rank without tokens has sent all its messages, whatever the cause.  The other ranks
     * receive the failure with its summary. */
    if (got != WEFT_OK && st == got) {
        *failed = got;
        *failure = no_tokens;
        st = WEFT_OK;
    }
    st = keep_first(st, &cause, failed, failure);

    if (st == WEFT_OK && t->comm != NULL)
        weft_comm_publish(t->comm, t->done + 1, WF_PHASE_END);
    for (size_t i = 0; st == WEFT_OK && i < t->n_groups; i++)
        st = keep_first(wf_trainer_finish_reduction(t, i, &cause), &cause, failed, failure);
    if (st != WEFT_OK && err != NULL)
        *err = cause;
    return st;
}

/* -- the step ------------------------------------------------------------------------------ */

enum weft_status wf_trainer_step(struct wf_trainer *t, struct wf_step_result *out,
                                 struct weft_error *err)
{
    int64_t begin = wf_clock_ns();
    struct weft_cell_id where = {t->topology.n_stages, t->topology.micros};
    struct weft_error failure = {0};
    enum weft_status failed = WEFT_OK;
    struct step_outcome all;
    size_t n_targets;
    t->failed_together = false;
    WEFT_TRY(compute_gradients(t, &n_targets, &failed, &failure, &where, err));
    WEFT_TRY(exchange_outcome(t, n_targets, failed, &failure, where, &all, err));
    if (all.status != WEFT_OK) {
        t->failed_together = true;
        return WEFT_FAIL(err, (enum weft_status)all.status, "%s", all.error);
    }

    const struct wf_optim_step step = {.t = t->done + 1,
                                       .lr = wf_lr_curve_at(&t->curve, t->done),
                                       .scale = wf_clip_scale(all.norm, t->clip)};
    WEFT_TRY(wf_trainer_update(t, &step, err));
    t->done++;
    *out = (struct wf_step_result){.step = t->done,
                                   .loss = all.loss,
                                   .grad_norm = all.norm,
                                   .lr = step.lr,
                                   .tokens = (uint64_t)t->data.batch.rows * t->topology.seq,
                                   .ns = wf_clock_ns() - begin,
                                   .pipeline_ns = all.pipeline_ns,
                                   .bubble = all.bubble,
                                   .stop = all.stop != 0,
                                   .window_steps = all.straggler.window_steps,
                                   .slow_rank = all.straggler.rank,
                                   .slow_factor = all.straggler.factor};
    return WEFT_OK;
}
