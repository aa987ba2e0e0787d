/* From settings to a proven and timed plan. */
#include "cli/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "config/costfile.h"
#include "config/values.h"
#include "training/run/rundir_trace.h"
#include "weft/sim.h"
#include "weft/trace.h"

/* -- costs ---------------------------------------------------------------------------------- */

static enum weft_status check_list(struct weft_values v, const char *what, size_t n,
                                   const char *of, struct weft_error *err)
{
    if (v.n > 1 && v.n != n)
        return WEFT_FAIL(err, WEFT_USAGE, "%s has %zu values for %zu %s: give one, or one each",
                         what, v.n, n, of);
    return WEFT_OK;
}

static enum weft_status parse_cost(const char *text, struct weft_cost *cost,
                                   struct weft_error *err)
{
    struct weft_values hop = {0};
    const struct wf_value_key keys[] = {
        {"F", &cost->f, 0, false}, {"I", &cost->i, 0, false},   {"W", &cost->w, 0, false},
        {"B", &cost->b, 0, false}, {"FB", &cost->fb, 0, false}, {"C", &hop, 0, true},
    };
    WEFT_TRY(wf_values_parse_keys(text, "--cost", keys, WEFT_LEN(keys), err));
    cost->hop = weft_values_get(hop, 0, 0);
    wf_values_release(&hop);
    return WEFT_OK;
}

static enum weft_status parse_memory(const struct wf_plan_settings *settings,
                                     struct weft_memory_cost *memory, struct weft_error *err)
{
    const struct wf_value_key keys[] = {
        {"F", &memory->f, -HUGE_VAL, false},
        {"I", &memory->i, -HUGE_VAL, false},
        {"W", &memory->w, -HUGE_VAL, false},
    };
    if (settings->mem != NULL)
        WEFT_TRY(wf_values_parse_keys(settings->mem, "--mem", keys, WEFT_LEN(keys), err));
    if (settings->mem_limit != NULL)
        WEFT_TRY(wf_values_parse(settings->mem_limit, "--mem-limit", &memory->limit, err));
    return WEFT_OK;
}

static enum weft_status copy_values(struct weft_values *to, const double *from, size_t n,
                                    struct weft_error *err)
{
    double *list = malloc(sizeof *list * n);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the costs of %zu stages", n);
    memcpy(list, from, sizeof *list * n);
    *to = (struct weft_values){list, n};
    return WEFT_OK;
}

enum weft_status wf_plan_measured_costs(const char *path, struct weft_cost *cost,
                                        struct weft_error *err)
{
    char *text = NULL, *newest = NULL;
    size_t len = 0;
    struct weft_trace trace = {0};
    struct weft_measured_cost m = {0};
    if (wf_is_directory(path)) {
        WEFT_TRY(wf_rundir_find_trace(path, &newest, NULL, err));
        path = newest;
    }
    enum weft_status st = wf_input_read_as(WEFT_DATA, path, &text, &len, err);
    if (st == WEFT_OK)
        st = weft_trace_parse(text, len, path, &trace, err);
    free(text);
    free(newest);
    if (st == WEFT_OK)
        st = weft_measured_cost_init(&m, &trace, err);
    if (st == WEFT_OK)
        st = copy_values(&cost->f, m.f, m.n_stages, err);
    if (st == WEFT_OK)
        st = copy_values(&cost->i, m.i, m.n_stages, err);
    if (st == WEFT_OK)
        st = copy_values(&cost->w, m.w, m.n_stages, err);
    if (st == WEFT_OK)
        st = copy_values(&cost->b, m.b, m.n_stages, err);
    if (st == WEFT_OK)
        st = copy_values(&cost->fb, m.fb, m.n_stages, err);
    weft_measured_cost_release(&m);
    weft_trace_release(&trace);
    return st;
}

static enum weft_status read_cost_file(const char *path, struct weft_cost *cost,
                                       struct weft_memory_cost *memory, struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(wf_input_read(path, &text, &len, err));
    enum weft_status st = wf_costfile_parse(text, len, path, cost, memory, err);
    free(text);
    return st;
}

enum weft_status wf_plan_parse_costs(const struct wf_plan_settings *settings,
                                     struct weft_cost *cost, struct weft_memory_cost *memory,
                                     struct weft_error *err)
{
    if (settings->cost_file != NULL && (settings->cost != NULL || settings->cost_from != NULL))
        return WEFT_FAIL(err, WEFT_USAGE, "give --cost-file, --cost or --cost-from, not two");
    if (settings->cost_file != NULL && (settings->mem != NULL || settings->mem_limit != NULL))
        return WEFT_FAIL(err, WEFT_USAGE, "with --cost-file memory stands in the file, too");
    if (settings->cost_file != NULL)
        return read_cost_file(settings->cost_file, cost, memory, err);
    if (settings->cost != NULL && settings->cost_from != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --cost or --cost-from, not both");
    if (settings->cost_from != NULL)
        WEFT_TRY(wf_plan_measured_costs(settings->cost_from, cost, err));
    if (settings->cost != NULL)
        WEFT_TRY(parse_cost(settings->cost, cost, err));
    return parse_memory(settings, memory, err);
}

/* -- items ---------------------------------------------------------------------------------- */

enum weft_status wf_plan_parse_item(const char *text, const char *what, struct weft_item *item,
                                    struct weft_error *err)
{
    struct weft_values v[5] = {{0}};
    const struct wf_value_key keys[] = {
        {"F", &v[0], 0, true},     {"I", &v[1], 0, true},   {"W", &v[2], 0, true},
        {"bytes", &v[3], 0, true}, {"act", &v[4], 0, true},
    };
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_parse_keys(text, what, keys, WEFT_LEN(keys), err));
    item->f = weft_values_get(v[0], 0, item->f);
    item->i = weft_values_get(v[1], 0, item->i);
    item->w = weft_values_get(v[2], 0, item->w);
    double bytes = weft_values_get(v[3], 0, 0), act = weft_values_get(v[4], 0, 0);
    for (size_t i = 0; i < WEFT_LEN(v); i++)
        wf_values_release(&v[i]);
    if (bytes > 1e18 || act > 1e18)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: that many bytes do not exist", what);
    item->state_bytes = (size_t)bytes;
    item->act_bytes = (size_t)act;
    return WEFT_OK;
}

static bool has_items(const struct wf_plan_settings *s)
{
    return s->model != NULL || s->layer_cost != NULL || s->embedding_cost != NULL ||
           s->head_cost != NULL;
}

/* The items of the model: from its shape, from the costs given, or all alike. */
static enum weft_status make_items(const struct wf_plan_settings *s, uint32_t stages,
                                   struct weft_items *items, struct weft_error *err)
{
    if (s->model != NULL) {
        struct weft_model model;
        if (s->layer_cost != NULL || s->embedding_cost != NULL || s->head_cost != NULL)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "--model says what items cost: leave out --layer-cost, "
                             "--embedding-cost and --head-cost");
        WEFT_TRY(weft_model_find(s->model, &model, err));
        if (s->layers != 0 && s->layers != model.layers)
            return WEFT_FAIL(err, WEFT_USAGE, "--layers %u, but %s has %u", s->layers, s->model,
                             model.layers);
        return weft_items_init_model(items, &model, s->rows ? s->rows : 1,
                                     s->seq ? s->seq : model.ctx, err);
    }
    if (s->rows != 0 || s->seq != 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--rows and --seq go with --model");
    struct weft_item layer = {.f = 1, .i = 1, .w = 1}, embedding = {0}, head = {0};
    WEFT_TRY(wf_plan_parse_item(s->layer_cost, "--layer-cost", &layer, err));
    WEFT_TRY(wf_plan_parse_item(s->embedding_cost, "--embedding-cost", &embedding, err));
    WEFT_TRY(wf_plan_parse_item(s->head_cost, "--head-cost", &head, err));
    return weft_items_init_uniform(items, s->layers ? s->layers : stages, layer, embedding,
                                   head, err);
}

/* -- partition ------------------------------------------------------------------------------ */

/* Anything but the two words is a layout: its parser says what is wrong with it. */
static bool is_layout(const char *how)
{
    return how != NULL && strcmp(how, "even") != 0 && strcmp(how, "balanced") != 0;
}

static enum weft_status parse_bytes_limit(const char *text, uint32_t ranks, size_t **out,
                                          size_t *n, struct weft_error *err)
{
    struct weft_values v = {0};
    *n = 0;
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_parse(text, "--bytes-limit", &v, err));
    enum weft_status st = check_list(v, "--bytes-limit", ranks, "ranks", err);
    for (size_t i = 0; st == WEFT_OK && i < v.n; i++)
        if (v.at[i] < 0 || v.at[i] > 1e18)
            st = WEFT_FAIL(err, WEFT_USAGE, "--bytes-limit: %g is out of range", v.at[i]);
    size_t *list = st == WEFT_OK ? malloc(sizeof *list * v.n) : NULL;
    if (st == WEFT_OK && list == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for limits");
    for (size_t i = 0; st == WEFT_OK && i < v.n; i++)
        list[i] = (size_t)v.at[i];
    if (st == WEFT_OK) {
        *out = list;
        *n = v.n;
    }
    wf_values_release(&v);
    return st;
}

static enum weft_status balance(const struct wf_plan_settings *settings,
                                const struct weft_schedule *s, const struct weft_items *items,
                                struct weft_partition *out, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    size_t *limits = NULL, n_limits = 0;
    uint32_t *in_flight = malloc(sizeof *in_flight * place->n_pipes * place->n_stages);
    enum weft_status st = in_flight == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition")
                              : weft_schedule_in_flight(s, in_flight, err);
    if (st == WEFT_OK)
        st = parse_bytes_limit(settings->bytes_limit, place->n_ranks, &limits, &n_limits, err);
    if (st == WEFT_OK) {
        struct weft_rank_limits rank_limits = {place, in_flight, limits, n_limits};
        st = weft_partition_init_balanced(out, items, place->n_stages, &rank_limits, NULL, err);
    }
    free(in_flight);
    free(limits);
    return st;
}

static enum weft_status make_partition(const struct wf_plan_settings *settings,
                                       const struct weft_schedule *s,
                                       const struct weft_items *items,
                                       struct weft_partition *out, struct weft_error *err)
{
    uint32_t stages = weft_schedule_placement(s)->n_stages, layers = weft_items_n_layers(items);
    const char *how = settings->partition, *counts = settings->layers_per_stage;
    bool balanced = how != NULL && strcmp(how, "balanced") == 0;
    if (counts != NULL && how != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --partition or --layers-per-stage, not both");
    if (settings->bytes_limit != NULL && !balanced)
        return WEFT_FAIL(err, WEFT_USAGE, "--bytes-limit goes with --partition balanced");
    if (counts != NULL)
        return weft_partition_parse_counts(out, counts, strlen(counts), stages, layers, err);
    if (how != NULL && strchr(how, 'L') != NULL)
        return weft_partition_parse_pattern(out, how, strlen(how), stages, layers, err);
    if (how != NULL && !balanced && strcmp(how, "even") != 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "--partition: '%.40s' is neither even nor balanced nor a layout such as "
            "'Et*3|(tt|)*2L'",
            how);
    WEFT_TRY(weft_partition_check_filled(layers, stages, err));
    if (balanced)
        return balance(settings, s, items, out, err);
    return weft_partition_init_even(out, layers, stages, err);
}

/* Explicit layouts bring their own number of layers when none is given. */
static enum weft_status count_layers(struct wf_plan_settings *settings, uint32_t stages,
                                     struct weft_error *err)
{
    const char *how = settings->partition, *counts = settings->layers_per_stage;
    struct weft_partition p = {0};
    if (settings->layers != 0 || settings->model != NULL)
        return WEFT_OK;
    if (counts != NULL)
        WEFT_TRY(weft_partition_parse_counts(&p, counts, strlen(counts), stages, 0, err));
    else if (is_layout(how))
        WEFT_TRY(weft_partition_parse_pattern(&p, how, strlen(how), stages, 0, err));
    if (p.n_stages > 0)
        settings->layers = p.at[p.n_stages - 1].end_layer;
    weft_partition_release(&p);
    return WEFT_OK;
}

/* Cuts the model, and takes the stages' times from their items when items have costs. */
static enum weft_status partition_plan(struct wf_plan *p, struct wf_plan_settings *settings,
                                       const struct weft_schedule *s, struct weft_error *err)
{
    struct weft_stage_sums sums = {0};
    uint32_t stages = weft_schedule_placement(s)->n_stages;
    WEFT_TRY(count_layers(settings, stages, err));
    WEFT_TRY(make_items(settings, stages, &p->items, err));
    WEFT_TRY(make_partition(settings, s, &p->items, &p->partition, err));
    if (!has_items(settings))
        return WEFT_OK;
    if (p->cost.f.n != 0 || p->cost.i.n != 0 || p->cost.w.n != 0 || p->cost.b.n != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--model, --layer-cost and the like say what stages cost: of --cost "
                         "only C and FB may be given with them");
    enum weft_status st = weft_stage_sums_init(&sums, &p->partition, &p->items, err);
    if (st == WEFT_OK)
        st = copy_values(&p->cost.f, sums.f, stages, err);
    if (st == WEFT_OK)
        st = copy_values(&p->cost.i, sums.i, stages, err);
    if (st == WEFT_OK)
        st = copy_values(&p->cost.w, sums.w, stages, err);
    weft_stage_sums_release(&sums);
    return st;
}

/* What each rank holds in bytes, where the items say so; and whether that is within the limit
 * still: a search may have kept other micros in flight once it knew the stages' costs. */
static enum weft_status count_bytes(struct wf_plan *p, const struct wf_plan_settings *settings,
                                    struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    uint32_t *in_flight = malloc(sizeof *in_flight * place->n_pipes * place->n_stages);
    size_t *limits = NULL, n_limits = 0;
    p->rank_bytes = malloc(sizeof *p->rank_bytes * place->n_ranks);
    p->state_bytes = malloc(sizeof *p->state_bytes * place->n_ranks);
    enum weft_status st = WEFT_OK;
    if (in_flight == NULL || p->rank_bytes == NULL || p->state_bytes == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to count bytes");
    struct weft_rank_limits rank_limits = {.placement = place, .in_flight = in_flight};
    if (st == WEFT_OK) { /* with nothing in flight the state is left */
        memset(in_flight, 0, sizeof *in_flight * place->n_pipes * place->n_stages);
        st = weft_partition_rank_bytes(&p->partition, &p->items, &rank_limits, p->state_bytes,
                                       err);
    }
    if (st == WEFT_OK)
        st = weft_schedule_in_flight(p->schedule, in_flight, err);
    if (st == WEFT_OK)
        st = weft_partition_rank_bytes(&p->partition, &p->items, &rank_limits, p->rank_bytes,
                                       err);
    if (st == WEFT_OK)
        st = parse_bytes_limit(settings->bytes_limit, place->n_ranks, &limits, &n_limits, err);
    for (uint32_t r = 0; st == WEFT_OK && n_limits > 0 && r < place->n_ranks; r++)
        if (p->rank_bytes[r] > limits[n_limits == 1 ? 0 : r])
            st = WEFT_FAIL(
                err, WEFT_USAGE,
                "rank %u holds %zu bytes with the order found, over its --bytes-limit "
                "of %zu: raise it, or take a schedule that does not search",
                r, p->rank_bytes[r], limits[n_limits == 1 ? 0 : r]);
    free(in_flight);
    free(limits);
    return st;
}

/* -- schedule ------------------------------------------------------------------------------- */

/* What is no schedule's name may be a file's: by its look, or because there is one. */
static bool is_file(const char *name)
{
    return weft_generator_find(name) == NULL &&
           (strcmp(name, "-") == 0 || strpbrk(name, "./") != NULL || access(name, F_OK) == 0);
}

static enum weft_status agree(const char *what, uint32_t given, uint32_t has, const char *file,
                              struct weft_error *err)
{
    if (given != 0 && given != has)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s %u, but %s has %u: leave it out", what, given,
                         file, has);
    return WEFT_OK;
}

static enum weft_status read_schedule(const struct wf_plan_settings *settings,
                                      struct weft_schedule **out, struct weft_error *err)
{
    const char *file = settings->schedule;
    char *text = NULL;
    size_t len = 0;
    bool keep_idle =
        settings->lower_like != NULL && strcmp(settings->lower_like, "pytorch") == 0;
    WEFT_TRY(wf_input_read_as(WEFT_SCHEDULE, file, &text, &len, err));
    enum weft_status st = weft_schedule_parse(text, len, file, keep_idle, out, err);
    free(text);
    if (st != WEFT_OK)
        return st;
    const struct weft_placement *place = weft_schedule_placement(*out);
    st = agree("ranks", settings->ranks, place->n_ranks, file, err);
    if (st == WEFT_OK)
        st = agree("micros", settings->micros, place->n_micros, file, err);
    if (st == WEFT_OK)
        st = agree("chunks", settings->chunks, weft_schedule_n_chunks(*out), file, err);
    if (st == WEFT_OK && (settings->group != 0 || settings->pipes != 0))
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "--group and --pipes make a schedule; %s is one already", file);
    if (st != WEFT_OK) {
        weft_schedule_free(*out);
        *out = NULL;
    }
    return st;
}

static enum weft_status make_schedule(const struct wf_plan *p,
                                      const struct wf_plan_settings *settings, bool idle_hints,
                                      struct weft_schedule **out, struct weft_error *err)
{
    bool makespan = settings->minimize != NULL && strcmp(settings->minimize, "makespan") == 0;
    struct weft_gen_params params = {
        .ranks = settings->ranks,
        .micros = settings->micros,
        .chunks = settings->chunks,
        .group = settings->group,
        .pipes = settings->pipes,
        .cost = &p->cost,
        .memory = &p->memory,
        .minimize = makespan ? WEFT_MINIMIZE_MAKESPAN : WEFT_MINIMIZE_SPAN,
        .idle_hints = idle_hints,
    };
    return weft_schedule_generate(settings->schedule, &params, out, err);
}

static enum weft_status check_needed(const struct wf_plan_settings *s, struct weft_error *err)
{
    if (s->schedule == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --schedule NAME (weft plan --list shows them)");
    const struct weft_generator *g = weft_generator_find(s->schedule);
    if (!is_file(s->schedule) && (s->ranks == 0 || s->micros == 0) && g != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "%s needs --ranks P and --micros M", s->schedule);
    if (s->minimize != NULL && g != NULL && !(g->flags & WEFT_GEN_USES_COST))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--minimize has no effect on %s: only schedules that search take it",
                         s->schedule);
    if (s->lower_like != NULL && !s->lower)
        return WEFT_FAIL(err, WEFT_USAGE, "--lower-like goes with --lower");
    return WEFT_OK;
}

/* Limits bind schedules that do not search, too: they cannot adapt, so they fail. */
static enum weft_status check_limits(const struct wf_plan *p, struct weft_error *err)
{
    for (uint32_t r = 0; p->memory.limit.n != 0 && r < p->metrics.n_ranks; r++) {
        double limit = weft_values_get(p->memory.limit, r, 0);
        if (!weft_memory_fits(p->metrics.peak_mem[r], limit))
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s: rank %u peaks at %.10g, over its --mem-limit of %.10g: use a "
                             "schedule that searches (zb-auto, zb-v-auto), or v-half, v-min",
                             weft_schedule_name(p->schedule), r, p->metrics.peak_mem[r], limit);
    }
    return WEFT_OK;
}

static enum weft_status prove_and_time(struct wf_plan *p,
                                       const struct wf_plan_settings *settings,
                                       struct weft_error *err)
{
    WEFT_TRY(weft_verify(p->schedule, NULL, &p->report, err));
    if (p->report.n_findings > 0)
        return WEFT_FAIL(err, WEFT_SCHEDULE, "%s is wrong: %s (weft check shows all)",
                         settings->schedule, p->report.findings[0].text);
    WEFT_TRY(weft_metrics_init(&p->metrics, p->schedule, &p->cost, &p->memory, err));
    WEFT_TRY(check_limits(p, err));
    return WEFT_OK;
}

static enum weft_status lower_plan(struct wf_plan *p, const struct wf_plan_settings *settings,
                                   struct weft_error *err)
{
    bool pytorch = settings->lower_like != NULL && strcmp(settings->lower_like, "pytorch") == 0;
    if (!settings->lower)
        return WEFT_OK;
    if (!pytorch || is_file(settings->schedule))
        return weft_schedule_lower(p->schedule,
                                   pytorch ? WEFT_LOWERING_PYTORCH : WEFT_LOWERING_LATE,
                                   &p->lowered, err);
    struct weft_schedule *hinted = NULL; /* the same order with PyTorch's empty cells */
    WEFT_TRY(make_schedule(p, settings, true, &hinted, err));
    enum weft_status st = weft_schedule_lower(hinted, WEFT_LOWERING_PYTORCH, &p->lowered, err);
    weft_schedule_free(hinted);
    return st;
}

static enum weft_status build(struct wf_plan *p, struct wf_plan_settings *settings,
                              struct weft_error *err)
{
    WEFT_TRY(check_needed(settings, err));
    WEFT_TRY(wf_plan_parse_costs(settings, &p->cost, &p->memory, err));
    const struct weft_generator *g = weft_generator_find(settings->schedule);
    p->by_ticks = g != NULL && (g->flags & WEFT_GEN_UNIT_TICKS) && settings->cost == NULL &&
                  settings->cost_from == NULL && settings->cost_file == NULL &&
                  !has_items(settings);
    if (p->by_ticks) {
        static const double tick = 1;
        WEFT_TRY(copy_values(&p->cost.b, &tick, 1, err));
    }
    if (is_file(settings->schedule)) {
        WEFT_TRY(read_schedule(settings, &p->schedule, err));
        WEFT_TRY(prove_and_time(p, settings, err)); /* before anything trusts it */
        weft_verify_result_release(&p->report);
        weft_metrics_release(&p->metrics);
    } else {
        WEFT_TRY(make_schedule(p, settings, false, &p->schedule, err));
    }
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    WEFT_TRY(weft_cost_check(&p->cost, &p->memory, place->n_ranks, place->n_stages,
                             place->n_micros, err));
    WEFT_TRY(partition_plan(p, settings, p->schedule, err));
    if (g != NULL && (g->flags & WEFT_GEN_USES_COST) && has_items(settings)) {
        weft_schedule_free(p->schedule); /* now that the stages' costs are known */
        p->schedule = NULL;
        WEFT_TRY(make_schedule(p, settings, false, &p->schedule, err));
    }
    if (has_items(settings))
        WEFT_TRY(count_bytes(p, settings, err));
    p->costs_by_layer = has_items(settings) || settings->cost != NULL ||
                        settings->cost_from != NULL || settings->cost_file != NULL;
    p->file = is_file(settings->schedule) ? settings->schedule : NULL;
    WEFT_TRY(prove_and_time(p, settings, err));
    return lower_plan(p, settings, err);
}

enum weft_status wf_plan_init(struct wf_plan *out, const struct wf_plan_settings *settings,
                              struct weft_error *err)
{
    struct wf_plan p = {0};
    struct wf_plan_settings mine = *settings;
    enum weft_status st = build(&p, &mine, err);
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
    free(p->rank_bytes);
    free(p->state_bytes);
    weft_metrics_release(&p->metrics);
    weft_verify_result_release(&p->report);
    *p = (struct wf_plan){0};
}
