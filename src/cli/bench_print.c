/* Prints the benchmarks of training, kernels, generation and checkpoints. */
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/bench.h"
#include "compute/kern/isa.h"

static const char *verdict(bool ok)
{
    return ok ? "ok" : "missed";
}

/* -- training ------------------------------------------------------------------------------- */

static void print_mode(const struct wf_bench_train_mode *m, const char *name)
{
    printf("%-6s %7.1f tokens/s  %6.0f ms per step  %5.1f%% of peak (%.0f GFLOP/s during the "
           "steps, %.0f between them)  loss %.4f\n",
           name, m->tok_s, m->seconds * 1e3, 100 * m->share, m->peak / 1e9, m->burst / 1e9,
           m->loss);
    printf("  share of the time:");
    for (int i = 0; i < WF_BENCH_N_TIMES; i++)
        printf("%s %s %.1f%%", i == 0 ? "" : ",", wf_bench_time_name((size_t)i),
               100 * m->times[i]);
    printf("\n  memory, MB: weights %.0f, packed %.0f, gradients %.0f, moments %.0f, "
           "activations %.0f, scratch %.0f\n",
           (double)m->memory.weights / 1e6, (double)m->memory.packed / 1e6,
           (double)m->memory.gradients / 1e6, (double)m->moment_bytes / 1e6,
           (double)m->memory.activations / 1e6, (double)m->memory.scratch / 1e6);
}

void wf_bench_print_train(const struct wf_bench_params *p, const struct wf_bench_train *f,
                          bool json)
{
    if (json) {
        wf_bench_train_write_json(&(struct wf_json){.out = stdout}, p, f);
        putchar('\n');
        return;
    }
    printf("%s, %s, %u x %u tokens in %u micro-batch%s, %u thread%s, %s%s\n", p->spec,
           p->precision, p->batch, p->seq, p->micros, p->micros == 1 ? "" : "es", f->threads,
           f->threads == 1 ? "" : "s", wf_isa_name(wf_isa()),
           f->bf16_emulated ? " (no bf16 dot products: fp32 ones, and their peak)" : "");
    print_mode(&f->exact, "exact");
    print_mode(&f->fast, "fast");
    printf("exact sums cost %.1f%% of a step\n", 100 * f->exact_cost);
}

/* -- kernels -------------------------------------------------------------------------------- */

struct kernel_table {
    const struct wf_bench_params *p;
    struct wf_json json;
    bool as_json;
    size_t n_rows;
};

static void print_kernel(const struct kernel_table *t, const struct wf_bench_kernel *k)
{
    if (t->n_rows == 0)
        printf("%s, %s, %u x %u tokens, %u threads, %s; best of %u\n", t->p->spec,
               t->p->precision, t->p->batch, t->p->seq, k->threads, wf_isa_name(wf_isa()),
               t->p->repeat);
    printf("%-38s %-20s %9.0f us  %7.1f ", k->name, k->shape, k->seconds * 1e6, k->rate / 1e9);
    if (k->flops != 0)
        printf("GFLOP/s  %5.1f%% of peak\n", 100 * k->share);
    else
        printf("GB/s\n");
}

static void show_kernel(void *ctx, const struct wf_bench_kernel *k)
{
    struct kernel_table *t = ctx;
    if (t->as_json && t->n_rows == 0)
        wf_json_begin(&t->json, NULL, '[');
    if (t->as_json)
        wf_bench_kernel_write_json(&t->json, k);
    else
        print_kernel(t, k);
    t->n_rows++;
    fflush(stdout);
}

enum weft_status wf_bench_show_kernels(const struct wf_bench_params *p, bool json,
                                       struct weft_error *err)
{
    struct kernel_table t = {.p = p, .json = {.out = stdout}, .as_json = json};
    enum weft_status st = wf_bench_kernels(p, show_kernel, &t, err);
    if (json && t.n_rows > 0) {
        wf_json_end(&t.json, ']');
        putchar('\n');
    }
    return st;
}

/* -- generation ----------------------------------------------------------------------------- */

void wf_bench_print_generate(const struct wf_bench_params *p, const struct wf_bench_generate *f,
                             bool json)
{
    if (json) {
        wf_bench_generate_write_json(&(struct wf_json){.out = stdout}, p, f);
        putchar('\n');
        return;
    }
    printf("%s, after a prompt of %u tokens, %u thread%s, %s, best of %u\n", p->spec, f->prompt,
           f->threads, f->threads == 1 ? "" : "s", wf_isa_name(wf_isa()), p->repeat);
    for (size_t i = 0; i < WEFT_LEN(f->types); i++) {
        const struct wf_bench_generate_type *t = &f->types[i];
        printf("%-5s %7.1f tokens/s (prompt %.0f/s), %.0f MB per token, memory %.1f GB/s, "
               "share %.1f%% %s (limit %.0f%%)\n",
               wf_dtype_name(t->type), t->tok_s, t->prompt_tok_s, (double)t->token_bytes / 1e6,
               t->read_bytes_s / 1e9, 100 * t->share, verdict(t->reached),
               100 * wf_bench_targets.min_memory_share);
    }
}

/* -- checkpoints ---------------------------------------------------------------------------- */

void wf_bench_print_checkpoint(const struct wf_bench_params *p,
                               const struct wf_bench_checkpoint *f, bool json)
{
    const struct wf_bench_disk *d = &f->disk;
    if (json) {
        wf_bench_checkpoint_write_json(&(struct wf_json){.out = stdout}, p, f);
        putchar('\n');
        return;
    }
    printf("%s, %u x %u tokens per step, a checkpoint of %.0f MB every %u steps; steps: median "
           "of %u; disk: best of %u\n",
           p->spec, p->batch, p->seq, d->bytes / 1e6, p->steps, f->repeat, f->repeat);
    printf("steps   %8.1f ms without saving, %.1f ms with saving: stall %.1f%% %s (limit "
           "%.0f%%); %.1f%% more processor time; %.2f s per checkpoint\n",
           1e3 * f->without_s, 1e3 * f->with_s, 100 * f->stall, verdict(f->stall_reached),
           100 * wf_bench_targets.max_stall, 100 * f->cpu, f->checkpoint_s);
    printf("save    %8.0f MB/s, plain write and fsync %.0f MB/s: %.0f%% %s (limit %.0f%%); "
           "read back at %.0f MB/s\n",
           d->save / 1e6, d->save_plain / 1e6, 100 * d->save_share, verdict(d->save_reached),
           100 * wf_bench_targets.min_disk_share, d->check / 1e6);
    printf("load    %8.0f MB/s, plain read %.0f MB/s: %.0f%% %s (limit %.0f%%); %s\n",
           d->load / 1e6, d->load_plain / 1e6, 100 * d->load_share, verdict(d->load_reached),
           100 * wf_bench_targets.min_disk_share,
           d->cached < 0.1 ? "from the disk" : "from memory: the files stayed cached");
}
