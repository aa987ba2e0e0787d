/* Prints the head of a run: model, data, ranks, machine, memory. */
#include <stdio.h>

#include "base/numbers.h"
#include "base/printable.h"
#include "cli/train.h"
#include "compute/kern/isa.h"

enum { NUMBER = WF_NUMBER_CHARS };

static void print_model(const struct wf_train_settings *s, const struct wf_trainer_info *i)
{
    char params[NUMBER];
    printf("model    %s, %u layer%s of dimension %u, %s parameters, ",
           weft_arch_name(i->model.arch), i->model.layers, i->model.layers == 1 ? "" : "s",
           i->model.dim, wf_grouped(params, i->n_params));
    if (s->model.dir != NULL)
        printf("from %s\n", wf_shown(s->model.dir).at);
    else
        printf("new, seed %llu\n", (unsigned long long)s->model.seed);
}

void wf_train_print_bytes(const struct wf_rank_bytes *b)
{
    const struct {
        const char *name;
        size_t bytes;
    } parts[] = {
        {"weights", b->weights},         {"packed", b->packed},
        {"gradients", b->gradients},     {"moments", b->moments},
        {"activations", b->activations}, {"scratch", b->scratch},
        {"messages", b->messages},       {"tokens", b->data},
        {"snapshot", b->snapshot},       {"temporary", b->temporary},
    };
    const char *before = " =";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char number[NUMBER];
        if (parts[i].bytes == 0)
            continue;
        printf("%s %s %s", before, parts[i].name, wf_bytes_text(number, parts[i].bytes));
        before = " +";
    }
    printf("\n");
}

static void print_memory(const struct wf_trainer_info *i, const struct wf_rank_totals *ranks)
{
    char a[NUMBER], b[NUMBER];
    const struct wf_rank_bytes *largest = &ranks->largest;
    if (i->n_ranks > 1)
        printf("memory   %s on %u ranks, maximum on rank %u: %s",
               wf_bytes_text(a, ranks->all_bytes), i->n_ranks, ranks->largest_rank,
               wf_bytes_text(b, largest->total));
    else
        printf("memory   %s", wf_bytes_text(a, largest->total));
    wf_train_print_bytes(largest);
}

/* Prints "stages   embedding + 3 | 3 + head layers". */
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
    printf("ranks    %u (%s): pp %u x dp %u, schedule %s, %u stage%s, planned bubble %.1f%%\n",
           i->n_ranks, transport, l->pp, l->dp, wf_shown(s->parallel.schedule).at, l->n_stages,
           l->n_stages == 1 ? "" : "s", 100 * i->bubble_plan);
    print_stages(l);
}

void wf_train_print_head(const struct wf_train_settings *s,
                         const struct wf_session_start *start)
{
    const struct wf_trainer_info *i = &start->info;
    char tokens[NUMBER], step[NUMBER];
    print_model(s, i);
    printf("data     %s: %zu file%s, %s tokens; %u x %u = %s per step in %u micro%s\n",
           wf_shown(s->data.train).at, i->n_files, i->n_files == 1 ? "" : "s",
           wf_grouped(tokens, i->n_tokens), s->data.batch, i->seq,
           wf_grouped(step, (unsigned long long)s->data.batch * i->seq), s->parallel.micros,
           s->parallel.micros == 1 ? "" : "s");
    print_layout(s, i, start->transport);
    printf("machine  %u thread%s%s, %s, %s up to %.0f GFLOP/s\n", i->threads,
           i->threads == 1 ? "" : "s", i->n_ranks > 1 ? " per rank" : "", wf_isa_name(wf_isa()),
           s->train.precision == WF_PRECISION_BF16 ? "bf16" : "fp32",
           start->totals.peak * 1e-9);
    print_memory(i, &start->totals);
    if (s->train.reduction == WF_REDUCTION_FAST)
        printf("sums     fast: bits depend on the layout and the schedule\n");
    if (s->log.dir == NULL)
        printf("run      nothing is kept; set log.dir to keep weights and metrics\n");
    else
        printf("run      %s\n", wf_shown(s->log.dir).at);
}
