/* Builds the topology of a run: schedules, stages, traffic and parameter groups. */
#include "training/layout/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/error.h"
#include "base/sysmem.h"
#include "base/text.h"
#include "compute/kern/ops.h"
#include "planning/planner/choice.h"
#include "runtime/sync/group.h"
#include "training/data/batch.h"
#include "training/layout/local_ranks.h"
#include "weft/comm.h"

static enum weft_status no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the topology");
}

/* -- schedules ----------------------------------------------------------------------------- */

struct wf_range wf_topology_micros(const struct wf_topology *l, uint32_t replica)
{
    return wf_range_part(l->micros, l->dp, replica);
}

static uint32_t n_micros(const struct wf_topology *l, uint32_t replica)
{
    struct wf_range r = wf_topology_micros(l, replica);
    return (uint32_t)(r.end - r.begin);
}

/* Returns the index of the schedule of a replica.  If the micro-batches do not divide evenly,
 * the first replicas run one more, so there are at most two different numbers and schedules. */
static unsigned schedule_index(const struct wf_topology *l, uint32_t replica)
{
    return l->schedules[1] != NULL && n_micros(l, replica) != n_micros(l, 0);
}

const struct weft_schedule *wf_topology_schedule(const struct wf_topology *l, uint32_t replica)
{
    return l->schedules[schedule_index(l, replica)];
}

const struct weft_traffic *wf_topology_traffic(const struct wf_topology *l, uint32_t replica)
{
    return l->traffic[schedule_index(l, replica)];
}

static enum weft_status check_schedule(const struct wf_topology *l,
                                       const struct wf_train_settings *s,
                                       const struct weft_schedule *schedule, uint32_t micros,
                                       struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(schedule);
    const char *name = s->parallel.schedule;

    if (place->n_ranks != l->pp)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "schedule %.150s has %u rank%s, and parallel.pp is %u; use the same number", name,
            place->n_ranks, wf_plural(place->n_ranks), l->pp);
    if (place->n_micros != micros)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "schedule %.150s has %u micro%s, but a replica runs %u of the %u in parallel.micros",
            name, place->n_micros, wf_plural(place->n_micros), micros, l->micros);

    if (s->parallel.chunks != 0 && place->n_stages != l->pp * s->parallel.chunks &&
        place->n_pipes == 1)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "schedule %.150s has %u stage%s on %u rank%s, and parallel.chunks is %u", name,
            place->n_stages, wf_plural(place->n_stages), l->pp, wf_plural(l->pp),
            s->parallel.chunks);

    enum weft_placement_kind kind = weft_schedule_placement_kind(schedule);
    if (s->parallel.placement != 0 && (uint32_t)kind != s->parallel.placement - 1)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "parallel.placement: schedule %.150s has the placement %s; use auto or another "
            "schedule",
            name, weft_placement_name(kind));
    return WEFT_OK;
}

static enum weft_status make_schedule(const struct wf_topology *l,
                                      const struct wf_train_settings *s, uint32_t micros,
                                      const struct weft_cost *cost, struct weft_schedule **out,
                                      struct weft_error *err)
{
    const struct weft_gen_params params = {
        .ranks = l->pp, .micros = micros, .chunks = s->parallel.chunks, .cost = cost};
    return wf_schedule_obtain(s->parallel.schedule, &params, out, err);
}

static enum weft_status make_schedules(struct wf_topology *l, const struct wf_train_settings *s,
                                       const struct weft_cost *cost, struct weft_error *err)
{
    uint32_t max = n_micros(l, 0), min = n_micros(l, l->dp - 1);
    for (unsigned i = 0; i < 2; i++) {
        weft_schedule_free(l->schedules[i]);
        l->schedules[i] = NULL;
    }
    WEFT_TRY(make_schedule(l, s, max, cost, &l->schedules[0], err));
    WEFT_TRY(check_schedule(l, s, l->schedules[0], max, err));
    if (min == max)
        return WEFT_OK;
    WEFT_TRY(make_schedule(l, s, min, cost, &l->schedules[1], err));
    return check_schedule(l, s, l->schedules[1], min, err);
}

/* -- stages -------------------------------------------------------------------------------- */

static enum weft_status check_stages(const struct wf_topology *l, struct weft_error *err)
{
    for (uint32_t i = 0; i < l->n_stages; i++) {
        const struct weft_stage_range *r = &l->partition.at[i];
        if (r->n_mtp > 0)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "parallel.partition: stage %u has layers for multi-token "
                             "prediction (m), which weft can plan but not train",
                             i);
        if (r->first_layer == r->end_layer && !r->embedding && !r->head)
            return WEFT_FAIL(
                err, WEFT_USAGE,
                "parallel.partition: stage %u of %u has no layer; use fewer stages or "
                "another partition",
                i, l->n_stages);
    }
    return WEFT_OK;
}

/* Creates the items of the model as the trainer executes them. */
static enum weft_status make_items(const struct wf_topology *l, struct weft_items *out,
                                   struct weft_error *err)
{
    const struct weft_training how = {.recompute = l->recompute};
    WEFT_TRY(
        weft_items_init_training(out, &l->model, (uint32_t)l->max_rows, l->seq, &how, err));
    /* The head computes its gradients in the forward pass, so its whole cost counts as
     * forward. */
    struct weft_item *head = &out->at[out->n - 1];
    head->f += head->i + head->w;
    head->i = head->w = 0;
    return WEFT_OK;
}

enum weft_status wf_topology_sum_stages(struct wf_topology *l, struct weft_error *err)
{
    struct weft_items items = {0};
    WEFT_TRY(make_items(l, &items, err));
    weft_stage_sums_release(&l->sums);
    enum weft_status st = weft_stage_sums_init(&l->sums, &l->partition, &items, err);
    weft_items_release(&items);
    return st;
}

static enum weft_status make_stages(struct wf_topology *l, const struct wf_train_settings *s,
                                    struct weft_error *err)
{
    struct weft_items items = {0};
    l->n_stages = weft_schedule_placement(l->schedules[0])->n_stages;
    WEFT_TRY(wf_topology_set_recompute(l, s->train.recompute, err));
    WEFT_TRY(make_items(l, &items, err));
    struct wf_partition_choice how =
        wf_partition_choice_parse(s->parallel.partition, WF_PARTITION_BALANCED);
    enum weft_status st =
        wf_partition_choose(&l->partition, how, &items, l->n_stages, NULL, err);
    weft_items_release(&items);
    if (st != WEFT_OK)
        return st;

    /* Stages that recompute are known only after the model is partitioned. */
    WEFT_TRY(wf_topology_set_recompute(l, s->train.recompute, err));
    WEFT_TRY(wf_topology_sum_stages(l, err));
    return check_stages(l, err);
}

struct weft_cost wf_topology_cost(const struct wf_topology *l)
{
    return weft_stage_sums_cost(&l->sums);
}

void wf_topology_items(const struct wf_topology *l, uint32_t stage, uint32_t *item0,
                       uint32_t *item1)
{
    const struct weft_stage_range *r = &l->partition.at[stage];
    *item0 = r->embedding ? 0 : r->first_layer + 1;
    *item1 = r->head ? l->model.layers + 2 : r->end_layer + 1;
}

bool wf_topology_runs_stage(const struct wf_topology *l, uint32_t rank, uint32_t stage)
{
    return weft_placement_runs(weft_schedule_placement(wf_topology_schedule(l, rank / l->pp)),
                               rank % l->pp, stage);
}

/* -- traffic ------------------------------------------------------------------------------- */

static enum weft_status make_traffic(struct wf_topology *l, const struct wf_train_settings *s,
                                     struct weft_error *err)
{
    uint32_t *finished_by = NULL, n = 0;
    enum weft_status st = WEFT_OK;
    if (l->model.residual_block_layers == 0 || l->n_stages == 1)
        return WEFT_OK;
    WEFT_TRY(weft_residual_blocks(&l->partition, l->model.residual_block_layers, &finished_by,
                                  &n, err));
    for (unsigned i = 0; st == WEFT_OK && i < 2 && l->schedules[i] != NULL; i++)
        st = weft_traffic_new(weft_schedule_placement(l->schedules[i]), finished_by, n,
                              (enum weft_block_cache)s->parallel.cache, &l->traffic[i], err);
    free(finished_by);
    return st;
}

/* -- groups -------------------------------------------------------------------------------- */

static size_t find_param(const struct wf_topology *l, const char *name)
{
    size_t i = 0;
    while (strcmp(l->params.at[i].name, name) != 0)
        i++;
    return i;
}

static enum weft_status list_params(struct wf_topology *l, struct weft_error *err)
{
    WEFT_TRY(wf_param_list_init(&l->params, &l->model, 0, l->model.layers + 2, err));
    l->first_segment = calloc(l->params.n + 1, sizeof *l->first_segment);
    if (l->first_segment == NULL)
        return no_memory(err);
    for (size_t i = 0; i < l->params.n; i++)
        l->first_segment[i + 1] =
            l->first_segment[i] +
            (wf_param_size(&l->params.at[i]) + WF_NORM_SEGMENT - 1) / WF_NORM_SEGMENT;
    return WEFT_OK;
}

static bool is_tied_across_stages(const struct wf_topology *l)
{
    return l->model.tied && l->n_stages > 1;
}

static bool is_tied_weight(const struct wf_topology *l, const struct wf_param_desc *d)
{
    return is_tied_across_stages(l) &&
           (d->role == WF_ROLE_TOKEN_EMBEDDING || d->role == WF_ROLE_HEAD);
}

static enum weft_status list_tensors(struct wf_topology *l, struct wf_topology_group *g,
                                     const struct wf_param_list *list, struct weft_error *err)
{
    size_t at = 0;
    g->tensors = calloc(list->n + 1, sizeof *g->tensors);
    if (g->tensors == NULL)
        return no_memory(err);

    for (size_t i = 0; i < list->n; i++) {
        size_t n = wf_param_size(&list->at[i]);
        /* A tied weight is the first or the last parameter of its stage. */
        if (is_tied_weight(l, &list->at[i]) != g->tied) {
            at += g->n_tensors == 0 ? wf_topology_padded(n) : 0;
            continue;
        }
        if (g->n_tensors == 0)
            g->first = at;
        g->tensors[g->n_tensors++] =
            (struct wf_topology_tensor){find_param(l, list->at[i].name), at - g->first, n};
        at += wf_topology_padded(n);
        g->n = at - g->first;
    }

    return WEFT_OK;
}

static enum weft_status list_members(const struct wf_topology *l, struct wf_topology_group *g,
                                     struct weft_error *err)
{
    g->members = calloc(l->n_ranks, sizeof *g->members);
    if (g->members == NULL)
        return no_memory(err);
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        bool is_member = g->tied ? wf_topology_runs_stage(l, r, 0) ||
                                       wf_topology_runs_stage(l, r, l->n_stages - 1)
                                 : wf_topology_runs_stage(l, r, g->stage);
        if (is_member)
            g->members[g->n_members++] = r;
    }
    return WEFT_OK;
}

/* Returns the offset, in elements, of a segment in the vector of a group. */
static size_t segment_begin(const struct wf_topology_group *g, size_t segment)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        size_t n = (g->tensors[i].n + WF_NORM_SEGMENT - 1) / WF_NORM_SEGMENT;
        if (segment < n)
            return g->tensors[i].at + segment * WF_NORM_SEGMENT;
        segment -= n;
    }
    return g->n;
}

static enum weft_status cut_shards(struct wf_topology_group *g, struct weft_error *err)
{
    size_t segments = 0;
    for (size_t i = 0; i < g->n_tensors; i++)
        segments += (g->tensors[i].n + WF_NORM_SEGMENT - 1) / WF_NORM_SEGMENT;
    g->cuts = calloc((size_t)g->n_members + 1, sizeof *g->cuts);
    if (g->cuts == NULL)
        return no_memory(err);
    for (uint32_t h = 1; h < g->n_members; h++)
        g->cuts[h] = segment_begin(g, segments * h / g->n_members);
    g->cuts[g->n_members] = g->n;
    return WEFT_OK;
}

static enum weft_status make_group(struct wf_topology *l, uint32_t stage, bool tied,
                                   struct weft_error *err)
{
    struct wf_topology_group *g = &l->groups[l->n_groups++];
    struct wf_param_list list = {0};
    uint32_t item0, item1;
    *g = (struct wf_topology_group){.tied = tied, .stage = stage};
    wf_topology_items(l, stage, &item0, &item1);
    WEFT_TRY(wf_param_list_init(&list, &l->model, item0, item1, err));
    enum weft_status st = list_tensors(l, g, &list, err);
    wf_param_list_release(&list);
    if (st == WEFT_OK)
        st = list_members(l, g, err);
    return st == WEFT_OK ? cut_shards(g, err) : st;
}

static enum weft_status make_groups(struct wf_topology *l, struct weft_error *err)
{
    if (l->n_stages + 1 > WF_MAX_GROUPS)
        return WEFT_FAIL(err, WEFT_USAGE, "too many stages (%u; maximum %d)", l->n_stages,
                         WF_MAX_GROUPS - 1);
    l->groups = calloc((size_t)l->n_stages + 1, sizeof *l->groups);
    if (l->groups == NULL)
        return no_memory(err);
    for (uint32_t s = 0; s < l->n_stages; s++)
        WEFT_TRY(make_group(l, s, false, err));
    return is_tied_across_stages(l) ? make_group(l, 0, true, err) : WEFT_OK;
}

uint32_t wf_topology_member(const struct wf_topology_group *g, uint32_t rank)
{
    uint32_t h = 0;
    while (h < g->n_members && g->members[h] != rank)
        h++;
    return h;
}

struct wf_range wf_topology_shard(const struct wf_topology_group *g, uint32_t member,
                                  size_t tensor)
{
    const struct wf_topology_tensor *t = &g->tensors[tensor];
    size_t begin = wf_size_max(g->cuts[member], t->at);
    size_t end = wf_size_min(g->cuts[member + 1], t->at + t->n);
    if (begin >= end)
        return (struct wf_range){0, 0};
    return (struct wf_range){begin - t->at, end - t->at};
}

/* -- the topology -------------------------------------------------------------------------- */

static enum weft_status check_sizes(const struct wf_topology *l, struct weft_error *err)
{
    if (l->micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "parallel.micros is 0; expected at least 1");
    WEFT_TRY(wf_train_check_micros(l->micros, l->batch, err));
    if (l->dp > l->micros)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "parallel.dp %u is greater than parallel.micros (%u micro%s per step); use fewer "
            "replicas or more micro-batches",
            l->dp, l->micros, wf_plural(l->micros));
    if ((uint64_t)l->pp * l->dp > UINT32_MAX / 2)
        return WEFT_FAIL(err, WEFT_USAGE, "parallel.pp %u x parallel.dp %u is too large", l->pp,
                         l->dp);
    if (l->seq > l->model.ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "data.seq %u is longer than the model's context of %u tokens", l->seq,
                         l->model.ctx);
    return WEFT_OK;
}

static enum weft_status build(struct wf_topology *l, const struct wf_train_settings *s,
                              struct weft_error *err)
{
    WEFT_TRY(check_sizes(l, err));
    struct wf_range first = wf_micro_range(l->batch, l->micros, 0);
    l->max_rows = first.end - first.begin;
    WEFT_TRY(make_schedules(l, s, NULL, err));
    WEFT_TRY(make_stages(l, s, err));

    /* A search for a schedule needs the cost of the stages. */
    if (wf_schedule_searches(s->parallel.schedule)) {
        struct weft_cost cost = wf_topology_cost(l);
        WEFT_TRY(make_schedules(l, s, &cost, err));
    }
    WEFT_TRY(make_traffic(l, s, err));
    WEFT_TRY(list_params(l, err));
    WEFT_TRY(make_groups(l, err));
    bool fit = s->train.recompute != NULL && strcmp(s->train.recompute, "auto") == 0;
    return fit ? wf_topology_fit_recompute(l, weft_comm_launcher() != NULL, err) : WEFT_OK;
}

/* Returns the threads per rank if the settings do not give them. */
static uint32_t default_threads(const struct wf_topology *l)
{
    uint32_t cores = wf_cores_available();
    if (weft_comm_launcher() != NULL) /* this process is one rank */
        return cores;
    return cores > l->n_ranks ? cores / l->n_ranks : 1;
}

/* Sets the fields on which only memory depends. */
static void set_memory(struct wf_topology *l, const struct wf_train_settings *s)
{
    bool dir = s->log.dir != NULL;
    const char *prompt = s->log.sample_prompt;
    l->precision = s->train.precision == WF_PRECISION_BF16 ? WF_DTYPE_BF16 : WF_DTYPE_F32;
    l->fast_sums = s->train.reduction == WF_REDUCTION_FAST;
    l->threads = s->parallel.threads != 0 ? s->parallel.threads : default_threads(l);
    l->has_snapshot = dir && s->checkpoint.every != 0 && s->checkpoint.in_background;
    l->saves = dir;
    if (s->log.sample != 0) { /* a prompt has at most one token per byte, or one token */
        uint64_t n = s->log.sample_tokens + (prompt != NULL ? strlen(prompt) : 0) + 1;
        l->sample_len = n < l->model.ctx ? (uint32_t)n : l->model.ctx;
    }
    l->memory_limit =
        s->train.memory_limit != 0 ? (size_t)s->train.memory_limit : wf_sysmem_bytes();
    l->ranks_per_host = wf_ranks_per_host(l->n_ranks);
}

enum weft_status wf_topology_init(struct wf_topology *l, const struct wf_train_settings *s,
                                  const struct weft_model *model, struct weft_error *err)
{
    *l = (struct wf_topology){.model = *model,
                              .seq = s->data.seq != 0 ? s->data.seq : model->ctx,
                              .batch = s->data.batch,
                              .micros = s->parallel.micros,
                              .pp = s->parallel.pp,
                              .dp = s->parallel.dp,
                              .n_ranks = s->parallel.pp * s->parallel.dp};
    set_memory(l, s);
    enum weft_status st = build(l, s, err);
    if (st != WEFT_OK)
        wf_topology_release(l);
    return st;
}

enum weft_status wf_topology_check_ranks(const struct wf_topology *l, uint32_t started,
                                         struct weft_error *err)
{
    if (started == l->n_ranks)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "parallel.pp %u x parallel.dp %u needs %u rank%s, and %u %s started; use "
                     "mpirun -n %u",
                     l->pp, l->dp, l->n_ranks, wf_plural(l->n_ranks), started,
                     started == 1 ? "was" : "were", l->n_ranks);
}

void wf_topology_release(struct wf_topology *l)
{
    for (unsigned i = 0; i < 2; i++) {
        weft_schedule_free(l->schedules[i]);
        weft_traffic_free(l->traffic[i]);
    }
    for (size_t i = 0; i < l->n_groups; i++) {
        free(l->groups[i].members);
        free(l->groups[i].tensors);
        free(l->groups[i].cuts);
    }
    free(l->groups);
    free(l->first_segment);
    free(l->recompute);
    wf_param_list_release(&l->params);
    weft_stage_sums_release(&l->sums);
    weft_partition_release(&l->partition);
    *l = (struct wf_topology){0};
}
