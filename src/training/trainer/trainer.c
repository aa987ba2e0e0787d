/* Making a trainer: stages, executor, groups, optimizer, data. */
#include "training/trainer/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/ops.h"
#include "compute/kern/peak.h"
#include "training/ckpt/hf.h"
#include "training/data/meta.h"
#include "training/trainer/param_names.h"
#include "training/trainer/trainer_priv.h"
#include "weft/timing.h"

enum { SLOT_ALIGN = 64 };

static enum weft_status no_memory(const char *what, size_t bytes, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM,
                     "no memory for %s (%zu bytes): smaller micros, or more ranks, would need "
                     "less",
                     what, bytes);
}

/* However long an action takes, others hear that this rank is at work; from the thread that the
 * comm belongs to. */
static void send_heartbeat(void *comm, unsigned worker)
{
    if (worker == 0)
        weft_comm_heartbeat(comm);
}

/* -- stages --------------------------------------------------------------------------------- */

static struct wf_tstage_spec stage_spec(const struct wf_trainer *t,
                                        const struct wf_train_settings *s, uint32_t stage)
{
    const struct wf_topology *l = &t->topology;
    struct wf_tstage_spec spec = {
        .model = l->model,
        .seq = l->seq,
        .slots = 1,
        .precision = t->precision,
        .fast_sums = s->train.reduction == WF_REDUCTION_FAST,
        .one_micro = l->micros == 1 && t->n_ranks == 1,
        .recompute = (enum wf_recompute)s->train.recompute,
        .pool = t->pool,
    };
    wf_topology_items(l, stage, &spec.item0, &spec.item1);
    /* The first micros have what is over: one sequence more than the last. */
    struct wf_range first = wf_micro_range(l->batch, l->micros, 0);
    struct wf_range last = wf_micro_range(l->batch, l->micros, l->micros - 1);
    spec.row_counts[spec.n_row_counts++] = (uint32_t)(first.end - first.begin);
    if (last.end - last.begin != first.end - first.begin)
        spec.row_counts[spec.n_row_counts++] = (uint32_t)(last.end - last.begin);
    return spec;
}

/* Where the slots of a stage lie in the memory that all stages share. */
static enum weft_status place_slots(struct wf_trainer *t, uint32_t stage,
                                    struct weft_error *err)
{
    uint32_t n = weft_program_slots(t->program, stage);
    char *begin = t->slots + (SLOT_ALIGN - (uintptr_t)t->slots % SLOT_ALIGN) % SLOT_ALIGN;
    t->slot_at[stage] = calloc(n, sizeof *t->slot_at[stage]);
    if (t->slot_at[stage] == NULL)
        return no_memory("slots", n * sizeof(char *), err);
    for (uint32_t i = 0; i < n; i++)
        t->slot_at[stage][i] = begin + weft_program_slot_offset(t->program, stage, i);
    return WEFT_OK;
}

static enum weft_status make_stage(struct wf_trainer *t, const struct wf_train_settings *s,
                                   uint32_t stage, struct weft_error *err)
{
    struct wf_tstage_spec spec = stage_spec(t, s, stage);
    WEFT_TRY(place_slots(t, stage, err));
    spec.slots = weft_program_slots(t->program, stage);
    spec.split_slots = weft_program_split_slots(t->program, stage);
    spec.slot_at = t->slot_at[stage];
    WEFT_TRY(wf_tstage_new(&spec, &t->stages[stage], err));
    t->stage_list[stage] = wf_tstage_stage(t->stages[stage]);
    return WEFT_OK;
}

static enum weft_status make_program(struct wf_trainer *t, const struct wf_train_settings *s,
                                     struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    size_t *bytes = calloc(l->n_stages, sizeof *bytes);
    enum weft_status st =
        bytes == NULL ? no_memory("sizes", l->n_stages * sizeof *bytes, err) : WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < l->n_stages; i++)
        if (wf_topology_runs_stage(l, t->rank, i)) {
            struct wf_tstage_spec spec = stage_spec(t, s, i);
            st = wf_tstage_slot_bytes(&spec, &bytes[i], err);
        }
    if (st == WEFT_OK)
        st = weft_program_new(wf_topology_schedule(l, t->replica), t->row, bytes, &t->program,
                              err);
    free(bytes);
    return st;
}

static enum weft_status make_stages(struct wf_trainer *t, const struct wf_train_settings *s,
                                    struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    t->stages = calloc(l->n_stages, sizeof *t->stages);
    t->stage_list = calloc(l->n_stages, sizeof *t->stage_list);
    t->slot_at = calloc(l->n_stages, sizeof *t->slot_at);
    if (t->stages == NULL || t->stage_list == NULL || t->slot_at == NULL)
        return no_memory("the list of stages", l->n_stages * sizeof *t->stages, err);
    WEFT_TRY(make_program(t, s, err));
    size_t bytes = weft_program_slot_bytes(t->program) + SLOT_ALIGN;
    t->slots = wf_pages_alloc(bytes);
    if (t->slots == NULL)
        return no_memory("activations", bytes, err);
    memset(t->slots, 0, bytes); /* makes the pages now, not in the first step */
    for (uint32_t i = 0; i < l->n_stages; i++)
        if (wf_topology_runs_stage(l, t->rank, i))
            WEFT_TRY(make_stage(t, s, i, err));
    return WEFT_OK;
}

/* -- weights -------------------------------------------------------------------------------- */

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

/* Every weight of this rank from the directory. */
static enum weft_status load(struct wf_trainer *t, const struct wf_hf *hf,
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
            if (t->comm != NULL) /* all tensors may take longer than others wait for a sign */
                weft_comm_publish(t->comm, 0, WF_PHASE_START);
            WEFT_TRY(wf_hf_read(hf, d->name, d->rank, shape, params[i].value, err));
        }
    }
    return WEFT_OK;
}

static enum weft_status fill_weights(struct wf_trainer *t, const struct wf_train_settings *s,
                                     const struct wf_hf *hf, struct weft_error *err)
{
    if (hf != NULL)
        WEFT_TRY(load(t, hf, err));
    for (uint32_t i = 0; hf == NULL && i < t->topology.n_stages; i++)
        if (t->stages[i] != NULL)
            wf_tstage_init_weights(t->stages[i], s->model.seed);
    wf_trainer_pack(t);
    return WEFT_OK;
}

/* -- groups --------------------------------------------------------------------------------- */

static struct wf_param *find_param(const struct wf_trainer *t, uint32_t stage, const char *name)
{
    size_t n;
    struct wf_param *params = wf_tstage_params(t->stages[stage], &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(params[i].desc.name, name) == 0)
            return &params[i];
    return NULL;
}

/* The stage, of those that this rank holds, whose copy is the group's. */
static uint32_t home_stage(const struct wf_trainer *t, const struct wf_topology_group *g)
{
    if (!g->tied)
        return g->stage;
    return t->stages[0] != NULL ? 0 : t->topology.n_stages - 1;
}

static enum weft_status check_place(const struct wf_topology_group *plan, size_t tensor,
                                    const struct wf_param *first, const struct wf_param *param,
                                    struct weft_error *err)
{
    /* The topology says where tensors lie without having the stages: they must agree. */
    if (param != NULL && param->offset - first->offset == plan->tensors[tensor].at)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL, "the topology does not know where %s lies",
                     param == NULL ? "a weight" : param->desc.name);
}

static enum weft_status fill_group(struct wf_trainer *t, struct local_group *g,
                                   struct weft_error *err)
{
    const struct wf_topology_group *plan = g->plan;
    uint32_t stage = home_stage(t, plan);
    g->params = calloc(plan->n_tensors + 1, sizeof *g->params);
    g->stages = calloc(plan->n_tensors + 1, sizeof *g->stages);
    if (g->params == NULL || g->stages == NULL)
        return no_memory("a list of weights", plan->n_tensors * sizeof *g->params, err);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const char *name = t->topology.params.at[plan->tensors[i].param].name;
        g->params[i] = find_param(t, stage, name);
        g->stages[i] = stage;
        WEFT_TRY(check_place(plan, i, g->params[0], g->params[i], err));
    }
    uint32_t last = t->topology.n_stages - 1;
    if (plan->tied && stage != last && t->stages[last] != NULL) {
        g->tied_copy_stage = last;
        g->tied_copy = find_param(t, last, g->params[0]->desc.name);
    }
    struct wf_group_setup setup = {
        .comm = t->comm,
        .pool = t->pool,
        .members = plan->members,
        .n_members = plan->n_members,
        .id = plan->tied ? t->topology.n_stages : plan->stage,
        .cuts = plan->cuts,
    };
    if (plan->n_tensors > 0) {
        setup.exact = g->params[0]->exact;
        setup.fast = g->params[0]->fast;
        setup.value = g->params[0]->value;
    }
    return wf_group_new(&setup, &g->sums, err);
}

static enum weft_status make_groups(struct wf_trainer *t, struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    t->groups = calloc(l->n_groups + 1, sizeof *t->groups);
    if (t->groups == NULL)
        return no_memory("a list of groups", l->n_groups * sizeof *t->groups, err);
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *plan = &l->groups[i];
        uint32_t member = wf_topology_member(plan, t->rank);
        if (member == plan->n_members || plan->n_tensors == 0)
            continue;
        struct local_group *g = &t->groups[t->n_groups++];
        *g = (struct local_group){.plan = plan, .member = member};
        WEFT_TRY(fill_group(t, g, err));
    }
    return WEFT_OK;
}

/* -- optimizer ------------------------------------------------------------------------------ */

static struct wf_optim_tensor optim_tensor(const struct local_group *g, size_t tensor,
                                           struct wf_range share)
{
    const struct wf_param *p = g->params[tensor];
    return (struct wf_optim_tensor){.name = p->desc.name,
                                    .rows = p->desc.shape[0],
                                    .cols = p->desc.shape[1],
                                    .value = p->value,
                                    .exact = p->exact,
                                    .fast = p->fast,
                                    .decay = p->desc.decay,
                                    .begin = share.begin,
                                    .end = share.end};
}

/* The shares of this rank, in the order of groups: rank 0 counts on it. */
static enum weft_status make_optim(struct wf_trainer *t, const struct wf_train_settings *s,
                                   struct weft_error *err)
{
    const struct wf_optim_settings how = {s->optim.beta1, s->optim.beta2, s->optim.eps,
                                          s->optim.weight_decay};
    size_t most = 0, n = 0;
    for (size_t i = 0; i < t->n_groups; i++)
        most += t->groups[i].plan->n_tensors;
    struct wf_optim_tensor *tensors = calloc(most + 1, sizeof *tensors);
    t->sources = calloc(most + 1, sizeof *t->sources);
    enum weft_status st = WEFT_OK;
    if (tensors == NULL || t->sources == NULL)
        st = no_memory("the optimizer's list of tensors", most * sizeof *tensors, err);
    for (size_t i = 0; st == WEFT_OK && i < t->n_groups; i++)
        for (size_t k = 0; k < t->groups[i].plan->n_tensors; k++) {
            struct wf_range share =
                wf_topology_shard(t->groups[i].plan, t->groups[i].member, k);
            if (share.begin == share.end)
                continue;
            t->sources[n] = (struct tensor_source){&t->groups[i], k};
            tensors[n++] = optim_tensor(&t->groups[i], k, share);
        }
    if (st == WEFT_OK)
        st = wf_optim_new(tensors, n, &how, t->pool, &t->optim, err);
    free(tensors);
    return st;
}

/* -- the executor --------------------------------------------------------------------------- */

static enum weft_status make_exec(struct wf_trainer *t, struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    struct weft_exec_setup setup = {
        .program = t->program,
        .comm = t->comm,
        .rank_offset = t->replica * l->pp,
        .stages = t->stage_list,
        .rows = t->rows,
        .first_micro = t->first_micro,
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
    return weft_exec_new(&setup, &t->exec, err);
}

void wf_trainer_describe(void *trainer, uint32_t rank, uint64_t doing, char *out, size_t room)
{
    const struct wf_trainer *t = trainer;
    static const char *const others[] = {"the end of the step", "the update", "saving",
                                         "starting", "sampling"};
    if (doing >= WF_PHASE_END && doing - WF_PHASE_END < WEFT_LEN(others)) {
        snprintf(out, room, "%s", others[doing - WF_PHASE_END]);
        return;
    }
    /* Schedules of replicas differ, if at all, in their number of micros. */
    if (t->program == NULL || wf_topology_schedule(&t->topology, rank / t->topology.pp) !=
                                  wf_topology_schedule(&t->topology, t->replica))
        snprintf(out, room, "action %llu", (unsigned long long)doing);
    else
        weft_program_describe(t->program, rank % t->topology.pp, (size_t)doing, out, room);
}

/* -- the data ------------------------------------------------------------------------------- */

/* Says which setting names what is wrong and, where files may differ, on which rank. */
static enum weft_status add_context(const struct wf_trainer *t, const char *setting,
                                    enum weft_status st, struct weft_error *err)
{
    char before[64] = "";
    if (st == WEFT_OK)
        return st;
    if (t->n_ranks > 1 && weft_comm_launcher() != NULL)
        snprintf(before, sizeof before, "rank %u: %s: ", t->rank, setting);
    else
        snprintf(before, sizeof before, "%s: ", setting);
    wf_error_wrap(err, before, "");
    return st;
}

static enum weft_status open_data(struct wf_trainer *t, const struct wf_train_settings *s,
                                  struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    size_t tokens, bytes;
    WEFT_TRY(add_context(t, "data.train",
                         wf_shards_open_split(s->data.train, "train", &t->shards, err), err));
    WEFT_TRY(wf_meta_check_vocab(t->shards, s->model.dir, l->model.vocab, err));
    WEFT_TRY(add_context(t, "data.train",
                         wf_batch_init(&t->batch, t->shards, l->batch, l->seq, l->model.vocab,
                                       s->data.shuffle, s->model.seed, err),
                         err));
    if (!wf_size_mul(l->batch, l->seq, &tokens) ||
        !wf_size_mul(tokens, sizeof *t->inputs, &bytes))
        return WEFT_FAIL(err, WEFT_USAGE, "data.batch %u x data.seq %u is too large", l->batch,
                         l->seq);
    struct wf_range micros = wf_topology_micros(l, t->replica);
    t->first_micro = (uint32_t)micros.begin;
    t->n_micros = (uint32_t)(micros.end - micros.begin);
    t->inputs = malloc(bytes);
    t->targets = malloc(bytes);
    t->losses = calloc(t->n_micros, sizeof *t->losses);
    t->rows = calloc(t->n_micros, sizeof *t->rows);
    t->input_at = calloc(t->n_micros, sizeof *t->input_at);
    t->target_at = calloc(t->n_micros, sizeof *t->target_at);
    if (t->inputs == NULL || t->targets == NULL || t->losses == NULL || t->rows == NULL ||
        t->input_at == NULL || t->target_at == NULL)
        return no_memory("the tokens of a step", 2 * bytes, err);
    for (uint32_t m = 0; m < t->n_micros; m++) {
        struct wf_range rows = wf_micro_range(l->batch, l->micros, t->first_micro + m);
        t->rows[m] = (uint32_t)(rows.end - rows.begin);
        t->input_at[m] = t->inputs + rows.begin * l->seq;
        t->target_at[m] = t->targets + rows.begin * l->seq;
    }
    return WEFT_OK;
}

static enum weft_status open_validation(struct wf_trainer *t, const struct wf_train_settings *s,
                                        struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    if (s->data.val == NULL)
        return WEFT_OK;
    WEFT_TRY(add_context(t, "data.val",
                         wf_shards_open_split(s->data.val, "val", &t->val_shards, err), err));
    enum weft_status st = wf_batch_init(&t->val_batch, t->val_shards, l->batch, l->seq,
                                        l->model.vocab, false, 0, err);
    if (st != WEFT_OK) {
        wf_error_wrap(err, "", "; weft tokenize --val holds more back");
        return add_context(t, "data.val", st, err);
    }
    t->val_batches =
        s->eval.batches < t->val_batch.epoch_len ? s->eval.batches : t->val_batch.epoch_len;
    return WEFT_OK;
}

/* -- all of it ------------------------------------------------------------------------------ */

static enum weft_status plan_bubble(struct wf_trainer *t, struct weft_error *err)
{
    struct weft_metrics m;
    struct weft_cost cost = wf_topology_cost(&t->topology);
    WEFT_TRY(weft_metrics_init(&m, wf_topology_schedule(&t->topology, 0), &cost, NULL, err));
    t->bubble_plan = m.bubble;
    weft_metrics_release(&m);
    return WEFT_OK;
}

static enum weft_status build(struct wf_trainer *t, const struct wf_train_settings *s,
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
    WEFT_TRY(open_data(t, s, err));
    WEFT_TRY(open_validation(t, s, err));
    WEFT_TRY(wf_trainer_handshake(t, s, err));
    WEFT_TRY(wf_pool_new(s->parallel.threads, &t->pool, err));
    if (t->comm != NULL)
        wf_pool_set_hook(t->pool, send_heartbeat, t->comm);
    WEFT_TRY(make_stages(t, s, err));
    WEFT_TRY(fill_weights(t, s, hf, err));
    WEFT_TRY(make_exec(t, err));
    WEFT_TRY(make_groups(t, err));
    WEFT_TRY(make_optim(t, s, err));
    WEFT_TRY(plan_bubble(t, err));
    WEFT_TRY(wf_trainer_alloc_summaries(t, err));
    WEFT_TRY(wf_trainer_resume(t, s, err));
    WEFT_TRY(wf_trainer_init_checkpoints(t, s, err));
    WEFT_TRY(wf_trainer_sync_clocks(t, err));
    /* Nobody counts the time that others take to get here. */
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
    t->precision =
        settings->train.precision == WF_PRECISION_BF16 ? WF_DTYPE_BF16 : WF_DTYPE_F32;
    t->curve = wf_train_settings_curve(settings);
    t->clip = settings->optim.clip;
    t->slow = settings->train.slow;
    if (t->comm != NULL) {
        weft_comm_set_timeout(t->comm, settings->train.timeout);
        weft_comm_describe(t->comm, wf_trainer_describe, t);
        weft_comm_publish(t->comm, 0, WF_PHASE_START);
    }
    enum weft_status st = WEFT_OK;
    if (settings->model.dir != NULL)
        st = wf_hf_open(settings->model.dir, &hf, err);
    if (st == WEFT_OK)
        st = build(t, settings, hf, err);
    wf_hf_free(hf);
    if (st != WEFT_OK) {
        wf_trainer_free(t);
        return st;
    }
    *out = t;
    return WEFT_OK;
}

static void free_group(struct local_group *g)
{
    wf_group_free(g->sums);
    free(g->params);
    free(g->stages);
}

void wf_trainer_free(struct wf_trainer *t)
{
    if (t == NULL)
        return;
    if (t->comm != NULL) { /* it outlives this */
        weft_comm_on_progress(t->comm, NULL, NULL);
        weft_comm_describe(t->comm, NULL, NULL);
    }
    wf_checkpointer_free(t->checkpointer);
    wf_optim_free(t->optim);
    for (size_t i = 0; i < t->n_groups; i++)
        free_group(&t->groups[i]);
    weft_exec_free(t->exec);
    for (uint32_t s = 0; s < t->topology.n_stages; s++) {
        if (t->stages != NULL)
            wf_tstage_free(t->stages[s]);
        if (t->slot_at != NULL)
            free(t->slot_at[s]);
    }
    for (uint32_t r = 0; t->summaries != NULL && r < t->n_ranks; r++)
        free(t->summaries[r]);
    free(t->summaries);
    free(t->summary_sizes);
    free(t->summary);
    free(t->squares);
    free(t->planned_work);
    free(t->window.compute_ns);
    free(t->groups);
    free(t->sources);
    free(t->stages);
    free(t->stage_list);
    free(t->slot_at);
    free(t->slots);
    weft_program_free(t->program);
    wf_shards_free(t->shards);
    wf_shards_free(t->val_shards);
    wf_pool_free(t->pool);
    free(t->inputs);
    free(t->targets);
    free(t->losses);
    free(t->rows);
    free(t->input_at);
    free(t->target_at);
    wf_topology_release(&t->topology);
    free(t);
}

/* -- packing -------------------------------------------------------------------------------- */

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
    if (param->same.at != NULL)
        wf_pool_run(t->pool, (param->desc.shape[0] + WF_PANEL - 1) / WF_PANEL, pack_task, &job);
}

void wf_trainer_pack(struct wf_trainer *t)
{
    for (uint32_t s = 0; s < t->topology.n_stages; s++)
        if (t->stages[s] != NULL)
            wf_tstage_pack(t->stages[s]);
}

/* -- about it ------------------------------------------------------------------------------- */

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

uint64_t wf_trainer_bytes_sent(const struct wf_trainer *t, uint32_t pipeline_rank,
                               bool backward)
{
    return weft_exec_bytes_to(t->exec, pipeline_rank, backward);
}

double wf_trainer_peak_flops(const struct wf_trainer *t)
{
    return wf_peak_flops_cpu_time(t->pool, t->precision);
}
