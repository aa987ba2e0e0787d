/* weft train --dry-run: prints the layout, memory and timeline of a run without training. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/error.h"
#include "base/numbers.h"
#include "base/sysmem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/train.h"
#include "compute/kern/peak.h"
#include "compute/kern/pool.h"
#include "training/data/meta.h"
#include "training/data/shard.h"
#include "training/trainer/load.h"
#include "weft/render.h"
#include "weft/timing.h"

enum { RANKS_SHOWN = 16, STAGES_SHOWN = 32 }; /* maximum numbers of printed lines */

/* -- memory --------------------------------------------------------------------------------- */

static enum weft_status print_bytes(const struct wf_topology *l, struct weft_error *err)
{
    char number[WF_NUMBER_CHARS], have[WF_NUMBER_CHARS];
    bool copies = weft_comm_launcher() != NULL;
    size_t bytes;
    for (uint32_t r = 0; r < l->n_ranks && r < RANKS_SHOWN; r++) {
        WEFT_TRY(wf_topology_rank_bytes(l, r, copies, &bytes, err));
        printf("memory   rank %u: %s\n", r, wf_bytes_text(number, bytes));
    }
    WEFT_TRY(wf_topology_total_bytes(l, copies, &bytes, err));
    printf("memory   %s for all ranks, without temporary buffers; this machine has %s\n",
           wf_bytes_text(number, bytes), wf_bytes_text(have, wf_sysmem_bytes()));
    return WEFT_OK;
}

/* -- bytes between ranks -------------------------------------------------------------------- */

static enum weft_status print_links(const struct wf_train_settings *s,
                                    const struct wf_topology *l, struct weft_error *err)
{
    char all[WF_NUMBER_CHARS], max[WF_NUMBER_CHARS];
    struct weft_traffic_step step = {0};
    WEFT_TRY(
        wf_topology_count_traffic(l, (enum weft_block_cache)s->parallel.cache, &step, err));
    size_t busiest = 0, k = 0;
    for (size_t i = 0; i < step.n_links; i++) {
        size_t bytes = step.links[i].forward_bytes + step.links[i].backward_bytes;
        if (bytes > busiest) {
            busiest = bytes;
            k = i;
        }
    }
    if (busiest > 0)
        printf("traffic  %s per step %s pipeline, maximum from rank %u to rank %u: %s\n",
               wf_bytes_text(all, step.forward_bytes + step.backward_bytes),
               l->dp > 1 ? "in each" : "in the", step.links[k].from, step.links[k].to,
               wf_bytes_text(max, busiest));
    weft_traffic_step_release(&step);
    return WEFT_OK;
}

/* Prints the bytes of gradient sums.  In a group, each rank sends to every other rank that
 * rank's shard of its gradients, and receives that rank's shard of the new weights. */
static void print_sums(const struct wf_train_settings *s, const struct wf_topology *l)
{
    char gradients[WF_NUMBER_CHARS], weights[WF_NUMBER_CHARS];
    size_t one = s->train.reduction == WF_REDUCTION_FAST ? sizeof(float) : sizeof(int64_t);
    size_t elements = 0;
    for (size_t i = 0; i < l->n_groups; i++)
        elements += l->groups[i].n * (l->groups[i].n_members - 1);
    if (elements > 0)
        printf("traffic  %s of gradients and %s of weights per step between ranks that share "
               "parameters\n",
               wf_bytes_text(gradients, elements * one),
               wf_bytes_text(weights, elements * sizeof(float)));
}

/* -- the timeline --------------------------------------------------------------------------- */

static uint32_t threads_of(const struct wf_train_settings *s, const struct wf_topology *l)
{
    uint32_t cores = wf_cores_available();
    if (s->parallel.threads != 0)
        return s->parallel.threads;
    return cores / l->n_ranks > 0 ? cores / l->n_ranks : 1;
}

/* Measures the peak of one rank in floating-point operations per second. */
static enum weft_status find_peak(const struct wf_train_settings *s,
                                  const struct wf_topology *l, double *out,
                                  struct weft_error *err)
{
    struct wf_pool *pool = NULL;
    bool bf16 = s->train.precision == WF_PRECISION_BF16;
    WEFT_TRY(wf_pool_new(threads_of(s, l), &pool, err));
    *out = wf_peak_flops_cpu_time(pool, bf16 ? WF_DTYPE_BF16 : WF_DTYPE_F32);
    wf_pool_free(pool);
    return WEFT_OK;
}

/* Draws the timeline.  The costs are numbers of operations; the peak converts them to
 * seconds. */
static enum weft_status draw_plan(const struct wf_topology *l, double peak,
                                  struct weft_error *err)
{
    struct weft_cost cost = wf_topology_cost(l);
    const struct weft_schedule *s = wf_topology_schedule(l, 0);
    struct weft_metrics m;
    struct weft_trace trace = {0};
    struct weft_draw_options how = {.style = wf_style_for(stdout, NULL, 0)};
    WEFT_TRY(weft_metrics_init(&m, s, &cost, NULL, err));
    enum weft_status st = weft_trace_init_plan(&trace, s, &m, NULL, err);
    weft_metrics_release(&m);
    trace.unit_seconds = 1 / peak;
    if (st == WEFT_OK)
        st = weft_render(stdout, WEFT_DRAW_FORMAT_TEXT, &trace, 1, &how, err);
    weft_trace_release(&trace);
    return st;
}

static enum weft_status print_timeline(const struct wf_train_settings *s,
                                       const struct wf_topology *l, struct weft_error *err)
{
    double peak;
    WEFT_TRY(find_peak(s, l, &peak, err));
    printf("\n");
    WEFT_TRY(draw_plan(l, peak, err));
    printf("\nTimes assume %.0f GFLOP/s per rank, the peak of this machine; real steps take "
           "longer.\nThe bubble is the one that step lines show as plan%s.\n",
           peak * 1e-9, l->dp > 1 ? "; the timeline shows the first replica" : "");
    if (l->n_stages > 1)
        printf("The head computes its gradients in its forward pass, so the B (or I and W) of "
               "stage %u %s.\n",
               l->n_stages - 1,
               l->partition.at[l->n_stages - 1].first_layer == l->model.layers
                   ? "takes no time"
                   : "includes only its layers");
    return WEFT_OK;
}

/* -- the dry run ----------------------------------------------------------------------------- */

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

static enum weft_status print_layout(const struct wf_train_settings *s,
                                     const struct wf_topology *l, struct weft_error *err)
{
    size_t params = 0;
    double flops = 0;
    char number[WF_NUMBER_CHARS];
    uint32_t threads = threads_of(s, l);
    WEFT_TRY(weft_model_count_params(&l->model, &params, err));
    WEFT_TRY(weft_model_token_flops(&l->model, l->seq, &flops, err));
    printf(
        "model    %s, %u layer%s of dimension %u, vocabulary of %u, %s parameters, %.3g flops "
        "per token\n",
        weft_arch_name(l->model.arch), l->model.layers, wf_plural(l->model.layers),
        l->model.dim, l->model.vocab, wf_grouped(number, params), flops);
    printf("ranks    %u: pp %u x dp %u, %u thread%s each; schedule %s, %u stage%s, %u micro%s "
           "of %s%zu sequence%s\n",
           l->n_ranks, l->pp, l->dp, threads, wf_plural(threads), s->parallel.schedule,
           l->n_stages, wf_plural(l->n_stages), l->micros, wf_plural(l->micros),
           l->batch % l->micros != 0 ? "up to " : "", l->max_rows, wf_plural(l->max_rows));
    print_stages(l);
    WEFT_TRY(print_bytes(l, err));
    WEFT_TRY(print_links(s, l, err));
    print_sums(s, l);
    return print_timeline(s, l, err);
}

static enum weft_status dry_run(const struct wf_train_settings *s, struct weft_comm *comm,
                                struct weft_error *err)
{
    struct weft_model model;
    struct wf_topology l;
    struct wf_shards *shards = NULL;
    WEFT_TRY(wf_load_run_model(s, &model, err));
    WEFT_TRY(wf_topology_init(&l, s, &model, err));
    enum weft_status st =
        comm == NULL ? WEFT_OK : wf_topology_check_ranks(&l, weft_comm_size(comm), err);
    if (st == WEFT_OK)
        st = wf_shards_open_split(s->data.train, "train", &shards, err);
    if (st == WEFT_OK)
        st = wf_meta_check_vocab(shards, s->model.dir, model.vocab, err);
    if (st == WEFT_OK && (comm == NULL || weft_comm_rank(comm) == 0))
        st = print_layout(s, &l, err);
    if (st == WEFT_OK)
        st = wf_session_check_memory(&l, err);
    wf_shards_free(shards);
    wf_topology_release(&l);
    return st;
}

static enum weft_status choose_layout(struct wf_train_settings *s, struct weft_comm *comm,
                                      struct weft_error *err)
{
    struct wf_layout_choice choice;
    enum weft_status st = wf_session_choose_layout(s, comm, &choice, err);
    if (st == WEFT_OK && choice.candidates.n > 0)
        wf_train_print_choice(s, &choice);
    wf_layout_choice_release(&choice);
    return st;
}

/* Chooses the layout on all ranks together and prints it on rank 0. */
static enum weft_status dry_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct wf_train_settings *s = arg;
    WEFT_TRY(choose_layout(s, comm, err));
    return dry_run(s, comm, err);
}

enum weft_status wf_train_dry_run(struct wf_train_settings *s, struct weft_error *err)
{
    if (weft_comm_launcher() != NULL)
        return weft_comm_run_mpi(dry_rank, s, err);
    WEFT_TRY(choose_layout(s, NULL, err));
    return dry_run(s, NULL, err);
}
