/* Prints a dry run: the layout, the memory and the timeline of a run. */
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "base/printable.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/train.h"
#include "training/session/dry_run.h"
#include "weft/render.h"

enum { RANKS_SHOWN = 16, STAGES_SHOWN = 32 }; /* maximum numbers of printed lines */

static void print_ranks_of(const struct wf_topology *l, uint32_t stage)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < l->pp; r++)
        n += wf_topology_runs_stage(l, r, stage);
    const char *before = n == 1 ? " on rank " : " on ranks ";
    for (uint32_t r = 0; r < l->pp; r++)
        if (wf_topology_runs_stage(l, r, stage)) {
            printf("%s%u", before, r);
            before = ", ";
        }
}

/* Prints the stages.  Layers are numbered from 0, as in the names of parameters. */
static void print_stages(const struct wf_topology *l)
{
    for (uint32_t s = 0; s < l->n_stages && s < STAGES_SHOWN; s++) {
        const struct weft_stage_range *r = &l->partition.at[s];
        const char *comma = r->embedding ? ", " : "";
        printf("%s %u", s == 0 ? "stages  " : "        ", s);
        print_ranks_of(l, s);
        printf(": %s", r->embedding ? "embedding" : "");
        if (r->end_layer - r->first_layer == 1)
            printf("%slayer %u", comma, r->first_layer);
        else if (r->end_layer > r->first_layer)
            printf("%slayers %u to %u", comma, r->first_layer, r->end_layer - 1);
        bool alone = !r->embedding && r->end_layer == r->first_layer;
        printf("%s\n", !r->head ? "" : alone ? "head" : ", head");
    }
    if (l->n_stages > STAGES_SHOWN)
        printf("         ... %u stages in total\n", l->n_stages);
}

static void print_memory(const struct wf_dry_run *d)
{
    char number[WF_NUMBER_CHARS], have[WF_NUMBER_CHARS];
    for (uint32_t r = 0; r < d->topology.n_ranks && r < RANKS_SHOWN; r++) {
        printf("memory   rank %u: %s", r, wf_bytes_text(number, d->ranks[r].total));
        wf_train_print_bytes(&d->ranks[r]);
    }
    printf("memory   %s for all ranks; %s are available\n",
           wf_bytes_text(number, d->total_bytes),
           wf_bytes_text(have, d->topology.memory_limit));
    if (strcmp(d->recompute, "none") != 0)
        printf("memory   recomputed activations: %s\n", wf_shown(d->recompute).at);
}

static void print_traffic(const struct wf_dry_run *d)
{
    const struct weft_traffic_link *link = &d->busiest;
    char a[WF_NUMBER_CHARS], b[WF_NUMBER_CHARS];
    if (d->pipeline_bytes > 0)
        printf("traffic  %s per step %s pipeline, maximum from rank %u to rank %u: %s\n",
               wf_bytes_text(a, d->pipeline_bytes), d->topology.dp > 1 ? "in each" : "in the",
               link->from, link->to,
               wf_bytes_text(b, link->forward_bytes + link->backward_bytes));
    if (d->weight_bytes > 0)
        printf("traffic  %s of gradients and %s of weights per step between ranks that share "
               "parameters\n",
               wf_bytes_text(a, d->gradient_bytes), wf_bytes_text(b, d->weight_bytes));
}

static void print_timeline(const struct wf_dry_run *d)
{
    const struct wf_topology *l = &d->topology;
    struct weft_draw_options how = {.style = wf_style_for(stdout, NULL, 0)};
    struct weft_error err = {0};
    printf("\n");
    if (weft_render(stdout, WEFT_DRAW_FORMAT_TEXT, &d->plan, 1, &how, &err) != WEFT_OK)
        printf("(%s)\n", wf_shown(err.msg).at);
    printf("\nTimes assume %.0f GFLOP/s per rank, the peak of this machine; real steps take "
           "longer.\nThe bubble is the one that step lines show as plan%s.\n",
           d->peak_flops * 1e-9, l->dp > 1 ? "; the timeline shows the first replica" : "");
    if (l->n_stages > 1)
        printf("The head computes its gradients in its forward pass, so the B (or I and W) of "
               "stage %u %s.\n",
               l->n_stages - 1,
               l->partition.at[l->n_stages - 1].first_layer == l->model.layers
                   ? "takes no time"
                   : "includes only its layers");
}

void wf_train_print_dry_run(const struct wf_train_settings *s, const struct wf_dry_run *d)
{
    const struct wf_topology *l = &d->topology;
    char number[WF_NUMBER_CHARS];
    printf(
        "model    %s, %u layer%s of dimension %u, vocabulary of %u, %s parameters, %.3g flops "
        "per token\n",
        weft_arch_name(l->model.arch), l->model.layers, wf_plural(l->model.layers),
        l->model.dim, l->model.vocab, wf_grouped(number, d->n_params), d->token_flops);
    printf("ranks    %u: pp %u x dp %u, %u thread%s each; schedule %s, %u stage%s, %u micro%s "
           "of %s%zu sequence%s\n",
           l->n_ranks, l->pp, l->dp, l->threads, wf_plural(l->threads),
           wf_shown(s->parallel.schedule).at, l->n_stages, wf_plural(l->n_stages), l->micros,
           wf_plural(l->micros), l->batch % l->micros != 0 ? "up to " : "", l->max_rows,
           wf_plural(l->max_rows));
    print_stages(l);
    print_memory(d);
    print_traffic(d);
    print_timeline(d);
}
