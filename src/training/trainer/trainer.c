/* Creates and frees trainers. */
#include "training/trainer/trainer.h"

#include <stdlib.h>

#include "base/error.h"
#include "compute/kern/peak.h"
#include "training/ckpt/hf.h"
#include "training/trainer/data_hash.h"
#include "training/trainer/heartbeat.h"
#include "training/trainer/trainer_priv.h"
#include "weft/timing.h"

enum weft_status wf_trainer_no_memory(const char *what, size_t bytes, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM,
                     "no memory for %s (%zu bytes); use smaller micros or more ranks", what,
                     bytes);
}

static enum weft_status plan_bubble(struct wf_trainer *t, struct weft_error *err)
{
    struct weft_metrics m;
    struct weft_cost cost = wf_topology_cost(&t->topology);
    WEFT_TRY(weft_metrics_init(&m, wf_topology_schedule(&t->topology, 0), &cost, NULL, err));
    t->bubble_plan = m.bubble;
    weft_metrics_release(&m);
    return WEFT_OK;
}

/* Plans the memory of this rank, now that the number of threads is known. */
static enum weft_status plan_memory(struct wf_trainer *t, struct weft_error *err)
{
    bool copies = t->comm != NULL && !weft_comm_by_reference(t->comm);
    t->topology.threads = wf_pool_threads(t->pool);
    return wf_topology_rank_bytes(&t->topology, t->rank, copies, &t->planned, err);
}

static enum weft_status init_topology(struct wf_trainer *t, const struct wf_train_settings *s,
                                      const struct wf_hf *hf, struct weft_error *err)
{
    struct weft_model model;
    if (hf != NULL)
        model = *wf_hf_model(hf);
    else
        WEFT_TRY(wf_train_settings_model(s, &model, err));
    WEFT_TRY(wf_topology_init(&t->topology, s, &model, err));
    WEFT_TRY(wf_topology_check_ranks(&t->topology, t->n_ranks, err));
    t->replica = t->rank / t->topology.pp;
    t->row = t->rank % t->topology.pp;
    return WEFT_OK;
}

static enum weft_status init(struct wf_trainer *t, const struct wf_train_settings *s,
                             const struct wf_hf *hf, struct weft_error *err)
{
    WEFT_TRY(init_topology(t, s, hf, err));
    WEFT_TRY(wf_trainer_data_init(&t->data, &t->topology, t->rank, s, err));
    WEFT_TRY(wf_trainer_handshake(t, s, err));

    WEFT_TRY(wf_pool_new(s->parallel.threads, &t->pool, err));
    if (t->comm != NULL)
        wf_pool_set_hook(t->pool, wf_send_heartbeat, t->comm);
    WEFT_TRY(plan_memory(t, err));
    WEFT_TRY(wf_trainer_init_stages(t, err));
    WEFT_TRY(wf_trainer_init_weights(t, hf, s->model.seed, err));
    WEFT_TRY(wf_trainer_init_exec(t, err));
    WEFT_TRY(wf_trainer_init_groups(t, s, err));

    WEFT_TRY(plan_bubble(t, err));
    WEFT_TRY(wf_summaries_init(&t->summaries, &t->topology, t->comm, err));
    if (t->rank == 0)
        WEFT_TRY(
            wf_stragglers_init(&t->stragglers, &t->topology, t->n_ranks, s->train.slow, err));

    WEFT_TRY(wf_trainer_resume(t, s, err));
    WEFT_TRY(wf_trainer_init_checkpoints(t, s, err));
    WEFT_TRY(wf_trainer_sync_clocks(t, err));
    /* The first step must not include the start-up time of other ranks. */
    return t->comm == NULL ? WEFT_OK : weft_comm_barrier(t->comm, err);
}

enum weft_status wf_trainer_new(const struct wf_train_settings *settings,
                                struct weft_comm *comm, struct wf_trainer **out,
                                struct weft_error *err)
{
    struct wf_trainer *t = calloc(1, sizeof *t);
    struct wf_hf *hf = NULL;
    if (t == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trainer");

    t->n_ranks = comm == NULL ? 1 : weft_comm_size(comm);
    t->rank = comm == NULL ? 0 : weft_comm_rank(comm);
    t->comm = t->n_ranks == 1 ? NULL : comm;
    t->curve = wf_train_settings_curve(settings);
    t->clip = settings->optim.clip;

    if (t->comm != NULL) {
        weft_comm_set_timeout(t->comm, settings->train.timeout);
        weft_comm_describe(t->comm, wf_trainer_describe, t);
        weft_comm_publish(t->comm, 0, WF_PHASE_START);
    }

    enum weft_status st = WEFT_OK;
    if (settings->model.dir != NULL)
        st = wf_hf_open(settings->model.dir, &hf, err);
    if (st == WEFT_OK)
        st = init(t, settings, hf, err);
    wf_hf_free(hf);

    if (st != WEFT_OK) {
        wf_trainer_free(t);
        return st;
    }
    *out = t;
    return WEFT_OK;
}

void wf_trainer_free(struct wf_trainer *t)
{
    if (t == NULL)
        return;
    if (t->comm != NULL) { /* comm outlives the trainer */
        weft_comm_on_progress(t->comm, NULL, NULL);
        weft_comm_describe(t->comm, NULL, NULL);
    }
    wf_checkpointer_free(t->checkpointer);
    wf_trainer_release_groups(t);
    wf_trainer_release_stages(t);
    wf_summaries_release(&t->summaries);
    wf_stragglers_release(&t->stragglers);
    wf_data_hash_free(t->data_hash);
    wf_trainer_data_release(&t->data);
    wf_pool_free(t->pool);
    wf_topology_release(&t->topology);
    free(t);
}

/* -- queries ------------------------------------------------------------------------------- */

uint64_t wf_trainer_steps_done(const struct wf_trainer *t)
{
    return t->done;
}

void wf_trainer_request_stop(struct wf_trainer *t)
{
    t->stop = true;
}

const struct wf_param *wf_trainer_params(const struct wf_trainer *t, uint32_t stage, size_t *n)
{
    *n = 0;
    return t->stages[stage] == NULL ? NULL : wf_tstage_params(t->stages[stage], n);
}

double wf_trainer_peak_flops(const struct wf_trainer *t)
{
    return wf_peak_flops_cpu_time(t->pool, t->topology.precision);
}
