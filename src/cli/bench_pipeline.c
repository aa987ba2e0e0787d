/* Prints the pipeline benchmark. */
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/bench.h"
#include "compute/kern/isa.h"

/* -- a launched rank: prints the figures that the first process reads ----------------------- */

struct mpi_run {
    const struct wf_bench_params *p;
    bool json;
};

static enum weft_status mpi_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct mpi_run *run = arg;
    struct wf_bench_mpi f = {0};
    WEFT_TRY(wf_bench_pipeline_mpi(comm, run->p, &f, err));
    if (weft_comm_rank(comm) != 0)
        return WEFT_OK;
    if (run->json)
        wf_bench_mpi_write(stdout, &f);
    else
        printf(
            "%u ranks of 1 thread by %s: %.1f tokens/s, evaluation %.1f tokens/s; bubble %.1f%%, simulated %.1f%%; "
            "sums and update %.1f%%; 1 MB in %.0f us, %.1f%% of plain sends\n",
            weft_comm_size(comm), weft_comm_launcher(), f.pipeline.tok_s, f.pipeline.eval_tok_s,
            100 * f.pipeline.bubble, 100 * f.pipeline.bubble_sim, 100 * f.pipeline.rest,
            f.ping.seconds * 1e6, 100 * f.ping.plain_seconds / f.ping.seconds);
    return WEFT_OK;
}

/* -- printing ------------------------------------------------------------------------------- */

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
    printf("evaluation      pipeline %.1f tokens/s; 1 rank of %u threads %.1f tokens/s\n",
           f->pipeline.eval_tok_s, p->ranks, f->one.eval_tok_s);
    print_layout("replicas", p->ranks, &f->replicas, "the ideal");
    printf("; sums and update %.1f%%\n", 100 * f->replicas.rest);

    for (size_t i = 0; i < WEFT_LEN(f->mpi); i++) {
        const struct wf_bench_mpi *m = &f->mpi[i];
        if (!m->ran) {
            printf("%-15s not installed, or it failed\n", m->launcher);
            continue;
        }
        print_layout(m->launcher, p->ranks, &m->pipeline, ideal);
        printf("; evaluation %.1f tokens/s", m->pipeline.eval_tok_s);
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
    WEFT_TRY(wf_bench_pipeline(p, wf_bench_launch, &figures, err));
    if (json) {
        wf_bench_pipeline_write_json(&(struct wf_json){.out = stdout}, p, &figures);
        putchar('\n');
    } else {
        print_text(p, &figures);
    }
    return WEFT_OK;
}
