/* weft compare: compares all schedules for given numbers of ranks and micro-batches. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan_options.h"
#include "config/choice.h"
#include "config/values.h"
#include "planning/draw/scatter.h"
#include "planning/planner/comparison.h"
#include "terminal/bar.h"

struct compare_settings {
    struct wf_plan_settings plan; /* must be the first field: the shared options write to it */
    const char *chunk_list, *sort;
};

#define AT(field) offsetof(struct compare_settings, field)
#define ORDERS "time|span|memory|name" /* in the order of enum wf_comparison_order */

static const struct wf_option options[] = {
    WF_OPTIONS_SIZE,
    {"chunks", 0, WF_OPTION_TEXT, "2:4",
     "numbers of chunks to try, if the schedule supports several", NULL, AT(chunk_list)},
    WF_OPTIONS_VARIANT,
    WF_OPTIONS_COST,
    {"minimize", 0, WF_OPTION_CHOICE, "WHAT", "what a search minimizes (default: makespan)",
     "span|makespan", WF_PLAN_AT(minimize)},
    WF_OPTIONS_MODEL,
    WF_OPTIONS_CLUSTER,
    {NULL, 0, WF_OPTION_HEADING, NULL, "Output", NULL, 0},
    {"sort", 0, WF_OPTION_CHOICE, "BY", "sort order (default: time)", ORDERS, AT(sort)},
    WF_OPTION_JSON,
    {"output", 'o', WF_OPTION_TEXT, "FILE", "write to FILE; .svg plots time against memory",
     NULL, WF_PLAN_AT(output)},
};

static enum weft_status plot(FILE *out, const struct wf_comparison *c,
                             const struct compare_settings *in, struct weft_error *err)
{
    enum { NAME = 48 };
    struct wf_point *points = malloc(sizeof *points * (c->n + 1));
    char(*names)[NAME] = malloc(sizeof *names * (c->n + 1));
    char title[80], memory[64], time[64];
    snprintf(memory, sizeof memory, "peak memory of a rank (%s)", c->memory_unit);
    snprintf(time, sizeof time, "makespan (%s)", c->time.name);
    snprintf(title, sizeof title, "%u ranks, %u micros", in->plan.ranks, in->plan.micros);
    bool ok = points != NULL && names != NULL;
    for (size_t i = 0; ok && i < c->n; i++) {
        const struct wf_comparison_row *row = &c->at[i];
        bool chunked = row->generator->flags & WEFT_GEN_USES_CHUNKS;
        if (chunked)
            snprintf(names[i], NAME, "%s x%u", row->generator->name, row->chunks);
        else
            snprintf(names[i], NAME, "%s", row->generator->name);
        points[i] = (struct wf_point){row->peak, row->makespan, names[i], row->is_pareto};
    }
    ok = ok && wf_draw_scatter(out, points, c->n, title, memory, time);
    free(points);
    free(names);
    return ok ? WEFT_OK : WEFT_FAIL(err, WEFT_NOMEM, "no memory to plot");
}

static enum weft_status print_all(const struct wf_comparison *c,
                                  const struct compare_settings *in, struct wf_form form,
                                  struct weft_error *err)
{
    struct wf_output sink;
    struct wf_text text = {0};
    WEFT_TRY(wf_output_open(&sink, in->plan.output, err));
    enum weft_status st = WEFT_OK;
    if (form.kind == WF_FORM_PICTURE) {
        st = plot(sink.out, c, in, err);
    } else if (form.kind == WF_FORM_JSON) {
        wf_comparison_write_json(&(struct wf_json){.out = sink.out}, c);
        fputc('\n', sink.out);
    } else {
        wf_comparison_write_text(&text, c, in->plan.bytes != NULL);
        st = wf_text_flush(&text, sink.out, err);
    }
    return wf_output_close(&sink, st, err);
}

static bool show_progress(double share, const char *name, void *user)
{
    struct wf_bar *bar = user;
    if (wf_bar_is_due(bar))
        wf_bar_draw(bar, share, name, NULL, 0);
    return true;
}

static enum weft_status compare(const struct compare_settings *in,
                                struct wf_comparison_input *input, struct wf_form form,
                                struct weft_error *err)
{
    struct wf_comparison c;
    struct wf_bar bar = wf_bar_make(stderr); /* comparing large schedules takes long */
    input->progress = show_progress;
    input->user = &bar;
    enum weft_status st = wf_comparison_init(&c, input, err);
    wf_bar_clear(&bar);
    if (st != WEFT_OK)
        return st;
    st = print_all(&c, in, form, err);
    wf_comparison_release(&c);
    return st;
}

static enum weft_status run_compare(int argc, char **argv, struct weft_error *err)
{
    struct compare_settings in = {0};
    struct wf_plan_request request = {0};
    struct wf_form form;
    const char *none = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_compare, argc, argv, &in, &none, err));
    WEFT_TRY(wf_form_choose(&in.plan, ".svg .json .txt", &form, err));
    if (in.plan.ranks == 0 || in.plan.micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "compare needs --ranks P and --micros M");

    struct wf_comparison_input input = {
        .order = (enum wf_comparison_order)wf_choice_index(ORDERS, in.sort)};
    if (in.plan.minimize == NULL)
        in.plan.minimize = "makespan";
    enum weft_status st = wf_plan_request_init(&request, &in.plan, err);
    if (st == WEFT_OK && in.chunk_list != NULL)
        st = wf_values_parse(in.chunk_list, "--chunks", WF_QUANTITY_PLAIN, NULL, &input.chunks,
                             err);
    if (st == WEFT_OK) {
        input.plan = request.in;
        st = compare(&in, &input, form, err);
    }
    if (st == WEFT_USAGE)
        wf_plan_add_hint(&in.plan, err);
    wf_values_release(&input.chunks);
    wf_plan_request_release(&request);
    return st;
}

const struct wf_command wf_command_compare = {
    .name = "compare",
    .summary = "compare all schedules for given numbers of ranks and micro-batches",
    .text =
        "Makes every schedule that supports these ranks and micros, and reports the time, bubble,\n"
        "memory, copies of the weights and messages of each. All have the same ranks, model and\n"
        "batch. A single cost or memory is that of 1/P of the model, and the stages of a schedule\n"
        "with more chunks cost proportionally less. A list (also from --cost-file or --cost-from)\n"
        "has one value per stage: schedules with another number of stages are omitted. A model is\n"
        "partitioned for each schedule, and memory is then in bytes. Omitted schedules are listed\n"
        "with the reason. --group, --pipes and --minimize apply to the schedules that use them.\n"
        "Schedules that are found by search use the links of --cluster. A star marks Pareto-optimal schedules: no other schedule is at least as\n"
        "good in time, memory and copies, and better in one of them.\n",
    .examples = "  weft compare --ranks 8 --micros 24 --cost F=10,I=12,W=8,C=1\n"
                "  weft compare -p 8 -m 32 --mem-limit 6 --sort memory\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_compare,
};
