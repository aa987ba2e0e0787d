/* Converts command-line options to the planner's input. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "config/values.h"
#include "planning/planner/costs.h"
#include "training/run/rundir_trace.h"

/* -- costs ---------------------------------------------------------------------------------- */

/* Reads the costs from a trace, or from the newest trace in the directory of a run. */
static enum weft_status read_measured(const char *path, struct weft_cost *cost,
                                      struct weft_error *err)
{
    char *newest = NULL;
    if (wf_is_directory(path))
        WEFT_TRY(wf_rundir_find_trace(path, &newest, NULL, err));
    enum weft_status st = wf_cost_read_trace(newest != NULL ? newest : path, cost, err);
    free(newest);
    return st;
}

enum weft_status wf_plan_parse_costs(const struct wf_plan_settings *settings,
                                     struct weft_cost *cost, struct weft_memory_cost *memory,
                                     struct weft_error *err)
{
    const struct wf_plan_settings *s = settings;
    if (s->cost_file != NULL && (s->cost != NULL || s->cost_from != NULL))
        return WEFT_FAIL(err, WEFT_USAGE, "give one of --cost-file, --cost and --cost-from");
    if (s->cost_file != NULL && (s->mem != NULL || s->mem_limit != NULL))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--cost-file also sets the memory; leave out --mem and --mem-limit");
    if (s->cost != NULL && s->cost_from != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --cost or --cost-from, not both");

    if (s->cost_file != NULL)
        return wf_cost_read(s->cost_file, cost, memory, err);
    if (s->cost_from != NULL)
        WEFT_TRY(read_measured(s->cost_from, cost, err));
    if (s->cost != NULL)
        WEFT_TRY(wf_cost_parse(s->cost, "--cost", cost, err));
    if (s->mem != NULL)
        WEFT_TRY(wf_memory_cost_parse(s->mem, "--mem", memory, err));
    if (s->mem_limit != NULL)
        WEFT_TRY(wf_values_parse(s->mem_limit, "--mem-limit", &memory->limit, err));
    return WEFT_OK;
}

enum weft_status wf_plan_parse_items(const char *layer, const char *embedding, const char *head,
                                     struct weft_item items[3], struct weft_error *err)
{
    items[0] = (struct weft_item){.f = 1, .i = 1, .w = 1};
    items[1] = items[2] = (struct weft_item){0};
    WEFT_TRY(wf_item_parse(layer, "--layer-cost", &items[0], err));
    WEFT_TRY(wf_item_parse(embedding, "--embedding-cost", &items[1], err));
    return wf_item_parse(head, "--head-cost", &items[2], err);
}

enum weft_status wf_option_number(const char *text, const char *what, double max, double *out,
                                  struct weft_error *err)
{
    struct weft_values v = {0};
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_parse(text, what, &v, err));
    double value = v.at[0];
    size_t n = v.n;
    wf_values_release(&v);
    if (n != 1 || value < 0 || value > max)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: '%.20s' is not a number from 0 to %g", what,
                         text, max);
    *out = value;
    return WEFT_OK;
}

double wf_option_unit(const char *text)
{
    if (text == NULL || strcmp(text, "ms") == 0)
        return 1e-3;
    return strcmp(text, "us") == 0 ? 1e-6 : 1;
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
    if (s->lower_like != NULL && !s->lower)
        return WEFT_FAIL(err, WEFT_USAGE, "--lower-like needs --lower");
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
    if (s->bytes_limit != NULL && out->kind != WF_PARTITION_BALANCED)
        return WEFT_FAIL(err, WEFT_USAGE, "--bytes-limit needs --partition balanced");
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

static enum wf_plan_lowering read_lowering(const struct wf_plan_settings *s)
{
    if (!s->lower)
        return WF_PLAN_NOT_LOWERED;
    return s->lower_like != NULL && strcmp(s->lower_like, "pytorch") == 0
               ? WF_PLAN_LOWERED_PYTORCH
               : WF_PLAN_LOWERED_LATE;
}

/* Fills in the fields of *in that need no allocation. */
static enum weft_status read_input(const struct wf_plan_settings *s, struct wf_plan_input *in,
                                   struct weft_error *err)
{
    struct weft_item items[3];
    *in = (struct wf_plan_input){
        .schedule = s->schedule,
        .params = read_params(s),
        .stage_costs = s->cost != NULL || s->cost_from != NULL || s->cost_file != NULL,
        .model = s->model,
        .rows = s->rows,
        .seq = s->seq,
        .layers = s->layers,
        .item_costs =
            s->layer_cost != NULL || s->embedding_cost != NULL || s->head_cost != NULL,
        .lowering = read_lowering(s),
    };
    WEFT_TRY(check_model(s, in->item_costs, err));
    WEFT_TRY(choose_partition(s, &in->partition, err));
    WEFT_TRY(wf_plan_parse_items(s->layer_cost, s->embedding_cost, s->head_cost, items, err));
    in->layer = items[0];
    in->embedding = items[1];
    in->head = items[2];
    return WEFT_OK;
}

/* Adds to the error the option that lists the valid names. */
static void add_hint(const struct wf_plan_settings *s, struct weft_error *err)
{
    struct weft_model model;
    bool schedule = weft_generator_find(s->schedule) == NULL && strcmp(s->schedule, "-") != 0 &&
                    !wf_schedule_is_file(s->schedule);
    bool named = s->model != NULL && weft_model_find(s->model, &model, NULL) != WEFT_OK;
    if (schedule || named)
        wf_error_wrap(err, "", " (weft plan --list shows all)");
}

enum weft_status wf_plan_make(struct wf_plan *out, const struct wf_plan_settings *settings,
                              struct weft_error *err)
{
    struct wf_plan_input in;
    struct weft_cost cost = {0};
    struct weft_memory_cost memory = {0};
    WEFT_TRY(check_schedule(settings, err));
    WEFT_TRY(read_input(settings, &in, err));
    in.params.cost = &cost;
    in.params.memory = &memory;

    enum weft_status st = wf_plan_parse_costs(settings, &cost, &memory, err);
    if (st == WEFT_OK && settings->bytes_limit != NULL)
        st = wf_values_parse(settings->bytes_limit, "--bytes-limit", &in.bytes_limit, err);
    if (st == WEFT_OK)
        st = wf_plan_init(out, &in, err);
    if (st == WEFT_USAGE)
        add_hint(settings, err);
    wf_values_release(&in.bytes_limit);
    wf_costs_release(&cost, &memory);
    return st;
}
