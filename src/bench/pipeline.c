/* Measures pipelines: one-thread ranks compared with one rank with as many threads, the
 * measured bubble compared with the simulated one, replicas, evaluations, and messages between
 * ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "bench/bench_priv.h"
#include "runtime/comm/transport.h"
#include "training/trainer/trainer.h"
#include "weft/sim.h"
#include "weft/timing.h"

enum {
    PATH_SIZE = 1024,
    EVAL_MICROS = 16, /* micro-batches of an evaluation, at least */
};

/* -- one layout ----------------------------------------------------------------------------- */

struct layout_run {
    const struct wf_train_settings *settings;
    struct wf_bench_layout *best; /* best step so far; filled on rank 0 only */
};

/* Simulates the first replica's schedule with the costs measured in the last step.  Collective. */
static enum weft_status predict(struct wf_trainer *t, struct wf_bench_layout *out, bool root,
                                struct weft_error *err)
{
    struct weft_trace trace;
    struct weft_measured_cost m;
    struct weft_metrics metrics;
    const struct wf_topology *l = wf_trainer_info(t).topology;
    WEFT_TRY(wf_trainer_trace(t, 0, &trace, err));
    if (!root)
        return WEFT_OK;
    enum weft_status st = weft_measured_cost_init(&m, &trace, err);
    weft_trace_release(&trace);
    WEFT_TRY(st);

    const struct weft_cost cost = {.f = {m.f, m.n_stages},
                                   .i = {m.i, m.n_stages},
                                   .w = {m.w, m.n_stages},
                                   .b = {m.b, m.n_stages},
                                   .fb = {m.fb, m.n_stages}};
    st = weft_metrics_init(&metrics, wf_topology_schedule(l, 0), &cost, NULL, err);
    if (st == WEFT_OK) {
        out->bubble_sim = metrics.bubble;
        weft_metrics_release(&metrics);
    }
    weft_measured_cost_release(&m);
    return st;
}

/* Measures one step.  Figures differ between ranks, so only rank 0 compares them with *best;
 * all ranks make the same collective calls. */
static enum weft_status measure_step(struct wf_trainer *t, struct wf_bench_layout *best,
                                     bool root, struct weft_error *err)
{
    struct wf_step_result r;
    struct wf_bench_layout now = {0};
    WEFT_TRY(wf_trainer_step(t, &r, err));
    now.tok_s = (double)r.tokens / ((double)r.ns * 1e-9);
    now.rest = 1 - (double)r.pipeline_ns / (double)r.ns;
    now.bubble = r.bubble;
    WEFT_TRY(predict(t, &now, root, err));
    now.eval_tok_s = best->eval_tok_s;
    if (root && now.tok_s > best->tok_s)
        *best = now;
    return WEFT_OK;
}

/* Measures an evaluation. */
static enum weft_status measure_evaluation(struct wf_trainer *t, struct wf_bench_layout *best,
                                           bool root, struct weft_error *err)
{
    struct wf_eval_result r;
    int64_t begin = wf_clock_ns();
    WEFT_TRY(wf_trainer_evaluate(t, &r, err));
    double tok_s = (double)r.targets / ((double)(wf_clock_ns() - begin) * 1e-9);
    if (root && tok_s > best->eval_tok_s)
        best->eval_tok_s = tok_s;
    return WEFT_OK;
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct layout_run *run = arg;
    struct wf_trainer *t = NULL;
    struct wf_step_result r;
    bool root = weft_comm_rank(comm) == 0;
    WEFT_TRY(wf_trainer_new(run->settings, comm, &t, err));
    enum weft_status st = wf_trainer_step(t, &r, err); /* warms up the caches */
    if (st == WEFT_OK)
        st = measure_step(t, run->best, root, err);
    if (st == WEFT_OK)
        st = measure_evaluation(t, run->best, root, err);
    wf_trainer_free(t);
    return st;
}

/* -- messages ------------------------------------------------------------------------------- */

enum { MAX_ROUNDS = WF_BENCH_MAX_VALUES, WARM_UP = 50 };

static enum weft_status ping_round(struct weft_comm *comm, char *out, char *in, size_t bytes,
                                   struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm);
    for (uint32_t from = 0; from < 2; from++) {
        struct weft_message m = {.peer = 1 - rank,
                                 .channel = WEFT_USER_CHANNEL,
                                 .bytes = bytes,
                                 .data = from == rank ? out : in};
        WEFT_TRY(from == rank ? weft_comm_send(comm, &m, err) : weft_comm_post(comm, &m, err));
        WEFT_TRY(weft_comm_wait(comm, &m, err));
        if (from != rank)
            weft_comm_release(comm, &m);
    }
    return WEFT_OK;
}

/* Alternates messages of weft and plain messages, so that both are measured under the same
 * load. */
static enum weft_status ping_rounds(struct weft_comm *comm, struct wf_bench_ping *p, char *out,
                                    char *in, double *ours, double *plain,
                                    struct weft_error *err)
{
    bool has_plain = comm->ops.plain_round != NULL;
    for (uint32_t i = 0; i < p->rounds + WARM_UP; i++) {
        double *to = i < WARM_UP ? ours : ours + (i - WARM_UP);
        int64_t begin = wf_clock_ns();
        WEFT_TRY(ping_round(comm, out, in, p->bytes, err));
        *to = (double)(wf_clock_ns() - begin) * 0.5e-9;
        if (!has_plain)
            continue;
        begin = wf_clock_ns();
        comm->ops.plain_round(comm->self, 1 - comm->rank, out, p->bytes);
        plain[to - ours] = (double)(wf_clock_ns() - begin) * 0.5e-9;
    }
    if (comm->rank == 0) {
        p->seconds = wf_bench_median(ours, p->rounds);
        p->plain_seconds = has_plain ? wf_bench_median(plain, p->rounds) : 0;
    }
    return WEFT_OK;
}

static enum weft_status ping_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct wf_bench_ping *p = arg;
    char *out = calloc(1, p->bytes), *in = calloc(1, p->bytes);
    double *times = calloc(2 * (size_t)p->rounds + 1, sizeof *times);
    enum weft_status st = WEFT_OK;
    if (weft_comm_rank(comm) > 1)
        st = WEFT_OK;
    else if (out == NULL || in == NULL || times == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a message of %zu bytes", p->bytes);
    else
        st = ping_rounds(comm, p, out, in, times, times + p->rounds, err);
    free(out);
    free(in);
    free(times);
    return st;
}

/* -- settings ------------------------------------------------------------------------------- */

struct pipeline_bench {
    const struct wf_bench_params *s;
    struct wf_train_settings settings;
    char tokens[PATH_SIZE]; /* path of the token file; "" if there is no file to remove */
};

/* Returns the number of batches of an evaluation: enough to hide the time in which the pipeline
 * fills and drains. */
static uint32_t eval_batches(const struct pipeline_bench *b)
{
    return b->s->micros < EVAL_MICROS ? EVAL_MICROS / b->s->micros : 1;
}

/* Writes random tokens for two steps and an evaluation to a temporary file. */
static enum weft_status write_tokens(struct pipeline_bench *b, struct weft_error *err)
{
    uint32_t steps = eval_batches(b) > 2 ? eval_batches(b) : 2;
    size_t n = steps * (size_t)b->s->batch * b->s->micros * b->s->seq + 1;
    const char *dir = getenv("TMPDIR");
    if (dir == NULL || dir[0] == '\0')
        dir = "/tmp";
    int len = snprintf(b->tokens, sizeof b->tokens, "%s/weft_bench_XXXXXX", dir);
    int fd = len >= 0 && (size_t)len < sizeof b->tokens ? mkstemp(b->tokens) : -1;
    if (fd < 0) {
        b->tokens[0] = '\0';
        return WEFT_FAIL(err, WEFT_IO, "%.160s: cannot create a file for %zu tokens", dir, n);
    }
    close(fd);
    return wf_bench_write_tokens(b->tokens, b->s->spec, n, err);
}

static enum weft_status make_settings(struct pipeline_bench *b, struct weft_error *err)
{
    WEFT_TRY(wf_settings_init(wf_train_setting_list(), &b->settings, err));
    WEFT_TRY(wf_bench_set(&b->settings, "model.spec", b->s->spec, err));
    WEFT_TRY(wf_bench_set(&b->settings, "data.train", b->tokens, err));
    WEFT_TRY(wf_bench_set(&b->settings, "data.val", b->tokens, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "eval.batches", eval_batches(b), err));
    WEFT_TRY(wf_bench_set(&b->settings, "train.precision", b->s->precision, err));
    WEFT_TRY(wf_bench_set(&b->settings, "parallel.schedule", b->s->schedule, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "data.seq", b->s->seq, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "data.batch", b->s->batch * b->s->micros, err));
    return wf_bench_set_number(&b->settings, "parallel.micros", b->s->micros, err);
}

/* -- layouts under threads ------------------------------------------------------------------ */

static enum weft_status measure_layout(struct pipeline_bench *b, uint32_t pp, uint32_t dp,
                                       uint32_t threads, struct wf_bench_layout *out,
                                       struct weft_error *err)
{
    struct layout_run run = {&b->settings, out};
    WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.pp", pp, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.dp", dp, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.threads", threads, err));
    WEFT_TRY(wf_bench_set(&b->settings, "parallel.schedule", pp == 1 ? "1f1b" : b->s->schedule,
                          err));
    return weft_comm_run_threads(pp * dp, run_rank, &run, err);
}

static enum weft_status measure_messages(struct wf_bench_pipeline *out, struct weft_error *err)
{
    out->small = (struct wf_bench_ping){.bytes = 64, .rounds = MAX_ROUNDS};
    out->large = (struct wf_bench_ping){.bytes = (size_t)64 << 20, .rounds = MAX_ROUNDS};
    WEFT_TRY(weft_comm_run_threads(2, ping_rank, &out->small, err));
    return weft_comm_run_threads(2, ping_rank, &out->large, err);
}

static void measure_mpi(const struct pipeline_bench *b, wf_bench_launch_fn *launch,
                        struct wf_bench_pipeline *out)
{
    static const char *const launchers[] = {"openmpi", "mpich"};
    for (size_t i = 0; i < WEFT_LEN(launchers); i++) {
        struct wf_bench_mpi now = {.launcher = launchers[i]};
        out->mpi[i].launcher = launchers[i];
        now.ran = launch != NULL && launch(b->s, &now);
        if (now.ran && now.pipeline.tok_s > out->mpi[i].pipeline.tok_s)
            out->mpi[i] = now;
    }
}

/* Alternates the layouts, so that all are measured under the same load.  Reports the best
 * result of each layout. */
static enum weft_status measure(struct pipeline_bench *b, wf_bench_launch_fn *launch,
                                struct wf_bench_pipeline *out, struct weft_error *err)
{
    uint32_t ranks = b->s->ranks;
    WEFT_TRY(measure_messages(out, err));
    for (uint32_t i = 0; i < b->s->repeat; i++) {
        WEFT_TRY(measure_layout(b, 1, 1, ranks, &out->one, err));
        WEFT_TRY(measure_layout(b, ranks, 1, 1, &out->pipeline, err));
        WEFT_TRY(measure_layout(b, 1, ranks, 1, &out->replicas, err));
        measure_mpi(b, launch, out);
    }
    return WEFT_OK;
}

/* Returns the throughput of a layout as a share of the throughput that one rank would have with
 * the layout's bubble. */
static double share_of(const struct wf_bench_layout *m, const struct wf_bench_layout *one,
                       double bubble)
{
    return m->tok_s / (one->tok_s * (1 - bubble));
}

static void set_shares(struct wf_bench_pipeline *out)
{
    out->one.share = 1;
    out->pipeline.share = share_of(&out->pipeline, &out->one, out->pipeline.bubble_sim);
    out->replicas.share = share_of(&out->replicas, &out->one, 0);
    for (size_t i = 0; i < WEFT_LEN(out->mpi); i++) {
        struct wf_bench_layout *m = &out->mpi[i].pipeline;
        m->share = share_of(m, &out->one, m->bubble_sim);
    }
}

/* -- the benchmark -------------------------------------------------------------------------- */

static void release(struct pipeline_bench *b)
{
    wf_settings_release(wf_train_setting_list(), &b->settings);
    if (b->tokens[0] != '\0')
        unlink(b->tokens);
}

enum weft_status wf_bench_pipeline(const struct wf_bench_params *p, wf_bench_launch_fn *launch,
                                   struct wf_bench_pipeline *out, struct weft_error *err)
{
    struct pipeline_bench b = {.s = p};
    struct wf_bench_pipeline result = {0};
    enum weft_status st = write_tokens(&b, err);
    if (st == WEFT_OK)
        st = make_settings(&b, err);
    if (st == WEFT_OK)
        st = measure(&b, launch, &result, err);
    if (st == WEFT_OK) {
        set_shares(&result);
        *out = result;
    }
    release(&b);
    return st;
}

/* Writes the token file on rank 0; all ranks read it. */
static enum weft_status share_tokens(struct weft_comm *comm, struct pipeline_bench *b,
                                     struct weft_error *err)
{
    if (weft_comm_rank(comm) == 0)
        WEFT_TRY(write_tokens(b, err));
    WEFT_TRY(weft_comm_broadcast(comm, b->tokens, sizeof b->tokens, err));
    return make_settings(b, err);
}

static enum weft_status measure_ranks(struct weft_comm *comm, struct pipeline_bench *b,
                                      struct wf_bench_mpi *out, struct weft_error *err)
{
    struct layout_run run = {&b->settings, &out->pipeline};
    out->ping = (struct wf_bench_ping){.bytes = 1000000, .rounds = 200};
    if (weft_comm_size(comm) > 1)
        WEFT_TRY(ping_rank(comm, &out->ping, err));
    WEFT_TRY(share_tokens(comm, b, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.pp", weft_comm_size(comm), err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.threads", 1, err));
    return run_rank(comm, &run, err);
}

enum weft_status wf_bench_pipeline_mpi(struct weft_comm *comm, const struct wf_bench_params *p,
                                       struct wf_bench_mpi *out, struct weft_error *err)
{
    struct pipeline_bench b = {.s = p};
    enum weft_status st = measure_ranks(comm, &b, out, err);
    if (weft_comm_rank(comm) != 0)
        b.tokens[0] = '\0'; /* only rank 0 removes the file */
    release(&b);
    return st;
}
