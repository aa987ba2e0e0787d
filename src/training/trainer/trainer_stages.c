/* The stages of a rank: creates them and their executor, and fills their weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/ops.h"
#include "training/ckpt/hf.h"
#include "training/trainer/param_names.h"
#include "training/trainer/trainer_priv.h"

enum { SLOT_ALIGN = 64 };

/* -- stages -------------------------------------------------------------------------------- */

/* Computes the addresses of the slots of a stage in the memory that all stages share. */
static enum weft_status place_slots(struct wf_trainer *t, uint32_t stage,
                                    struct weft_error *err)
{
    uint32_t n = weft_program_slots(t->program, stage);
    char *begin = t->slots + (SLOT_ALIGN - (uintptr_t)t->slots % SLOT_ALIGN) % SLOT_ALIGN;
    t->slot_at[stage] = calloc(n, sizeof *t->slot_at[stage]);
    if (t->slot_at[stage] == NULL)
        return wf_trainer_no_memory("slots", n * sizeof(char *), err);
    for (uint32_t i = 0; i < n; i++)
        t->slot_at[stage][i] = begin + weft_program_slot_offset(t->program, stage, i);
    return WEFT_OK;
}

static enum weft_status make_stage(struct wf_trainer *t, uint32_t stage, struct weft_error *err)
{
    struct wf_tstage_spec spec = wf_topology_stage_spec(&t->topology, stage);
    WEFT_TRY(place_slots(t, stage, err));
    spec.pool = t->pool;
    spec.slots = weft_program_slots(t->program, stage);
    spec.split_slots = weft_program_split_slots(t->program, stage);
    spec.slot_at = t->slot_at[stage];
    WEFT_TRY(wf_tstage_new(&spec, &t->stages[stage], err));
    t->stage_list[stage] = wf_tstage_stage(t->stages[stage]);
    return WEFT_OK;
}

enum weft_status wf_trainer_init_stages(struct wf_trainer *t, struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    t->stages = calloc(l->n_stages, sizeof *t->stages);
    t->stage_list = calloc(l->n_stages, sizeof *t->stage_list);
    t->slot_at = calloc(l->n_stages, sizeof *t->slot_at);
    if (t->stages == NULL || t->stage_list == NULL || t->slot_at == NULL)
        return wf_trainer_no_memory("the list of stages", l->n_stages * sizeof *t->stages, err);
    WEFT_TRY(wf_topology_new_program(l, t->rank, &t->program, err));

    size_t bytes = weft_program_slot_bytes(t->program) + SLOT_ALIGN;
    t->slots = wf_pages_alloc(bytes);
    if (t->slots == NULL)
        return wf_trainer_no_memory("activations", bytes, err);
    /* Make the system allocate the pages now, not in the first step. */
    memset(t->slots, 0, bytes);

    for (uint32_t i = 0; i < l->n_stages; i++)
        if (wf_topology_runs_stage(l, t->rank, i))
            WEFT_TRY(make_stage(t, i, err));
    return WEFT_OK;
}

void wf_trainer_release_stages(struct wf_trainer *t)
{
    weft_exec_free(t->exec);
    for (uint32_t s = 0; s < t->topology.n_stages; s++) {
        if (t->stages != NULL)
            wf_tstage_free(t->stages[s]);
        if (t->slot_at != NULL)
            free(t->slot_at[s]);
    }
    free(t->stages);
    free(t->stage_list);
    free(t->slot_at);
    free(t->slots);
    weft_program_free(t->program);
}

/* -- executor ------------------------------------------------------------------------------ */

enum weft_status wf_trainer_init_exec(struct wf_trainer *t, struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    uint32_t *ranks = calloc(l->pp, sizeof *ranks);
    if (ranks == NULL)
        return wf_trainer_no_memory("the ranks of a pipeline", l->pp * sizeof *ranks, err);

    for (uint32_t r = 0; r < l->pp; r++)
        ranks[r] = t->replica * l->pp + r;
    struct weft_exec_setup setup = {
        .program = t->program,
        .comm = t->comm,
        .ranks = ranks,
        .stages = t->stage_list,
        .rows = t->data.rows,
        .first_micro = t->data.first_micro,
        .blocks = {.traffic = wf_topology_traffic(l, t->replica),
                   .row_elements = (size_t)l->seq * l->model.dim,
                   .merge = wf_ops()->exact_merge},
        .reduce = wf_trainer_reduce_stage,
        .reduce_arg = t,
    };

    if (t->comm != NULL) {
        weft_comm_on_progress(t->comm, wf_trainer_progress, t);
        weft_comm_describe(t->comm, wf_trainer_describe, t);
    }

    enum weft_status st = weft_exec_new(&setup, &t->exec, err);
    free(ranks);
    return st;
}

void wf_trainer_describe(void *trainer, uint32_t rank, uint64_t doing, char *out, size_t size)
{
    const struct wf_trainer *t = trainer;
    static const char *const phases[] = {"the end of the step", "the update", "saving",
                                         "starting", "sampling"};
    if (doing >= WF_PHASE_END && doing - WF_PHASE_END < WEFT_LEN(phases)) {
        snprintf(out, size, "%s", phases[doing - WF_PHASE_END]);
        return;
    }
    /* Only the program of the schedule of this replica is known. */
    if (t->program == NULL || wf_topology_schedule(&t->topology, rank / t->topology.pp) !=
                                  wf_topology_schedule(&t->topology, t->replica))
        snprintf(out, size, "action %llu", (unsigned long long)doing);
    else
        weft_program_describe(t->evaluates ? weft_program_forward(t->program) : t->program,
                              rank % t->topology.pp, (size_t)doing, out, size);
}

/* -- packing ------------------------------------------------------------------------------- */

struct pack_job {
    struct wf_tstage *stage;
    const struct wf_param *param;
};

static void pack_task(void *arg, size_t task, unsigned worker)
{
    const struct pack_job *job = arg;
    size_t row = task * WF_PANEL, rows = job->param->desc.shape[0];
    (void)worker;
    wf_tstage_pack_rows(job->stage, job->param, row, wf_size_min(row + WF_PANEL, rows));
}

void wf_trainer_pack_param(struct wf_trainer *t, uint32_t stage, const struct wf_param *param)
{
    struct pack_job job = {t->stages[stage], param};
    if (param->direct.at != NULL)
        wf_pool_run(t->pool, (param->desc.shape[0] + WF_PANEL - 1) / WF_PANEL, pack_task, &job);
}

void wf_trainer_pack(struct wf_trainer *t)
{
    for (uint32_t s = 0; s < t->topology.n_stages; s++)
        if (t->stages[s] != NULL)
            wf_tstage_pack(t->stages[s]);
}

/* -- weights ------------------------------------------------------------------------------- */

static enum weft_status check_names(const struct wf_trainer *t, const struct wf_hf *hf,
                                    struct weft_error *err)
{
    const struct wf_param_list *list = &t->topology.params;
    const char **names = wf_param_names(list, err);
    if (names == NULL)
        return WEFT_NOMEM;
    enum weft_status st = wf_hf_check_names(hf, names, list->n, err);
    free(names);
    return st;
}

static enum weft_status load_weights(struct wf_trainer *t, const struct wf_hf *hf,
                                     struct weft_error *err)
{
    WEFT_TRY(check_names(t, hf, err));
    for (uint32_t s = 0; s < t->topology.n_stages; s++) {
        size_t n = 0;
        struct wf_param *params =
            t->stages[s] == NULL ? NULL : wf_tstage_params(t->stages[s], &n);
        for (size_t i = 0; i < n; i++) {
            const struct wf_param_desc *d = &params[i].desc;
            const uint64_t shape[2] = {d->shape[0], d->shape[1]};
            if (t->comm != NULL) /* loading all weights may take longer than the timeout */
                weft_comm_publish(t->comm, 0, WF_PHASE_START);
            WEFT_TRY(wf_hf_read(hf, d->name, d->n_dims, shape, params[i].value, err));
        }
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_init_weights(struct wf_trainer *t, const struct wf_hf *hf,
                                         uint64_t seed, struct weft_error *err)
{
    if (hf != NULL)
        WEFT_TRY(load_weights(t, hf, err));
    for (uint32_t i = 0; hf == NULL && i < t->topology.n_stages; i++)
        if (t->stages[i] != NULL)
            wf_tstage_init_weights(t->stages[i], seed);
    wf_trainer_pack(t);
    return WEFT_OK;
}
