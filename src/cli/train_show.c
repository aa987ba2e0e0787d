/* What a person sees of a run: its head, its steps. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "cli/train.h"
#include "compute/kern/isa.h"
#include "training/ckpt/file.h"
#include "weft/comm.h"

enum { NUMBER = WF_NUMBER_CHARS };

static const char *clock_text(char out[NUMBER], double seconds)
{
    unsigned long long s = seconds < 1e12 ? (unsigned long long)(seconds + 0.5) : 0;
    snprintf(out, NUMBER, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    return out;
}

static void print_model(const struct wf_train_settings *s, const struct wf_trainer_info *i)
{
    char params[NUMBER];
    printf("model    %s, %u layer%s of dimension %u, %s parameters, ",
           weft_arch_name(i->model.arch), i->model.layers, i->model.layers == 1 ? "" : "s",
           i->model.dim, wf_grouped(params, i->n_params));
    if (s->model.dir != NULL)
        printf("from %s\n", s->model.dir);
    else
        printf("new, seed %llu\n", (unsigned long long)s->model.seed);
}

static void print_memory(const struct wf_trainer_info *i, const struct wf_rank_totals *ranks)
{
    char a[NUMBER], b[NUMBER], c[NUMBER], d[NUMBER], e[NUMBER], f[NUMBER], g[NUMBER];
    const struct wf_rank_bytes *most = &ranks->most;
    if (i->n_ranks > 1)
        printf("memory   %s on %u ranks, the most on rank %u: %s",
               wf_bytes_text(a, ranks->all_bytes), i->n_ranks, ranks->most_rank,
               wf_bytes_text(b, most->total));
    else
        printf("memory   %s", wf_bytes_text(a, most->total));
    printf(
        " = weights %s + packed %s + gradients %s + moments %s + activations %s + scratch %s",
        wf_bytes_text(b, most->weights), wf_bytes_text(c, most->packed),
        wf_bytes_text(d, most->gradients), wf_bytes_text(e, most->moments),
        wf_bytes_text(f, most->activations), wf_bytes_text(g, most->scratch));
    if (i->n_ranks > 1)
        printf(" + messages %s", wf_bytes_text(a, most->messages));
    printf("\n");
}

/* Which layers are where: "stages   0: embedding, 3 layers | 1: 3 layers, head". */
static void print_stages(const struct wf_topology *l)
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

static void print_layout(const struct wf_train_settings *s, const struct wf_trainer_info *i,
                         const char *transport)
{
    const struct wf_topology *l = i->topology;
    if (i->n_ranks == 1 && l->n_stages == 1)
        return;
    printf("ranks    %u by %s: pp %u x dp %u, schedule %s, %u stage%s, planned bubble %.1f%%\n",
           i->n_ranks, transport, l->pp, l->dp, s->parallel.schedule, l->n_stages,
           l->n_stages == 1 ? "" : "s", 100 * i->bubble_plan);
    print_stages(l);
}

void wf_train_show_head(const struct wf_train_show *show, const struct wf_trainer_info *i,
                        const char *transport, const struct wf_rank_totals *ranks)
{
    const struct wf_train_settings *s = show->settings;
    char tokens[NUMBER], step[NUMBER];
    print_model(s, i);
    printf("data     %s: %zu file%s, %s tokens; a step has %u x %u = %s in %u micro%s\n",
           s->data.train, i->n_files, i->n_files == 1 ? "" : "s",
           wf_grouped(tokens, i->n_tokens), s->data.batch, i->seq,
           wf_grouped(step, (unsigned long long)s->data.batch * i->seq), s->parallel.micros,
           s->parallel.micros == 1 ? "" : "s");
    print_layout(s, i, transport);
    printf("machine  %u thread%s%s, %s, %s up to %.0f GFLOP/s\n", i->threads,
           i->threads == 1 ? "" : "s", i->n_ranks > 1 ? " a rank" : "", wf_isa_name(wf_isa()),
           s->train.precision == WF_PRECISION_BF16 ? "bf16" : "fp32", ranks->peak * 1e-9);
    print_memory(i, ranks);
    if (s->train.reduction == WF_REDUCTION_FAST)
        printf("sums     fast: the same bits only for the same topology and schedule\n");
    if (s->log.dir == NULL)
        printf("run      nothing is kept: give log.dir for weights and metrics\n");
    else
        printf("run      %s\n", s->log.dir);
}

/* -- steps ---------------------------------------------------------------------------------- */

/* About 20 lines a run: 1, 2 or 5 times a power of ten. */
static uint64_t steps_between_lines(uint64_t steps)
{
    enum { LINES = 20 };
    uint64_t every = 1;
    for (unsigned i = 0; every < steps / LINES; i++)
        every = i % 3 == 1 ? every / 2 * 5 : every * 2;
    return every;
}

/* Launchers collect the output of ranks, and may give them terminals of their own for that. */
struct wf_bar wf_train_bar(void)
{
    struct wf_bar bar = wf_bar_make(stdout);
    bar.on = bar.on && weft_comm_launcher() == NULL;
    return bar;
}

struct wf_train_show wf_train_show_make(const struct wf_train_settings *settings, bool pipeline)
{
    struct wf_train_show show = {.settings = settings,
                                 .bar = wf_train_bar(),
                                 .every = settings->log.every,
                                 .pipeline = pipeline};
    if (show.every == 0)
        show.every = show.bar.on ? steps_between_lines(settings->train.steps) : 1;
    return show;
}

static void print_step(const struct wf_train_show *show, const struct wf_metrics_record *r,
                       double left)
{
    char rate[NUMBER], eta[NUMBER];
    printf("step %llu/%llu | loss %.4f | norm %.3f | lr %.1e | %.*f ms | %s tok/s | mfu %.1f%%",
           (unsigned long long)r->step, (unsigned long long)show->settings->train.steps,
           r->loss, r->grad_norm, r->lr, r->ms < 10 ? 2 : 0, r->ms,
           wf_grouped(rate, (unsigned long long)(r->tok_s + 0.5)), 100 * r->mfu);
    if (show->pipeline)
        printf(" | bubble %.1f%% (plan %.1f%%)", 100 * r->bubble, 100 * r->bubble_plan);
    printf(" | eta %s\n", clock_text(eta, left));
    fflush(stdout);
}

static void draw_step(struct wf_train_show *show, uint64_t step, const char *const *fields,
                      size_t n)
{
    char head[2 * NUMBER];
    uint64_t steps = show->settings->train.steps;
    if (!wf_bar_is_due(&show->bar))
        return;
    snprintf(head, sizeof head, "step %llu/%llu", (unsigned long long)step,
             (unsigned long long)steps);
    wf_bar_draw(&show->bar, (double)step / (double)steps, head, fields, n);
}

void wf_train_show_begin(struct wf_train_show *show, uint64_t done)
{
    draw_step(show, done, NULL, 0);
}

void wf_train_show_step(struct wf_train_show *show, const struct wf_metrics_record *r,
                        double left)
{
    char loss[NUMBER], speed[2 * NUMBER], rest[2 * NUMBER], number[NUMBER];
    const char *const fields[] = {loss, rest, speed};
    uint64_t steps = show->settings->train.steps;
    if (r->step % show->every == 0 || r->step == 1 || r->step == steps) {
        wf_bar_clear(&show->bar);
        print_step(show, r, left);
    }
    snprintf(loss, sizeof loss, "loss %.4f", r->loss);
    snprintf(speed, sizeof speed, "%s tok/s",
             wf_grouped(number, (unsigned long long)(r->tok_s + 0.5)));
    snprintf(rest, sizeof rest, "eta %s", clock_text(number, left));
    draw_step(show, r->step, fields, WEFT_LEN(fields));
}

void wf_train_show_line(struct wf_train_show *show, const char *format, ...)
{
    va_list rest;
    wf_bar_clear(&show->bar);
    va_start(rest, format);
    vprintf(format, rest);
    va_end(rest);
    putchar('\n');
    fflush(stdout);
}

void wf_train_show_warning(struct wf_train_show *show, const char *format, ...)
{
    va_list rest;
    wf_bar_clear(&show->bar);
    va_start(rest, format);
    fputs("weft: warning: ", stderr);
    vfprintf(stderr, format, rest);
    va_end(rest);
    fputc('\n', stderr);
}

void wf_train_show_end(struct wf_train_show *show)
{
    wf_bar_clear(&show->bar);
    show->bar.on = false;
}

/* -- the end -------------------------------------------------------------------------------- */

/* A word of a command as a shell reads it. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+=:,@%";
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            fputs("'\\'", stdout);
        putchar(*word);
    }
    putchar('\'');
}

/* config.yaml has all settings, so that the command is short and yet the same run. */
static void print_command(const char *dir, uint32_t n_ranks)
{
    char *config = wf_path_join(dir, "config.yaml");
    printf("go on    ");
    if (weft_comm_launcher() != NULL)
        printf("mpirun -n %u ", n_ranks);
    printf("weft train ");
    print_word(config == NULL ? dir : config);
    printf(" --checkpoint.resume=auto\n");
    free(config);
}

void wf_train_show_rest(const struct wf_train_show *show, uint32_t n_ranks, uint64_t saved,
                        bool has_weights)
{
    const char *dir = show->settings->log.dir;
    if (dir == NULL) {
        printf("kept     nothing: there was no log.dir\n");
    } else if (saved != 0) {
        print_command(dir, n_ranks);
    } else if (has_weights) {
        printf("kept     weights and metrics, but no checkpoint (checkpoint.every is off): the "
               "run cannot go on;\n         a new one starts from these weights with "
               "--model.dir=");
        print_word(dir);
        printf("/model\n");
    } else {
        printf("kept     the metrics alone: there is no checkpoint%s\n",
               show->settings->checkpoint.every == 0 ? " (checkpoint.every is off)" : "");
    }
    fflush(stdout);
}
