/* Builds a plan in steps: schedule, partition, proof, times, messages. */
#include "planning/planner/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "config/values.h"
#include "planning/part/memory_limits.h"
#include "planning/part/recompute_layers.h"
#include "planning/planner/check.h"
#include "planning/planner/costs.h"
#include "planning/sched/placement.h"
#include "planning/sim/hops.h"
#include "planning/spec/item_times.h"

/* The state of a plan that is being built. */
struct build {
    struct wf_plan *plan;
    const struct wf_plan_input *in;
    size_t *byte_limits; /* owned: (n_byte_limits) */
    size_t n_byte_limits;
};

/* -- schedule ------------------------------------------------------------------------------- */

/* Returns true if the schedule comes from a generator that searches. */
static bool searches(const struct wf_plan_input *in)
{
    return in->given == NULL && wf_schedule_searches(in->schedule);
}

static enum weft_status check_size(const char *what, uint32_t given, uint32_t actual,
                                   const char *file, struct weft_error *err)
{
    if (given != 0 && given != actual)
        return WEFT_FAIL(err, WEFT_USAGE, "%s has %u %s%s (%u given): leave the number out",
                         file, actual, what, wf_plural(actual), given);
    return WEFT_OK;
}

static enum weft_status check_sizes(const struct wf_plan_input *in,
                                    const struct weft_schedule *s, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    WEFT_TRY(check_size("rank", in->params.ranks, place->n_ranks, in->schedule, err));
    WEFT_TRY(check_size("micro", in->params.micros, place->n_micros, in->schedule, err));
    WEFT_TRY(
        check_size("chunk", in->params.chunks, weft_schedule_n_chunks(s), in->schedule, err));
    if (in->params.group != 0 || in->params.pipes != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s is a finished schedule: groups and pipes are for generators",
                         in->schedule);
    return WEFT_OK;
}

/* Computes the costs of the stages on their ranks, with which a generator searches.  The caller
 * releases *out. */
static enum weft_status place_costs(const struct build *b, struct weft_cost *out,
                                    struct weft_error *err)
{
    const struct weft_generator *g = weft_generator_find(b->in->schedule);
    const struct weft_gen_params *params = &b->in->params;
    uint32_t ranks = params->ranks, stages;
    if (ranks == 0 || __builtin_mul_overflow(ranks, g->default_chunks, &stages) ||
        stages > WEFT_MAX_STAGES)
        return WEFT_OK; /* the generator reports the error */
    uint32_t *rank_of = malloc(sizeof *rank_of * stages);
    if (rank_of == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u stages", stages);

    wf_placement_fill(rank_of, ranks, stages, wf_generator_placement(g));
    const struct weft_placement place = {ranks, stages, params->micros, 1, rank_of, NULL};
    struct weft_sim_options machine = *b->in->machine;
    machine.cost = &b->plan->cost;
    machine.memory = NULL;
    enum weft_status st = wf_sim_options_check(&place, &machine, err);
    if (st == WEFT_OK)
        st = wf_cost_place(out, &place, &machine, err);
    free(rank_of);
    return st;
}

/* Replaces the costs of stages by those on their ranks. */
static enum weft_status place_stages(struct wf_plan *p, const struct wf_plan_input *in,
                                     const struct weft_placement *place, struct weft_error *err)
{
    struct weft_cost placed = {0};
    WEFT_TRY(weft_cost_check(&p->cost, &p->memory, place->n_ranks, place->n_stages,
                             place->n_micros, err));
    if (in->machine == NULL)
        return WEFT_OK;
    struct weft_sim_options machine = *in->machine;
    machine.cost = &p->cost;
    machine.memory = NULL;
    WEFT_TRY(wf_sim_options_check(place, &machine, err));
    WEFT_TRY(wf_cost_place(&placed, place, &machine, err));
    wf_cost_release(&p->cost);
    p->cost = placed;
    return WEFT_OK;
}

/* Replaces a schedule by its forward-only form if the input requests it. */
static enum weft_status drop_backwards(const struct build *b, struct weft_schedule **s,
                                       struct weft_error *err)
{
    struct weft_schedule *forward = NULL;
    if (!b->in->forward_only)
        return WEFT_OK;
    WEFT_TRY(weft_schedule_forward_only(*s, &forward, err));
    weft_schedule_free(*s);
    *s = forward;
    return WEFT_OK;
}

static enum weft_status generate(const struct build *b, struct weft_schedule **out,
                                 struct weft_error *err)
{
    struct weft_gen_params params = b->in->params;
    struct weft_cost placed = {0};
    params.cost = &b->plan->cost;
    params.memory = &b->plan->memory;
    struct weft_schedule *s = NULL;
    if (b->in->machine != NULL && searches(b->in)) {
        WEFT_TRY(place_costs(b, &placed, err));
        params.cost = &placed;
    }
    enum weft_status st = weft_schedule_generate(b->in->schedule, &params, &s, err);
    wf_cost_release(&placed);
    if (st == WEFT_OK)
        st = drop_backwards(b, &s, err);
    if (st == WEFT_OK)
        *out = s;
    else
        weft_schedule_free(s);
    return st;
}

enum weft_status wf_schedule_prove(const struct weft_schedule *s, const char *name,
                                   struct weft_verify_result *out, struct weft_error *err)
{
    struct weft_verify_result r;
    WEFT_TRY(weft_verify(s, NULL, &r, err));
    if (r.n_findings > 0) {
        enum weft_status st =
            WEFT_FAIL(err, WEFT_SCHEDULE, "%.80s is wrong: %s", name, r.findings[0].text);
        weft_verify_result_release(&r);
        return st;
    }
    *out = r;
    return WEFT_OK;
}

/* Prints an amount of memory in the unit of the plan. */
static void print_amount(const struct wf_plan *p, double amount, char out[WF_NUMBER_CHARS])
{
    if (p->memory_is_bytes)
        wf_bytes_print(out, amount, WF_BYTES_DECIMAL);
    else
        snprintf(out, WF_NUMBER_CHARS, "%.10g", amount);
}

static enum weft_status fail_memory(const struct wf_plan *p, uint32_t rank, const char *peak,
                                    const char *most, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%s: rank %u peaks at %s, over its memory limit of %s; use a schedule "
                     "that searches (zb-auto, zb-v-auto), or v-half, v-min",
                     weft_schedule_name(p->schedule), rank, peak, most);
}

/* Checks the memory limits.  A schedule whose generator does not search cannot adapt to a
 * limit, so the plan fails if the schedule exceeds the limit. */
static enum weft_status check_memory(const struct wf_plan *p, struct weft_error *err)
{
    char peak[WF_NUMBER_CHARS], most[WF_NUMBER_CHARS];
    for (uint32_t r = 0; p->memory.limit.n != 0 && r < p->metrics.n_ranks; r++) {
        double limit = weft_values_get(p->memory.limit, r, 0);
        if (weft_memory_fits(p->metrics.peak_mem[r], limit))
            continue;
        print_amount(p, p->metrics.peak_mem[r], peak);
        print_amount(p, limit, most);
        return fail_memory(p, r, peak, most, err);
    }
    return WEFT_OK;
}

/* Raises the limits of ranks whose bytes fit, but whose memory as a search counts it does not:
 * the limits hold for the schedule of the plan. */
static void raise_limits(struct wf_plan *p)
{
    double *limit = (double *)p->memory.limit.at; /* owned by the plan, one per rank */
    for (uint32_t r = 0; r < p->metrics.n_ranks; r++)
        limit[r] = fmax(limit[r], p->metrics.peak_mem[r]);
}

static enum weft_status prove_and_time(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    WEFT_TRY(wf_schedule_prove(p->schedule, b->in->schedule, &p->proof, err));
    WEFT_TRY(weft_metrics_init(&p->metrics, p->schedule, &p->cost, &p->memory, err));
    if (!b->in->limits_are_bytes)
        return check_memory(p, err);
    raise_limits(p); /* the bytes are checked */
    return WEFT_OK;
}

/* Reads or generates the schedule, with the costs that are known before the model is
 * partitioned. */
static enum weft_status make_schedule(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    if (!p->from_file)
        return generate(b, &p->schedule, err);
    if (b->in->given != NULL)
        WEFT_TRY(weft_schedule_dup(b->in->given, &p->schedule, err));
    else
        WEFT_TRY(wf_schedule_read(b->in->schedule, &p->schedule, err));
    WEFT_TRY(check_sizes(b->in, p->schedule, err));
    /* All later steps require a valid schedule. */
    WEFT_TRY(wf_schedule_prove(p->schedule, b->in->schedule, &p->proof, err));
    weft_verify_result_release(&p->proof);
    WEFT_TRY(drop_backwards(b, &p->schedule, err));
    WEFT_TRY(weft_metrics_init(&p->metrics, p->schedule, &p->cost, &p->memory, err));
    WEFT_TRY(check_memory(p, err));
    weft_metrics_release(&p->metrics);
    return WEFT_OK;
}

static enum weft_status lower(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    if (!b->in->lower)
        return WEFT_OK;
    return weft_schedule_lower(p->schedule, b->in->lowering, &p->lowered, err);
}

/* -- model ---------------------------------------------------------------------------------- */

static bool has_items(const struct wf_plan_input *in)
{
    return in->model != NULL || in->item_costs;
}

/* Creates the items of a model whose layers recompute as the input says.  Stages are known only
 * after the model is partitioned. */
static enum weft_status make_training_items(struct build *b, const struct weft_model *model,
                                            struct weft_error *err)
{
    const struct wf_plan_input *in = b->in;
    struct wf_plan *p = b->plan;
    struct wf_recompute_list list = {0};
    uint8_t *kinds = malloc(model->layers);
    const struct weft_training how = {.recompute = kinds};
    if (kinds == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u layers", model->layers);

    enum weft_status st = wf_recompute_parse(in->recompute, "recompute", &list, err);
    if (st == WEFT_OK && list.automatic)
        st = WEFT_FAIL(err, WEFT_USAGE, "recompute: a plan has no \"auto\"; list the layers");
    if (st == WEFT_OK)
        st = wf_recompute_set_layers(&list, "recompute", model->layers,
                                     p->partition.n_stages > 0 ? &p->partition : NULL, kinds,
                                     err);
    weft_items_release(&p->items);
    if (st == WEFT_OK)
        st = weft_items_init_training(&p->items, model, in->rows ? in->rows : 1,
                                      in->seq ? in->seq : model->ctx, &how, err);
    wf_recompute_list_release(&list);
    free(kinds);
    return st;
}

static enum weft_status make_model_items(struct build *b, struct weft_error *err)
{
    const struct wf_plan_input *in = b->in;
    struct weft_model model;
    WEFT_TRY(weft_model_find(in->model, &model, err));
    if (in->layers != 0 && in->layers != model.layers)
        return WEFT_FAIL(err, WEFT_USAGE, "%s has %u layer%s (%u given): leave the number out",
                         in->model, model.layers, wf_plural(model.layers), in->layers);
    WEFT_TRY(make_training_items(b, &model, err));
    wf_items_set_speed(&b->plan->items, in->flops,
                       in->machine != NULL ? in->machine->unit_seconds : 0);
    return WEFT_OK;
}

/* Creates the items of a named model, or uniform items. */
static enum weft_status make_items(struct build *b, uint32_t stages, struct weft_error *err)
{
    const struct wf_plan_input *in = b->in;
    const struct weft_item unit = {.f = 1, .i = 1, .w = 1};
    uint32_t layers = in->layers;
    if (in->model != NULL)
        return make_model_items(b, err);
    if (layers == 0)
        WEFT_TRY(wf_partition_choice_layers(in->partition, stages, &layers, err));
    return weft_items_init_uniform(&b->plan->items, layers ? layers : stages,
                                   in->item_costs ? in->layer : unit, in->embedding, in->head,
                                   err);
}

static enum weft_status read_byte_limits(struct build *b, uint32_t ranks,
                                         struct weft_error *err)
{
    struct weft_values v = b->in->bytes_limit;
    if (v.n == 0)
        return WEFT_OK;
    if (b->in->partition.kind != WF_PARTITION_BALANCED)
        return WEFT_FAIL(err, WEFT_USAGE, "a bytes limit needs a balanced partition");
    if (v.n > 1 && v.n != ranks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "bytes limit: %zu values for %u ranks (expected 1 or %u)", v.n, ranks,
                         ranks);
    b->byte_limits = malloc(sizeof *b->byte_limits * v.n);
    if (b->byte_limits == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu limits", v.n);
    for (size_t i = 0; i < v.n; i++) {
        if (v.at[i] < 0 || v.at[i] > 1e18)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "bytes limit: %g is out of range (expected 0 to 1e18)", v.at[i]);
        b->byte_limits[i] = (size_t)v.at[i];
    }
    b->n_byte_limits = v.n;
    return WEFT_OK;
}

/* Replaces the times of each stage by the sums over its items. */
static enum weft_status sum_items(struct wf_plan *p, struct weft_error *err)
{
    struct weft_stage_sums sums = {0};
    if (p->cost.f.n != 0 || p->cost.i.n != 0 || p->cost.w.n != 0 || p->cost.b.n != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the items of the model determine the costs F, I, W and B of the "
                         "stages: only C and FB may be given with them");
    WEFT_TRY(weft_stage_sums_init(&sums, &p->partition, &p->items, err));
    struct weft_cost cost = weft_stage_sums_cost(&sums);
    enum weft_status st = wf_values_copy(&p->cost.f, cost.f, err);
    if (st == WEFT_OK)
        st = wf_values_copy(&p->cost.i, cost.i, err);
    if (st == WEFT_OK)
        st = wf_values_copy(&p->cost.w, cost.w, err);
    weft_stage_sums_release(&sums);
    return st;
}

/* Replaces the memory of stages by their bytes, and limits of all bytes of a rank by what remains
 * for micro-batches. */
static enum weft_status limit_bytes(struct wf_plan *p, const struct weft_placement *place,
                                    struct weft_values limits, struct weft_error *err)
{
    struct wf_memory_limits l;
    struct weft_cost no_cost = {0}, none = {0};
    struct weft_memory_cost memory = {0};
    WEFT_TRY(wf_memory_limits_init(&l, &p->items, &p->partition, place, 1, limits, err));
    enum weft_status st = wf_costs_copy(&no_cost, &memory, &none, &l.memory, err);
    free(l.lists);
    if (st == WEFT_OK) {
        wf_costs_release(&none, &p->memory);
        p->memory = memory;
        p->memory_is_bytes = true;
    } else {
        wf_costs_release(&no_cost, &memory);
    }
    return st;
}

/* Lets only the forwards count if the schedule has no backwards. */
static void drop_backward_times(struct wf_plan *p)
{
    for (size_t i = 0; weft_schedule_is_forward_only(p->schedule) && i < p->items.n; i++)
        p->items.at[i].i = p->items.at[i].w = 0;
}

/* Creates the items again if layers recompute: the stages are known after the partition. */
static enum weft_status recompute_stages(struct build *b, struct weft_error *err)
{
    return b->in->model != NULL && b->in->recompute != NULL ? make_model_items(b, err)
                                                            : WEFT_OK;
}

static enum weft_status cut_model(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    WEFT_TRY(make_items(b, place->n_stages, err));
    drop_backward_times(p);
    WEFT_TRY(read_byte_limits(b, place->n_ranks, err));
    const struct wf_partition_limits limits = {p->schedule, b->byte_limits, b->n_byte_limits};
    WEFT_TRY(wf_partition_choose(&p->partition, b->in->partition, &p->items, place->n_stages,
                                 &limits, err));
    WEFT_TRY(recompute_stages(b, err));
    drop_backward_times(p);
    if (has_items(b->in))
        WEFT_TRY(sum_items(p, err));
    return b->in->limits_are_bytes ? limit_bytes(p, place, b->in->params.memory->limit, err)
                                   : WEFT_OK;
}

/* Fails if a rank needs more bytes than its limit.  A schedule that does not search cannot adapt
 * to a limit. */
static enum weft_status check_bytes(const struct wf_plan *p, const struct wf_plan_input *in,
                                    struct weft_values limits, struct weft_error *err)
{
    char total[WF_NUMBER_CHARS], most[WF_NUMBER_CHARS];
    for (uint32_t r = 0; limits.n > 0 && r < p->bytes.n_ranks; r++) {
        double limit = weft_values_get(limits, r, 0);
        if ((double)p->bytes.total[r] <= limit)
            continue;
        wf_bytes_print(total, (double)p->bytes.total[r], WF_BYTES_DECIMAL);
        wf_bytes_print(most, limit, WF_BYTES_DECIMAL);
        if (in->schedule == NULL || wf_schedule_searches(in->schedule))
            return WEFT_FAIL(err, WEFT_USAGE,
                             "rank %u holds %s in the order found, over its limit of %s; raise "
                             "it, or use a schedule that does not search",
                             r, total, most);
        return fail_memory(p, r, total, most, err);
    }
    return WEFT_OK;
}

enum weft_status wf_plan_count_bytes(struct wf_plan *p, const struct wf_plan_input *in,
                                     struct weft_error *err)
{
    wf_planned_bytes_release(&p->bytes);
    WEFT_TRY(wf_planned_bytes_init(&p->bytes, p->schedule, &p->partition, &p->items, 1, err));
    WEFT_TRY(check_bytes(p, in, in->bytes_limit, err));
    return in->limits_are_bytes ? check_bytes(p, in, in->params.memory->limit, err) : WEFT_OK;
}

/* -- all steps ------------------------------------------------------------------------------ */

static enum weft_status copy_costs(struct build *b, struct weft_error *err)
{
    static const struct weft_cost no_cost = {0};
    static const struct weft_memory_cost no_memory = {0};
    static const double tick = 1;
    const struct weft_gen_params *params = &b->in->params;
    struct wf_plan *p = b->plan;
    WEFT_TRY(wf_costs_copy(&p->cost, &p->memory, params->cost != NULL ? params->cost : &no_cost,
                           params->memory != NULL ? params->memory : &no_memory, err));
    return p->in_ticks ? wf_values_copy(&p->cost.b, (struct weft_values){&tick, 1}, err)
                       : WEFT_OK;
}

const char *wf_memory_unit(bool bytes, const struct weft_memory_cost *memory)
{
    if (bytes)
        return "bytes";
    return memory != NULL && memory->f.n != 0 ? "memory units" : "activations";
}

struct wf_time_unit wf_plan_time_unit(const struct wf_plan_input *in)
{
    const char *real = in->unit_seconds > 0 ? wf_time_unit_name(in->unit_seconds) : NULL;
    if (real != NULL)
        return (struct wf_time_unit){in->unit_seconds, real};
    bool operations = in->model != NULL && in->flops == 0;
    return (struct wf_time_unit){0, operations ? "operations" : "time units"};
}

/* Names the units of times and memory. */
static void name_units(struct build *b)
{
    const struct wf_plan_input *in = b->in;
    struct wf_plan *p = b->plan;
    p->time = p->in_ticks ? (struct wf_time_unit){0, "ticks"} : wf_plan_time_unit(in);
    p->memory_is_bytes = p->memory_is_bytes || in->memory_is_bytes;
    p->memory_unit = wf_memory_unit(p->memory_is_bytes, in->params.memory);
}

enum weft_status wf_plan_init_stages(struct wf_plan *out, const struct wf_plan_input *in,
                                     enum weft_placement_kind kind, struct weft_error *err)
{
    struct wf_plan p = {.costs_by_stage = true, .from_model = in->model != NULL};
    struct build b = {.plan = &p, .in = in};
    uint32_t chunks = in->params.chunks != 0          ? in->params.chunks
                      : kind == WEFT_PLACEMENT_LINEAR ? 1
                                                      : 2;
    uint32_t stages = 0;
    if (__builtin_mul_overflow(in->params.ranks, chunks, &stages) || stages > WEFT_MAX_STAGES)
        return WEFT_FAIL(err, WEFT_USAGE, "%u ranks x %u chunks are too many stages",
                         in->params.ranks, chunks);
    uint32_t *rank_of = malloc(sizeof *rank_of * (stages + (size_t)1));
    if (rank_of == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u stages", stages);
    wf_placement_fill(rank_of, in->params.ranks, stages, kind);
    const struct weft_placement place = {in->params.ranks, stages, in->params.micros, 1,
                                         rank_of,          NULL};

    enum weft_status st = copy_costs(&b, err);
    if (st == WEFT_OK)
        st = make_items(&b, stages, err);
    if (st == WEFT_OK)
        st = wf_partition_choose(&p.partition, in->partition, &p.items, stages, NULL, err);
    if (st == WEFT_OK)
        st = recompute_stages(&b, err);
    if (st == WEFT_OK && has_items(in))
        st = sum_items(&p, err);
    if (st == WEFT_OK && (in->bytes_limit.n > 0 || in->limits_are_bytes))
        st = limit_bytes(&p, &place,
                         in->bytes_limit.n > 0 ? in->bytes_limit : in->params.memory->limit,
                         err);
    if (st == WEFT_OK)
        st = place_stages(&p, in, &place, err);
    free(rank_of);
    name_units(&b);
    if (st == WEFT_OK)
        *out = p;
    else
        wf_plan_release(&p);
    return st;
}

bool wf_plan_has_unlikely_costs(const struct wf_plan *p)
{
    bool differ = false;
    const struct weft_stage_range *at = p->partition.at;
    for (uint32_t i = 1; i < p->partition.n_stages; i++)
        differ = differ ||
                 at[i].end_layer - at[i].first_layer != at[0].end_layer - at[0].first_layer;
    uint32_t layers = p->partition.n_stages ? at[p->partition.n_stages - 1].end_layer : 0;
    return !p->costs_by_stage && (differ || layers > p->partition.n_stages);
}

static enum weft_status build_plan(struct build *b, struct weft_error *err)
{
    const struct wf_plan_input *in = b->in;
    const struct weft_generator *g =
        in->given != NULL ? NULL : weft_generator_find(in->schedule);
    struct wf_plan *p = b->plan;
    p->from_file = in->given != NULL || wf_schedule_is_file(in->schedule);
    p->from_model = in->model != NULL;
    p->costs_by_stage = has_items(in) || in->stage_costs;
    p->memory_is_bytes = in->memory_is_bytes && !in->limits_are_bytes;
    p->in_ticks = g != NULL && (g->flags & WEFT_GEN_UNIT_TICKS) && !p->costs_by_stage;

    WEFT_TRY(copy_costs(b, err));
    WEFT_TRY(make_schedule(b, err));
    if (in->for_torch)
        WEFT_TRY(wf_torch_require(p->schedule, err));
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    WEFT_TRY(weft_cost_check(&p->cost, &p->memory, place->n_ranks, place->n_stages,
                             place->n_micros, err));
    WEFT_TRY(cut_model(b, err));
    name_units(b);

    /* A generator that searches runs again, now with the costs of the stages. */
    if (has_items(in) && searches(in)) {
        weft_schedule_free(p->schedule);
        p->schedule = NULL;
        WEFT_TRY(generate(b, &p->schedule, err));
    }
    if (has_items(in))
        WEFT_TRY(wf_plan_count_bytes(p, in, err));
    WEFT_TRY(prove_and_time(b, err));
    return lower(b, err);
}

enum weft_status wf_plan_init(struct wf_plan *out, const struct wf_plan_input *in,
                              struct weft_error *err)
{
    struct wf_plan p = {0};
    struct build b = {.plan = &p, .in = in};
    enum weft_status st = build_plan(&b, err);
    free(b.byte_limits);
    if (st == WEFT_OK)
        *out = p;
    else
        wf_plan_release(&p);
    return st;
}

void wf_plan_release(struct wf_plan *p)
{
    wf_costs_release(&p->cost, &p->memory);
    weft_schedule_free(p->schedule);
    weft_schedule_free(p->lowered);
    weft_items_release(&p->items);
    weft_partition_release(&p->partition);
    wf_planned_bytes_release(&p->bytes);
    weft_metrics_release(&p->metrics);
    weft_verify_result_release(&p->proof);
    *p = (struct wf_plan){0};
}
