/* Trains a model, step by step, until it is done or told to stop. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/text.h"
#include "ckpt/file.h"
#include "cli/cli.h"
#include "cli/numbers.h"
#include "cli/train.h"
#include "data/tokenizer.h"
#include "kern/isa.h"
#include "kern/pool.h"
#include "report/report.h"
#include "train/rundir.h"
#include "train/settings.h"
#include "train/tensorboard.h"
#include "train/trainer.h"
#include "weft/comm.h"

struct train_options {
    bool print_config, dry_run;
};

static const struct weft_option options[] = {
    {"print-config", 0, WEFT_OPT_SWITCH, NULL, "print all settings as a file, and do nothing",
     NULL, offsetof(struct train_options, print_config)},
    {"dry-run", 0, WEFT_OPT_SWITCH, NULL,
     "check everything, show layout, memory and timeline, and train nothing", NULL,
     offsetof(struct train_options, dry_run)},
};

/* -- stopping ------------------------------------------------------------------------------- */

/* The first signal asks for an end after the step; a second one has its usual effect. */
static volatile sig_atomic_t stop_signal;

static void note_signal(int number)
{
    stop_signal = number;
}

static void catch_signals(void)
{
    struct sigaction how = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&how.sa_mask);
    sigaction(SIGINT, &how, NULL);
    sigaction(SIGTERM, &how, NULL);
    sigaction(SIGHUP, &how, NULL);
    signal(SIGPIPE, SIG_IGN); /* who watches may go: the run goes on, and is saved */
}

/* -- what is printed ------------------------------------------------------------------------ */

enum { NUMBER = WEFT_NUMBER_TEXT };

static const char *clock_text(char out[NUMBER], double seconds)
{
    unsigned long long s = seconds < 1e12 ? (unsigned long long)(seconds + 0.5) : 0;
    snprintf(out, NUMBER, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    return out;
}

static void print_model(const struct weft_train_settings *s, const struct weft_trainer_info *i)
{
    char params[NUMBER];
    printf("model    %s, %u layer%s of dimension %u, %s parameters, ",
           weft_arch_name(i->model.arch), i->model.layers, i->model.layers == 1 ? "" : "s",
           i->model.dim, weft_grouped(params, i->n_params));
    if (s->model.dir != NULL)
        printf("from %s\n", s->model.dir);
    else
        printf("new, seed %llu\n", (unsigned long long)s->model.seed);
}

static void print_memory(const struct weft_trainer_info *i)
{
    char a[NUMBER], b[NUMBER], c[NUMBER], d[NUMBER], e[NUMBER], f[NUMBER], g[NUMBER];
    printf("memory   %s%s: weights %s, packed %s, gradients %s, moments %s, activations %s, "
           "scratch %s",
           weft_bytes_text(a, i->bytes.total), i->n_ranks > 1 ? " on rank 0" : "",
           weft_bytes_text(b, i->bytes.weights), weft_bytes_text(c, i->bytes.packed),
           weft_bytes_text(d, i->bytes.gradients), weft_bytes_text(e, i->bytes.moments),
           weft_bytes_text(f, i->bytes.activations), weft_bytes_text(g, i->bytes.scratch));
    if (i->n_ranks > 1)
        printf(", messages %s", weft_bytes_text(a, i->bytes.messages));
    printf("\n");
}

/* Which layers are where: "stages   0: embedding, 3 layers | 1: 3 layers, head". */
static void print_stages(const struct weft_layout *l)
{
    enum { SHOWN = 16 };
    printf("stages  ");
    for (uint32_t s = 0; s < l->n_stages && s < SHOWN; s++) {
        const struct weft_stage_range *r = &l->partition.at[s];
        uint32_t n = r->end_layer - r->first_layer;
        printf("%s %s%u%s", s == 0 ? "" : " |", r->embedding ? "embedding + " : "", n,
               r->head ? " + head" : "");
    }
    printf("%s layers\n", l->n_stages > SHOWN ? " | ..." : "");
}

static void print_layout(const struct weft_train_settings *s, const struct weft_trainer_info *i,
                         const char *transport)
{
    const struct weft_layout *l = i->layout;
    if (i->n_ranks == 1 && l->n_stages == 1)
        return;
    printf("ranks    %u by %s: pp %u x dp %u, schedule %s, %u stage%s, planned bubble %.1f%%\n",
           i->n_ranks, transport, l->pp, l->dp, s->parallel.schedule, l->n_stages,
           l->n_stages == 1 ? "" : "s", 100 * i->bubble_plan);
    print_stages(l);
}

static void print_head(const struct weft_train_settings *s, const struct weft_trainer_info *i,
                       const char *transport, double peak)
{
    char tokens[NUMBER], step[NUMBER];
    print_model(s, i);
    printf("data     %s: %zu file%s, %s tokens; a step has %u x %u = %s in %u micro%s\n",
           s->data.train, i->n_files, i->n_files == 1 ? "" : "s",
           weft_grouped(tokens, i->n_tokens), s->data.batch, i->seq,
           weft_grouped(step, (unsigned long long)s->data.batch * i->seq), s->parallel.micros,
           s->parallel.micros == 1 ? "" : "s");
    print_layout(s, i, transport);
    printf("machine  %u thread%s%s, %s, %s up to %.0f GFLOP/s\n", i->threads,
           i->threads == 1 ? "" : "s", i->n_ranks > 1 ? " a rank" : "",
           weft_isa_name(weft_isa()),
           s->train.precision == WEFT_PRECISION_BF16 ? "bf16" : "fp32", peak * 1e-9);
    print_memory(i);
    if (s->train.reduction == WEFT_REDUCTION_FAST)
        printf("sums     fast: the same bits only for the same layout and schedule\n");
    if (s->log.dir == NULL)
        printf("run      nothing is kept: give log.dir for weights and metrics\n");
    else
        printf("run      %s\n", s->log.dir);
}

static void print_step(const struct weft_metrics_record *r, uint64_t steps, double left,
                       bool pipeline)
{
    char rate[NUMBER], eta[NUMBER];
    printf("step %llu/%llu | loss %.4f | norm %.3f | lr %.1e | %.*f ms | %s tok/s | mfu %.1f%%",
           (unsigned long long)r->step, (unsigned long long)steps, r->loss, r->grad_norm, r->lr,
           r->ms < 10 ? 2 : 0, r->ms, weft_grouped(rate, (unsigned long long)(r->tok_s + 0.5)),
           100 * r->mfu);
    if (pipeline)
        printf(" | bubble %.1f%% (plan %.1f%%)", 100 * r->bubble, 100 * r->bubble_plan);
    printf(" | eta %s\n", clock_text(eta, left));
    fflush(stdout);
}

/* -- the run -------------------------------------------------------------------------------- */

/* One rank's. */
struct run {
    const struct weft_train_settings *settings;
    struct weft_comm *comm;               /* borrowed */
    struct weft_trainer *trainer;         /* owned */
    struct weft_rundir dir;               /* on rank 0; zeroed when nothing is kept */
    struct weft_report_server *server;    /* owned, on rank 0; NULL: nothing is served */
    struct weft_tensorboard *tensorboard; /* owned, on rank 0; NULL: none is written */
    double token_flops, peak, bubble_plan;
    int64_t begin_ns;
    uint64_t resumed; /* the step that it went on from */
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
    fprintf(stderr,
            "weft: warning: rank %u takes %.1f times as long as planned, against the fastest "
            "rank, for %u steps\n",
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
    if (r->step % s->log.every == 0 || r->step == 1 || r->step == s->train.steps)
        print_step(&record, s->train.steps, a_step * (double)(s->train.steps - r->step),
                   run->n_ranks > 1);
    if (val_loss != 0)
        printf("eval %llu/%llu | val loss %.4f | perplexity %.2f\n",
               (unsigned long long)r->step, (unsigned long long)s->train.steps, val_loss,
               exp(val_loss));
    watch_pace(run, r);
    return WEFT_OK;
}

static void tell_news(struct run *run)
{
    struct weft_checkpoint_news news = weft_trainer_news(run->trainer);
    if (news.saved != 0)
        printf("saved    checkpoint of step %llu in %.2f s\n", (unsigned long long)news.saved,
               news.seconds);
    if (news.error[0] != '\0')
        fprintf(stderr, "weft: warning: no checkpoint: %s; the run goes on\n", news.error);
    fflush(stdout);
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
    if (stop_signal != 0 || time_is_up(run))
        weft_trainer_ask_to_stop(run->trainer);
    if (run->n_ranks == 1) /* several ranks tell it themselves, action by action */
        weft_comm_tell(run->comm, weft_trainer_done(run->trainer) + 1, 0);
    WEFT_TRY(weft_trainer_step(run->trainer, &r, err));
    *stop = r.stop;
    /* Before anything else runs through the pipeline. */
    if (s->log.dir != NULL && r.step <= s->log.trace_steps)
        WEFT_TRY(write_traces(run, r.step, err));
    struct weft_eval_result eval = {0};
    if (s->eval.every != 0 && (r.step % s->eval.every == 0 || r.step == s->train.steps))
        WEFT_TRY(weft_trainer_evaluate(run->trainer, &eval, err));
    if (is_root(run))
        WEFT_TRY(log_step(run, &r, eval.loss, err));
    WEFT_TRY(weft_trainer_tend_checkpoints(run->trainer, err));
    if (is_root(run))
        tell_news(run);
    return WEFT_OK;
}

static void say_how_it_ended(const struct run *run, enum weft_status st)
{
    unsigned long long steps = run->settings->train.steps;
    unsigned long long done = weft_trainer_done(run->trainer);
    if (!is_root(run))
        return;
    if (st != WEFT_OK)
        printf("stopped after step %llu of %llu: the next one failed\n", done, steps);
    else if (done < steps)
        printf("stopped after step %llu of %llu: %s\n", done, steps,
               stop_signal != 0 || !time_is_up(run) ? "a signal came"
                                                    : "train.max_time is over");
    fflush(stdout);
}

/* After these all ranks still have their weights as the step before left them, and each other. */
static bool can_save(enum weft_status st)
{
    return st == WEFT_OK || st == WEFT_NUMERIC || st == WEFT_DATA;
}

/* The model takes its tokenizer along: generate needs nothing else then. */
static enum weft_status keep_tokenizer(const struct run *run, struct weft_error *err)
{
    const struct weft_train_settings *s = run->settings;
    struct weft_tokenizer *t = NULL;
    char *beside = weft_path_join(s->data.train, "tokenizer.json");
    enum weft_status st = WEFT_OK;
    if (s->data.tokenizer != NULL)
        st = weft_tokenizer_open(s->data.tokenizer, &t, err);
    else if (beside != NULL && access(beside, F_OK) == 0)
        st = weft_tokenizer_open(beside, &t, err);
    free(beside);
    if (st == WEFT_OK && t != NULL)
        st = weft_tokenizer_save(t, run->dir.model, err);
    weft_tokenizer_free(t);
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
            fprintf(stderr, "weft: warning: %s; the weights are saved\n", err->msg);
    }
    WEFT_TRY(weft_trainer_save(run->trainer, run->dir.model, err));
    if (!is_root(run))
        return WEFT_OK;
    WEFT_TRY(keep_tokenizer(run, err));
    printf("saved    %s\n", run->dir.model);
    return WEFT_OK;
}

static enum weft_status all_steps(struct run *run, struct weft_error *err)
{
    uint64_t steps = run->settings->train.steps;
    bool stop = false;
    run->begin_ns = weft_clock_ns();
    enum weft_status st = WEFT_OK;
    while (st == WEFT_OK && weft_trainer_done(run->trainer) < steps && !stop)
        st = one_step(run, &stop, err);
    say_how_it_ended(run, st);
    if (run->settings->log.dir == NULL || weft_trainer_done(run->trainer) == 0 || !can_save(st))
        return st;
    struct weft_error second = {0};
    enum weft_status saved = keep(run, st == WEFT_OK ? err : &second);
    if (st == WEFT_OK)
        return saved;
    if (saved != WEFT_OK && is_root(run))
        fprintf(stderr, "weft: warning: nothing could be saved: %s\n", second.msg);
    return st;
}

/* All ranks measure at once, as they will work. */
static enum weft_status measure_peak(struct run *run, struct weft_error *err)
{
    double own = weft_trainer_peak(run->trainer);
    double *all = calloc(run->n_ranks, sizeof *all);
    void **at = calloc(run->n_ranks, sizeof *at);
    size_t *size = calloc(run->n_ranks, sizeof *size);
    enum weft_status st = WEFT_OK;
    if (all == NULL || at == NULL || size == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the speeds of %u ranks", run->n_ranks);
    for (uint32_t r = 0; st == WEFT_OK && r < run->n_ranks; r++) {
        at[r] = &all[r];
        size[r] = sizeof *all;
    }
    if (st == WEFT_OK)
        st = weft_comm_gather(run->comm, &own, sizeof own, at, size, err);
    for (uint32_t r = 0; st == WEFT_OK && r < run->n_ranks; r++)
        run->peak += all[r];
    free(all);
    free(at);
    free(size);
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
        fprintf(stderr, "weft: warning: the page is not served: %s\n", err.msg);
    else
        printf("page     http://127.0.0.1:%u/\n", s->log.serve);
}

static enum weft_status open_run_directory(struct run *run, struct weft_error *err)
{
    const struct weft_train_settings *s = run->settings;
    if (s->log.dir == NULL)
        return WEFT_OK;
    if (is_root(run)) {
        const struct weft_layout *l = weft_trainer_info(run->trainer).layout;
        WEFT_TRY(weft_rundir_init(&run->dir, s->log.dir, s, run->resumed, err));
        WEFT_TRY(weft_rundir_schedule(s->log.dir, weft_layout_schedule(l, 0), err));
        if (s->log.trace_steps > 0)
            WEFT_TRY(weft_rundir_make(s->log.dir, "trace", err));
    }
    struct weft_trainer_info info = weft_trainer_info(run->trainer);
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
    WEFT_TRY(weft_trainer_new(s, run->comm, &run->trainer, err));
    struct weft_trainer_info info = weft_trainer_info(run->trainer);
    run->resumed = info.resumed;
    WEFT_TRY(open_run_directory(run, err));
    run->token_flops = info.token_flops;
    run->bubble_plan = info.bubble_plan;
    WEFT_TRY(measure_peak(run, err));
    if (!is_root(run))
        return WEFT_OK;
    print_head(s, &info, weft_comm_name(run->comm), run->peak);
    if (info.resume_note[0] != '\0')
        fprintf(stderr, "weft: warning: %s\n", info.resume_note);
    if (run->resumed > 0)
        printf("resumed  from the checkpoint of step %llu\n", (unsigned long long)run->resumed);
    if (run->dir.again)
        printf("         an unfinished run was here: this one starts anew, and its metrics are "
               "appended\n");
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
    fprintf(stderr, "weft: %s\n", err->msg);
    fflush(stdout);
    _exit(weft_status_exit_code(err->status));
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    weft_comm_on_deserted(comm, leave_at_once, NULL);
    struct run run = {.settings = arg,
                      .comm = comm,
                      .rank = weft_comm_rank(comm),
                      .n_ranks = weft_comm_size(comm),
                      .slow_rank = UINT32_MAX};
    enum weft_status st = prepare(&run, err);
    if (st == WEFT_OK)
        st = all_steps(&run, err);
    weft_report_server_stop(run.server);
    weft_tensorboard_free(run.tensorboard);
    weft_rundir_release(&run.dir);
    weft_trainer_free(run.trainer);
    return st;
}

/* How ranks are started is the environment's to say: a flag can only agree. */
static enum weft_status check_transport(const struct weft_train_settings *s,
                                        const char *launcher, struct weft_error *err)
{
    if (launcher == NULL && s->parallel.transport == WEFT_TRANSPORT_MPI)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.transport is mpi, and no MPI started this: mpirun -n %llu "
                         "weft train ...",
                         (unsigned long long)s->parallel.pp * s->parallel.dp);
    if (launcher != NULL && s->parallel.transport == WEFT_TRANSPORT_INPROC)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.transport is inproc, but %s started this process as one "
                         "rank of many: leave it at auto",
                         launcher);
    return WEFT_OK;
}

static enum weft_status check_settings(const struct weft_train_settings *settings,
                                       struct weft_error *err)
{
    WEFT_TRY(weft_train_settings_check(settings, err));
    return check_transport(settings, weft_comm_launcher(), err);
}

static enum weft_status return_error(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)comm;
    *err = *(const struct weft_error *)arg;
    return err->status;
}

/* A rank that cannot even start tells the others: they would wait for it in MPI, without an end. */
static enum weft_status tell_others(enum weft_status st, struct weft_error *err)
{
    struct weft_error own = *err, joined = {0};
    own.status = st;
    if (weft_comm_launcher() != NULL)
        (void)weft_comm_run_mpi(return_error, &own, &joined);
    return st;
}

/* How many ranks of this machine share the cores that this process may use: a launcher that gave
 * each rank cores of its own has made that number 1. */
static uint32_t ranks_that_share(const struct weft_train_settings *s, const char *launcher)
{
    const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                 "SLURM_NTASKS_PER_NODE"};
    if (launcher == NULL)
        return s->parallel.pp * s->parallel.dp;
    if (weft_cores_allowed() < (uint32_t)sysconf(_SC_NPROCESSORS_ONLN))
        return 1;
    for (size_t i = 0; i < WEFT_LEN(names); i++)
        if (getenv(names[i]) != NULL && atoi(getenv(names[i])) > 0)
            return (uint32_t)atoi(getenv(names[i]));
    return 1;
}

/* Threads that are not given: ranks of one process that have cores of their own find them; others
 * divide what there is. */
static void choose_threads(struct weft_train_settings *s, const char *launcher)
{
    uint32_t n = ranks_that_share(s, launcher), cores = weft_cores_allowed();
    if (s->parallel.threads != 0 || n <= 1 || (launcher == NULL && n <= cores))
        return;
    s->parallel.threads = cores / n > 0 ? cores / n : 1;
}

static enum weft_status train(struct weft_train_settings *settings, struct weft_error *err)
{
    catch_signals();
    choose_threads(settings, weft_comm_launcher());
    if (weft_comm_launcher() != NULL)
        return weft_comm_run_mpi(run_rank, settings, err);
    uint64_t n = (uint64_t)settings->parallel.pp * settings->parallel.dp;
    if (n > WEFT_MAX_THREADS)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "parallel.pp x parallel.dp is %llu: more than %d ranks are not for one "
            "process",
            (unsigned long long)n, WEFT_MAX_THREADS);
    return weft_comm_run_threads((uint32_t)n, run_rank, settings, err);
}

/* -- settings ------------------------------------------------------------------------------- */

static enum weft_status print_config(const struct weft_train_settings *s,
                                     struct weft_error *err)
{
    struct weft_text text = {0};
    weft_settings_print(weft_train_setting_list(), s, &text);
    enum weft_status st = WEFT_OK;
    if (text.failed)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the settings");
    else
        fputs(text.at, stdout);
    weft_text_release(&text);
    return st;
}

static enum weft_status read_config(const char *path, struct weft_train_settings *s,
                                    struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    if (path == NULL)
        return WEFT_OK;
    WEFT_TRY(weft_input_read(path, &text, &len, err));
    enum weft_status st =
        weft_settings_parse(weft_train_setting_list(), text, len, path, s, err);
    free(text);
    return st;
}

/* The ordinary options and the file's name. */
static enum weft_status parse_options(int argc, char **argv, struct train_options *out,
                                      const char **config, struct weft_error *err)
{
    char **rest = malloc(((size_t)argc + 1) * sizeof *rest);
    if (rest == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    int n = weft_settings_others(argc, argv, rest);
    enum weft_status st = weft_command_parse(&weft_command_train, n, rest, out, config, err);
    free(rest);
    return st;
}

static enum weft_status read_settings(int argc, char **argv, const char *config,
                                      struct weft_train_settings *s, struct weft_error *err)
{
    WEFT_TRY(read_config(config, s, err));
    return weft_settings_flags(weft_train_setting_list(), argc, argv, s, err);
}

static enum weft_status run_train(int argc, char **argv, struct weft_error *err)
{
    const struct weft_setting_list list = weft_train_setting_list();
    struct train_options in = {0};
    struct weft_train_settings settings = {0};
    const char *config = NULL;
    enum weft_status st = parse_options(argc, argv, &in, &config, err);
    if (st == WEFT_OK)
        st = weft_settings_init(list, &settings, err);
    if (st != WEFT_OK)
        return tell_others(st, err);
    st = read_settings(argc, argv, config, &settings, err);
    if (st == WEFT_OK && !in.print_config)
        st = check_settings(&settings, err);
    if (st != WEFT_OK)
        st = tell_others(st, err);
    else
        st = in.print_config ? print_config(&settings, err)
             : in.dry_run    ? weft_train_dry_run(&settings, err)
                             : train(&settings, err);
    weft_settings_release(list, &settings);
    /* A run that a signal ended in good order says so, as shells expect it. */
    if (st == WEFT_OK && stop_signal != 0) {
        fflush(stdout);
        exit(128 + stop_signal);
    }
    return st;
}

const struct weft_command weft_command_train = {
    .name = "train",
    .summary = "train a model as a file of settings says",
    .operands = "[CONFIG.yaml]",
    .text = "Trains a transformer on token shards. All settings are in one file of sections\n"
            "with keys; each is also a flag, which wins over the file; of a flag given twice\n"
            "the last one holds. The final weights, a\n"
            "Hugging Face directory, the settings and a line of figures for every step go to\n"
            "the directory log.dir.\n\n"
            "The first interrupt (Ctrl-C, or SIGTERM) ends the run after the step at hand:\n"
            "a checkpoint is written where there are any (checkpoint.every), else the\n"
            "weights, and the exit code is 130 (143). A second one ends it\n"
            "at once.\n\n"
            "Several ranks (parallel.pp x parallel.dp) are threads of this process, or\n"
            "processes under mpirun or srun. Whatever the layout, schedule and number of\n"
            "ranks, losses and weights are the same bits.\n\n"
            "With checkpoint.every a run that was stopped, or killed, goes on with\n"
            "--checkpoint.resume=auto, in any layout, as if it had never stopped.\n\n"
            "Settings of what is to come can be read and printed, but not set:\n"
            "parallel.auto and log.sample.\n",
    .examples = "  weft train run.yaml\n"
                "  weft train run.yaml --parallel.pp=2 --parallel.schedule=zb-h1\n"
                "  weft train run.yaml --checkpoint.every=100 --checkpoint.resume=auto\n"
                "  mpirun -n 4 weft train run.yaml --parallel.pp=2 --parallel.dp=2\n"
                "  weft train run.yaml --optim.lr=6e-4 --log.dir=runs/b\n"
                "  weft train --model.spec=d6 --data.train=tokens.bin --train.steps=100\n"
                "  weft train run.yaml --parallel.pp=4 --dry-run\n"
                "  weft train --print-config > run.yaml\n",
    .options = {options, WEFT_LEN(options)},
    .settings = weft_train_setting_list,
    .run = run_train,
};
