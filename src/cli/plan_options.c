/* Converts command-line options to the planner's input. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "config/choice.h"
#include "config/values.h"
#include "planning/part/recompute_layers.h"
#include "planning/planner/costs.h"
#include "training/run/trace_list.h"
#include "training/unpack/unpack.h"

/* -- costs ---------------------------------------------------------------------------------- */

enum weft_status wf_plan_parse_costs(const struct wf_plan_settings *settings,
                                     struct wf_cost_units *units, struct weft_cost *cost,
                                     struct weft_memory_cost *memory, struct weft_error *err)
{
    const struct wf_plan_settings *s = settings;
    if ((s->cost != NULL) + (s->cost_from != NULL) + (s->cost_file != NULL) > 1)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "give one of --cost-file, --cost and --cost-from, not both");
    if (s->cost_file != NULL && (s->mem != NULL || s->mem_limit != NULL))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--cost-file also sets the memory; leave out --mem and --mem-limit");

    if (s->cost_file != NULL)
        return wf_cost_read(s->cost_file, units, cost, memory, err);
    if (s->cost_from != NULL)
        WEFT_TRY(wf_cost_read_measured(s->cost_from, wf_unpack_read_as, units, cost, err));
    if (s->cost != NULL)
        WEFT_TRY(wf_cost_parse(s->cost, "--cost", units, cost, err));
    if (s->mem != NULL)
        WEFT_TRY(wf_memory_cost_parse(s->mem, "--mem", units, memory, err));
    if (s->mem_limit != NULL)
        WEFT_TRY(wf_values_parse(s->mem_limit, "--mem-limit", WF_QUANTITY_BYTES,
                                 &units->amounts, &memory->limit, err));
    return WEFT_OK;
}

/* Parses the text of --recompute. */
static enum weft_status read_recompute(const char *text, struct wf_recompute_list *out,
                                       struct weft_error *err)
{
    WEFT_TRY(wf_recompute_parse(text, "--recompute", out, err));
    if (!out->automatic)
        return WEFT_OK;
    wf_recompute_list_release(out);
    return WEFT_FAIL(err, WEFT_USAGE,
                     "--recompute: auto is for training, which has a memory limit; list the "
                     "layers, such as full:0-5");
}

/* Checks --recompute, as far as it does not depend on the stages. */
static enum weft_status check_recompute(const struct wf_plan_settings *s,
                                        struct weft_error *err)
{
    struct wf_recompute_list list = {0};
    struct weft_model model;
    WEFT_TRY(read_recompute(s->recompute, &list, err));
    enum weft_status st = WEFT_OK;
    if (s->model != NULL && weft_model_find(s->model, &model, NULL) == WEFT_OK) {
        uint8_t *kinds = malloc(model.layers);
        st = kinds == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u layers", model.layers)
                           : wf_recompute_set_layers(&list, "--recompute", model.layers, NULL,
                                                     kinds, err);
        free(kinds);
    }
    wf_recompute_list_release(&list);
    return st;
}

enum weft_status wf_plan_parse_recompute(const char *text, const struct weft_model *model,
                                         uint8_t **out, struct weft_error *err)
{
    struct wf_recompute_list list = {0};
    *out = NULL;
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(read_recompute(text, &list, err));
    uint8_t *kinds = malloc(model->layers);
    enum weft_status st = WEFT_OK;
    if (kinds == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u layers", model->layers);
    else if (wf_recompute_has_stages(&list))
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "--recompute: layouts have different stages; list the layers, such as "
                       "full:0-5");
    if (st == WEFT_OK)
        st = wf_recompute_set_layers(&list, "--recompute", model->layers, NULL, kinds, err);

    wf_recompute_list_release(&list);
    if (st == WEFT_OK)
        *out = kinds;
    else
        free(kinds);
    return st;
}

static enum weft_status parse_items(const struct wf_plan_settings *s,
                                    struct wf_cost_units *units, struct wf_plan_input *in,
                                    struct weft_error *err)
{
    in->layer = (struct weft_item){.f = 1, .i = 1, .w = 1};
    WEFT_TRY(wf_item_parse(s->layer_cost, "--layer-cost", units, &in->layer, err));
    WEFT_TRY(wf_item_parse(s->embedding_cost, "--embedding-cost", units, &in->embedding, err));
    WEFT_TRY(wf_item_parse(s->head_cost, "--head-cost", units, &in->head, err));
    if (in->item_costs && s->layer_cost == NULL && wf_costs_are_timed(units))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "'%s' has a unit, but --layer-cost is not given (its default is 1 "
                         "without a unit)",
                         units->times.with);
    return WEFT_OK;
}

/* Reads all costs.  Their units are known only when all are read. */
static enum weft_status read_costs(const struct wf_plan_settings *s, struct wf_plan_request *r,
                                   struct weft_error *err)
{
    struct wf_cost_units units = wf_cost_units_make(r->machine.unit_seconds);
    bool items = s->model != NULL || r->in.item_costs;
    WEFT_TRY(wf_plan_parse_costs(s, &units, &r->cost, &r->memory, err));
    WEFT_TRY(parse_items(s, &units, &r->in, err));
    r->in.memory_is_bytes = units.amounts.with[0] != '\0';
    r->in.limits_are_bytes = r->in.memory_is_bytes && items && r->memory.f.n == 0;
    if (r->in.limits_are_bytes)
        units.amounts.with[0] = '\0'; /* the model has the bytes of a forward */
    WEFT_TRY(wf_costs_complete(&units, items, &r->cost, &r->memory, err));

    bool timed = r->timed = wf_costs_are_timed(&units);
    if (s->unit != NULL && s->cluster == NULL && s->tflops == NULL && !timed)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--unit needs --cluster, --tflops or times with units");
    if (timed && s->model != NULL && s->tflops == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "'%s' has a unit, but the times of --model are operation counts; give "
                         "--tflops as well",
                         units.times.with);
    if (timed || s->cluster != NULL || s->tflops != NULL)
        r->in.unit_seconds = r->machine.unit_seconds;
    return WEFT_OK;
}

/* -- the machine ---------------------------------------------------------------------------- */

/* Parses a list if it is given. */
static enum weft_status read_list(const char *text, const char *what, enum wf_quantity quantity,
                                  struct weft_values *out, struct weft_error *err)
{
    return text == NULL ? WEFT_OK : wf_values_parse(text, what, quantity, NULL, out, err);
}

static enum weft_status read_machine(const struct wf_plan_settings *s,
                                     struct wf_plan_request *r, struct weft_error *err)
{
    struct weft_sim_options *o = &r->machine;
    static const double seconds[] = {1e-3, 1, 1e-3, 1e-6};
    o->unit_seconds = seconds[wf_choice_index("|s|ms|us", s->unit)];
    o->contention = (enum weft_contention)wf_choice_index("delay|link|ranks", s->transfers);
    if (s->cluster != NULL) {
        WEFT_TRY(weft_cluster_parse(s->cluster, &r->cluster, err));
        o->cluster = &r->cluster;
    }
    WEFT_TRY(read_list(s->speed, "--speed", WF_QUANTITY_PLAIN, &o->speed, err));
    WEFT_TRY(read_list(s->bytes, "--bytes", WF_QUANTITY_BYTES, &o->bytes, err));
    return read_list(s->gradient_bytes, "--gradient-bytes", WF_QUANTITY_BYTES,
                     &o->gradient_bytes, err);
}

/* -- the plan ------------------------------------------------------------------------------- */

static enum weft_status check_schedule(const struct wf_plan_settings *s, struct weft_error *err)
{
    if (s->schedule == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --schedule NAME (weft plan --list shows them)");
    bool named = weft_generator_find(s->schedule) != NULL;
    if (named && (s->ranks == 0 || s->micros == 0))
        return WEFT_FAIL(err, WEFT_USAGE, "%s needs --ranks P and --micros M", s->schedule);
    if (s->minimize != NULL && named && !wf_schedule_searches(s->schedule))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--minimize has no effect on %s: only schedules that search use it",
                         s->schedule);
    if (s->lower != NULL && s->format != NULL && strcmp(s->format, "pytorch") == 0 &&
        strncmp(s->lower, "torch", 5) != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "PyTorch cannot run weft's messages; give --lower=torch-2.10 or "
                         "--lower=torch-2.15, or leave out --lower: PyTorch adds its own");
    return WEFT_OK;
}

static enum weft_status check_model(const struct wf_plan_settings *s, bool item_costs,
                                    struct weft_error *err)
{
    if (s->model != NULL && item_costs)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--model determines the costs of items; leave out --layer-cost, "
                         "--embedding-cost and --head-cost");
    if (s->model == NULL && (s->rows != 0 || s->seq != 0))
        return WEFT_FAIL(err, WEFT_USAGE, "--rows and --seq need --model");
    if (s->model == NULL && s->tflops != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--tflops needs --model");
    if (s->model == NULL && s->recompute != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--recompute needs --model");
    if (s->model != NULL && s->cluster != NULL && s->tflops == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--cluster with --model needs --tflops X");
    if (s->partition != NULL && s->layers_per_stage != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --partition or --layers-per-stage, not both");
    return WEFT_OK;
}

static enum weft_status choose_partition(const struct wf_plan_settings *s,
                                         struct wf_partition_choice *out,
                                         struct weft_error *err)
{
    if (s->layers_per_stage != NULL) {
        *out = (struct wf_partition_choice){WF_PARTITION_COUNTS, s->layers_per_stage};
        return WEFT_OK;
    }
    *out = wf_partition_choice_parse(s->partition, WF_PARTITION_EVEN);
    if (out->kind == WF_PARTITION_COUNTS)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--partition: '%.40s' is neither even nor balanced nor a layout such "
                         "as 'Et*3|(tt|)*2L'",
                         s->partition);
    return WEFT_OK;
}

static struct weft_gen_params read_params(const struct wf_plan_settings *s)
{
    bool makespan = s->minimize != NULL && strcmp(s->minimize, "makespan") == 0;
    return (struct weft_gen_params){
        .ranks = s->ranks,
        .micros = s->micros,
        .chunks = s->chunks,
        .group = s->group,
        .pipes = s->pipes,
        .minimize = makespan ? WEFT_MINIMIZE_MAKESPAN : WEFT_MINIMIZE_SPAN,
    };
}

/* Fills in the fields of *in that need no allocation. */
static enum weft_status read_input(const struct wf_plan_settings *s, struct wf_plan_input *in,
                                   struct weft_error *err)
{
    double flops = 0;
    *in = (struct wf_plan_input){
        .schedule = s->schedule,
        .params = read_params(s),
        .stage_costs = s->cost != NULL || s->cost_from != NULL || s->cost_file != NULL,
        .model = s->model,
        .rows = s->rows,
        .seq = s->seq,
        .recompute = s->recompute,
        .layers = s->layers,
        .item_costs =
            s->layer_cost != NULL || s->embedding_cost != NULL || s->head_cost != NULL,
        .lower = s->lower != NULL,
        .forward_only = s->forward_only,
    };
    if (in->lower && s->lower[0] != '\0')
        WEFT_TRY(weft_lowering_find(s->lower, &in->lowering, err));
    WEFT_TRY(check_model(s, in->item_costs, err));
    WEFT_TRY(check_recompute(s, err));
    WEFT_TRY(choose_partition(s, &in->partition, err));
    /* A number without a unit is in 1e12 operations per second. */
    WEFT_TRY(wf_value_parse(s->tflops, "--tflops", WF_QUANTITY_FLOPS, 1e21, &flops, err));
    in->flops = s->tflops != NULL && strchr(s->tflops, 'F') == NULL ? flops * 1e12 : flops;
    if (in->flops > 1e21)
        return WEFT_FAIL(err, WEFT_USAGE, "--tflops: '%.20s' is not a number from 0 to 1e+09",
                         s->tflops);
    return WEFT_OK;
}

void wf_plan_add_hint(const struct wf_plan_settings *s, struct weft_error *err)
{
    struct weft_model model;
    bool schedule = s->schedule != NULL && weft_generator_find(s->schedule) == NULL &&
                    !wf_schedule_is_file(s->schedule);
    bool named = s->model != NULL && weft_model_find(s->model, &model, NULL) != WEFT_OK;
    if (schedule || named)
        wf_error_wrap(err, "", " (weft plan --list shows all)");
}

enum weft_status wf_plan_request_init(struct wf_plan_request *out,
                                      const struct wf_plan_settings *settings,
                                      struct weft_error *err)
{
    *out = (struct wf_plan_request){0};
    WEFT_TRY(read_input(settings, &out->in, err));
    WEFT_TRY(read_machine(settings, out, err));
    WEFT_TRY(read_costs(settings, out, err));
    WEFT_TRY(read_list(settings->bytes_limit, "--bytes-limit", WF_QUANTITY_BYTES,
                       &out->in.bytes_limit, err));
    if (settings->cluster != NULL && settings->cost_from != NULL)
        out->cost.hop = 0; /* the measured time is that of other links */
    if (settings->cluster != NULL && out->cost.hop > 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--cluster determines the times of hops; leave out --cost C");
    out->in.for_torch = out->cost.first_backward_in_w = settings->for_system != NULL;
    out->in.params.cost = &out->cost;
    out->in.params.memory = &out->memory;
    out->in.machine = &out->machine;
    return WEFT_OK;
}

void wf_plan_request_release(struct wf_plan_request *r)
{
    wf_values_release(&r->in.bytes_limit);
    wf_values_release(&r->machine.speed);
    wf_values_release(&r->machine.bytes);
    wf_values_release(&r->machine.gradient_bytes);
    wf_costs_release(&r->cost, &r->memory);
}

enum weft_status wf_plan_make(struct wf_plan *out, const struct wf_plan_settings *settings,
                              const struct wf_plan_request *request, struct weft_error *err)
{
    WEFT_TRY(check_schedule(settings, err));
    if (settings->bytes_limit != NULL && request->in.partition.kind != WF_PARTITION_BALANCED)
        return WEFT_FAIL(err, WEFT_USAGE, "--bytes-limit needs --partition balanced");
    enum weft_status st = wf_plan_init(out, &request->in, err);
    if (st == WEFT_USAGE)
        wf_plan_add_hint(settings, err);
    return st;
}

/* -- the form of the output ----------------------------------------------------------------- */

enum weft_status wf_form_choose(const struct wf_plan_settings *s, const char *endings,
                                struct wf_form *out, struct weft_error *err)
{
    const char *path = s->output;
    *out = (struct wf_form){.kind = WF_FORM_TEXT};
    if (s->json && s->format != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --json or --format, not both");
    if (s->json && path != NULL && weft_draw_format_from_path(path, &out->picture) &&
        out->picture != WEFT_DRAW_FORMAT_TEXT && out->picture != WEFT_DRAW_FORMAT_CHROME)
        return WEFT_FAIL(err, WEFT_USAGE, "--output %.160s is a picture; leave out --json",
                         path);
    if (s->json || s->format != NULL) {
        bool text = s->format != NULL && strcmp(s->format, "text") == 0;
        out->kind = s->json ? WF_FORM_JSON : text ? WF_FORM_TEXT : WF_FORM_CSV;
        return WEFT_OK;
    }
    WEFT_TRY(wf_output_check(path, endings, err));
    if (path == NULL)
        return WEFT_OK;
    bool drawn = weft_draw_format_from_path(path, &out->picture) &&
                 out->picture != WEFT_DRAW_FORMAT_TEXT;
    if (wf_path_ends_in(path, ".json") && !wf_path_ends_in(path, ".trace.json"))
        out->kind = WF_FORM_JSON;
    else if (wf_path_ends_in(path, ".csv"))
        out->kind = WF_FORM_CSV;
    else if (drawn)
        out->kind = WF_FORM_PICTURE;
    return WEFT_OK;
}
