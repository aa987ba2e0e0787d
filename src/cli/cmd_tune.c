/* weft tune: searches for the best order of actions or the best layouts and prints them. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan_options.h"
#include "cli/tune.h"
#include "config/choice.h"
#include "terminal/bar.h"
#include "training/session/stop.h"

#define AT(field) offsetof(struct wf_tune_settings, field)
#define PLACEMENTS "linear|loop|v|wave" /* in the order of enum weft_placement_kind */

static const struct wf_option options[] = {
    {NULL, 0, WF_OPTION_HEADING, NULL, "Problem", NULL, 0},
    WF_OPTIONS_SIZE,
    {"chunks", 0, WF_OPTION_COUNT, "V", "stages per rank (default: 1; loop, v and wave: 2)",
     NULL, WF_PLAN_AT(chunks)},
    {"placement", 0, WF_OPTION_CHOICE, "WHERE", "linear (default), loop, v or wave", PLACEMENTS,
     AT(placement)},
    {"whole", 0, WF_OPTION_SWITCH, NULL, "whole backwards instead of I and W", NULL, AT(whole)},
    WF_OPTIONS_COST,
    {NULL, 0, WF_OPTION_HEADING, NULL, "Search", NULL, 0},
    {"metric", 0, WF_OPTION_CHOICE, "WHAT", "makespan (default) or span: what to minimize",
     "makespan|span", WF_PLAN_AT(minimize)},
    {"minimize", 0, WF_OPTION_CHOICE, "WHAT", "the same as --metric", "makespan|span",
     WF_PLAN_AT(minimize)},
    {"seconds", 0, WF_OPTION_TIME, "S",
     "maximum time of the search in seconds (default: 10; layouts: no limit)", NULL,
     AT(seconds)},
    {"iterations", 0, WF_OPTION_COUNT, "N", "maximum evaluations; the result is reproducible",
     NULL, AT(iterations)},
    {"seed", 0, WF_OPTION_COUNT, "N", "seed of the random numbers", NULL, AT(seed)},
    WF_OPTIONS_MODEL,
    WF_OPTIONS_CLUSTER,
    {NULL, 0, WF_OPTION_HEADING, NULL,
     "Layouts: micros, chunks, partition and schedule together (instead of --micros)", NULL, 0},
    {"global-batch", 0, WF_OPTION_COUNT, "N",
     "sequences per step, divided into equal micros; costs are those of one sequence", NULL,
     AT(global_batch)},
    {"max-chunks", 0, WF_OPTION_COUNT, "V", "maximum stages per rank (default: 4)", NULL,
     AT(max_chunks)},
    {"boundary-bytes", 0, WF_OPTION_BYTES, "N",
     "--cluster: bytes of one sequence between stages (default: the model's)", NULL,
     AT(boundary_bytes)},
    {"top", 0, WF_OPTION_COUNT, "N", "number of layouts to show (default: 8)", NULL, AT(top)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Output", NULL, 0},
    {"format", 'f', WF_OPTION_CHOICE, "FORM", "text, csv (weft's own format) or pytorch (CSV)",
     "text|csv|pytorch", WF_PLAN_AT(format)},
    WF_OPTION_JSON,
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "write to FILE: .csv .json .txt .trace, or .svg .png .pdf .html (pictures)", NULL,
     WF_PLAN_AT(output)},
    WF_OPTIONS_DRAWING,
};

struct tune_watch {
    struct wf_bar bar;
    bool by_span;
    double seconds; /* time limit; 0: none */
    struct wf_time_unit unit;
};

/* -- settings ----------------------------------------------------------------------------- */

static enum weft_placement_kind placement_kind(const struct wf_tune_settings *s)
{
    return (enum weft_placement_kind)wf_choice_index(PLACEMENTS, s->placement);
}

/* Shows the progress of the search for an order.  Returns false after an interrupt. */
static bool show_progress(const struct weft_tune_progress *p, void *user)
{
    struct tune_watch *w = user;
    char head[64], bound[64], text[WF_NUMBER_CHARS];
    double now = w->by_span ? p->span : p->makespan;
    if (wf_bar_is_due(&w->bar)) {
        const char *fields[] = {bound, p->origin};
        snprintf(head, sizeof head, "%s %s", w->by_span ? "span" : "makespan",
                 wf_plan_time(text, now, w->unit));
        snprintf(bound, sizeof bound, "bound %s (+%.1f%%)",
                 wf_plan_time(text, p->bound, w->unit), 100 * weft_gap(now, p->bound));
        wf_bar_draw(&w->bar, w->seconds > 0 ? p->seconds / w->seconds : 0, head, fields, 2);
    }
    return wf_stop_signal() == 0;
}

/* Shows the progress of the search for layouts.  Returns false after an interrupt. */
static bool show_layouts(const struct weft_layout_progress *p, void *user)
{
    struct tune_watch *w = user;
    char best[64], tried[64], text[WF_NUMBER_CHARS];
    if (wf_bar_is_due(&w->bar)) {
        const char *fields[] = {best, tried};
        snprintf(best, sizeof best, "best %s", wf_plan_time(text, p->time, w->unit));
        snprintf(tried, sizeof tried, "%zu timed", p->n_tried);
        wf_bar_draw(&w->bar, p->share, p->schedule, fields, 2);
    }
    return wf_stop_signal() == 0;
}

/* Starts to handle interrupts, which end the search early. */
static struct tune_watch watch(const struct wf_tune_settings *s, double seconds,
                               struct wf_time_unit unit)
{
    wf_stop_catch_signals(NULL, NULL);
    signal(SIGPIPE, SIG_DFL);
    return (struct tune_watch){wf_bar_make(stderr), wf_tune_minimize(s) == WEFT_MINIMIZE_SPAN,
                               seconds, unit};
}

/* -- output ------------------------------------------------------------------------------- */

/* The result of one of the two searches. */
struct tune_output {
    const struct wf_tune_settings *s;
    struct wf_form form;
    struct wf_tune_about about;
    const struct weft_tune_result *order; /* NULL for layouts */
    const struct wf_plan *plan;           /* of the order */
    const struct weft_layouts *layouts;
};

static void add_text(struct wf_text *text, const struct tune_output *o)
{
    if (o->order != NULL)
        wf_tune_write_text(text, o->order, o->plan, &o->about);
    else
        wf_layouts_write_text(text, o->layouts, &o->about);
}

static void add_timeline(struct wf_text *text, const struct tune_output *o, FILE *out)
{
    const struct weft_schedule *best = o->order->schedule;
    const struct weft_placement *place = weft_schedule_placement(best);
    wf_text_addf(text, "tuned: %u ranks, %u stages (%s), %u micros\n\n", place->n_ranks,
                 place->n_stages, weft_placement_name(weft_schedule_placement_kind(best)),
                 place->n_micros);
    wf_draw_timeline(text, best, &o->plan->metrics, wf_plan_axis(o->about.time),
                     wf_style_for(out, o->s->plan.color, o->s->plan.width));
    wf_text_addc(text, '\n');
}

static enum weft_status print_form(FILE *out, const struct tune_output *o,
                                   struct weft_error *err)
{
    struct wf_json j = {.out = out};
    struct wf_text text = {0};
    switch (o->form.kind) {
    case WF_FORM_PICTURE:
        return wf_plan_draw(out, o->form.picture, o->plan, &o->plan->metrics, o->s->plan.width,
                            err);
    case WF_FORM_JSON:
        if (o->order != NULL)
            wf_tune_write_json(&j, o->order, &o->about);
        else
            wf_layouts_write_json(&j, o->layouts, &o->about);
        fputc('\n', out);
        return WEFT_OK;
    case WF_FORM_CSV:
        return wf_schedule_print_csv(
            out, o->order != NULL ? o->order->schedule : o->layouts->at[0].result,
            o->s->plan.format, err);
    case WF_FORM_TEXT:
        if (o->order != NULL)
            add_timeline(&text, o, out);
        add_text(&text, o);
        return wf_text_flush(&text, out, err);
    }
    return WEFT_OK;
}

/* Prints the result.  If it goes to a file, standard output gets a summary. */
static enum weft_status print_output(struct tune_output *o, struct wf_text *command,
                                     struct weft_error *err)
{
    const char *path = o->s->plan.output;
    struct wf_output sink;
    struct wf_text text = {0};
    if (command->failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to print");
    o->about.command = command->at;
    WEFT_TRY(wf_output_open(&sink, path, err));
    WEFT_TRY(wf_output_close(&sink, print_form(sink.out, o, err), err));
    if (path == NULL || strcmp(path, "-") == 0)
        return WEFT_OK;
    add_text(&text, o);
    return wf_text_flush(&text, stdout, err);
}

/* -- one order ---------------------------------------------------------------------------- */

static enum weft_status print_order(const struct wf_tune_settings *s,
                                    const struct weft_tune_result *r, struct wf_plan *plan,
                                    struct wf_form form, struct weft_error *err)
{
    struct wf_text command = {0};
    struct tune_output o = {
        s,
        form,
        {wf_tune_minimize(s), plan->time, plan->memory_unit, wf_stop_signal() != 0, NULL},
        r,
        plan,
        NULL};
    WEFT_TRY(weft_metrics_init(&plan->metrics, r->schedule, &plan->cost, &plan->memory, err));
    plan->schedule = r->schedule; /* borrowed */
    wf_tune_print_command(&command, s, form);
    enum weft_status st = print_output(&o, &command, err);
    plan->schedule = NULL;
    wf_text_release(&command);
    return st;
}

/* Returns WEFT_USAGE if the order that was found needs more bytes than a limit.  The search knows
 * only changes of memory at actions. */
static enum weft_status check_bytes(const struct wf_plan_input *in, struct wf_plan *plan,
                                    struct weft_schedule *found, struct weft_error *err)
{
    if (in->bytes_limit.n == 0 && !in->limits_are_bytes)
        return WEFT_OK;
    plan->schedule = found; /* borrowed */
    enum weft_status st = wf_plan_count_bytes(plan, in, err);
    plan->schedule = NULL;
    return st;
}

static enum weft_status search_order(const struct wf_tune_settings *s,
                                     const struct wf_plan_input *in, struct wf_plan *plan,
                                     double seconds, struct wf_form form,
                                     struct weft_error *err)
{
    struct tune_watch w = watch(s, seconds, plan->time);
    struct weft_tune_problem problem = {.ranks = s->plan.ranks,
                                        .micros = s->plan.micros,
                                        .chunks = s->plan.chunks,
                                        .placement = placement_kind(s),
                                        .whole = s->whole,
                                        .minimize = wf_tune_minimize(s),
                                        .cost = &plan->cost,
                                        .memory = &plan->memory};
    struct weft_tune_options how = {.iterations = s->iterations,
                                    .seconds = seconds,
                                    .seed = s->seed,
                                    .progress = show_progress,
                                    .user = &w};
    struct weft_tune_result r;
    enum weft_status st = weft_tune(&problem, &how, &r, err);
    wf_bar_clear(&w.bar);
    if (st != WEFT_OK)
        return st;
    st = check_bytes(in, plan, r.schedule, err);
    if (st == WEFT_OK)
        st = print_order(s, &r, plan, form, err);
    weft_tune_result_release(&r);
    return st;
}

static enum weft_status tune_order(const struct wf_tune_settings *s,
                                   const struct wf_plan_request *request, double seconds,
                                   struct wf_form form, struct weft_error *err)
{
    struct wf_plan plan;
    if (request->cost.fb.n != 0 && s->plan.cost_from == NULL) /* a trace always has pairs */
        return WEFT_FAIL(err, WEFT_USAGE,
                         "tune does not search for overlapped pairs; leave out FB");
    if (s->plan.ranks == 0 || s->plan.micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "tune needs --ranks P and --micros M, or --global-batch N with "
                         "--layers L or --model NAME");
    WEFT_TRY(wf_plan_init_stages(&plan, &request->in, placement_kind(s), err));
    wf_values_release(&plan.cost.fb);
    enum weft_status st = search_order(s, &request->in, &plan, seconds, form, err);
    wf_plan_release(&plan);
    return st;
}

/* -- layouts ------------------------------------------------------------------------------ */

/* Rejects options of the search for an order. */
static enum weft_status check_layouts(const struct wf_tune_settings *s,
                                      const struct wf_plan_request *request,
                                      struct wf_form form, struct weft_error *err)
{
    const struct wf_plan_settings *p = &s->plan;
    const struct weft_cost *c = &request->cost;
    if (p->micros != 0 || p->chunks != 0 || s->placement != NULL || p->mem != NULL ||
        p->mem_limit != NULL || s->whole)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--global-batch searches for micros, chunks, placement and "
                         "schedule; leave out --micros, --chunks, --placement, --whole, --mem "
                         "and --mem-limit");
    if (c->f.n + c->i.n + c->w.n + c->b.n + c->fb.n > 0 || p->partition != NULL ||
        p->layers_per_stage != NULL || p->rows != 0 || p->speed != NULL || p->bytes != NULL ||
        p->gradient_bytes != NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "layouts differ in their stages: give costs of layers (--layer-cost, "
                         "--model) and --boundary-bytes instead of costs, speeds and bytes of "
                         "stages; --micros searches for one order");
    if (request->in.bytes_limit.n > 1)
        return WEFT_FAIL(err, WEFT_USAGE, "--bytes-limit takes one number for layouts");
    if (s->global_batch == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "layouts need --global-batch N: sequences of a step");
    if (form.kind == WF_FORM_PICTURE)
        return WEFT_FAIL(err, WEFT_USAGE, "layouts are a table; write .json or .txt");
    return WEFT_OK;
}

static enum weft_status fill_problem(const struct wf_tune_settings *s,
                                     const struct wf_plan_request *request,
                                     struct weft_model *model, struct weft_layout_problem *p,
                                     struct weft_error *err)
{
    double limit = weft_values_get(request->in.bytes_limit, 0, 0);
    *p = (struct weft_layout_problem){
        .seq = s->plan.seq,
        .flops = request->in.flops,
        .layers = s->plan.layers,
        .layer = request->in.layer,
        .embedding = request->in.embedding,
        .head = request->in.head,
        .global_batch = s->global_batch,
        .ranks = s->plan.ranks,
        .cluster = request->machine.cluster,
        .unit_seconds = request->machine.unit_seconds,
        .hop = request->cost.hop,
        .max_chunks = s->max_chunks,
        .for_torch = request->in.for_torch,
        .minimize = wf_tune_minimize(s),
        .iterations = s->iterations != 0 ? s->iterations : 20000,
    };
    if (limit < 0 || limit > 1e18)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--bytes-limit: '%.20s' is not a number from 0 to 1e+18",
                         s->plan.bytes_limit);
    p->bytes_limit = (size_t)limit;
    if (s->plan.model != NULL) {
        WEFT_TRY(weft_model_find(s->plan.model, model, err));
        if (s->plan.layers != 0 && s->plan.layers != model->layers)
            return WEFT_FAIL(err, WEFT_USAGE, "--layers %u, but %s has %u", s->plan.layers,
                             s->plan.model, model->layers);
        p->model = model;
    }
    return wf_value_parse(s->boundary_bytes, "--boundary-bytes", WF_QUANTITY_BYTES, 1e18,
                          &p->boundary_bytes, err);
}

static enum weft_status tune_layout(const struct wf_tune_settings *s,
                                    const struct wf_plan_request *request, double seconds,
                                    struct wf_form form, struct weft_error *err)
{
    struct weft_model model;
    struct weft_layout_problem p;
    struct wf_time_unit unit = wf_plan_time_unit(&request->in);
    WEFT_TRY(check_layouts(s, request, form, err));
    WEFT_TRY(fill_problem(s, request, &model, &p, err));
    uint8_t *recompute = NULL;
    if (p.model != NULL)
        WEFT_TRY(wf_plan_parse_recompute(s->plan.recompute, &model, &recompute, err));

    const struct weft_training training = {.recompute = recompute};
    struct weft_layouts l;
    struct tune_watch w = watch(s, seconds, unit);
    p.training = &training;
    p.seconds = seconds;
    p.progress = show_layouts;
    p.user = &w;
    enum weft_status st = weft_tune_layouts(&p, s->top != 0 ? s->top : 8, &l, err);
    wf_bar_clear(&w.bar);
    free(recompute);
    if (st != WEFT_OK)
        return st;
    struct wf_text command = {0};
    struct tune_output o = {s,    form, {wf_tune_minimize(s), unit, "bytes", l.stopped, NULL},
                            NULL, NULL, &l};
    wf_layouts_print_command(&command, s, request, &l.at[0], form);
    st = print_output(&o, &command, err);
    wf_text_release(&command);
    weft_layouts_release(&l);
    return st;
}

/* -- the command -------------------------------------------------------------------------- */

/* Exits with the code that shells expect if an interrupt ended the search and its result is
 * written. */
static enum weft_status exit_if_stopped(enum weft_status st)
{
    if (st == WEFT_OK && wf_stop_signal() != 0) {
        fflush(stdout);
        exit(128 + wf_stop_signal());
    }
    return st;
}

static enum weft_status run_tune(int argc, char **argv, struct weft_error *err)
{
    struct wf_tune_settings s = {0};
    const struct wf_plan_settings *p = &s.plan;
    struct wf_plan_request request = {0};
    struct wf_form form;
    const char *none = NULL;
    double seconds = 0;
    WEFT_TRY(wf_command_parse(&wf_command_tune, argc, argv, &s, &none, err));
    WEFT_TRY(wf_form_choose(p, ".csv .json .txt .svg .png .pdf .html .trace", &form, err));
    WEFT_TRY(wf_value_parse(s.seconds, "--seconds", WF_QUANTITY_TIME, 1e9, &seconds, err));
    if (s.seconds != NULL && seconds == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--seconds is 0; give more than 0");
    if (p->transfers != NULL && strcmp(p->transfers, "delay") != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "tune searches with transfers that occupy nothing; "
                         "leave out --transfers");
    bool layouts =
        s.global_batch != 0 ||
        (p->micros == 0 && (p->layers != 0 || p->model != NULL || p->cluster != NULL));
    enum weft_status st = wf_plan_request_init(&request, p, err);
    if (st == WEFT_OK && layouts)
        st = tune_layout(&s, &request, seconds, form, err);
    else if (st == WEFT_OK)
        st = tune_order(&s, &request, s.seconds == NULL && s.iterations == 0 ? 10 : seconds,
                        form, err);
    if (st == WEFT_USAGE)
        wf_plan_add_hint(p, err);
    wf_plan_request_release(&request);
    return exit_if_stopped(st);
}

const struct wf_command wf_command_tune = {
    .name = "tune",
    .summary = "find the best order for given costs and memory, with a bound",
    .text =
        "Searches for the order with the shortest time for these costs that keeps every rank\n"
        "within its memory limit. The search starts from the schedules of weft plan, from\n"
        "orders of a list scheduler, and from repeated patterns. It improves the best by tabu\n"
        "search, and solves small problems exactly. It stops when the order is proven optimal\n"
        "or the time limit is reached. It reports how far above the optimum the order can be:\n"
        "the bound holds for every schedule with the same placement, costs and limits.\n"
        "\n"
        "Costs, model, partition and cluster are given as in weft plan and weft simulate. With\n"
        "--global-batch and --layers or --model it searches for the number of micros, the\n"
        "chunks, the partition and the schedule together; with --cluster also for the number\n"
        "of replicas, whose gradients are reduced in a ring. The output has the command\n"
        "that simulates the best result. With --output, a summary is printed as well.\n"
        "\n"
        "Ctrl-C (or SIGTERM) ends the search: the best result so far is printed and written, and\n"
        "the exit code is 130 (143). A second interrupt ends the program at once. On a terminal\n"
        "the last line shows the progress.\n",
    .examples =
        "  weft tune -p 8 -m 24 --cost F=10,I=12,W=8,C=1 --mem-limit 6\n"
        "  weft tune -p 4 -m 12 --placement v --mem-limit 5 --metric span -o best.csv\n"
        "  weft tune -p 8 --layers 32 --head-cost F=2,I=2,W=2 --global-batch 64\n"
        "  weft tune --model llama3-8b --tflops 400 --global-batch 64 --bytes-limit 80GB "
        "--seq 4096 \\\n"
        "      --cluster 'node:4 rank:8 intra:200GB/s,2us inter:25GB/s,8us'\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_tune,
};
