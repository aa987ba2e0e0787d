/* One rank's run: it gets ready, steps until it is done or told to stop, and keeps what it made. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/train_sample.h"
#include "training/ckpt/file.h"
#include "training/report/report.h"
#include "training/run/tensorboard.h"

/* One rank's. */
struct run {
    const struct wf_train_settings *settings;
    struct weft_comm *comm;             /* borrowed */
    struct wf_trainer *trainer;         /* owned */
    struct wf_rundir dir;               /* on rank 0; zeroed when nothing is kept */
    struct wf_report_server *server;    /* owned, on rank 0; NULL: nothing is served */
    struct wf_tensorboard *tensorboard; /* owned, on rank 0; NULL: none is written */
    struct wf_train_show show;
    struct wf_train_sampler sampler;
    double token_flops, peak, bubble_plan;
    int64_t begin_ns;
    uint64_t resumed; /* the step that it went on from */
    uint64_t saved;   /* the newest checkpoint's, on rank 0; 0: there is none */
    uint32_t rank, n_ranks;
    uint32_t slow_rank, n_slow; /* as it was found last, and how often in a row */
};

static bool is_root(const struct run *run)
{
    return run->rank == 0;
}

/* A rank that is slow in two comparisons, one after the other, is named, once. */
static void watch_pace(struct run *run, const struct wf_step_result *r)
{
    if (r->window_steps == 0)
        return;
    if (r->slow_rank != run->slow_rank)
        run->n_slow = 0;
    run->slow_rank = r->slow_rank;
    if (r->slow_rank == UINT32_MAX || run->n_slow++ != 1)
        return;
    wf_train_show_warning(&run->show,
                          "rank %u takes %.1f times as long as planned, against the fastest "
                          "rank, for %u steps",
                          r->slow_rank, r->slow_factor, r->window_steps);
}

static enum weft_status write_traces(struct run *run, uint64_t step, struct weft_error *err)
{
    uint32_t dp = run->settings->parallel.dp;
    for (uint32_t d = 0; d < dp; d++) {
        struct weft_trace trace = {0};
        WEFT_TRY(wf_trainer_trace(run->trainer, d, &trace, err));
        enum weft_status st = WEFT_OK;
        if (is_root(run))
            st = wf_rundir_write_trace(run->settings->log.dir, step, dp > 1 ? (int)d : -1,
                                       &trace, err);
        weft_trace_release(&trace);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

static enum weft_status log_step(struct run *run, const struct wf_step_result *r,
                                 double val_loss, struct weft_error *err)
{
    const struct wf_train_settings *s = run->settings;
    struct wf_metrics_record record = {.step = r->step,
                                       .loss = r->loss,
                                       .grad_norm = r->grad_norm,
                                       .lr = r->lr,
                                       .tokens = r->tokens,
                                       .ms = (double)r->ns * 1e-6,
                                       .bubble = run->n_ranks > 1 ? r->bubble : 0,
                                       .bubble_plan = run->bubble_plan,
                                       .val_loss = val_loss};
    wf_metrics_rates(&record, run->token_flops, run->peak);
    if (run->dir.metrics != NULL)
        WEFT_TRY(wf_metrics_log_add(run->dir.metrics, &record, err));
    if (run->tensorboard != NULL) {
        wf_tensorboard_step(run->tensorboard, &record, (double)time(NULL));
        if (val_loss != 0)
            wf_tensorboard_scalar(run->tensorboard, r->step, "val_loss", val_loss,
                                  (double)time(NULL));
        WEFT_TRY(wf_tensorboard_flush(run->tensorboard, err));
    }
    double a_step =
        (double)(wf_clock_ns() - run->begin_ns) * 1e-9 / (double)(r->step - run->resumed);
    wf_train_show_step(&run->show, &record, a_step * (double)(s->train.steps - r->step));
    if (val_loss != 0)
        wf_train_show_line(&run->show, "eval %llu/%llu | val loss %.4f | perplexity %.2f",
                           (unsigned long long)r->step, (unsigned long long)s->train.steps,
                           val_loss, exp(val_loss));
    watch_pace(run, r);
    return WEFT_OK;
}

static void tell_news(struct run *run)
{
    struct wf_checkpoint_result news = wf_trainer_poll_checkpoint(run->trainer);
    run->saved = news.saved > run->saved ? news.saved : run->saved;
    if (news.saved != 0)
        wf_train_show_line(&run->show, "saved    checkpoint of step %llu in %.2f s",
                           (unsigned long long)news.saved, news.seconds);
    if (news.error[0] != '\0')
        wf_train_show_warning(&run->show, "no checkpoint: %s; the run goes on", news.error);
}

static bool time_is_up(const struct run *run)
{
    double seconds = (double)(wf_clock_ns() - run->begin_ns) * 1e-9;
    return run->settings->train.max_time > 0 && seconds >= run->settings->train.max_time;
}

static enum weft_status one_step(struct run *run, bool *stop, struct weft_error *err)
{
    const struct wf_train_settings *s = run->settings;
    struct wf_step_result r;
    if (wf_train_stop_signal() != 0 || time_is_up(run))
        wf_trainer_request_stop(run->trainer);
    if (run->n_ranks == 1) /* several ranks tell it themselves, action by action */
        weft_comm_publish(run->comm, wf_trainer_steps_done(run->trainer) + 1, 0);
    WEFT_TRY(wf_trainer_step(run->trainer, &r, err));
    *stop = r.stop;
    /* Before anything else runs through the pipeline. */
    if (s->log.dir != NULL && r.step - run->resumed <= s->log.trace_steps)
        WEFT_TRY(write_traces(run, r.step, err));
    struct wf_eval_result eval = {0};
    if (s->eval.every != 0 && (r.step % s->eval.every == 0 || r.step == s->train.steps))
        WEFT_TRY(wf_trainer_evaluate(run->trainer, &eval, err));
    if (is_root(run))
        WEFT_TRY(log_step(run, &r, eval.loss, err));
    if (s->log.sample != 0 && (r.step % s->log.sample == 0 || r.step == s->train.steps))
        WEFT_TRY(wf_train_sampler_run(&run->sampler, run->trainer, &run->show, &run->dir,
                                      r.step, err));
    WEFT_TRY(wf_trainer_advance_checkpoint(run->trainer, err));
    if (is_root(run))
        tell_news(run);
    return WEFT_OK;
}

static void say_how_it_ended(struct run *run, enum weft_status st)
{
    unsigned long long steps = run->settings->train.steps;
    unsigned long long done = wf_trainer_steps_done(run->trainer);
    if (!is_root(run))
        return;
    wf_train_show_end(&run->show);
    if (st != WEFT_OK)
        printf("stopped after step %llu of %llu: the next one failed\n", done, steps);
    else if (done < steps)
        printf("stopped after step %llu of %llu: %s\n", done, steps,
               wf_train_stop_signal() != 0 || !time_is_up(run) ? "a signal came"
                                                               : "train.max_time is over");
    fflush(stdout);
}

/* After these all ranks still have their weights as the step before left them, and each other. */
static bool can_save(enum weft_status st)
{
    return st == WEFT_OK || st == WEFT_NUMERIC || st == WEFT_DATA;
}

/* The model takes the run's tokenizer along: generate needs nothing else then. */
static enum weft_status keep_tokenizer(const struct run *run, struct weft_error *err)
{
    if (access(run->dir.tokenizer, F_OK) != 0)
        return WEFT_OK;
    char *path = wf_path_join(run->dir.model, "tokenizer.json");
    enum weft_status st = path == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path")
                                       : wf_file_copy(run->dir.tokenizer, path, err);
    free(path);
    return st;
}

/* A run that is to go on leaves a checkpoint, one that is over its weights. */
static enum weft_status keep(struct run *run, struct weft_error *err)
{
    const struct wf_train_settings *s = run->settings;
    bool over = wf_trainer_steps_done(run->trainer) >= s->train.steps;
    if (s->checkpoint.every != 0) {
        enum weft_status st = wf_trainer_checkpoint(run->trainer, err);
        if (is_root(run))
            tell_news(run);
        if (!over || (st != WEFT_OK && st != WEFT_IO))
            return st;
        if (st != WEFT_OK && is_root(run))
            wf_train_show_warning(&run->show, "%s; the weights are saved", err->msg);
    }
    WEFT_TRY(wf_trainer_save(run->trainer, run->dir.model, err));
    if (!is_root(run))
        return WEFT_OK;
    WEFT_TRY(keep_tokenizer(run, err));
    printf("saved    %s\n", run->dir.model);
    return WEFT_OK;
}

static enum weft_status save_what_is_there(struct run *run, enum weft_status st,
                                           struct weft_error *err)
{
    if (run->settings->log.dir == NULL || wf_trainer_steps_done(run->trainer) == 0 ||
        !can_save(st))
        return st;
    struct weft_error second = {0};
    enum weft_status saved = keep(run, st == WEFT_OK ? err : &second);
    if (st == WEFT_OK)
        return saved;
    if (saved != WEFT_OK && is_root(run))
        wf_train_show_warning(&run->show, "nothing could be saved: %s", second.msg);
    return st;
}

static enum weft_status all_steps(struct run *run, struct weft_error *err)
{
    uint64_t steps = run->settings->train.steps;
    bool stop = false;
    run->begin_ns = wf_clock_ns();
    if (is_root(run))
        wf_train_show_begin(&run->show, wf_trainer_steps_done(run->trainer));
    enum weft_status st = WEFT_OK;
    while (st == WEFT_OK && wf_trainer_steps_done(run->trainer) < steps && !stop)
        st = one_step(run, &stop, err);
    if (wf_trainer_steps_done(run->trainer) >= steps)
        wf_train_is_over();
    say_how_it_ended(run, st);
    st = save_what_is_there(run, st, err);
    if (is_root(run) && wf_trainer_steps_done(run->trainer) < steps)
        wf_train_show_rest(&run->show, run->n_ranks, run->saved,
                           run->dir.model != NULL && access(run->dir.model, F_OK) == 0);
    return st;
}

/* Who cannot look on loses nothing else. */
static void serve(struct run *run)
{
    const struct wf_train_settings *s = run->settings;
    struct weft_error err = {0};
    if (s->log.serve == 0)
        return;
    if (wf_report_server_start((const char *const[]){s->log.dir}, 1, (uint16_t)s->log.serve,
                               &run->server, &err) != WEFT_OK)
        wf_train_show_warning(&run->show, "the page is not served: %s", err.msg);
    else
        printf("page     http://127.0.0.1:%u/\n", s->log.serve);
}

static enum weft_status open_run_directory(struct run *run, struct weft_error *err)
{
    const struct wf_train_settings *s = run->settings;
    if (s->log.dir == NULL)
        return WEFT_OK;
    struct wf_trainer_info info = wf_trainer_info(run->trainer);
    if (is_root(run)) {
        const struct wf_topology *l = info.topology;
        WEFT_TRY(wf_rundir_init(&run->dir, s->log.dir, s, info.model.vocab, run->resumed, err));
        WEFT_TRY(wf_rundir_write_schedule(s->log.dir, wf_topology_schedule(l, 0), err));
        if (s->log.trace_steps > 0)
            WEFT_TRY(wf_rundir_make_dir(s->log.dir, "trace", err));
    }
    WEFT_TRY(wf_train_write_plan(run->comm, s, &info, err));
    if (is_root(run))
        serve(run);
    if (is_root(run) && s->log.tensorboard) {
        char *dir = wf_path_join(s->log.dir, "tensorboard");
        enum weft_status st = dir == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path")
                                          : wf_tensorboard_new(dir, &run->tensorboard, err);
        free(dir);
        WEFT_TRY(st);
    }
    return wf_rundir_record_activity(s->log.dir, run->comm, err);
}

static enum weft_status prepare(struct run *run, struct weft_error *err)
{
    const struct wf_train_settings *s = run->settings;
    if (s->log.dir != NULL && is_root(run))
        WEFT_TRY(wf_rundir_open(&run->dir, s->log.dir,
                                wf_train_settings_resume(s).mode != WF_RESUME_NO, err));
    struct wf_cores cores = wf_cores_affinity(); /* before threads are bound to them */
    WEFT_TRY(wf_trainer_new(s, run->comm, &run->trainer, err));
    struct wf_trainer_info info = wf_trainer_info(run->trainer);
    run->resumed = info.resumed;
    if (wf_train_settings_resume(s).mode ==
        WF_RESUME_NEWEST) /* not from a path: that may be elsewhere */
        run->saved = info.resumed;
    if (s->log.sample != 0 && is_root(run))
        WEFT_TRY(wf_train_sampler_init(&run->sampler, s, &info.model, err));
    WEFT_TRY(open_run_directory(run, err));
    run->token_flops = info.token_flops;
    run->bubble_plan = info.bubble_plan;
    struct wf_rank_totals ranks = {0};
    WEFT_TRY(wf_train_ask_ranks(run->comm, run->trainer, &cores, &ranks, err));
    run->peak = ranks.peak;
    if (!is_root(run))
        return WEFT_OK;
    wf_train_show_head(&run->show, &info, weft_comm_name(run->comm), &ranks);
    if (info.resume_note[0] != '\0')
        wf_train_show_warning(&run->show, "%s", info.resume_note);
    if (run->resumed > 0)
        printf("resumed  from the checkpoint of step %llu\n", (unsigned long long)run->resumed);
    if (run->dir.aside != NULL)
        printf("         the run was finished, and goes on: its weights are in %s\n",
               run->dir.aside);
    if (run->dir.old_metrics != NULL)
        printf("         an unfinished run was here: its metrics are in %s now\n",
               run->dir.old_metrics);
    fflush(stdout);
    return WEFT_OK;
}

/* A thread that does not come back: the others can neither go on nor free what it may read. */
static void leave_at_once(void *arg, const struct weft_error *err)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    (void)arg;
    if (atomic_flag_test_and_set(&said))
        return;
    struct wf_bar bar = wf_train_bar();
    bar.shown = bar.on; /* there may be one */
    wf_bar_clear(&bar);
    fprintf(stderr, "weft: %s\n", err->msg);
    fflush(stdout);
    _exit(weft_status_exit_code(err->status));
}

/* The page about it, when nobody has the directory any more: it shows that the run is over. */
static void write_report(struct run *run)
{
    const char *dir = run->settings->log.dir;
    char *path = wf_path_join(dir, "report.html");
    struct wf_output sink;
    struct weft_error err = {0};
    enum weft_status st =
        path == NULL ? WEFT_FAIL(&err, WEFT_NOMEM, "no memory for a path") : WEFT_OK;
    if (st == WEFT_OK)
        st = wf_output_open(&sink, path, &err);
    if (st == WEFT_OK) {
        sink.quiet = true;
        st = wf_output_close(&sink, wf_report_write(sink.out, &dir, 1, &err), &err);
    }
    if (st == WEFT_OK)
        wf_train_show_line(&run->show, "report   %s", path);
    else
        wf_train_show_warning(&run->show, "there is no report: %s", err.msg);
    free(path);
}

enum weft_status wf_train_run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    weft_comm_on_hang(comm, leave_at_once, NULL);
    if (weft_comm_launcher() != NULL) /* else it was done before there were ranks */
        WEFT_TRY(wf_train_auto(arg, comm, err));
    struct run run = {.settings = arg,
                      .comm = comm,
                      .rank = weft_comm_rank(comm),
                      .n_ranks = weft_comm_size(comm),
                      .slow_rank = UINT32_MAX};
    run.show = wf_train_show_make(run.settings, run.n_ranks > 1);
    enum weft_status st = prepare(&run, err);
    if (st == WEFT_OK)
        st = all_steps(&run, err);
    wf_report_server_stop(run.server);
    wf_tensorboard_free(run.tensorboard);
    wf_train_sampler_release(&run.sampler);
    bool report = run.dir.metrics != NULL && wf_trainer_steps_done(run.trainer) > 0;
    wf_rundir_release(&run.dir);
    if (report)
        write_report(&run);
    wf_trainer_free(run.trainer);
    return st;
}
