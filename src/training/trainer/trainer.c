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
#include "training/trainer/meta.h"
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
static void pulse(void *comm, unsigned worker)
{
    if (worker == 0)
        weft_comm_pulse(comm);
}

/* -- stages --------------------------------------------------------------------------------- */

static struct weft_tstage_spec stage_spec(const struct weft_trainer *t,
                                          const struct weft_train_settings *s, uint32_t stage)
{
    const struct weft_layout *l = &t->layout;
    struct weft_tstage_spec spec = {
        .model = l->model,
        .seq = l->seq,
        .slots = 1,
        .precision = t->precision,
        .fast_sums = s->train.reduction == WEFT_REDUCTION_FAST,
        .one_micro = l->micros == 1 && t->n_ranks == 1,
        .recompute = (enum weft_recompute)s->train.recompute,
        .pool = t->pool,
    };
    weft_layout_items(l, stage, &spec.item0, &spec.item1);
    /* The first micros have what is over: one sequence more than the last. */
    struct weft_range first = weft_micro_range(l->batch, l->micros, 0);
    struct weft_range last = weft_micro_range(l->batch, l->micros, l->micros - 1);
    spec.row_counts[spec.n_row_counts++] = (uint32_t)(first.end - first.begin);
    if (last.end - last.begin != first.end - first.begin)
        spec.row_counts[spec.n_row_counts++] = (uint32_t)(last.end - last.begin);
    return spec;
}

/* Where the slots of a stage lie in the memory that all stages share. */
static enum weft_status place_slots(struct weft_trainer *t, uint32_t stage,
                                    struct weft_error *err)
{
    uint32_t n = weft_program_slots(t->program, stage);
    char *begin = t->slots + (SLOT_ALIGN - (uintptr_t)t->slots % SLOT_ALIGN) % SLOT_ALIGN;
    t->slot_at[stage] = calloc(n, sizeof *t->slot_at[stage]);
    if (t->slot_at[stage] == NULL)
        return no_memory("slots", n * sizeof(char *), err);
    for (uint32_t i = 0; i < n; i++)
        t->slot_at[stage][i] = begin + weft_program_slot_at(t->program, stage, i);
    return WEFT_OK;
}

static enum weft_status make_stage(struct weft_trainer *t, const struct weft_train_settings *s,
                                   uint32_t stage, struct weft_error *err)
{
    struct weft_tstage_spec spec = stage_spec(t, s, stage);
    WEFT_TRY(place_slots(t, stage, err));
    spec.slots = weft_program_slots(t->program, stage);
    spec.split_slots = weft_program_split_slots(t->program, stage);
    spec.slot_at = t->slot_at[stage];
    WEFT_TRY(weft_tstage_new(&spec, &t->stages[stage], err));
    t->stage_list[stage] = weft_tstage_stage(t->stages[stage]);
    return WEFT_OK;
}

static enum weft_status make_program(struct weft_trainer *t,
                                     const struct weft_train_settings *s,
                                     struct weft_error *err)
{
    const struct weft_layout *l = &t->layout;
    size_t *bytes = calloc(l->n_stages, sizeof *bytes);
    enum weft_status st =
        bytes == NULL ? no_memory("sizes", l->n_stages * sizeof *bytes, err) : WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < l->n_stages; i++)
        if (weft_layout_holds(l, t->rank, i)) {
            struct weft_tstage_spec spec = stage_spec(t, s, i);
            st = weft_tstage_slot_bytes(&spec, &bytes[i], err);
        }
    if (st == WEFT_OK)
        st = weft_program_new(weft_layout_schedule(l, t->replica), t->row, bytes, &t->program,
                              err);
    free(bytes);
    return st;
}

static enum weft_status make_stages(struct weft_trainer *t, const struct weft_train_settings *s,
                                    struct weft_error *err)
{
    const struct weft_layout *l = &t->layout;
    t->stages = calloc(l->n_stages, sizeof *t->stages);
    t->stage_list = calloc(l->n_stages, sizeof *t->stage_list);
    t->slot_at = calloc(l->n_stages, sizeof *t->slot_at);
    if (t->stages == NULL || t->stage_list == NULL || t->slot_at == NULL)
        return no_memory("the list of stages", l->n_stages * sizeof *t->stages, err);
    WEFT_TRY(make_program(t, s, err));
    size_t bytes = weft_program_slot_bytes(t->program) + SLOT_ALIGN;
    t->slots = weft_pages_alloc(bytes);
    if (t->slots == NULL)
        return no_memory("activations", bytes, err);
    memset(t->slots, 0, bytes); /* makes the pages now, not in the first step */
    for (uint32_t i = 0; i < l->n_stages; i++)
        if (weft_layout_holds(l, t->rank, i))
            WEFT_TRY(make_stage(t, s, i, err));
    return WEFT_OK;
}

/* -- weights -------------------------------------------------------------------------------- */

static enum weft_status check_names(const struct weft_trainer *t, const struct weft_hf *hf,
                                    struct weft_error *err)
{
    const struct weft_param_list *list = &t->layout.params;
    const char **names = malloc((list->n + 1) * sizeof *names);
    if (names == NULL)
        return no_memory("the names of weights", list->n * sizeof *names, err);
    for (size_t i = 0; i < list->n; i++)
        names[i] = list->at[i].name;
    enum weft_status st = weft_hf_check_names(hf, names, list->n, err);
    free(names);
    return st;
}

/* Every weight of this rank from the directory. */
static enum weft_status load(struct weft_trainer *t, const struct weft_hf *hf,
                             struct weft_error *err)
{
    WEFT_TRY(check_names(t, hf, err));
    for (uint32_t s = 0; s < t->layout.n_stages; s++) {
        size_t n = 0;
        struct weft_param *params =
            t->stages[s] == NULL ? NULL : weft_tstage_params(t->stages[s], &n);
        for (size_t i = 0; i < n; i++) {
            const struct weft_param_desc *d = &params[i].desc;
            const uint64_t shape[2] = {d->shape[0], d->shape[1]};
            if (t->comm != NULL) /* all tensors may take longer than others wait for a sign */
                weft_comm_tell(t->comm, 0, WEFT_AT_START);
            WEFT_TRY(weft_hf_read(hf, d->name, d->rank, shape, params[i].value, err));
        }
    }
    return WEFT_OK;
}

static enum weft_status fill_weights(struct weft_trainer *t,
                                     const struct weft_train_settings *s,
                                     const struct weft_hf *hf, struct weft_error *err)
{
    if (hf != NULL)
        WEFT_TRY(load(t, hf, err));
    for (uint32_t i = 0; hf == NULL && i < t->layout.n_stages; i++)
        if (t->stages[i] != NULL)
            weft_tstage_start(t->stages[i], s->model.seed);
    weft_trainer_pack(t);
    return WEFT_OK;
}

/* -- groups --------------------------------------------------------------------------------- */

static struct weft_param *find_param(const struct weft_trainer *t, uint32_t stage,
                                     const char *name)
{
    size_t n;
    struct weft_param *params = weft_tstage_params(t->stages[stage], &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(params[i].desc.name, name) == 0)
            return &params[i];
    return NULL;
}

/* The stage, of those that this rank holds, whose copy is the group's. */
static uint32_t home(const struct weft_trainer *t, const struct weft_layout_group *g)
{
    if (!g->tied)
        return g->stage;
    return t->stages[0] != NULL ? 0 : t->layout.n_stages - 1;
}

static enum weft_status check_place(const struct weft_layout_group *plan, size_t tensor,
                                    const struct weft_param *first,
                                    const struct weft_param *param, struct weft_error *err)
{
    /* The layout says where tensors lie without having the stages: they must agree. */
    if (param != NULL && param->offset - first->offset == plan->tensors[tensor].at)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL, "the layout does not know where %s lies",
                     param == NULL ? "a weight" : param->desc.name);
}

static enum weft_status fill_group(struct weft_trainer *t, struct held_group *g,
                                   struct weft_error *err)
{
    const struct weft_layout_group *plan = g->plan;
    uint32_t stage = home(t, plan);
    g->params = calloc(plan->n_tensors + 1, sizeof *g->params);
    g->stages = calloc(plan->n_tensors + 1, sizeof *g->stages);
    if (g->params == NULL || g->stages == NULL)
        return no_memory("a list of weights", plan->n_tensors * sizeof *g->params, err);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const char *name = t->layout.params.at[plan->tensors[i].param].name;
        g->params[i] = find_param(t, stage, name);
        g->stages[i] = stage;
        WEFT_TRY(check_place(plan, i, g->params[0], g->params[i], err));
    }
    uint32_t last = t->layout.n_stages - 1;
    if (plan->tied && stage != last && t->stages[last] != NULL) {
        g->twin_stage = last;
        g->twin = find_param(t, last, g->params[0]->desc.name);
    }
    struct weft_group_setup setup = {
        .comm = t->comm,
        .pool = t->pool,
        .holders = plan->holders,
        .n_holders = plan->n_holders,
        .id = plan->tied ? t->layout.n_stages : plan->stage,
        .cuts = plan->cuts,
    };
    if (plan->n_tensors > 0) {
        setup.exact = g->params[0]->exact;
        setup.fast = g->params[0]->fast;
        setup.value = g->params[0]->value;
    }
    return weft_group_new(&setup, &g->sums, err);
}

static enum weft_status make_groups(struct weft_trainer *t, struct weft_error *err)
{
    const struct weft_layout *l = &t->layout;
    t->groups = calloc(l->n_groups + 1, sizeof *t->groups);
    if (t->groups == NULL)
        return no_memory("a list of groups", l->n_groups * sizeof *t->groups, err);
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct weft_layout_group *plan = &l->groups[i];
        uint32_t holder = weft_layout_holder(plan, t->rank);
        if (holder == plan->n_holders || plan->n_tensors == 0)
            continue;
        struct held_group *g = &t->groups[t->n_groups++];
        *g = (struct held_group){.plan = plan, .holder = holder};
        WEFT_TRY(fill_group(t, g, err));
    }
    return WEFT_OK;
}

/* -- optimizer ------------------------------------------------------------------------------ */

static struct weft_optim_tensor optim_tensor(const struct held_group *g, size_t tensor,
                                             struct weft_range share)
{
    const struct weft_param *p = g->params[tensor];
    return (struct weft_optim_tensor){.name = p->desc.name,
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
static enum weft_status make_optim(struct weft_trainer *t, const struct weft_train_settings *s,
                                   struct weft_error *err)
{
    const struct weft_optim_settings how = {s->optim.beta1, s->optim.beta2, s->optim.eps,
                                            s->optim.weight_decay};
    size_t most = 0, n = 0;
    for (size_t i = 0; i < t->n_groups; i++)
        most += t->groups[i].plan->n_tensors;
    struct weft_optim_tensor *tensors = calloc(most + 1, sizeof *tensors);
    t->origins = calloc(most + 1, sizeof *t->origins);
    enum weft_status st = WEFT_OK;
    if (tensors == NULL || t->origins == NULL)
        st = no_memory("the optimizer's list of tensors", most * sizeof *tensors, err);
    for (size_t i = 0; st == WEFT_OK && i < t->n_groups; i++)
        for (size_t k = 0; k < t->groups[i].plan->n_tensors; k++) {
            struct weft_range share =
                weft_layout_share(t->groups[i].plan, t->groups[i].holder, k);
            if (share.begin == share.end)
                continue;
            t->origins[n] = (struct origin){&t->groups[i], k};
            tensors[n++] = optim_tensor(&t->groups[i], k, share);
        }
    if (st == WEFT_OK)
        st = weft_optim_new(tensors, n, &how, t->pool, &t->optim, err);
    free(tensors);
    return st;
}

/* -- the executor --------------------------------------------------------------------------- */

static enum weft_status make_exec(struct weft_trainer *t, struct weft_error *err)
{
    const struct weft_layout *l = &t->layout;
    struct weft_exec_setup setup = {
        .program = t->program,
        .comm = t->comm,
        .first_peer = t->replica * l->pp,
        .stages = t->stage_list,
        .rows = t->rows,
        .micro0 = t->micro0,
        .blocks = {.traffic = weft_layout_traffic(l, t->replica),
                   .row_elements = (size_t)l->seq * l->model.dim,
                   .merge = weft_ops()->exact_merge},
        .reduce = weft_trainer_reduce_stage,
        .reduce_arg = t,
    };
    if (t->comm != NULL) {
        weft_comm_on_progress(t->comm, weft_trainer_progress, t);
        weft_comm_describe(t->comm, weft_trainer_describe, t);
    }
    return weft_exec_new(&setup, &t->exec, err);
}

void weft_trainer_describe(void *trainer, uint32_t rank, uint64_t doing, char *out, size_t room)
{
    const struct weft_trainer *t = trainer;
    static const char *const others[] = {"the end of the step", "the update", "saving",
                                         "starting", "sampling"};
    if (doing >= WEFT_AT_END && doing - WEFT_AT_END < WEFT_LEN(others)) {
        snprintf(out, room, "%s", others[doing - WEFT_AT_END]);
        return;
    }
    /* Schedules of replicas differ, if at all, in their number of micros. */
    if (t->program == NULL || weft_layout_schedule(&t->layout, rank / t->layout.pp) !=
                                  weft_layout_schedule(&t->layout, t->replica))
        snprintf(out, room, "action %llu", (unsigned long long)doing);
    else
        weft_program_describe(t->program, rank % t->layout.pp, (size_t)doing, out, room);
}

/* -- the data ------------------------------------------------------------------------------- */

/* Says which setting names what is wrong and, where files may differ, on which rank. */
static enum weft_status blame(const struct weft_trainer *t, const char *setting,
                              enum weft_status st, struct weft_error *err)
{
    char before[64] = "";
    if (st == WEFT_OK)
        return st;
    if (t->n_ranks > 1 && weft_comm_launcher() != NULL)
        snprintf(before, sizeof before, "rank %u: %s: ", t->rank, setting);
    else
        snprintf(before, sizeof before, "%s: ", setting);
    weft_error_wrap(err, before, "");
    return st;
}

static enum weft_status open_data(struct weft_trainer *t, const struct weft_train_settings *s,
                                  struct weft_error *err)
{
    const struct weft_layout *l = &t->layout;
    size_t tokens, bytes;
    WEFT_TRY(blame(t, "data.train",
                   weft_shards_open_part(s->data.train, "train", &t->shards, err), err));
    WEFT_TRY(weft_meta_check_vocab(t->shards, s, l->model.vocab, err));
    WEFT_TRY(blame(t, "data.train",
                   weft_batch_init(&t->batch, t->shards, l->batch, l->seq, l->model.vocab,
                                   s->data.shuffle, s->model.seed, err),
                   err));
    if (!weft_size_mul(l->batch, l->seq, &tokens) ||
        !weft_size_mul(tokens, sizeof *t->inputs, &bytes))
        return WEFT_FAIL(err, WEFT_USAGE, "data.batch %u x data.seq %u is too large", l->batch,
                         l->seq);
    struct weft_range micros = weft_layout_micros(l, t->replica);
    t->micro0 = (uint32_t)micros.begin;
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
        struct weft_range rows = weft_micro_range(l->batch, l->micros, t->micro0 + m);
        t->rows[m] = (uint32_t)(rows.end - rows.begin);
        t->input_at[m] = t->inputs + rows.begin * l->seq;
        t->target_at[m] = t->targets + rows.begin * l->seq;
    }
    return WEFT_OK;
}

static enum weft_status open_validation(struct weft_trainer *t,
                                        const struct weft_train_settings *s,
                                        struct weft_error *err)
{
    const struct weft_layout *l = &t->layout;
    if (s->data.val == NULL)
        return WEFT_OK;
    WEFT_TRY(blame(t, "data.val",
                   weft_shards_open_part(s->data.val, "val", &t->val_shards, err), err));
    enum weft_status st = weft_batch_init(&t->val_batch, t->val_shards, l->batch, l->seq,
                                          l->model.vocab, false, 0, err);
    if (st != WEFT_OK) {
        weft_error_wrap(err, "", "; weft tokenize --val holds more back");
        return blame(t, "data.val", st, err);
    }
    t->val_batches =
        s->eval.batches < t->val_batch.n_epoch ? s->eval.batches : t->val_batch.n_epoch;
    return WEFT_OK;
}

/* -- all of it ------------------------------------------------------------------------------ */

static enum weft_status plan_bubble(struct weft_trainer *t, struct weft_error *err)
{
    struct weft_metrics m;
    struct weft_cost cost = weft_layout_cost(&t->layout);
    WEFT_TRY(weft_metrics_init(&m, weft_layout_schedule(&t->layout, 0), &cost, NULL, err));
    t->bubble_plan = m.bubble;
    weft_metrics_release(&m);
    return WEFT_OK;
}

static enum weft_status build(struct weft_trainer *t, const struct weft_train_settings *s,
                              const struct weft_hf *hf, struct weft_error *err)
{
    struct weft_model model;
    if (hf != NULL)
        model = *weft_hf_model(hf);
    else
        WEFT_TRY(weft_train_settings_model(s, &model, err));
    WEFT_TRY(weft_layout_init(&t->layout, s, &model, err));
    WEFT_TRY(weft_layout_check_ranks(&t->layout, t->n_ranks, err));
    t->replica = t->rank / t->layout.pp;
    t->row = t->rank % t->layout.pp;
    WEFT_TRY(open_data(t, s, err));
    WEFT_TRY(open_validation(t, s, err));
    WEFT_TRY(weft_trainer_agree(t, s, err));
    WEFT_TRY(weft_pool_new(s->parallel.threads, &t->pool, err));
    if (t->comm != NULL)
        weft_pool_between(t->pool, pulse, t->comm);
    WEFT_TRY(make_stages(t, s, err));
    WEFT_TRY(fill_weights(t, s, hf, err));
    WEFT_TRY(make_exec(t, err));
    WEFT_TRY(make_groups(t, err));
    WEFT_TRY(make_optim(t, s, err));
    WEFT_TRY(plan_bubble(t, err));
    WEFT_TRY(weft_trainer_reports_new(t, err));
    WEFT_TRY(
        weft_checkpoint_resume(t, s, &t->resumed, t->resume_note, sizeof t->resume_note, err));
    WEFT_TRY(weft_checkpointer_new(t, s, &t->checkpointer, err));
    WEFT_TRY(weft_trainer_compare_clocks(t, err));
    /* Nobody counts the time that others take to get here. */
    return t->comm == NULL ? WEFT_OK : weft_comm_barrier(t->comm, err);
}

enum weft_status weft_trainer_new(const struct weft_train_settings *settings,
                                  struct weft_comm *comm, struct weft_trainer **out,
                                  struct weft_error *err)
{
    struct weft_trainer *t = calloc(1, sizeof *t);
    struct weft_hf *hf = NULL;
    if (t == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trainer");
    t->n_ranks = comm == NULL ? 1 : weft_comm_size(comm);
    t->rank = comm == NULL ? 0 : weft_comm_rank(comm);
    t->comm = t->n_ranks == 1 ? NULL : comm;
    t->precision = settings->train.precision == WEFT_PRECISION_BF16 ? WEFT_BF16 : WEFT_F32;
    t->curve = weft_train_settings_curve(settings);
    t->clip = settings->optim.clip;
    t->slow = settings->train.slow;
    if (t->comm != NULL) {
        weft_comm_set_timeout(t->comm, settings->train.timeout);
        weft_comm_describe(t->comm, weft_trainer_describe, t);
        weft_comm_tell(t->comm, 0, WEFT_AT_START);
    }
    enum weft_status st = WEFT_OK;
    if (settings->model.dir != NULL)
        st = weft_hf_open(settings->model.dir, &hf, err);
    if (st == WEFT_OK)
        st = build(t, settings, hf, err);
    weft_hf_free(hf);
    if (st != WEFT_OK) {
        weft_trainer_free(t);
        return st;
    }
    *out = t;
    return WEFT_OK;
}

static void free_group(struct held_group *g)
{
    weft_group_free(g->sums);
    free(g->params);
    free(g->stages);
}

void weft_trainer_free(struct weft_trainer *t)
{
    if (t == NULL)
        return;
    if (t->comm != NULL) { /* it outlives this */
        weft_comm_on_progress(t->comm, NULL, NULL);
        weft_comm_describe(t->comm, NULL, NULL);
    }
    weft_checkpointer_free(t->checkpointer);
    weft_optim_free(t->optim);
    for (size_t i = 0; i < t->n_groups; i++)
        free_group(&t->groups[i]);
    weft_exec_free(t->exec);
    for (uint32_t s = 0; s < t->layout.n_stages; s++) {
        if (t->stages != NULL)
            weft_tstage_free(t->stages[s]);
        if (t->slot_at != NULL)
            free(t->slot_at[s]);
    }
    for (uint32_t r = 0; t->reports != NULL && r < t->n_ranks; r++)
        free(t->reports[r]);
    free(t->reports);
    free(t->report_sizes);
    free(t->report);
    free(t->squares);
    free(t->planned_work);
    free(t->window.compute_ns);
    free(t->checkpoint_states);
    free(t->groups);
    free(t->origins);
    free(t->stages);
    free(t->stage_list);
    free(t->slot_at);
    free(t->slots);
    weft_program_free(t->program);
    weft_shards_free(t->shards);
    weft_shards_free(t->val_shards);
    weft_pool_free(t->pool);
    free(t->inputs);
    free(t->targets);
    free(t->losses);
    free(t->rows);
    free(t->input_at);
    free(t->target_at);
    weft_layout_release(&t->layout);
    free(t);
}

/* -- packing -------------------------------------------------------------------------------- */

struct pack_job {
    struct weft_tstage *stage;
    const struct weft_param *param;
};

static void pack_task(void *arg, size_t task, unsigned worker)
{
    const struct pack_job *job = arg;
    size_t row = task * WEFT_PANEL, rows = job->param->desc.shape[0];
    (void)worker;
    weft_tstage_pack_rows(job->stage, job->param, row, weft_size_min(row + WEFT_PANEL, rows));
}

void weft_trainer_pack_param(struct weft_trainer *t, uint32_t stage,
                             const struct weft_param *param)
{
    struct pack_job job = {t->stages[stage], param};
    if (param->same.at != NULL)
        weft_pool_run(t->pool, (param->desc.shape[0] + WEFT_PANEL - 1) / WEFT_PANEL, pack_task,
                      &job);
}

void weft_trainer_pack(struct weft_trainer *t)
{
    for (uint32_t s = 0; s < t->layout.n_stages; s++)
        if (t->stages[s] != NULL)
            weft_tstage_pack(t->stages[s]);
}

/* -- about it ------------------------------------------------------------------------------- */

uint64_t weft_trainer_done(const struct weft_trainer *t)
{
    return t->done;
}

enum weft_status weft_trainer_checkpoint(struct weft_trainer *t, struct weft_error *err)
{
    return weft_checkpointer_save(t->checkpointer, t, err);
}

struct weft_checkpoint_news weft_trainer_news(struct weft_trainer *t)
{
    return weft_checkpointer_news(t->checkpointer);
}

void weft_trainer_ask_to_stop(struct weft_trainer *t)
{
    t->stop = true;
}

const struct weft_param *weft_trainer_params(const struct weft_trainer *t, uint32_t stage,
                                             size_t *n)
{
    *n = 0;
    return t->stages[stage] == NULL ? NULL : weft_tstage_params(t->stages[stage], n);
}

uint64_t weft_trainer_bytes_to(const struct weft_trainer *t, uint32_t pipeline_rank,
                               bool backward)
{
    return weft_exec_bytes_to(t->exec, pipeline_rank, backward);
}

double weft_trainer_peak(const struct weft_trainer *t)
{
    return weft_peak_flops_alone(t->pool, t->precision);
}
