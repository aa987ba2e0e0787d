/* Prints the pipeline benchmark, and runs this program under mpirun for it. */
#define _GNU_SOURCE /* environ */
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/bench.h"
#include "compute/kern/isa.h"

/* -- a launched rank: prints the figures that the first process reads ----------------------- */

struct mpi_run {
    const struct wf_bench_params *p;
    bool json;
};

static void print_mpi_json(const struct wf_bench_mpi *f)
{
    printf("{\"tok_s\": %.17g, \"rest\": %.17g, \"bubble\": %.17g, \"bubble_sim\": %.17g, "
           "\"megabyte_s\": %.17g, \"plain_s\": %.17g}\n",
           f->pipeline.tok_s, f->pipeline.rest, f->pipeline.bubble, f->pipeline.bubble_sim,
           f->ping.seconds, f->ping.plain_seconds);
}

static enum weft_status mpi_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct mpi_run *run = arg;
    struct wf_bench_mpi f = {0};
    WEFT_TRY(wf_bench_pipeline_mpi(comm, run->p, &f, err));
    if (weft_comm_rank(comm) != 0)
        return WEFT_OK;
    if (run->json)
        print_mpi_json(&f);
    else
        printf("%u ranks of 1 thread by %s: %.1f tokens/s; bubble %.1f%%, simulated %.1f%%; "
               "sums and update %.1f%%; 1 MB in %.0f us, %.1f%% of plain sends\n",
               weft_comm_size(comm), weft_comm_launcher(), f.pipeline.tok_s,
               100 * f.pipeline.bubble, 100 * f.pipeline.bubble_sim, 100 * f.pipeline.rest,
               f.ping.seconds * 1e6, 100 * f.ping.plain_seconds / f.ping.seconds);
    return WEFT_OK;
}

/* -- launching ------------------------------------------------------------------------------ */

static bool read_figures(FILE *in, struct wf_bench_mpi *out)
{
    json_t *json = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL);
    int rc = json_unpack(json, "{s:F, s:F, s:F, s:F, s:F, s:F}", "tok_s", &out->pipeline.tok_s,
                         "rest", &out->pipeline.rest, "bubble", &out->pipeline.bubble,
                         "bubble_sim", &out->pipeline.bubble_sim, "megabyte_s",
                         &out->ping.seconds, "plain_s", &out->ping.plain_seconds);
    json_decref(json);
    return rc == 0;
}

/* The command line of this program under a launcher. */
struct launch_args {
    char launcher[32], self[4096], ranks[16], batch[16], seq[16], micros[16];
    const char *at[32]; /* ends with NULL */
};

static void fill_args(const struct wf_bench_params *p, const char *launcher,
                      struct launch_args *out)
{
    *out = (struct launch_args){0};
    snprintf(out->launcher, sizeof out->launcher, "mpirun.%s", launcher);
    snprintf(out->ranks, sizeof out->ranks, "%u", p->ranks);
    snprintf(out->batch, sizeof out->batch, "%u", p->batch);
    snprintf(out->seq, sizeof out->seq, "%u", p->seq);
    snprintf(out->micros, sizeof out->micros, "%u", p->micros);
    if (readlink("/proc/self/exe", out->self, sizeof out->self - 1) < 0)
        snprintf(out->self, sizeof out->self, "weft");
    bool as_root = strcmp(launcher, "openmpi") == 0 && geteuid() == 0;
    const char *const words[] = {
        out->launcher, "-n",          out->ranks,   as_root ? "--allow-run-as-root" : NULL,
        out->self,     "bench",       "pipeline",   "--spec",
        p->spec,       "--schedule",  p->schedule,  "--batch",
        out->batch,    "--seq",       out->seq,     "--micros",
        out->micros,   "--precision", p->precision, "--json",
        "--repeat",    "1",
    };
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(words); i++)
        if (words[i] != NULL)
            out->at[n++] = words[i];
}

/* Starts the program and reads the figures that it prints. */
static bool launch(const struct wf_bench_params *p, struct wf_bench_mpi *out)
{
    struct launch_args args;
    int pipe_fds[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    fill_args(p, out->launcher, &args);
    if (pipe(pipe_fds) != 0)
        return false;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipe_fds[0]);
    int rc = posix_spawnp(&child, args.launcher, &actions, NULL, (char **)args.at, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);

    FILE *in = fdopen(pipe_fds[0], "r");
    bool ok = rc == 0 && in != NULL && read_figures(in, out);
    if (in != NULL)
        fclose(in);
    if (rc == 0)
        waitpid(child, NULL, 0);
    return ok;
}

/* -- printing ------------------------------------------------------------------------------- */

static void put_layout(struct wf_json *j, const char *name, const struct wf_bench_layout *m)
{
    wf_json_begin(j, name, '{');
    wf_json_number(j, "tok_s", m->tok_s);
    wf_json_number(j, "rest", m->rest);
    wf_json_number(j, "bubble", m->bubble);
    wf_json_number(j, "bubble_sim", m->bubble_sim);
    wf_json_number(j, "share", m->share);
    wf_json_end(j, '}');
}

static void print_json(const struct wf_bench_params *p, const struct wf_bench_pipeline *f)
{
    struct wf_json j = {.out = stdout};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "spec", p->spec);
    wf_json_string(&j, "schedule", p->schedule);
    wf_json_uint(&j, "ranks", p->ranks);
    wf_json_uint(&j, "micros", p->micros);
    wf_json_number(&j, "hand_over_us", f->small.seconds * 1e6);
    wf_json_number(&j, "hand_over_64mib_us", f->large.seconds * 1e6);
    put_layout(&j, "one_rank", &f->one);
    put_layout(&j, "pipeline", &f->pipeline);
    put_layout(&j, "replicas", &f->replicas);
    for (size_t i = 0; i < WEFT_LEN(f->mpi); i++)
        if (f->mpi[i].ran)
            put_layout(&j, f->mpi[i].launcher, &f->mpi[i].pipeline);
    wf_json_end(&j, '}');
    putchar('\n');
}

/* "pipeline        2 ranks of 1 thread: 812.3 tokens/s, 97.1% of the rate its bubble allows" */
static void print_layout(const char *name, uint32_t ranks, const struct wf_bench_layout *m,
                         const char *ideal)
{
    printf("%-15s %u ranks of 1 thread: %.1f tokens/s, %.1f%% of %s", name, ranks, m->tok_s,
           100 * m->share, ideal);
}

static void print_text(const struct wf_bench_params *p, const struct wf_bench_pipeline *f)
{
    static const char ideal[] = "the rate that the simulated bubble allows";
    printf("%s, %s, %u micro-batches of %u x %u tokens, schedule %s, %s\n", p->spec,
           p->precision, p->micros, p->batch, p->seq, p->schedule, wf_isa_name(wf_isa()));
    printf("messages        %.2f us for 64 bytes, %.2f us for 64 MiB\n", f->small.seconds * 1e6,
           f->large.seconds * 1e6);
    printf("1 rank          %u threads: %.1f tokens/s; sums and update %.1f%%\n", p->ranks,
           f->one.tok_s, 100 * f->one.rest);
    print_layout("pipeline", p->ranks, &f->pipeline, ideal);
    printf("; bubble %.1f%%, simulated %.1f%%; sums and update %.1f%%\n",
           100 * f->pipeline.bubble, 100 * f->pipeline.bubble_sim, 100 * f->pipeline.rest);
    print_layout("replicas", p->ranks, &f->replicas, "the ideal");
    printf("; sums and update %.1f%%\n", 100 * f->replicas.rest);

    for (size_t i = 0; i < WEFT_LEN(f->mpi); i++) {
        const struct wf_bench_mpi *m = &f->mpi[i];
        if (!m->ran) {
            printf("%-15s not installed, or it failed\n", m->launcher);
            continue;
        }
        print_layout(m->launcher, p->ranks, &m->pipeline, ideal);
        printf("; bubble %.1f%%, simulated %.1f%%; 1 MB in %.0f us, %.1f%% of plain sends\n",
               100 * m->pipeline.bubble, 100 * m->pipeline.bubble_sim, m->ping.seconds * 1e6,
               100 * m->ping.plain_seconds / m->ping.seconds);
    }
}

enum weft_status wf_bench_show_pipeline(const struct wf_bench_params *p, bool json,
                                        struct weft_error *err)
{
    struct mpi_run run = {p, json};
    if (weft_comm_launcher() != NULL)
        return weft_comm_run_mpi(mpi_rank, &run, err);

    struct wf_bench_pipeline figures;
    WEFT_TRY(wf_bench_pipeline(p, launch, &figures, err));
    if (json)
        print_json(p, &figures);
    else
        print_text(p, &figures);
    return WEFT_OK;
}
