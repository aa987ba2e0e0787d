/* The parameter groups of a rank: the optimizer of its shards, the reduction of gradients over
 * ranks, and the all-gather of updated weights. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "compute/kern/ops.h"
#include "compute/optim/stage_optim.h"
#include "training/trainer/trainer_priv.h"

/* -- groups -------------------------------------------------------------------------------- */

static struct wf_param *find_param(const struct wf_trainer *t, uint32_t stage, const char *name)
{
    size_t n;
    struct wf_param *params = wf_tstage_params(t->stages[stage], &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(params[i].desc.name, name) == 0)
            return &params[i];
    return NULL;
}

/* Returns the stage of this rank whose copy of the parameters takes part in the reduction of
 * the group. */
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
    /* The topology computes offsets without knowing the stages, so check that the offsets
     * agree. */
    if (param != NULL && param->offset - first->offset == plan->tensors[tensor].at)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL, "the topology has another offset for %s",
                     param == NULL ? "a weight" : param->desc.name);
}

static enum weft_status fill_group(struct wf_trainer *t, struct wf_trainer_group *g,
                                   struct weft_error *err)
{
    const struct wf_topology_group *plan = g->plan;
    uint32_t stage = home_stage(t, plan);
    g->params = calloc(plan->n_tensors + 1, sizeof *g->params);
    g->stages = calloc(plan->n_tensors + 1, sizeof *g->stages);
    if (g->params == NULL || g->stages == NULL)
        return wf_trainer_no_memory("a list of weights", plan->n_tensors * sizeof *g->params,
                                    err);
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
        return wf_trainer_no_memory("a list of groups", l->n_groups * sizeof *t->groups, err);
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *plan = &l->groups[i];
        uint32_t member = wf_topology_member(plan, t->rank);
        if (member == plan->n_members || plan->n_tensors == 0)
            continue;
        struct wf_trainer_group *g = &t->groups[t->n_groups++];
        *g = (struct wf_trainer_group){.plan = plan, .member = member};
        WEFT_TRY(fill_group(t, g, err));
    }
    return WEFT_OK;
}

/* -- optimizer ----------------------------------------------------------------------------- */

/* Lists the shards of this rank in the order of the groups; summary.c relies on this order. */
static enum weft_status make_optim(struct wf_trainer *t, const struct wf_train_settings *s,
                                   struct weft_error *err)
{
    const struct wf_optim_settings how = {s->optim.beta1, s->optim.beta2, s->optim.eps,
                                          s->optim.weight_decay};
    size_t max = 0, n = 0;
    for (size_t i = 0; i < t->n_groups; i++)
        max += t->groups[i].plan->n_tensors;
    struct wf_optim_tensor *tensors = calloc(max + 1, sizeof *tensors);
    t->sources = calloc(max + 1, sizeof *t->sources);
    enum weft_status st = WEFT_OK;
    if (tensors == NULL || t->sources == NULL)
        st =
            wf_trainer_no_memory("the optimizer's list of tensors", max * sizeof *tensors, err);

    for (size_t i = 0; st == WEFT_OK && i < t->n_groups; i++)
        for (size_t k = 0; k < t->groups[i].plan->n_tensors; k++) {
            struct wf_range shard =
                wf_topology_shard(t->groups[i].plan, t->groups[i].member, k);
            if (shard.begin == shard.end)
                continue;
            t->sources[n] = (struct wf_tensor_source){&t->groups[i], k};
            tensors[n] = wf_optim_tensor_of(t->groups[i].params[k]);
            tensors[n].begin = shard.begin;
            tensors[n++].end = shard.end;
        }

    if (st == WEFT_OK)
        st = wf_optim_new(tensors, n, &how, t->pool, &t->optim, err);
    free(tensors);
    return st;
}

enum weft_status wf_trainer_init_groups(struct wf_trainer *t, const struct wf_train_settings *s,
                                        struct weft_error *err)
{
    WEFT_TRY(make_groups(t, err));
    return make_optim(t, s, err);
}

void wf_trainer_release_groups(struct wf_trainer *t)
{
    wf_optim_free(t->optim);
    for (size_t i = 0; i < t->n_groups; i++) {
        wf_group_free(t->groups[i].sums);
        free(t->groups[i].params);
        free(t->groups[i].stages);
    }
    free(t->groups);
    free(t->sources);
}

/* -- reduction ----------------------------------------------------------------------------- */

/* Sets the gradient to zero if no micro contributed to the parameter. */
static void complete_gradient(struct wf_param *p)
{
    if (!p->fresh)
        return;
    if (p->exact != NULL)
        memset(p->exact, 0, p->n * sizeof *p->exact);
    else
        memset(p->fast, 0, p->n * sizeof *p->fast);
    p->fresh = false;
}

/* Adds the gradients of both uses of a tied weight.  Returns true if a sum overflowed. */
static bool merge_tied(struct wf_trainer_group *g)
{
    struct wf_param *a = g->params[0], *b = g->tied_copy;
    if (a->exact != NULL)
        return wf_ops()->exact_merge(a->exact, b->exact, a->n);
    for (size_t i = 0; i < a->n; i++)
        a->fast[i] += b->fast[i];
    return false;
}

static enum weft_status start_reduction(struct wf_trainer *t, struct wf_trainer_group *g,
                                        struct weft_error *err)
{
    g->reduced = true;
    for (size_t i = 0; i < g->plan->n_tensors; i++)
        complete_gradient(g->params[i]);
    bool overflowed = false;
    if (g->tied_copy != NULL) {
        complete_gradient(g->tied_copy);
        overflowed = merge_tied(g);
    }
    WEFT_TRY(wf_group_reduce(g->sums, t->done, err));
    if (overflowed)
        return WEFT_FAIL(err, WEFT_NUMERIC,
                         "the gradient of %s exceeds the range of exact sums",
                         g->params[0]->desc.name);
    return WEFT_OK;
}

/* Does not reduce a tied weight with two uses on this rank, which is reduced at the end of the
 * step. */
enum weft_status wf_trainer_reduce_stage(void *trainer, uint32_t stage, struct weft_error *err)
{
    struct wf_trainer *t = trainer;
    for (size_t i = 0; i < t->n_groups; i++) {
        struct wf_trainer_group *g = &t->groups[i];
        if (!g->reduced && g->tied_copy == NULL && g->stages[0] == stage)
            WEFT_TRY(start_reduction(t, g, err));
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_progress(void *trainer, struct weft_error *err)
{
    struct wf_trainer *t = trainer;
    for (size_t i = 0; i < t->n_groups; i++) {
        bool done;
        if (t->groups[i].reduced)
            WEFT_TRY(wf_group_progress(t->groups[i].sums, &done, err));
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_finish_reduction(struct wf_trainer *t, size_t i,
                                             struct weft_error *err)
{
    struct weft_error later = {0};
    enum weft_status st = WEFT_OK;
    if (!t->groups[i].reduced)
        st = start_reduction(t, &t->groups[i], err);
    if (st != WEFT_OK && st != WEFT_NUMERIC)
        return st;
    if (st == WEFT_OK)
        return wf_group_finish(t->groups[i].sums, err);
    /* Send the part of this rank even after an overflow, because the other members wait for
     * it. */
    enum weft_status finished = wf_group_finish(t->groups[i].sums, &later);
    if (finished == WEFT_OK || finished == WEFT_NUMERIC)
        return st;
    if (err != NULL)
        *err = later;
    return finished;
}

/* -- update -------------------------------------------------------------------------------- */

/* Packs updated rows while they are in the cache, if this rank is the only member of the
 * group. */
static void pack_rows(void *arg, size_t tensor, size_t row0, size_t row1)
{
    struct wf_trainer *t = arg;
    const struct wf_tensor_source *o = &t->sources[tensor];
    if (o->group->plan->n_members == 1)
        wf_tstage_pack_rows(t->stages[o->group->stages[o->tensor]], o->group->params[o->tensor],
                            row0, row1);
}

static enum weft_status all_gather_weights(struct wf_trainer *t, struct weft_error *err)
{
    for (size_t i = 0; i < t->n_groups; i++) {
        struct wf_trainer_group *g = &t->groups[i];
        WEFT_TRY(wf_group_all_gather(g->sums, t->done, err));
        for (size_t k = 0; g->plan->n_members > 1 && k < g->plan->n_tensors; k++)
            wf_trainer_pack_param(t, g->stages[k], g->params[k]);
        if (g->tied_copy == NULL)
            continue;
        memcpy(g->tied_copy->value, g->params[0]->value,
               g->tied_copy->n * sizeof *g->tied_copy->value);
        wf_trainer_pack_param(t, g->tied_copy_stage, g->tied_copy);
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_update(struct wf_trainer *t, const struct wf_optim_step *step,
                                   struct weft_error *err)
{
    if (t->comm != NULL)
        weft_comm_publish(t->comm, t->done + 1, WF_PHASE_UPDATE);
    wf_optim_update(t->optim, step, pack_rows, t);
    return all_gather_weights(t, err);
}
