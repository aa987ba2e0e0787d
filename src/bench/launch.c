/* Runs the pipeline benchmark of this program under mpirun. */
#define _GNU_SOURCE /* environ */
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "bench/bench.h"

void wf_bench_mpi_write(FILE *out, const struct wf_bench_mpi *f)
{
    fprintf(out,
            "{\"tok_s\": %.17g, \"eval_tok_s\": %.17g, \"rest\": %.17g, \"bubble\": %.17g, "
            "\"bubble_sim\": %.17g, \"megabyte_s\": %.17g, \"plain_s\": %.17g}\n",
            f->pipeline.tok_s, f->pipeline.eval_tok_s, f->pipeline.rest, f->pipeline.bubble,
            f->pipeline.bubble_sim, f->ping.seconds, f->ping.plain_seconds);
}

static bool read_figures(FILE *in, struct wf_bench_mpi *out)
{
    json_t *json = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL);
    int rc =
        json_unpack(json, "{s:F, s:F, s:F, s:F, s:F, s:F, s:F}", "tok_s", &out->pipeline.tok_s,
                    "eval_tok_s", &out->pipeline.eval_tok_s, "rest", &out->pipeline.rest,
                    "bubble", &out->pipeline.bubble, "bubble_sim", &out->pipeline.bubble_sim,
                    "megabyte_s", &out->ping.seconds, "plain_s", &out->ping.plain_seconds);
    json_decref(json);
    return rc == 0;
}

/* The command line of this program under a launcher. */
struct launch_args {
    char launcher[32], self[4096], ranks[16], batch[16], seq[16], micros[16];
    const char *at[32]; /* arguments, terminated by NULL */
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

bool wf_bench_launch(const struct wf_bench_params *p, struct wf_bench_mpi *out)
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
