/* Builds a plan in steps: schedule, partition, proof, times, messages. */
#include "planning/planner/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "config/values.h"
#include "planning/planner/costs.h"

/* The state of a plan that is being built. */
struct build {
    struct wf_plan *plan;
    const struct wf_plan_input *in;
    size_t *byte_limits; /* owned: (n_byte_limits) */
    size_t n_byte_limits;
};

/* -- schedule ------------------------------------------------------------------------------- */

static bool is_file(const struct wf_plan_input *in)
{
    return strcmp(in->schedule, "-") == 0 || wf_schedule_is_file(in->schedule);
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

static enum weft_status generate(const struct build *b, bool idle_hints,
                                 struct weft_schedule **out, struct weft_error *err)
{
    struct weft_gen_params params = b->in->params;
    params.cost = &b->plan->cost;
    params.memory = &b->plan->memory;
    params.idle_hints = idle_hints;
    return weft_schedule_generate(b->in->schedule, &params, out, err);
}

enum weft_status wf_schedule_prove(const struct weft_schedule *s, const char *name,
                                   struct weft_verify_result *out, struct weft_error *err)
{
    struct weft_verify_result r;
    WEFT_TRY(weft_verify(s, NULL, &r, err));
    if (r.n_findings > 0) {
        enum weft_status st =
            WEFT_FAIL(err, WEFT_SCHEDULE, "%.80s is wrong: %s (weft check shows all)", name,
                      r.findings[0].text);
        weft_verify_result_release(&r);
        return st;
    }
    *out = r;
    return WEFT_OK;
}

/* Checks the memory limits.  A schedule whose generator does not search cannot adapt to a
 * limit, so the plan fails if the schedule exceeds the limit. */
static enum weft_status check_memory(const struct wf_plan *p, struct weft_error *err)
{
    for (uint32_t r = 0; p->memory.limit.n != 0 && r < p->metrics.n_ranks; r++) {
        double limit = weft_values_get(p->memory.limit, r, 0);
        if (!weft_memory_fits(p->metrics.peak_mem[r], limit))
            return WEFT_FAIL(
                err, WEFT_USAGE,
                "%s: rank %u peaks at %.10g, over its memory limit of %.10g; use a "
                "schedule that searches (zb-auto, zb-v-auto), or v-half, v-min",
                weft_schedule_name(p->schedule), r, p->metrics.peak_mem[r], limit);
    }
    return WEFT_OK;
}

static enum weft_status prove_and_time(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    WEFT_TRY(wf_schedule_prove(p->schedule, b->in->schedule, &p->proof, err));
    WEFT_TRY(weft_metrics_init(&p->metrics, p->schedule, &p->cost, &p->memory, err));
    return check_memory(p, err);
}

/* Reads or generates the schedule, with the costs that are known before the model is
 * partitioned. */
static enum weft_status make_schedule(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    if (!p->from_file)
        return generate(b, false, &p->schedule, err);
    WEFT_TRY(wf_schedule_read(b->in->schedule, b->in->lowering == WF_PLAN_LOWERED_PYTORCH,
                              &p->schedule, err));
    WEFT_TRY(check_sizes(b->in, p->schedule, err));
    WEFT_TRY(prove_and_time(b, err)); /* all later steps require a valid schedule */
    weft_verify_result_release(&p->proof);
    weft_metrics_release(&p->metrics);
    return WEFT_OK;
}

static enum weft_status lower(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    if (b->in->lowering == WF_PLAN_NOT_LOWERED)
        return WEFT_OK;
    if (b->in->lowering == WF_PLAN_LOWERED_LATE)
        return weft_schedule_lower(p->schedule, WEFT_LOWERING_LATE, &p->lowered, err);
    if (p->from_file)
        return weft_schedule_lower(p->schedule, WEFT_LOWERING_PYTORCH, &p->lowered, err);

    struct weft_schedule *hinted = NULL; /* the same order, with PyTorch's empty cells */
    WEFT_TRY(generate(b, true, &hinted, err));
    enum weft_status st = weft_schedule_lower(hinted, WEFT_LOWERING_PYTORCH, &p->lowered, err);
    weft_schedule_free(hinted);
    return st;
}

/* -- model ---------------------------------------------------------------------------------- */

static bool has_items(const struct wf_plan_input *in)
{
    return in->model != NULL || in->item_costs;
}

static enum weft_status make_model_items(struct build *b, struct weft_error *err)
{
    const struct wf_plan_input *in = b->in;
    struct weft_model model;
    WEFT_TRY(weft_model_find(in->model, &model, err));
    if (in->layers != 0 && in->layers != model.layers)
        return WEFT_FAIL(err, WEFT_USAGE, "%s has %u layer%s (%u given): leave the number out",
                         in->model, model.layers, wf_plural(model.layers), in->layers);
    return weft_items_init_model(&b->plan->items, &model, in->rows ? in->rows : 1,
                                 in->seq ? in->seq : model.ctx, err);
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

static enum weft_status cut_model(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    WEFT_TRY(make_items(b, place->n_stages, err));
    WEFT_TRY(read_byte_limits(b, place->n_ranks, err));
    const struct wf_partition_limits limits = {p->schedule, b->byte_limits, b->n_byte_limits};
    WEFT_TRY(wf_partition_choose(&p->partition, b->in->partition, &p->items, place->n_stages,
                                 &limits, err));
    return has_items(b->in) ? sum_items(p, err) : WEFT_OK;
}

/* Computes the bytes of every rank.  A search may keep more micros in flight once the costs
 * of the stages are known, so the memory limits are checked again. */
static enum weft_status count_bytes(struct build *b, struct weft_error *err)
{
    struct wf_plan *p = b->plan;
    WEFT_TRY(wf_planned_bytes_init(&p->bytes, p->schedule, &p->partition, &p->items, err));
    for (uint32_t r = 0; b->n_byte_limits > 0 && r < p->bytes.n_ranks; r++) {
        size_t limit = b->byte_limits[b->n_byte_limits == 1 ? 0 : r];
        if (p->bytes.total[r] > limit)
            return WEFT_FAIL(
                err, WEFT_USAGE,
                "rank %u holds %zu bytes in the order found, over its limit of %zu "
                "bytes; raise it, or use a schedule that does not search",
                r, p->bytes.total[r], limit);
    }
    return WEFT_OK;
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

static enum weft_status build_plan(struct build *b, struct weft_error *err)
{
    const struct wf_plan_input *in = b->in;
    const struct weft_generator *g = weft_generator_find(in->schedule);
    struct wf_plan *p = b->plan;
    p->from_file = is_file(in);
    p->from_model = in->model != NULL;
    p->costs_by_stage = has_items(in) || in->stage_costs;
    p->in_ticks = g != NULL && (g->flags & WEFT_GEN_UNIT_TICKS) && !p->costs_by_stage;

    WEFT_TRY(copy_costs(b, err));
    WEFT_TRY(make_schedule(b, err));
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    WEFT_TRY(weft_cost_check(&p->cost, &p->memory, place->n_ranks, place->n_stages,
                             place->n_micros, err));
    WEFT_TRY(cut_model(b, err));

    /* A generator that searches runs again, now with the costs of the stages. */
    if (has_items(in) && wf_schedule_searches(in->schedule)) {
        weft_schedule_free(p->schedule);
        p->schedule = NULL;
        WEFT_TRY(generate(b, false, &p->schedule, err));
    }
    if (has_items(in))
        WEFT_TRY(count_bytes(b, err));
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
