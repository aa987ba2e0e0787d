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
    const struct weft_train_settings *settings;
    struct weft_comm *comm;               /* borrowed */
    struct weft_trainer *trainer;         /* owned */
    struct weft_rundir dir;               /* on rank 0; zeroed when nothing is kept */
    struct weft_report_server *server;    /* owned, on rank 0; NULL: nothing is served */
    struct weft_tensorboard *tensorboard; /* owned, on rank 0; NULL: none is written */
    struct weft_train_show show;
    struct weft_train_sampler sampler;
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
static void watch_pace(struct run *run, const struct weft_step_result *r)
{
    if (r->paced_steps == 0)
        return;
    if (r->slow_rank != run->slow_rank)
        run->n_slow = 0;
    run->slow_rank = r->slow_rank;
    if (r->slow_rank == UINT32_MAX || run->n_slow++ != 1)
        return;
    weft_train_show_warning(&run->show,
                            "rank %u takes %.1f times as long as planned, against the fastest "
                            "rank, for %u steps",
                            r->slow_rank, r->slow_factor, r->paced_steps);
}

static enum weft_status write_traces(struct run *run, uint64_t step, struct weft_error *err)
{
    uint32_t dp = run->settings->parallel.dp;
    for (uint32_t d = 0; d < dp; d++) {
        struct weft_trace trace = {0};
        WEFT_TRY(weft_trainer_trace(run->trainer, d, &trace, err));
        enum weft_status st = WEFT_OK;
        if (is_root(run))
            st = weft_rundir_trace(run->settings->log.dir, step, dp > 1 ? (int)d : -1, &trace,
                                   err);
        weft_trace_release(&trace);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

static enum weft_status log_step(struct run *run, const struct weft_step_result *r,
                                 double val_loss, struct weft_error *err)
{
    const struct weft_train_settings *s = run->settings;
    struct weft_metrics_record record = {.step = r->step,
                                         .loss = r->loss,
                                         .grad_norm = r->grad_norm,
                                         .lr = r->lr,
                                         .tokens = r->tokens,
                                         .ms = (double)r->ns * 1e-6,
                                         .bubble = run->n_ranks > 1 ? r->bubble : 0,
                                         .bubble_plan = run->bubble_plan,
                                         .val_loss = val_loss};
    weft_metrics_rates(&record, run->token_flops, run->peak);
    if (run->dir.metrics != NULL)
        WEFT_TRY(weft_metrics_log_add(run->dir.metrics, &record, err));
    if (run->tensorboard != NULL) {
        weft_tensorboard_step(run->tensorboard, &record, (double)time(NULL));
        if (val_loss != 0)
            weft_tensorboard_scalar(run->tensorboard, r->step, "val_loss", val_loss,
                                    (double)time(NULL));
        WEFT_TRY(weft_tensorboard_flush(run->tensorboard, err));
    }
    double a_step =
        (double)(weft_clock_ns() - run->begin_ns) * 1e-9 / (double)(r->step - run->resumed);
    weft_train_show_step(&run->show, &record, a_step * (double)(s->train.steps - r->step));
    if (val_loss != 0)
        weft_train_show_line(&run->show, "eval %llu/%llu | val loss %.4f | perplexity %.2f",
                             (unsigned long long)r->step, (unsigned long long)s->train.steps,
                             val_loss, exp(val_loss));
    watch_pace(run, r);
    return WEFT_OK;
}

static void tell_news(struct run *run)
{
    struct weft_checkpoint_news news = weft_trainer_news(run->trainer);
    run->saved = news.saved > run->saved ? news.saved : run->saved;
    if (news.saved != 0)
        weft_train_show_line(&run->show, "saved    checkpoint of step %llu in %.2f s",
                             (unsigned long long)news.saved, news.seconds);
    if (news.error[0] != '\0')
        weft_train_show_warning(&run->show, "no checkpoint: %s; the run goes on", news.error);
}

static bool time_is_up(const struct run *run)
{
    double seconds = (double)(weft_clock_ns() - run->begin_ns) * 1e-9;
    return run->settings->train.max_time > 0 && seconds >= run->settings->train.max_time;
}

static enum weft_status one_step(struct run *run, bool *stop, struct weft_error *err)
{
    const struct weft_train_settings *s = run->settings;
    struct weft_step_result r;
    if (weft_train_stop_signal() != 0 || time_is_up(run))
        weft_trainer_ask_to_stop(run->trainer);
    if (run->n_ranks == 1) /* several ranks tell it themselves, action by action */
        weft_comm_tell(run->comm, weft_trainer_done(run->trainer) + 1, 0);
    WEFT_TRY(weft_trainer_step(run->trainer, &r, err));
    *stop = r.stop;
    /* Before anything else runs through the pipeline. */
    if (s->log.dir != NULL && r.step - run->resumed <= s->log.trace_steps)
        WEFT_TRY(write_traces(run, r.step, err));
    struct weft_eval_result eval = {0};
    if (s->eval.every != 0 && (r.step % s->eval.every == 0 || r.step == s->train.steps))
        WEFT_TRY(weft_trainer_evaluate(run->trainer, &eval, err));
    if (is_root(run))
        WEFT_TRY(log_step(run, &r, eval.loss, err));
    if (s->log.sample != 0 && (r.step % s->log.sample == 0 || r.step == s->train.steps))
        WEFT_TRY(weft_train_sampler_run(&run->sampler, run->trainer, &run->show, &run->dir,
                                        r.step, err));
    WEFT_TRY(weft_trainer_tend_checkpoints(run->trainer, err));
    if (is_root(run))
        tell_news(run);
    return WEFT_OK;
}

static void say_how_it_ended(struct run *run, enum weft_status st)
{
    unsigned long long steps = run->settings->train.steps;
    unsigned long long done = weft_trainer_done(run->trainer);
    if (!is_root(run))
        return;
    weft_train_show_end(&run->show);
    if (st != WEFT_OK)
        printf("stopped after step %llu of %llu: the next one failed\n", done, steps);
    else if (done < steps)
        printf("stopped after step %llu of %llu: %s\n", done, steps,
               weft_train_stop_signal() != 0 || !time_is_up(run) ? "a signal came"
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
    char *path = weft_path_join(run->dir.model, "tokenizer.json");
    enum weft_status st = path == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path")
                                       : weft_file_copy(run->dir.tokenizer, path, err);
    free(path);
    return st;
}

/* A run that is to go on leaves a checkpoint, one that is over its weights. */
static enum weft_status keep(struct run *run, struct weft_error *err)
{
    const struct weft_train_settings *s = run->settings;
    bool over = weft_trainer_done(run->trainer) >= s->train.steps;
    if (s->checkpoint.every != 0) {
        enum weft_status st = weft_trainer_checkpoint(run->trainer, err);
        if (is_root(run))
            tell_news(run);
        if (!over || (st != WEFT_OK && st != WEFT_IO))
            return st;
        if (st != WEFT_OK && is_root(run))
            weft_train_show_warning(&run->show, "%s; the weights are saved", err->msg);
    }
    WEFT_TRY(weft_trainer_save(run->trainer, run->dir.model, err));
    if (!is_root(run))
        return WEFT_OK;
    WEFT_TRY(keep_tokenizer(run, err));
    printf("saved    %s\n", run->dir.model);
    return WEFT_OK;
}

static enum weft_status save_what_is_there(struct run *run, enum weft_status st,
                                           struct weft_error *err)
{
    if (run->settings->log.dir == NULL || weft_trainer_done(run->trainer) == 0 || !can_save(st))
        return st;
    struct weft_error second = {0};
    enum weft_status saved = keep(run, st == WEFT_OK ? err : &second);
    if (st == WEFT_OK)
        return saved;
    if (saved != WEFT_OK && is_root(run))
        weft_train_show_warning(&run->show, "nothing could be saved: %s", second.msg);
    return st;
}

static enum weft_status all_steps(struct run *run, struct weft_error *err)
{
    uint64_t steps = run->settings->train.steps;
    bool stop = false;
    run->begin_ns = weft_clock_ns();
    if (is_root(run))
        weft_train_show_begin(&run->show, weft_trainer_done(run->trainer));
    enum weft_status st = WEFT_OK;
    while (st == WEFT_OK && weft_trainer_done(run->trainer) < steps && !stop)
        st = one_step(run, &stop, err);
    if (weft_trainer_done(run->trainer) >= steps)
        weft_train_is_over();
    say_how_it_ended(run, st);
    st = save_what_is_there(run, st, err);
    if (is_root(run) && weft_trainer_done(run->trainer) < steps)
        weft_train_show_rest(&run->show, run->n_ranks, run->saved,
                             run->dir.model != NULL && access(run->dir.model, F_OK) == 0);
    return st;
}

/* Who cannot look on loses nothing else. */
static void serve(struct run *run)
{
    const struct weft_train_settings *s = run->settings;
    struct weft_error err = {0};
    if (s->log.serve == 0)
        return;
    if (weft_report_server_start((const char *const[]){s->log.dir}, 1, (uint16_t)s->log.serve,
                                 &run->server, &err) != WEFT_OK)
        weft_train_show_warning(&run->show, "the page is not served: %s", err.msg);
    else
        printf("page     http://127.0.0.1:%u/\n", s->log.serve);
}

static enum weft_status open_run_directory(struct run *run, struct weft_error *err)
{
    const struct weft_train_settings *s = run->settings;
    if (s->log.dir == NULL)
        return WEFT_OK;
    struct weft_trainer_info info = weft_trainer_info(run->trainer);
    if (is_root(run)) {
        const struct weft_layout *l = info.layout;
        WEFT_TRY(
            weft_rundir_init(&run->dir, s->log.dir, s, info.model.vocab, run->resumed, err));
        WEFT_TRY(weft_rundir_schedule(s->log.dir, weft_layout_schedule(l, 0), err));
        if (s->log.trace_steps > 0)
            WEFT_TRY(weft_rundir_make(s->log.dir, "trace", err));
    }
    WEFT_TRY(weft_train_write_plan(run->comm, s, &info, err));
    if (is_root(run))
        serve(run);
    if (is_root(run) && s->log.tensorboard) {
        char *dir = weft_path_join(s->log.dir, "tensorboard");
        enum weft_status st = dir == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path")
                                          : weft_tensorboard_new(dir, &run->tensorboard, err);
        free(dir);
        WEFT_TRY(st);
    }
    return weft_rundir_record(s->log.dir, run->comm, err);
}

static enum weft_status prepare(struct run *run, struct weft_error *err)
{
    const struct weft_train_settings *s = run->settings;
    if (s->log.dir != NULL && is_root(run))
        WEFT_TRY(weft_rundir_open(&run->dir, s->log.dir,
                                  strcmp(s->checkpoint.resume, "no") != 0, err));
    struct weft_cores cores = weft_cores_set(); /* before threads are bound to them */
    WEFT_TRY(weft_trainer_new(s, run->comm, &run->trainer, err));
    struct weft_trainer_info info = weft_trainer_info(run->trainer);
    run->resumed = info.resumed;
    if (strcmp(s->checkpoint.resume, "auto") == 0) /* not from a path: that may be elsewhere */
        run->saved = info.resumed;
    if (s->log.sample != 0 && is_root(run))
        WEFT_TRY(weft_train_sampler_init(&run->sampler, s, &info.model, err));
    WEFT_TRY(open_run_directory(run, err));
    run->token_flops = info.token_flops;
    run->bubble_plan = info.bubble_plan;
    struct weft_rank_sum ranks = {0};
    WEFT_TRY(weft_train_ask_ranks(run->comm, run->trainer, &cores, &ranks, err));
    run->peak = ranks.peak;
    if (!is_root(run))
        return WEFT_OK;
    weft_train_show_head(&run->show, &info, weft_comm_name(run->comm), &ranks);
    if (info.resume_note[0] != '\0')
        weft_train_show_warning(&run->show, "%s", info.resume_note);
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
    struct weft_bar bar = weft_train_bar();
    bar.shown = bar.on; /* there may be one */
    weft_bar_clear(&bar);
    fprintf(stderr, "weft: %s\n", err->msg);
    fflush(stdout);
    _exit(weft_status_exit_code(err->status));
}

/* The page about it, when nobody has the directory any more: it shows that the run is over. */
static void write_report(struct run *run)
{
    const char *dir = run->settings->log.dir;
    char *path = weft_path_join(dir, "report.html");
    struct weft_output sink;
    struct weft_error err = {0};
    enum weft_status st =
        path == NULL ? WEFT_FAIL(&err, WEFT_NOMEM, "no memory for a path") : WEFT_OK;
    if (st == WEFT_OK)
        st = weft_output_open(&sink, path, &err);
    if (st == WEFT_OK) {
        sink.quiet = true;
        st = weft_output_close(&sink, weft_report_write(sink.out, &dir, 1, &err), &err);
    }
    if (st == WEFT_OK)
        weft_train_show_line(&run->show, "report   %s", path);
    else
        weft_train_show_warning(&run->show, "there is no report: %s", err.msg);
    free(path);
}

enum weft_status weft_train_run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    weft_comm_on_deserted(comm, leave_at_once, NULL);
    if (weft_comm_launcher() != NULL) /* else it was done before there were ranks */
        WEFT_TRY(weft_train_auto(arg, comm, err));
    struct run run = {.settings = arg,
                      .comm = comm,
                      .rank = weft_comm_rank(comm),
                      .n_ranks = weft_comm_size(comm),
                      .slow_rank = UINT32_MAX};
    run.show = weft_train_show_make(run.settings, run.n_ranks > 1);
    enum weft_status st = prepare(&run, err);
    if (st == WEFT_OK)
        st = all_steps(&run, err);
    weft_report_server_stop(run.server);
    weft_tensorboard_free(run.tensorboard);
    weft_train_sampler_release(&run.sampler);
    bool report = run.dir.metrics != NULL && weft_trainer_done(run.trainer) > 0;
    weft_rundir_release(&run.dir);
    if (report)
        write_report(&run);
    weft_trainer_free(run.trainer);
    return st;
}
