/* Computes the figures of a dry run: layout, memory, bytes between ranks, and timeline. */
#include "training/session/dry_run.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "compute/kern/peak.h"
#include "compute/kern/pool.h"
#include "training/data/meta.h"
#include "training/data/shard.h"
#include "training/session/session_priv.h"
#include "training/trainer/load.h"
#include "weft/spec.h"
#include "weft/timing.h"

/* -- figures ------------------------------------------------------------------------------- */

static enum weft_status count_memory(struct wf_dry_run *d, struct weft_error *err)
{
    const struct wf_topology *l = &d->topology;
    bool copies = weft_comm_launcher() != NULL;
    struct wf_text text = {0};
    d->ranks = calloc(l->n_ranks, sizeof *d->ranks);
    if (d->ranks == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", l->n_ranks);
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        WEFT_TRY(wf_topology_rank_bytes(l, r, copies, &d->ranks[r], err));
        size_t n = d->ranks[r].total;
        d->total_bytes = n > SIZE_MAX - d->total_bytes ? SIZE_MAX : d->total_bytes + n;
    }

    wf_topology_print_recompute(l, &text);
    d->recompute = text.at; /* NUL-terminated */
    return text.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to print") : WEFT_OK;
}

static enum weft_status count_messages(struct wf_dry_run *d, const struct wf_train_settings *s,
                                       struct weft_error *err)
{
    struct weft_traffic_step step = {0};
    size_t max = 0;
    WEFT_TRY(wf_topology_count_traffic(&d->topology, (enum weft_block_cache)s->parallel.cache,
                                       &step, err));
    d->pipeline_bytes = step.forward_bytes + step.backward_bytes;
    for (size_t i = 0; i < step.n_links; i++) {
        size_t bytes = step.links[i].forward_bytes + step.links[i].backward_bytes;
        if (bytes > max) {
            max = bytes;
            d->busiest = step.links[i];
        }
    }
    weft_traffic_step_release(&step);
    return WEFT_OK;
}

/* Counts the bytes of gradient sums.  In a group, each rank sends to every other rank that
 * rank's shard of its gradients, and receives that rank's shard of the new weights. */
static void count_sums(struct wf_dry_run *d)
{
    const struct wf_topology *l = &d->topology;
    size_t elements = 0;
    for (size_t i = 0; i < l->n_groups; i++)
        elements += l->groups[i].n * (l->groups[i].n_members - 1);
    d->gradient_bytes = elements * (l->fast_sums ? sizeof(float) : sizeof(int64_t));
    d->weight_bytes = elements * sizeof(float);
}

/* Times a step.  The costs are numbers of operations; the peak converts them to seconds. */
static enum weft_status make_plan(struct wf_dry_run *d, struct weft_error *err)
{
    const struct weft_schedule *s = wf_topology_schedule(&d->topology, 0);
    struct weft_cost cost = wf_topology_cost(&d->topology);
    struct wf_pool *pool = NULL;
    struct weft_metrics m;
    WEFT_TRY(wf_pool_new(d->topology.threads, &pool, err));
    d->peak_flops = wf_peak_flops_cpu_time(pool, d->topology.precision);
    wf_pool_free(pool);

    WEFT_TRY(weft_metrics_init(&m, s, &cost, NULL, err));
    enum weft_status st = weft_trace_init_plan(&d->plan, s, &m, NULL, err);
    weft_metrics_release(&m);
    if (st == WEFT_OK)
        d->plan.unit_seconds = 1 / d->peak_flops;
    return st;
}

static enum weft_status compute_figures(struct wf_dry_run *d, const struct wf_train_settings *s,
                                        struct weft_error *err)
{
    const struct wf_topology *l = &d->topology;
    WEFT_TRY(weft_model_count_params(&l->model, &d->n_params, err));
    WEFT_TRY(weft_model_token_flops(&l->model, l->seq, &d->token_flops, err));
    WEFT_TRY(count_memory(d, err));
    WEFT_TRY(count_messages(d, s, err));
    count_sums(d);
    return make_plan(d, err);
}

/* -- the dry run --------------------------------------------------------------------------- */

static enum weft_status check_data(const struct wf_train_settings *s,
                                   const struct weft_model *model, struct weft_error *err)
{
    struct wf_shards *shards = NULL;
    WEFT_TRY(wf_shards_open_split(s->data.train, "train", &shards, err));
    enum weft_status st = wf_meta_check_vocab(shards, s->model.dir, model->vocab, err);
    wf_shards_free(shards);
    return st;
}

enum weft_status wf_dry_run_init(struct wf_dry_run *out, const struct wf_train_settings *s,
                                 struct weft_comm *comm, struct weft_error *err)
{
    struct weft_model model;
    *out = (struct wf_dry_run){0};
    WEFT_TRY(wf_load_run_model(s, &model, err));
    WEFT_TRY(wf_topology_init(&out->topology, s, &model, err));
    enum weft_status st =
        comm == NULL ? WEFT_OK
                     : wf_topology_check_ranks(&out->topology, weft_comm_size(comm), err);
    if (st == WEFT_OK)
        st = check_data(s, &model, err);
    if (st == WEFT_OK && (comm == NULL || weft_comm_rank(comm) == 0))
        st = compute_figures(out, s, err);
    if (st != WEFT_OK)
        wf_dry_run_release(out);
    return st;
}

void wf_dry_run_release(struct wf_dry_run *d)
{
    weft_trace_release(&d->plan);
    free(d->ranks);
    free(d->recompute);
    wf_topology_release(&d->topology);
    *d = (struct wf_dry_run){0};
}

/* Chooses the layout on all ranks together, and emits the figures on rank 0. */
static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct wf_session *session = arg;
    struct wf_train_settings *s = session->settings;
    struct wf_layout_choice choice;
    struct wf_dry_run d;
    enum weft_status st = wf_session_choose_layout(s, comm, &choice, err);
    if (st == WEFT_OK)
        wf_session_emit_choice(session, &choice);
    wf_layout_choice_release(&choice);
    WEFT_TRY(st);

    WEFT_TRY(wf_dry_run_init(&d, s, comm, err));
    if (d.ranks != NULL && session->on_event != NULL)
        session->on_event(session->arg,
                          &(struct wf_session_event){.kind = WF_SESSION_EVENT_DRY_RUN,
                                                     .settings = s,
                                                     .n_ranks = d.topology.n_ranks,
                                                     .dry_run = &d});
    st = wf_session_check_memory(&d.topology, err);
    wf_dry_run_release(&d);
    return st;
}

enum weft_status wf_session_dry_run(struct wf_session *session, struct weft_error *err)
{
    return weft_comm_launcher() != NULL ? weft_comm_run_mpi(run_rank, session, err)
                                        : run_rank(NULL, session, err);
}
