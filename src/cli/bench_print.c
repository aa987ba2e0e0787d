/* Prints the benchmarks of training, kernels, generation and checkpoints. */
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/bench.h"
#include "compute/kern/isa.h"

/* Target values of the project, as shares. */
static const double max_stall = 0.05, min_disk_share = 0.7, min_memory_share = 0.6;

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

static void put_mode(struct wf_json *j, const struct wf_bench_train_mode *m, const char *name)
{
    wf_json_begin(j, name, '{');
    wf_json_number(j, "tok_s", m->tok_s);
    wf_json_number(j, "ms", m->seconds * 1e3);
    wf_json_number(j, "share", m->share);
    wf_json_number(j, "peak", m->peak);
    wf_json_number(j, "burst", m->burst);
    wf_json_begin(j, "time", '{');
    for (int i = 0; i < WF_BENCH_N_TIMES; i++)
        wf_json_number(j, wf_bench_time_name((size_t)i), m->times[i]);
    wf_json_end(j, '}');
    wf_json_uint(j, "weight_bytes", m->memory.weights);
    wf_json_uint(j, "packed_bytes", m->memory.packed);
    wf_json_uint(j, "gradient_bytes", m->memory.gradients);
    wf_json_uint(j, "moment_bytes", m->moment_bytes);
    wf_json_uint(j, "activation_bytes", m->memory.activations);
    wf_json_uint(j, "scratch_bytes", m->memory.scratch);
    wf_json_end(j, '}');
}

static void print_train_json(const struct wf_bench_params *p, const struct wf_bench_train *f)
{
    struct wf_json j = {.out = stdout};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "spec", p->spec);
    wf_json_string(&j, "precision", p->precision);
    wf_json_string(&j, "instructions", wf_isa_name(wf_isa()));
    wf_json_uint(&j, "batch", p->batch);
    wf_json_uint(&j, "seq", p->seq);
    wf_json_uint(&j, "micros", p->micros);
    wf_json_uint(&j, "threads", f->threads);
    wf_json_number(&j, "flops", f->flops);
    put_mode(&j, &f->exact, "exact");
    put_mode(&j, &f->fast, "fast");
    wf_json_number(&j, "exact_cost", f->exact_cost);
    wf_json_end(&j, '}');
    putchar('\n');
}

void wf_bench_print_train(const struct wf_bench_params *p, const struct wf_bench_train *f,
                          bool json)
{
    if (json) {
        print_train_json(p, f);
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

static void put_kernel(struct kernel_table *t, const struct wf_bench_kernel *k)
{
    if (t->n_rows == 0)
        wf_json_begin(&t->json, NULL, '[');
    wf_json_begin(&t->json, NULL, '{');
    wf_json_string(&t->json, "kernel", k->name);
    wf_json_string(&t->json, "shape", k->shape);
    wf_json_number(&t->json, "us", k->seconds * 1e6);
    wf_json_number(&t->json, k->flops != 0 ? "flop_s" : "byte_s", k->rate);
    if (k->flops != 0)
        wf_json_number(&t->json, "share", k->share);
    wf_json_end(&t->json, '}');
}

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
    if (t->as_json)
        put_kernel(t, k);
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
    struct wf_json j = {.out = stdout};
    if (!json) {
        printf("%s, after a prompt of %u tokens, %u thread%s, %s, best of %u\n", p->spec,
               f->prompt, f->threads, f->threads == 1 ? "" : "s", wf_isa_name(wf_isa()),
               p->repeat);
        for (size_t i = 0; i < WEFT_LEN(f->types); i++) {
            const struct wf_bench_generate_type *t = &f->types[i];
            printf("%-5s %7.1f tokens/s (prompt %.0f/s), %.0f MB per token, memory %.1f GB/s, "
                   "share %.1f%% %s (limit %.0f%%)\n",
                   wf_dtype_name(t->type), t->tok_s, t->prompt_tok_s,
                   (double)t->token_bytes / 1e6, t->read_bytes_s / 1e9, 100 * t->share,
                   verdict(t->share >= min_memory_share), 100 * min_memory_share);
        }
        return;
    }

    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "spec", p->spec);
    wf_json_uint(&j, "prompt", f->prompt);
    wf_json_uint(&j, "threads", f->threads);
    wf_json_string(&j, "instructions", wf_isa_name(wf_isa()));
    wf_json_number(&j, "bar", min_memory_share);
    for (size_t i = 0; i < WEFT_LEN(f->types); i++) {
        const struct wf_bench_generate_type *t = &f->types[i];
        wf_json_begin(&j, wf_dtype_name(t->type), '{');
        wf_json_number(&j, "tok_s", t->tok_s);
        wf_json_number(&j, "prompt_tok_s", t->prompt_tok_s);
        wf_json_uint(&j, "token_bytes", t->token_bytes);
        wf_json_number(&j, "read_bytes_s", t->read_bytes_s);
        wf_json_number(&j, "share", t->share);
        wf_json_end(&j, '}');
    }
    wf_json_end(&j, '}');
    putchar('\n');
}

/* -- checkpoints ---------------------------------------------------------------------------- */

static void print_checkpoint_json(const struct wf_bench_params *p,
                                  const struct wf_bench_checkpoint *f)
{
    const struct wf_bench_disk *d = &f->disk;
    struct wf_json j = {.out = stdout};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "spec", p->spec);
    wf_json_uint(&j, "batch", p->batch);
    wf_json_uint(&j, "seq", p->seq);
    wf_json_uint(&j, "every", p->steps);
    wf_json_number(&j, "bytes", d->bytes);
    wf_json_number(&j, "step_ms", 1e3 * f->without_s);
    wf_json_number(&j, "saving_step_ms", 1e3 * f->with_s);
    wf_json_number(&j, "stall", f->stall);
    wf_json_number(&j, "processor_time", f->cpu);
    wf_json_number(&j, "checkpoint_s", f->checkpoint_s);
    wf_json_number(&j, "save_bytes_s", d->save);
    wf_json_number(&j, "plain_write_bytes_s", d->save_plain);
    wf_json_number(&j, "save_share", d->save_share);
    wf_json_number(&j, "check_bytes_s", d->check);
    wf_json_number(&j, "load_bytes_s", d->load);
    wf_json_number(&j, "plain_read_bytes_s", d->load_plain);
    wf_json_number(&j, "load_share", d->load_share);
    wf_json_number(&j, "cached", d->cached);
    wf_json_end(&j, '}');
    putchar('\n');
}

void wf_bench_print_checkpoint(const struct wf_bench_params *p,
                               const struct wf_bench_checkpoint *f, bool json)
{
    const struct wf_bench_disk *d = &f->disk;
    if (json) {
        print_checkpoint_json(p, f);
        return;
    }
    printf("%s, %u x %u tokens per step, a checkpoint of %.0f MB every %u steps; steps: median "
           "of %u; disk: best of %u\n",
           p->spec, p->batch, p->seq, d->bytes / 1e6, p->steps, f->repeat, f->repeat);
    printf("steps   %8.1f ms without saving, %.1f ms with saving: stall %.1f%% %s (limit "
           "%.0f%%); %.1f%% more processor time; %.2f s per checkpoint\n",
           1e3 * f->without_s, 1e3 * f->with_s, 100 * f->stall, verdict(f->stall <= max_stall),
           100 * max_stall, 100 * f->cpu, f->checkpoint_s);
    printf("save    %8.0f MB/s, plain write and fsync %.0f MB/s: %.0f%% %s (limit %.0f%%); "
           "read back at %.0f MB/s\n",
           d->save / 1e6, d->save_plain / 1e6, 100 * d->save_share,
           verdict(d->save_share >= min_disk_share), 100 * min_disk_share, d->check / 1e6);
    printf("load    %8.0f MB/s, plain read %.0f MB/s: %.0f%% %s (limit %.0f%%); %s\n",
           d->load / 1e6, d->load_plain / 1e6, 100 * d->load_share,
           verdict(d->load_share >= min_disk_share), 100 * min_disk_share,
           d->cached < 0.1 ? "from the disk" : "from memory: the files stayed cached");
}
