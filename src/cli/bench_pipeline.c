/* How fast pipelines run: ranks of one thread against one rank of many, the bubble against what the
 * simulator says of it, replicas, and the way from rank to rank. */
#define _GNU_SOURCE /* environ */
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/bench.h"
#include "compute/kern/isa.h"
#include "runtime/comm/transport.h"
#include "training/trainer/trainer.h"
#include "weft/sim.h"
#include "weft/timing.h"

enum { PATH = 1024 };

/* -- one topology ----------------------------------------------------------------------------- */

struct measured {
    double tok_s;
    double rest;               /* of the step: not in the pipeline, but sums and the update */
    double bubble, bubble_sim; /* of that step; by the simulator from its own costs */
};

struct layout_run {
    const struct wf_train_settings *settings;
    struct measured *best; /* so far; rank 0's */
};

static enum weft_status predict(struct wf_trainer *t, struct measured *out, bool root,
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

/* One step that counts.  Ranks measure it differently: what all do must not depend on that. */
static enum weft_status measure_step(struct wf_trainer *t, struct measured *best, bool root,
                                     struct weft_error *err)
{
    struct wf_step_result r;
    struct measured now = {0};
    WEFT_TRY(wf_trainer_step(t, &r, err));
    now.tok_s = (double)r.tokens / ((double)r.ns * 1e-9);
    now.rest = 1 - (double)r.pipeline_ns / (double)r.ns;
    now.bubble = r.bubble;
    WEFT_TRY(predict(t, &now, root, err));
    if (root && now.tok_s > best->tok_s)
        *best = now;
    return WEFT_OK;
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct layout_run *run = arg;
    struct wf_trainer *t = NULL;
    struct wf_step_result r;
    bool root = weft_comm_rank(comm) == 0;
    WEFT_TRY(wf_trainer_new(run->settings, comm, &t, err));
    enum weft_status st = wf_trainer_step(t, &r, err); /* the caches are cold */
    if (st == WEFT_OK)
        st = measure_step(t, run->best, root, err);
    wf_trainer_free(t);
    return st;
}

/* -- the way from rank to rank -------------------------------------------------------------- */

enum { MOST_ROUNDS = WF_BENCH_MOST, WARM_UP = 50 };

struct ping {
    size_t bytes;
    uint32_t rounds;
    double seconds, plain_seconds; /* of one way, medians; plain: 0 when there is none */
};

static enum weft_status ping_round(struct weft_comm *comm, char *data, char *room, size_t bytes,
                                   struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm);
    for (uint32_t from = 0; from < 2; from++) {
        struct weft_message m = {.peer = 1 - rank,
                                 .channel = WEFT_USER_CHANNEL,
                                 .bytes = bytes,
                                 .data = from == rank ? data : room};
        WEFT_TRY(from == rank ? weft_comm_send(comm, &m, err) : weft_comm_post(comm, &m, err));
        WEFT_TRY(weft_comm_wait(comm, &m, err));
        if (from != rank)
            weft_comm_release(comm, &m);
    }
    return WEFT_OK;
}

/* Ours and plain ones in turn: both meet the same neighbours. */
static enum weft_status ping_rounds(struct weft_comm *comm, struct ping *p, char *data,
                                    char *room, double *ours, double *plain,
                                    struct weft_error *err)
{
    bool has_plain = comm->ops->plain_round != NULL;
    for (uint32_t i = 0; i < p->rounds + WARM_UP; i++) {
        double *to = i < WARM_UP ? ours : ours + (i - WARM_UP);
        int64_t begin = wf_clock_ns();
        WEFT_TRY(ping_round(comm, data, room, p->bytes, err));
        *to = (double)(wf_clock_ns() - begin) * 0.5e-9;
        if (!has_plain)
            continue;
        begin = wf_clock_ns();
        comm->ops->plain_round(comm, 1 - comm->rank, data, p->bytes);
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
    struct ping *p = arg;
    char *data = calloc(1, p->bytes), *room = calloc(1, p->bytes);
    double *times = calloc(2 * (size_t)p->rounds + 1, sizeof *times);
    enum weft_status st = WEFT_OK;
    if (weft_comm_rank(comm) > 1)
        st = WEFT_OK;
    else if (data == NULL || room == NULL || times == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a message of %zu bytes", p->bytes);
    else
        st = ping_rounds(comm, p, data, room, times, times + p->rounds, err);
    free(data);
    free(room);
    free(times);
    return st;
}

/* -- settings ------------------------------------------------------------------------------- */

struct pipeline_bench {
    const struct wf_bench_compute *s;
    struct wf_train_settings settings;
    char tokens[PATH];
    uint32_t ranks;
    struct measured one, pipeline, replicas;
    struct ping small, large;
    /* Under MPI, by its launcher. */
    struct mpi_figures {
        const char *launcher;
        bool there;
        struct measured pipeline;
        struct ping megabyte;
    } mpi[2];
};

/* Random tokens, for two steps. */
static enum weft_status write_tokens(struct pipeline_bench *b, struct weft_error *err)
{
    size_t n = 2 * (size_t)b->s->batch * b->s->micros * b->s->seq + 1;
    const char *dir = getenv("TMPDIR");
    if (dir == NULL || dir[0] == '\0')
        dir = "/tmp";
    int len = snprintf(b->tokens, sizeof b->tokens, "%s/weft_bench_XXXXXX", dir);
    int fd = len >= 0 && (size_t)len < sizeof b->tokens ? mkstemp(b->tokens) : -1;
    if (fd < 0) {
        b->tokens[0] = '\0'; /* nothing to remove */
        return WEFT_FAIL(err, WEFT_IO, "no place for %zu tokens in %.160s", n, dir);
    }
    close(fd);
    return wf_bench_write_tokens(b->tokens, b->s->spec, n, err);
}

static enum weft_status make_settings(struct pipeline_bench *b, struct weft_error *err)
{
    WEFT_TRY(wf_settings_init(wf_train_setting_list(), &b->settings, err));
    WEFT_TRY(wf_bench_set(&b->settings, "model.spec", b->s->spec, err));
    WEFT_TRY(wf_bench_set(&b->settings, "data.train", b->tokens, err));
    WEFT_TRY(wf_bench_set(&b->settings, "train.precision", b->s->precision, err));
    WEFT_TRY(wf_bench_set(&b->settings, "parallel.schedule", b->s->schedule, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "data.seq", b->s->seq, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "data.batch", b->s->batch * b->s->micros, err));
    return wf_bench_set_number(&b->settings, "parallel.micros", b->s->micros, err);
}

/* -- one topology after the other -------------------------------------------------------------- */

static enum weft_status measure_layout(struct pipeline_bench *b, uint32_t pp, uint32_t dp,
                                       uint32_t threads, struct measured *out,
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

static enum weft_status measure_hops(struct pipeline_bench *b, struct weft_error *err)
{
    b->small = (struct ping){.bytes = 64, .rounds = MOST_ROUNDS};
    b->large = (struct ping){.bytes = (size_t)64 << 20, .rounds = MOST_ROUNDS};
    WEFT_TRY(weft_comm_run_threads(2, ping_rank, &b->small, err));
    return weft_comm_run_threads(2, ping_rank, &b->large, err);
}

/* -- under MPI ------------------------------------------------------------------------------ */

/* Rank 0's file of tokens is everyone's. */
static enum weft_status share_tokens(struct weft_comm *comm, struct pipeline_bench *b,
                                     struct weft_error *err)
{
    if (weft_comm_rank(comm) == 0)
        WEFT_TRY(write_tokens(b, err));
    WEFT_TRY(weft_comm_broadcast(comm, b->tokens, sizeof b->tokens, err));
    return make_settings(b, err);
}

static enum weft_status mpi_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct pipeline_bench *b = arg;
    struct mpi_figures *out = &b->mpi[0];
    struct layout_run run = {&b->settings, &out->pipeline};
    out->megabyte = (struct ping){.bytes = 1000000, .rounds = 200};
    if (weft_comm_size(comm) > 1)
        WEFT_TRY(ping_rank(comm, &out->megabyte, err));
    WEFT_TRY(share_tokens(comm, b, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.pp", weft_comm_size(comm), err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.threads", 1, err));
    WEFT_TRY(run_rank(comm, &run, err));
    if (weft_comm_rank(comm) != 0)
        b->tokens[0] = '\0'; /* rank 0 removes it */
    else if (!b->s->json)
        printf(
            "%u ranks of 1 thread by %s: %.1f tokens/s; bubble %.1f%%, simulated %.1f%%; sums and "
            "update %.1f%%; 1 MB in %.0f us, %.1f%% of plain sends\n",
            weft_comm_size(comm), weft_comm_launcher(), out->pipeline.tok_s,
            100 * out->pipeline.bubble, 100 * out->pipeline.bubble_sim,
            100 * out->pipeline.rest, out->megabyte.seconds * 1e6,
            100 * out->megabyte.plain_seconds / out->megabyte.seconds);
    else
        printf("{\"tok_s\": %.17g, \"rest\": %.17g, \"bubble\": %.17g, \"bubble_sim\": %.17g, "
               "\"megabyte_s\": %.17g, \"plain_s\": %.17g}\n",
               out->pipeline.tok_s, out->pipeline.rest, out->pipeline.bubble,
               out->pipeline.bubble_sim, out->megabyte.seconds, out->megabyte.plain_seconds);
    return WEFT_OK;
}

static bool read_figures(FILE *in, struct mpi_figures *out)
{
    json_t *json = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL);
    int rc = json_unpack(json, "{s:F, s:F, s:F, s:F, s:F, s:F}", "tok_s", &out->pipeline.tok_s,
                         "rest", &out->pipeline.rest, "bubble", &out->pipeline.bubble,
                         "bubble_sim", &out->pipeline.bubble_sim, "megabyte_s",
                         &out->megabyte.seconds, "plain_s", &out->megabyte.plain_seconds);
    json_decref(json);
    return rc == 0;
}

/* This program once more, under a launcher. */
struct launch_args {
    char launcher[32], self[4096], ranks[16], batch[16], seq[16], micros[16];
    const char *at[32]; /* ends with NULL */
};

static void fill_args(const struct pipeline_bench *b, const char *launcher,
                      struct launch_args *out)
{
    *out = (struct launch_args){0};
    snprintf(out->launcher, sizeof out->launcher, "mpirun.%s", launcher);
    snprintf(out->ranks, sizeof out->ranks, "%u", b->ranks);
    snprintf(out->batch, sizeof out->batch, "%u", b->s->batch);
    snprintf(out->seq, sizeof out->seq, "%u", b->s->seq);
    snprintf(out->micros, sizeof out->micros, "%u", b->s->micros);
    if (readlink("/proc/self/exe", out->self, sizeof out->self - 1) < 0)
        snprintf(out->self, sizeof out->self, "weft");
    bool as_root = strcmp(launcher, "openmpi") == 0 && geteuid() == 0;
    const char *const words[] = {
        out->launcher, "-n",          out->ranks,      as_root ? "--allow-run-as-root" : NULL,
        out->self,     "bench",       "pipeline",      "--spec",
        b->s->spec,    "--schedule",  b->s->schedule,  "--batch",
        out->batch,    "--seq",       out->seq,        "--micros",
        out->micros,   "--precision", b->s->precision, "--json",
        "--repeat",    "1",
    };
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(words); i++)
        if (words[i] != NULL)
            out->at[n++] = words[i];
}

/* Starts it and reads what it prints. */
static bool launch(const struct pipeline_bench *b, struct mpi_figures *out)
{
    struct launch_args args;
    int ends[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    fill_args(b, out->launcher, &args);
    if (pipe(ends) != 0)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    int rc = posix_spawnp(&child, args.launcher, &actions, NULL, (char **)args.at, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    bool ok = rc == 0 && in != NULL && read_figures(in, out);
    if (in != NULL)
        fclose(in);
    if (rc == 0)
        waitpid(child, NULL, 0);
    return ok;
}

static void measure_mpi(struct pipeline_bench *b)
{
    static const char *const launchers[] = {"openmpi", "mpich"};
    for (size_t i = 0; i < WEFT_LEN(launchers); i++) {
        b->mpi[i].launcher = launchers[i];
        struct mpi_figures now = {.launcher = launchers[i]};
        now.there = launch(b, &now);
        if (now.there && now.pipeline.tok_s > b->mpi[i].pipeline.tok_s)
            b->mpi[i] = now;
    }
}

/* -- the measurements ----------------------------------------------------------------------- */

/* Layouts take turns, so that whatever else the machine does meanwhile meets all of them; the best
 * of each counts. */
static enum weft_status measure(struct pipeline_bench *b, struct weft_error *err)
{
    WEFT_TRY(measure_hops(b, err));
    for (uint32_t i = 0; i < b->s->repeat; i++) {
        WEFT_TRY(measure_layout(b, 1, 1, b->ranks, &b->one, err));
        WEFT_TRY(measure_layout(b, b->ranks, 1, 1, &b->pipeline, err));
        WEFT_TRY(measure_layout(b, 1, b->ranks, 1, &b->replicas, err));
        measure_mpi(b);
    }
    return WEFT_OK;
}

/* -- what is printed ------------------------------------------------------------------------ */

static double against(double rate, const struct pipeline_bench *b, double bubble)
{
    return rate / (b->one.tok_s * (1 - bubble));
}

static void put_measured(struct wf_json *j, const char *name, const struct measured *m,
                         double share)
{
    wf_json_begin(j, name, '{');
    wf_json_number(j, "tok_s", m->tok_s);
    wf_json_number(j, "rest", m->rest);
    wf_json_number(j, "bubble", m->bubble);
    wf_json_number(j, "bubble_sim", m->bubble_sim);
    wf_json_number(j, "share", share);
    wf_json_end(j, '}');
}

static void print_json(const struct pipeline_bench *b)
{
    struct wf_json j = {.out = stdout};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "spec", b->s->spec);
    wf_json_string(&j, "schedule", b->s->schedule);
    wf_json_uint(&j, "ranks", b->ranks);
    wf_json_uint(&j, "micros", b->s->micros);
    wf_json_number(&j, "hand_over_us", b->small.seconds * 1e6);
    wf_json_number(&j, "hand_over_64mib_us", b->large.seconds * 1e6);
    put_measured(&j, "one_rank", &b->one, 1);
    put_measured(&j, "pipeline", &b->pipeline,
                 against(b->pipeline.tok_s, b, b->pipeline.bubble_sim));
    put_measured(&j, "replicas", &b->replicas, against(b->replicas.tok_s, b, 0));
    for (size_t i = 0; i < WEFT_LEN(b->mpi); i++) {
        const struct mpi_figures *m = &b->mpi[i];
        if (!m->there)
            continue;
        put_measured(&j, m->launcher, &m->pipeline,
                     against(m->pipeline.tok_s, b, m->pipeline.bubble_sim));
    }
    wf_json_end(&j, '}');
    putchar('\n');
}

static void print_text(const struct pipeline_bench *b)
{
    printf("%s, %s, %u micros of %u x %u tokens, schedule %s, %s\n", b->s->spec,
           b->s->precision, b->s->micros, b->s->batch, b->s->seq, b->s->schedule,
           wf_isa_name(wf_isa()));
    printf("hand-over       %.2f us for 64 bytes, %.2f us for 64 MiB\n", b->small.seconds * 1e6,
           b->large.seconds * 1e6);
    printf("1 rank          %u threads: %.1f tokens/s; sums and update %.1f%%\n", b->ranks,
           b->one.tok_s, 100 * b->one.rest);
    printf("pipeline        %u ranks of 1 thread: %.1f tokens/s, %.1f%% of what its planned "
           "bubble allows; bubble %.1f%%, simulated %.1f%%; sums and update %.1f%%\n",
           b->ranks, b->pipeline.tok_s,
           100 * against(b->pipeline.tok_s, b, b->pipeline.bubble_sim),
           100 * b->pipeline.bubble, 100 * b->pipeline.bubble_sim, 100 * b->pipeline.rest);
    printf("replicas        %u ranks of 1 thread: %.1f tokens/s, %.1f%% of the ideal; sums and "
           "update %.1f%%\n",
           b->ranks, b->replicas.tok_s, 100 * against(b->replicas.tok_s, b, 0),
           100 * b->replicas.rest);
    for (size_t i = 0; i < WEFT_LEN(b->mpi); i++) {
        const struct mpi_figures *m = &b->mpi[i];
        if (!m->there) {
            printf("%-15s not installed, or it failed\n", m->launcher);
            continue;
        }
        printf("%-15s %u ranks of 1 thread: %.1f tokens/s, %.1f%% of what its planned bubble "
               "allows; bubble %.1f%%, simulated %.1f%%; 1 MB in %.0f us, %.1f%% of plain "
               "sends\n",
               m->launcher, b->ranks, m->pipeline.tok_s,
               100 * against(m->pipeline.tok_s, b, m->pipeline.bubble_sim),
               100 * m->pipeline.bubble, 100 * m->pipeline.bubble_sim,
               m->megabyte.seconds * 1e6,
               100 * m->megabyte.plain_seconds / m->megabyte.seconds);
    }
}

enum weft_status wf_bench_pipeline(const struct wf_bench_compute *s, struct weft_error *err)
{
    struct pipeline_bench *b = calloc(1, sizeof *b);
    if (b == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a benchmark");
    b->s = s;
    b->ranks = s->ranks;
    enum weft_status st;
    if (weft_comm_launcher() != NULL) {
        st = weft_comm_run_mpi(mpi_rank, b, err);
    } else {
        st = write_tokens(b, err);
        if (st == WEFT_OK)
            st = make_settings(b, err);
        if (st == WEFT_OK)
            st = measure(b, err);
        if (st == WEFT_OK)
            s->json ? print_json(b) : print_text(b);
    }
    wf_settings_release(wf_train_setting_list(), &b->settings);
    if (b->tokens[0] != '\0')
        unlink(b->tokens);
    free(b);
    return st;
}
