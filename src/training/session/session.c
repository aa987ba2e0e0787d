/* The training loop of one rank: decides when to evaluate, sample, save, log and stop. */
#include "training/session/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "training/session/session_priv.h"
#include "training/session/stop.h"

/* -- events -------------------------------------------------------------------------------- */

void wf_session_emit(const struct wf_session_rank *r, struct wf_session_event event)
{
    if (r->rank != 0 || r->session->on_event == NULL)
        return;
    event.settings = r->settings;
    event.n_ranks = r->n_ranks;
    r->session->on_event(r->session->arg, &event);
}

void wf_session_warn(const struct wf_session_rank *r, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    wf_session_emit(r,
                    (struct wf_session_event){.kind = WF_SESSION_EVENT_WARNING, .text = text});
}

/* -- logging a step ------------------------------------------------------------------------ */

static double seconds_since(int64_t begin_ns)
{
    return (double)(wf_clock_ns() - begin_ns) * 1e-9;
}

/* Warns once about a rank that is slow in two consecutive comparisons. */
static void watch_pace(struct wf_session_rank *r, const struct wf_step_result *step)
{
    if (step->window_steps == 0)
        return;
    if (step->slow_rank != r->slow_rank)
        r->n_slow = 0;
    r->slow_rank = step->slow_rank;
    if (step->slow_rank == UINT32_MAX || r->n_slow++ != 1)
        return;
    wf_session_warn(
        r,
        "rank %u is slow: its ratio of measured to planned time is %.1f times that of the "
        "fastest rank, over %u steps",
        step->slow_rank, step->slow_factor, step->window_steps);
}

static enum weft_status log_tensorboard(struct wf_session_rank *r,
                                        const struct wf_metrics_record *record,
                                        struct weft_error *err)
{
    double now = wf_tensorboard_now();
    wf_tensorboard_step(r->tensorboard, record, now);
    if (record->val_loss != 0)
        wf_tensorboard_scalar(r->tensorboard, record->step, "val_loss", record->val_loss, now);
    return wf_tensorboard_flush(r->tensorboard, err);
}

static enum weft_status log_step(struct wf_session_rank *r, const struct wf_step_result *step,
                                 double val_loss, struct weft_error *err)
{
    struct wf_metrics_record record = {.step = step->step,
                                       .loss = step->loss,
                                       .grad_norm = step->grad_norm,
                                       .lr = step->lr,
                                       .tokens = step->tokens,
                                       .ms = (double)step->ns * 1e-6,
                                       .bubble = r->n_ranks > 1 ? step->bubble : 0,
                                       .bubble_plan = r->bubble_plan,
                                       .val_loss = val_loss};
    wf_metrics_rates(&record, r->token_flops, r->peak_flops);
    if (r->dir.metrics != NULL)
        WEFT_TRY(wf_metrics_log_add(r->dir.metrics, &record, err));
    if (r->tensorboard != NULL)
        WEFT_TRY(log_tensorboard(r, &record, err));

    double per_step = seconds_since(r->begin_ns) / (double)(step->step - r->resumed);
    double remaining = per_step * (double)(r->settings->train.steps - step->step);
    wf_session_emit(r, (struct wf_session_event){.kind = WF_SESSION_EVENT_STEP,
                                                 .record = &record,
                                                 .seconds = remaining});
    watch_pace(r, step);
    return WEFT_OK;
}

static enum weft_status write_traces(struct wf_session_rank *r, uint64_t step,
                                     struct weft_error *err)
{
    uint32_t dp = r->settings->parallel.dp;
    for (uint32_t d = 0; d < dp; d++) {
        struct weft_trace trace = {0};
        WEFT_TRY(wf_trainer_trace(r->trainer, d, &trace, err));
        enum weft_status st = WEFT_OK;
        if (r->rank == 0)
            st = wf_rundir_write_trace(r->settings->log.dir, step, dp > 1 ? (int)d : -1, &trace,
                                       err);
        weft_trace_release(&trace);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

/* Reports only the first failure, because later failures would repeat the message. */
static void warn_sample(struct wf_session_rank *r, const char *why)
{
    if (!r->sample_warned)
        wf_session_warn(r, "cannot generate a sample: %s; the run continues", why);
    r->sample_warned = true;
}

static enum weft_status sample(struct wf_session_rank *r, uint64_t step, struct weft_error *err)
{
    struct wf_text text = {0};
    struct weft_error failure = {0};
    enum weft_status st = wf_sampler_run(&r->sampler, r->trainer, &text, &failure, err);
    if (st == WEFT_OK && r->rank == 0 && failure.status == WEFT_OK) {
        wf_session_emit(r, (struct wf_session_event){
                               .kind = WF_SESSION_EVENT_SAMPLE, .step = step, .text = text.at});
        if (r->dir.samples != NULL)
            (void)wf_rundir_append_sample(&r->dir, step, text.at, &failure);
    }
    if (st == WEFT_OK && r->rank == 0 && failure.status != WEFT_OK)
        warn_sample(r, failure.msg);
    wf_text_release(&text);
    return st;
}

static void report_checkpoint(struct wf_session_rank *r)
{
    if (r->rank != 0)
        return;
    struct wf_checkpoint_result result = wf_trainer_poll_checkpoint(r->trainer);
    r->saved = result.saved > r->saved ? result.saved : r->saved;
    if (result.saved != 0)
        wf_session_emit(r, (struct wf_session_event){.kind = WF_SESSION_EVENT_CHECKPOINT,
                                                     .step = result.saved,
                                                     .seconds = result.seconds});
    if (result.error[0] != '\0')
        wf_session_warn(r, "cannot write a checkpoint: %s; the run continues", result.error);
}

/* -- the loop ------------------------------------------------------------------------------ */

static bool time_is_up(const struct wf_session_rank *r)
{
    double limit = r->settings->train.max_time;
    return limit > 0 && seconds_since(r->begin_ns) >= limit;
}

/* Returns true after every `every` steps (0: never) and after the last step. */
static bool is_due(const struct wf_session_rank *r, uint32_t every, uint64_t step)
{
    return every != 0 && (step % every == 0 || step == r->settings->train.steps);
}

static enum weft_status one_step(struct wf_session_rank *r, bool *stop, struct weft_error *err)
{
    const struct wf_train_settings *s = r->settings;
    struct wf_step_result step;
    bool asked = r->rank == 0 && r->session->stop != NULL && *r->session->stop;
    if (asked || wf_stop_signal() != 0 || time_is_up(r))
        wf_trainer_request_stop(r->trainer);
    if (r->n_ranks == 1) /* with several ranks, the executor records the actions */
        weft_comm_publish(r->comm, wf_trainer_steps_done(r->trainer) + 1, 0);
    WEFT_TRY(wf_trainer_step(r->trainer, &step, err));
    *stop = step.stop;

    /* Write the trace now: it is lost once anything else runs through the pipeline. */
    if (s->log.dir != NULL && step.step - r->resumed <= s->log.trace_steps)
        WEFT_TRY(write_traces(r, step.step, err));

    struct wf_eval_result eval = {0};
    if (is_due(r, s->eval.every, step.step))
        WEFT_TRY(wf_trainer_evaluate(r->trainer, &eval, err));
    if (r->rank == 0)
        WEFT_TRY(log_step(r, &step, eval.loss, err));
    if (is_due(r, s->log.sample, step.step))
        WEFT_TRY(sample(r, step.step, err));

    /* The checkpoint is written last, so that a run that continues from it finds the logs of
     * its step. */
    WEFT_TRY(wf_trainer_advance_checkpoint(r->trainer, err));
    report_checkpoint(r);
    return WEFT_OK;
}

static enum wf_session_end why_ended(const struct wf_session_rank *r, enum weft_status st)
{
    if (st != WEFT_OK)
        return WF_SESSION_END_FAILED;
    if (wf_trainer_steps_done(r->trainer) >= r->settings->train.steps)
        return WF_SESSION_END_DONE;
    return wf_stop_signal() != 0 || !time_is_up(r) ? WF_SESSION_END_SIGNAL
                                                   : WF_SESSION_END_TIME;
}

/* -- saving -------------------------------------------------------------------------------- */

/* Returns true for failures after which all ranks can still communicate and have the weights of
 * the previous step. */
static bool can_save(enum weft_status st)
{
    return st == WEFT_OK || st == WEFT_NUMERIC || st == WEFT_DATA;
}

static enum weft_status save_model(struct wf_session_rank *r, struct weft_error *err)
{
    WEFT_TRY(wf_trainer_save(r->trainer, r->dir.model, &r->companions, err));
    if (r->rank != 0)
        return WEFT_OK;
    wf_session_emit(r, (struct wf_session_event){.kind = WF_SESSION_EVENT_MODEL_SAVED,
                                                 .text = r->dir.model});
    return WEFT_OK;
}

/* Saves a checkpoint if the run is unfinished, or the weights if it is finished.  If
 * checkpoints are disabled, saves the weights in both cases. */
static enum weft_status save(struct wf_session_rank *r, struct weft_error *err)
{
    const struct wf_train_settings *s = r->settings;
    bool finished = wf_trainer_steps_done(r->trainer) >= s->train.steps;
    if (s->checkpoint.every != 0) {
        enum weft_status st = wf_trainer_checkpoint(r->trainer, err);
        report_checkpoint(r);
        if (!finished || (st != WEFT_OK && st != WEFT_IO))
            return st;
        if (st != WEFT_OK)
            wf_session_warn(r, "%s; the weights are saved", err->msg);
    }
    return save_model(r, err);
}

/* Saves after the steps.  Returns the status of the steps, or the status of saving if all steps
 * succeeded. */
static enum weft_status save_after(struct wf_session_rank *r, enum weft_status st,
                                   struct weft_error *err)
{
    if (r->settings->log.dir == NULL || wf_trainer_steps_done(r->trainer) == 0 || !can_save(st))
        return st;
    if (st == WEFT_OK)
        return save(r, err);
    struct weft_error second = {0};
    if (save(r, &second) != WEFT_OK)
        wf_session_warn(r, "nothing is saved: %s", second.msg);
    return st;
}

/* -- the session --------------------------------------------------------------------------- */

static enum weft_status all_steps(struct wf_session_rank *r, struct weft_error *err)
{
    uint64_t steps = r->settings->train.steps;
    bool stop = false;
    r->begin_ns = wf_clock_ns();
    wf_session_emit(r, (struct wf_session_event){.kind = WF_SESSION_EVENT_STARTED,
                                                 .step = wf_trainer_steps_done(r->trainer)});

    enum weft_status st = WEFT_OK;
    while (st == WEFT_OK && wf_trainer_steps_done(r->trainer) < steps && !stop)
        st = one_step(r, &stop, err);

    uint64_t done = wf_trainer_steps_done(r->trainer);
    if (done >= steps)
        wf_stop_finish();
    wf_session_emit(r, (struct wf_session_event){.kind = WF_SESSION_EVENT_ENDED,
                                                 .step = done,
                                                 .end = why_ended(r, st)});

    st = save_after(r, st, err);
    if (done < steps)
        wf_session_emit(
            r, (struct wf_session_event){.kind = WF_SESSION_EVENT_UNFINISHED,
                                         .step = r->saved,
                                         .has_weights = r->dir.model != NULL &&
                                                        access(r->dir.model, F_OK) == 0});
    return st;
}

enum weft_status wf_session_run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct wf_session *session = arg;
    struct wf_session_rank r = {.session = session,
                                .settings = session->settings,
                                .comm = comm,
                                .rank = weft_comm_rank(comm),
                                .n_ranks = weft_comm_size(comm),
                                .slow_rank = UINT32_MAX};
    if (session->on_hang != NULL)
        weft_comm_on_hang(comm, session->on_hang, session->arg);

    /* Ranks that are threads can be started only after the layout is chosen. */
    struct wf_layout_choice choice = {0};
    enum weft_status st = WEFT_OK;
    if (weft_comm_launcher() != NULL)
        st = wf_session_choose_layout(session->settings, comm, &choice, err);
    if (st == WEFT_OK)
        wf_session_emit_choice(session, &choice);
    wf_layout_choice_release(&choice);

    if (st == WEFT_OK)
        st = wf_session_open(&r, err);
    if (st == WEFT_OK)
        st = all_steps(&r, err);

    wf_report_server_stop(r.server);
    wf_tensorboard_free(r.tensorboard);
    wf_sampler_release(&r.sampler);
    wf_companions_release(&r.companions);
    bool has_report = r.dir.metrics != NULL && wf_trainer_steps_done(r.trainer) > 0;
    wf_rundir_release(&r.dir);
    if (has_report)
        wf_session_write_report(&r);
    wf_trainer_free(r.trainer);
    return st;
}
