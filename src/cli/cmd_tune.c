/* weft tune: searches for the best order of actions or the best layouts and prints them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "cli/tune.h"
#include "config/values.h"
#include "planning/planner/tune_json.h"
#include "weft/sim.h"

#define AT(field) offsetof(struct wf_tune_settings, field)

static const struct wf_option options[] = {
    {NULL, 0, WF_OPTION_HEADING, NULL, "Problem", NULL, 0},
    {"ranks", 'p', WF_OPTION_COUNT, "P", "ranks of the pipeline", NULL, AT(ranks)},
    {"micros", 'm', WF_OPTION_COUNT, "M", "micro-batches per step", NULL, AT(micros)},
    {"chunks", 0, WF_OPTION_COUNT, "V", "stages per rank (loop, wave: 2)", NULL, AT(chunks)},
    {"placement", 0, WF_OPTION_CHOICE, "WHERE", "linear (the default), loop, v or wave",
     "linear|loop|v|wave", AT(placement)},
    {"whole", 0, WF_OPTION_SWITCH, NULL, "whole backwards instead of I and W", NULL, AT(whole)},
    {"cost", 'c', WF_OPTION_TEXT, "F=1,I=1,W=1",
     "times; also B (I+W), C (a hop, 0); one value per stage: F=11:8:12", NULL, AT(cost)},
    {"mem", 0, WF_OPTION_TEXT, "F=1,I=0,W=-1", "change of memory at each action", NULL,
     AT(mem)},
    {"mem-limit", 0, WF_OPTION_TEXT, "X",
     "maximum memory of a rank; one value per rank: X:Y:...", NULL, AT(mem_limit)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Search", NULL, 0},
    {"metric", 0, WF_OPTION_CHOICE, "WHAT", "makespan (the default) or span: what to minimize",
     "makespan|span", AT(metric)},
    {"seconds", 0, WF_OPTION_TEXT, "S", "maximum time of the search (10)", NULL, AT(seconds)},
    {"iterations", 0, WF_OPTION_COUNT, "N", "maximum evaluations; the result is reproducible",
     NULL, AT(iterations)},
    {"seed", 0, WF_OPTION_COUNT, "N", "seed of the random numbers", NULL, AT(seed)},
    {NULL, 0, WF_OPTION_HEADING, NULL,
     "Model, micros and schedule together (instead of --micros and --cost)", NULL, 0},
    {"layers", 0, WF_OPTION_COUNT, "L", "layers of the model", NULL, AT(layers)},
    {"model", 0, WF_OPTION_TEXT, "NAME",
     "gpt2-124m, llama3-8b, d12 ...: layers and their costs", NULL, AT(model)},
    {"seq", 0, WF_OPTION_COUNT, "N", "--model: tokens per sequence (the model's context)", NULL,
     AT(seq)},
    {"tflops", 0, WF_OPTION_TEXT, "X",
     "--model: speed of a rank in 1e12 operations per second; times are then in --unit", NULL,
     AT(tflops)},
    {"layer-cost", 0, WF_OPTION_TEXT, "F=1,I=1,W=1",
     "costs of a layer for one sequence; also bytes (state) and act (activations)", NULL,
     AT(layer_cost)},
    {"embedding-cost", 0, WF_OPTION_TEXT, "F=..", "costs of the embedding (none)", NULL,
     AT(embedding_cost)},
    {"head-cost", 0, WF_OPTION_TEXT, "F=..", "costs of final norm, logits and loss (none)",
     NULL, AT(head_cost)},
    {"global-batch", 0, WF_OPTION_COUNT, "N", "sequences per step, divided into equal micros",
     NULL, AT(global_batch)},
    {"bytes-limit", 0, WF_OPTION_TEXT, "N", "maximum bytes per rank", NULL, AT(bytes_limit)},
    {"max-chunks", 0, WF_OPTION_COUNT, "V", "maximum stages per rank (4)", NULL,
     AT(max_chunks)},
    {"cluster", 0, WF_OPTION_TEXT, "LINE",
     "'node:4 rank:2 intra:200GB/s,2us inter:25GB/s,8us': pipelines x replicas on it", NULL,
     AT(cluster)},
    {"unit", 0, WF_OPTION_CHOICE, "UNIT", "--cluster, --tflops: unit of times (ms)", "s|ms|us",
     AT(unit)},
    {"boundary-bytes", 0, WF_OPTION_TEXT, "N",
     "--cluster: bytes of one sequence between stages (the model's)", NULL, AT(boundary_bytes)},
    {"top", 0, WF_OPTION_COUNT, "N", "number of layouts to show (8)", NULL, AT(top)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Output", NULL, 0},
    {"format", 'f', WF_OPTION_CHOICE, "FORM", "text, csv (weft's own format) or pytorch (CSV)",
     "text|csv|pytorch", AT(format)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print JSON", NULL, AT(json)},
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "write to FILE: .csv .json .trace, or .svg .png .pdf .html (pictures)", NULL, AT(output)},
    {"width", 0, WF_OPTION_COUNT, "N", "width of the drawing in columns (the terminal's)", NULL,
     AT(width)},
    {"color", 0, WF_OPTION_CHOICE, "WHEN", "auto, always or never", "auto|always|never",
     AT(color)},
};

/* -- settings ----------------------------------------------------------------------------- */

static enum weft_status parse_hop(const char *text, double *hop, struct weft_error *err)
{
    struct weft_values v = {0};
    const struct wf_value_key keys[] = {{"C", &v, 0, true}};
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_parse_keys(text, "--cost (with --layers or --model)", keys, 1, err));
    *hop = weft_values_get(v, 0, 0);
    wf_values_release(&v);
    return WEFT_OK;
}

static enum weft_placement_kind placement_kind(const struct wf_tune_settings *s)
{
    static const struct {
        const char *name;
        enum weft_placement_kind kind;
    } all[] = {
        {"loop", WEFT_PLACEMENT_LOOP}, {"v", WEFT_PLACEMENT_V}, {"wave", WEFT_PLACEMENT_WAVE}};
    for (size_t i = 0; s->placement != NULL && i < WEFT_LEN(all); i++)
        if (strcmp(s->placement, all[i].name) == 0)
            return all[i].kind;
    return WEFT_PLACEMENT_LINEAR;
}

/* Chooses the format by the extension of the output file unless the format is given. */
static void choose_form(struct wf_tune_settings *s)
{
    if (s->json || s->format != NULL || s->output == NULL)
        return;
    if (wf_path_ends_in(s->output, ".json"))
        s->json = true;
    else if (wf_path_ends_in(s->output, ".csv"))
        s->format = "csv";
}

/* Shows the progress in one line on standard error, which each call overwrites. */
static bool show_progress(const struct weft_tune_progress *p, void *user)
{
    const bool *span = user;
    double now = *span ? p->span : p->makespan;
    fprintf(stderr, "\r%6.1f s  %llu evaluations  %s %.10g  bound %.10g  gap %.2f%%  ",
            p->seconds, (unsigned long long)p->evaluations, *span ? "span" : "makespan", now,
            p->bound, 100 * weft_gap(now, p->bound));
    return true;
}

/* -- one order ---------------------------------------------------------------------------- */

static bool is_picture(const struct wf_tune_settings *s, enum weft_draw_format *out)
{
    return !s->json && s->format == NULL && s->output != NULL &&
           weft_draw_format_from_path(s->output, out) && *out != WEFT_DRAW_FORMAT_TEXT;
}

static enum weft_status
draw_result(FILE *out, const struct wf_tune_settings *s, enum weft_draw_format format,
            const struct weft_schedule *best, const struct weft_cost *cost,
            const struct weft_memory_cost *memory, struct weft_error *err)
{
    struct weft_metrics m;
    WEFT_TRY(weft_metrics_init(&m, best, cost, memory, err));
    enum weft_status st = wf_plan_draw(out, format, best, &m, memory, 0, s->width, err);
    weft_metrics_release(&m);
    return st;
}

static enum weft_minimize minimized(const struct wf_tune_settings *s)
{
    return wf_tune_by_span(s) ? WEFT_MINIMIZE_SPAN : WEFT_MINIMIZE_MAKESPAN;
}

/* Prints JSON for a tuning result or for layouts, whichever is not NULL. */
static void print_json(FILE *out, const struct wf_tune_settings *s,
                       const struct weft_tune_result *r, const struct weft_layouts *l)
{
    struct wf_json j = {.out = out};
    if (r != NULL)
        wf_tune_write_json(&j, r, minimized(s));
    else
        wf_layouts_write_json(&j, l);
    fputc('\n', out);
}

static enum weft_status print_result(const struct wf_tune_settings *s,
                                     const struct weft_tune_result *r,
                                     const struct weft_cost *cost,
                                     const struct weft_memory_cost *memory,
                                     struct weft_error *err)
{
    struct wf_output sink;
    WEFT_TRY(wf_output_open(&sink, s->output, err));
    enum weft_status st = WEFT_OK;
    enum weft_draw_format picture;
    if (is_picture(s, &picture))
        st = draw_result(sink.out, s, picture, r->schedule, cost, memory, err);
    else if (s->json)
        print_json(sink.out, s, r, NULL);
    else if (s->format != NULL && strcmp(s->format, "text") != 0)
        st = wf_schedule_print_csv(sink.out, r->schedule, s->format, err);
    else
        st = wf_tune_print_text(sink.out, s, r, cost, memory, err);
    return wf_output_close(&sink, st, err);
}

static enum weft_status tune_order(const struct wf_tune_settings *s, struct weft_cost *cost,
                                   struct weft_memory_cost *memory, double seconds,
                                   struct weft_error *err)
{
    const struct wf_plan_settings plan = {
        .cost = s->cost, .mem = s->mem, .mem_limit = s->mem_limit};
    WEFT_TRY(wf_plan_parse_costs(&plan, cost, memory, err));
    if (cost->fb.n != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "tune does not search for overlapped pairs; leave out FB");
    if (s->ranks == 0 || s->micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "tune needs --ranks P and --micros M, or --global-batch N with "
                         "--layers L or --model NAME");
    bool span = wf_tune_by_span(s);
    struct weft_tune_problem problem = {.ranks = s->ranks,
                                        .micros = s->micros,
                                        .chunks = s->chunks,
                                        .placement = placement_kind(s),
                                        .whole = s->whole,
                                        .minimize = minimized(s),
                                        .cost = cost,
                                        .memory = memory};
    struct weft_tune_options how = {
        .iterations = s->iterations, .seconds = seconds, .seed = s->seed, .user = &span};
    bool watched = isatty(STDERR_FILENO);
    if (watched)
        how.progress = show_progress;
    struct weft_tune_result r;
    enum weft_status st = weft_tune(&problem, &how, &r, err);
    if (watched)
        fputs("\r\033[K", stderr);
    if (st != WEFT_OK)
        return st;
    st = print_result(s, &r, cost, memory, err);
    weft_tune_result_release(&r);
    return st;
}

/* -- layouts ------------------------------------------------------------------------------ */

static enum weft_status print_layouts(const struct wf_tune_settings *s,
                                      const struct weft_layouts *l, struct weft_error *err)
{
    struct wf_output sink;
    WEFT_TRY(wf_output_open(&sink, s->output, err));
    enum weft_status st = WEFT_OK;
    if (s->json)
        print_json(sink.out, s, NULL, l);
    else if (s->format != NULL && strcmp(s->format, "text") != 0)
        st = wf_schedule_print_csv(sink.out, l->at[0].result, s->format, err);
    else
        wf_layouts_print_text(sink.out, s, l);
    return wf_output_close(&sink, st, err);
}

static enum weft_status fill_layout_problem(const struct wf_tune_settings *s,
                                            struct weft_layout_problem *p,
                                            struct weft_model *model,
                                            struct weft_cluster *cluster,
                                            struct weft_error *err)
{
    double bytes = 0, tflops = 0;
    bool by_hand = s->layer_cost != NULL || s->embedding_cost != NULL || s->head_cost != NULL;
    if (s->micros != 0 || s->chunks != 0 || s->placement != NULL || s->mem != NULL ||
        s->mem_limit != NULL || s->whole)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--global-batch searches for micros, chunks, placement and "
                         "schedule; leave out --micros, --chunks, --placement, --whole, --mem "
                         "and --mem-limit");
    if (s->seconds != NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--global-batch tries every layout; leave out --seconds");
    if (s->model != NULL) {
        WEFT_TRY(weft_model_find(s->model, model, err));
        if (by_hand)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "--model determines the costs of items; leave out "
                             "--layer-cost, --embedding-cost and --head-cost");
        if (s->layers != 0 && s->layers != model->layers)
            return WEFT_FAIL(err, WEFT_USAGE, "--layers %u, but %s has %u", s->layers, s->model,
                             model->layers);
        p->model = model;
    }
    if (s->cluster != NULL) {
        if (s->model != NULL && s->tflops == NULL)
            return WEFT_FAIL(err, WEFT_USAGE, "--cluster with --model needs --tflops X");
        WEFT_TRY(weft_cluster_parse(s->cluster, cluster, err));
        p->cluster = cluster;
    }
    if (s->model == NULL && (s->tflops != NULL || s->seq != 0))
        return WEFT_FAIL(err, WEFT_USAGE, "--tflops and --seq need --model");
    struct weft_item items[3];
    WEFT_TRY(wf_plan_parse_items(s->layer_cost, s->embedding_cost, s->head_cost, items, err));
    p->layer = items[0];
    p->embedding = items[1];
    p->head = items[2];
    WEFT_TRY(parse_hop(s->cost, &p->hop, err));
    WEFT_TRY(wf_option_number(s->bytes_limit, "--bytes-limit", 1e18, &bytes, err));
    WEFT_TRY(wf_option_number(s->tflops, "--tflops", 1e9, &tflops, err));
    WEFT_TRY(
        wf_option_number(s->boundary_bytes, "--boundary-bytes", 1e18, &p->boundary_bytes, err));
    p->bytes_limit = (size_t)bytes;
    p->flops = tflops * 1e12;
    return WEFT_OK;
}

static enum weft_status tune_layout(const struct wf_tune_settings *s, struct weft_error *err)
{
    struct weft_model model;
    struct weft_cluster cluster;
    struct weft_layout_problem p = {
        .seq = s->seq,
        .layers = s->layers,
        .layer = {.f = 1, .i = 1, .w = 1},
        .global_batch = s->global_batch,
        .ranks = s->ranks,
        .unit_seconds = wf_option_unit(s->unit),
        .max_chunks = s->max_chunks,
        .minimize = minimized(s),
        .iterations = s->iterations != 0 ? s->iterations : 20000,
    };
    WEFT_TRY(fill_layout_problem(s, &p, &model, &cluster, err));
    if (s->global_batch == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "layouts need --global-batch N: sequences of a step");
    struct weft_layouts l;
    WEFT_TRY(weft_tune_layouts(&p, s->top != 0 ? s->top : 8, &l, err));
    enum weft_status st = print_layouts(s, &l, err);
    weft_layouts_release(&l);
    return st;
}

static enum weft_status run_tune(int argc, char **argv, struct weft_error *err)
{
    struct wf_tune_settings s = {0};
    const char *none = NULL;
    double seconds = 0;
    WEFT_TRY(wf_command_parse(&wf_command_tune, argc, argv, &s, &none, err));
    enum weft_draw_format picture;
    if (!s.json && s.format == NULL)
        WEFT_TRY(wf_output_check(s.output, ".csv .json .txt .svg .png .pdf .html .trace", err));
    choose_form(&s);
    if (s.json && s.format != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --json or --format, not both");
    WEFT_TRY(wf_option_number(s.seconds, "--seconds", 1e9, &seconds, err));
    if (s.seconds != NULL && seconds == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--seconds is 0; give more than 0");
    if (s.seconds == NULL && s.iterations == 0)
        seconds = 10;
    if (s.global_batch != 0 || s.layers != 0 || s.model != NULL || s.cluster != NULL) {
        if (is_picture(&s, &picture))
            return WEFT_FAIL(err, WEFT_USAGE, "layouts are a table; write .json or .txt");
        return tune_layout(&s, err);
    }
    struct weft_cost cost = {0};
    struct weft_memory_cost memory = {0};
    enum weft_status st = tune_order(&s, &cost, &memory, seconds, err);
    wf_costs_release(&cost, &memory);
    return st;
}

const struct wf_command wf_command_tune = {
    .name = "tune",
    .summary = "find the best order for given costs and memory, with a bound",
    .text =
        "Searches for the order with the shortest time for these costs that keeps every rank\n"
        "within its memory limit. The search starts from the schedules of weft plan, from list\n"
        "schedules and repeated blocks, improves the best by tabu search, and solves small\n"
        "problems exactly. It stops when the order is proven optimal or the time is over, and\n"
        "reports how far above the optimum the order can be: the bound holds for every schedule\n"
        "with the same placement, costs and limits.\n"
        "\n"
        "With --global-batch and --layers or --model it searches for the number of micros, the\n"
        "chunks, the partition and the schedule together; with --cluster also for the number\n"
        "of replicas, whose gradients are reduced in a ring (fp32).\n",
    .examples =
        "  weft tune -p 8 -m 24 --cost F=10,I=12,W=8,C=1 --mem-limit 6\n"
        "  weft tune -p 4 -m 12 --placement v --mem-limit 5 --metric span -o best.csv\n"
        "  weft tune -p 8 --layers 32 --head-cost F=2,I=2,W=2 --global-batch 64\n"
        "  weft tune --model llama3-8b --tflops 400 --global-batch 64 --bytes-limit 80e9 "
        "--seq 4096 \\\n"
        "      --cluster 'node:4 rank:8 intra:200GB/s,2us inter:25GB/s,8us'\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_tune,
};
