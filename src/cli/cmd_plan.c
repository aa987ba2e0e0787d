/* weft plan: computes one plan and prints it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "cli/plan_options.h"
#include "planning/planner/export.h"

#define AT WF_PLAN_AT

static const struct wf_option options[] = {
    WF_OPTIONS_SCHEDULE,
    {"list", 'l', WF_OPTION_SWITCH, NULL, "list all schedules and the sizes they support", NULL,
     AT(list)},
    WF_OPTIONS_COST,
    WF_OPTION_MINIMIZE,
    WF_OPTIONS_MODEL,
    {NULL, 0, WF_OPTION_HEADING, NULL, "Output", NULL, 0},
    {"lower", 0, WF_OPTION_OPTIONAL, "HOW",
     "add sends and receives: weft (default) for weft's executor; torch-2.10 (for 2.10 to 2.14) or "
     "torch-2.15 exactly as that PyTorch release adds them; torch-2.10-late and torch-2.15-late "
     "with receives as late as possible",
     WF_LOWERINGS, AT(lower)},
    {"events", 0, WF_OPTION_SWITCH, NULL, "--json: every action with its start time", NULL,
     AT(events)},
    {"format", 'f', WF_OPTION_CHOICE, "FORM",
     "csv: weft's own format; pytorch: rows without "
     "a header",
     "text|csv|pytorch", AT(format)},
    {"export", 0, WF_OPTION_CHOICE, "PROGRAM",
     "print the settings with which another program runs this plan", "megatron|torchtitan",
     AT(export)},
    WF_OPTION_JSON,
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "write to FILE; the extension selects the format: .csv .json .txt .svg .png .pdf .html "
     ".trace .trace.json",
     NULL, AT(output)},
    WF_OPTIONS_DRAWING,
};

static void print_list(FILE *out)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%-17s %s\n%-17s %s\n", all[i].name, all[i].help, "", all[i].limits);
    const struct weft_preset *models = weft_presets(&n);
    fputs("\nModels for --model:\n", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%-17s %s\n", models[i].name, models[i].help);
    fprintf(out, "%-17s %s\n", "dN", "GPT-2 with N layers of dimension 64 N");
}

static enum weft_status print_csv(FILE *out, const struct wf_plan *p, const char *format,
                                  struct weft_error *err)
{
    return wf_schedule_print_csv(out, p->lowered != NULL ? p->lowered : p->schedule, format,
                                 err);
}

static enum weft_status print_json(FILE *out, const struct wf_plan *p, bool events,
                                   struct weft_error *err)
{
    struct wf_json j = {.out = out};
    wf_plan_write_json(&j, p, events);
    fputc('\n', out);
    return j.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to print the whole plan") : WEFT_OK;
}

static void add_layout(struct wf_text *text, const struct weft_partition *p)
{
    char *layout = NULL;
    if (weft_partition_print_pattern(p, &layout, NULL) == WEFT_OK)
        wf_text_addf(text, "layout            %s\n", layout);
    else
        text->failed = true;
    free(layout);
}

static enum weft_status print_text(FILE *out, const struct wf_plan *p,
                                   const struct wf_plan_settings *s, struct weft_error *err)
{
    struct wf_text text = {0};
    wf_plan_print_text(&text, p, s->schedule, wf_style_for(out, s->color, s->width));
    if (s->partition != NULL || s->layers_per_stage != NULL)
        add_layout(&text, &p->partition);
    for (uint32_t r = 0; p->lowered != NULL && r < p->metrics.n_ranks; r++) {
        char *row = NULL;
        if (weft_schedule_print_rank(p->lowered, r, " ", &row, NULL) == WEFT_OK)
            wf_text_addf(&text, "%srank %u: %s\n", r == 0 ? "\n" : "", r, row);
        else
            text.failed = true;
        free(row);
    }
    return wf_text_flush(&text, out, err);
}

static enum weft_status print_export(FILE *out, const struct wf_plan *p, const char *program,
                                     struct weft_error *err)
{
    char *text = NULL;
    WEFT_TRY(wf_export_print(program, p->schedule, &p->partition, &text, err));
    fputs(text, out);
    free(text);
    return WEFT_OK;
}

static enum weft_status print_plan(FILE *out, const struct wf_plan *p,
                                   const struct wf_plan_settings *s, struct wf_form form,
                                   struct weft_error *err)
{
    if (s->export != NULL)
        return print_export(out, p, s->export, err);
    switch (form.kind) {
    case WF_FORM_PICTURE:
        return wf_plan_draw(out, form.picture, p, &p->metrics, s->width, err);
    case WF_FORM_JSON:
        return print_json(out, p, s->events, err);
    case WF_FORM_CSV:
        return print_csv(out, p, s->format, err);
    case WF_FORM_TEXT:
        break;
    }
    return print_text(out, p, s, err);
}

static enum weft_status run_plan(int argc, char **argv, struct weft_error *err)
{
    struct wf_plan_settings s = {0};
    struct wf_plan_request request = {0};
    struct wf_form form;
    struct wf_plan p;
    struct wf_output sink;
    const char *none = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_plan, argc, argv, &s, &none, err));
    if (s.list) {
        print_list(stdout);
        return WEFT_OK;
    }
    if (s.export != NULL && (s.json || s.format != NULL))
        return WEFT_FAIL(err, WEFT_USAGE, "give one of --export, --json and --format");
    if (s.export == NULL)
        WEFT_TRY(wf_form_choose(&s, ".csv .json .txt .svg .png .pdf .html .trace", &form, err));
    if (s.events && form.kind != WF_FORM_JSON)
        return WEFT_FAIL(err, WEFT_USAGE, "--events needs --json");
    enum weft_status st = wf_plan_request_init(&request, &s, err);
    if (st == WEFT_OK)
        st = wf_plan_make(&p, &s, &request, err);
    wf_plan_request_release(&request);
    if (st != WEFT_OK)
        return st;
    st = wf_output_open(&sink, s.output, err);
    if (st == WEFT_OK)
        st = wf_output_close(&sink, print_plan(sink.out, &p, &s, form, err), err);
    wf_plan_release(&p);
    return st;
}

const struct wf_command wf_command_plan = {
    .name = "plan",
    .summary = "generate, verify, time and draw a schedule",
    .text =
        "Generates a pipeline schedule by name, or reads one from a CSV file. Verifies that it\n"
        "is complete and cannot deadlock, and shows its timeline with makespan, bubble and\n"
        "memory for the given costs.\n"
        "\n"
        "In the timeline F is a forward, B a whole backward, I an input gradient and W a\n"
        "weight gradient. The number after the letter is the micro; the number before it is\n"
        "the stage, if ranks have several. Dots are idle time. F7&B3 is an overlapped pair.\n"
        "\n"
        "The makespan is the time from the start of the step to the end of the last action.\n"
        "The span is the longest time of one rank from its own start to its own end. The\n"
        "bubble is the idle fraction of either. In a --partition pattern, E is the embedding,\n"
        "t a layer, m a layer for multi-token prediction, L the head and | the next stage; x*n\n"
        "repeats x n times. Events in --json\n"
        "are [start, rank, stage, chunk, micro, kind] with kind 0=F 1=B 2=I 3=W.\n"
        "\n"
        "--export prints the settings with which Megatron-LM or torchtitan runs the plan, or the\n"
        "reason why it cannot.\n",
    .examples =
        "  weft plan --schedule 1f1b --ranks 4 --micros 8\n"
        "  weft plan --schedule zb-auto -p 8 -m 24 --cost F=10,I=12,W=8,C=1 --mem-limit 12\n"
        "  weft plan --schedule interleaved-1f1b -p 4 -m 8 --model gpt2-124m --partition "
        "balanced\n"
        "  weft plan --schedule zb-v -p 4 -m 8 --format pytorch -o zbv.csv\n"
        "  weft plan --schedule interleaved-1f1b -p 4 -m 8 --layers 24 --export megatron\n"
        "  weft plan --list\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_plan,
};
