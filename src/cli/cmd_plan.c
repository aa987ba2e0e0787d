/* weft plan: makes one plan and prints it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "cli/plan_options.h"

#define AT WF_PLAN_AT

static const struct wf_option options[] = {
    WF_OPTIONS_SCHEDULE,
    {"list", 'l', WF_OPTION_SWITCH, NULL, "list all schedules and the sizes they support", NULL,
     AT(list)},
    WF_OPTIONS_COST,
    WF_OPTIONS_MODEL,
    {NULL, 0, WF_OPTION_HEADING, NULL, "Output", NULL, 0},
    {"lower", 0, WF_OPTION_SWITCH, NULL, "add sends, receives and gradient reductions", NULL,
     AT(lower)},
    {"lower-like", 0, WF_OPTION_CHOICE, "WHOM",
     "receives as late as possible (weft), or as in PyTorch", "weft|pytorch", AT(lower_like)},
    {"events", 0, WF_OPTION_SWITCH, NULL, "--json: every action with its start time", NULL,
     AT(events)},
    {"format", 'f', WF_OPTION_CHOICE, "FORM",
     "csv: weft's own format; pytorch: rows without "
     "a header",
     "text|csv|pytorch", AT(format)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print JSON", NULL, AT(json)},
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "write to FILE; the extension selects the format: .csv .json .txt .svg .png .pdf .html "
     ".trace .trace.json",
     NULL, AT(output)},
    {"width", 0, WF_OPTION_COUNT, "N", "width of the drawing in columns (the terminal's)", NULL,
     AT(width)},
    {"color", 0, WF_OPTION_CHOICE, "WHEN", "colours in the drawing", "auto|always|never",
     AT(color)},
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

/* Returns true if the name of the output file requests a picture.  The ending .json requests
 * the plan, .trace.json a Chrome trace. */
static bool is_picture(const struct wf_plan_settings *s, enum weft_draw_format *out)
{
    if (s->json || s->format != NULL || s->output == NULL ||
        !weft_draw_format_from_path(s->output, out) || *out == WEFT_DRAW_FORMAT_TEXT)
        return false;
    return *out != WEFT_DRAW_FORMAT_CHROME || wf_path_ends_in(s->output, ".trace.json");
}

/* Chooses the format by the extension of the output file unless the format is given. */
static void choose_form(struct wf_plan_settings *s)
{
    enum weft_draw_format picture;
    if (s->json || s->format != NULL || s->output == NULL || is_picture(s, &picture))
        return;
    if (wf_path_ends_in(s->output, ".json"))
        s->json = true;
    else if (wf_path_ends_in(s->output, ".csv"))
        s->format = "csv";
}

static enum weft_status print_csv(FILE *out, const struct wf_plan *p, const char *format,
                                  struct weft_error *err)
{
    if (strcmp(format, "pytorch") == 0 && weft_schedule_placement(p->schedule)->n_pipes > 1)
        fputs("weft: note: PyTorch's pipelining supports one rank per stage; this schedule has "
              "several\n",
              stderr);
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

static enum weft_status print_text(FILE *out, const struct wf_plan *p,
                                   const struct wf_plan_settings *s, struct weft_error *err)
{
    struct wf_text text = {0};
    wf_plan_print_text(&text, p, s->schedule, wf_style_for(out, s->color, s->width));
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

static enum weft_status print_plan(FILE *out, const struct wf_plan *p,
                                   const struct wf_plan_settings *s, struct weft_error *err)
{
    enum weft_draw_format picture;
    if (is_picture(s, &picture))
        return wf_plan_draw(out, picture, p->schedule, &p->metrics, &p->memory, 0, s->width,
                            err);
    if (s->json)
        return print_json(out, p, s->events, err);
    if (s->format != NULL && strcmp(s->format, "text") != 0)
        return print_csv(out, p, s->format, err);
    return print_text(out, p, s, err);
}

static enum weft_status run_plan(int argc, char **argv, struct weft_error *err)
{
    struct wf_plan_settings s = {0};
    const char *none = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_plan, argc, argv, &s, &none, err));
    if (s.list) {
        print_list(stdout);
        return WEFT_OK;
    }
    if (!s.json && s.format == NULL)
        WEFT_TRY(wf_output_check(s.output, ".csv .json .txt .svg .png .pdf .html .trace", err));
    choose_form(&s);
    if (s.json && s.format != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --json or --format, not both");
    if (s.events && !s.json)
        return WEFT_FAIL(err, WEFT_USAGE, "--events needs --json");
    struct wf_plan p;
    struct wf_output sink;
    WEFT_TRY(wf_plan_make(&p, &s, err));
    enum weft_status st = wf_output_open(&sink, s.output, err);
    if (st == WEFT_OK)
        st = wf_output_close(&sink, print_plan(sink.out, &p, &s, err), err);
    wf_plan_release(&p);
    return st;
}

const struct wf_command wf_command_plan = {
    .name = "plan",
    .summary = "make, prove, time and draw a schedule",
    .text =
        "Makes a pipeline schedule by name, or reads one from a CSV file, proves that it is\n"
        "complete and cannot deadlock, and shows its timeline with makespan, bubble and\n"
        "memory for the given costs.\n"
        "\n"
        "In the timeline F is a forward, B a whole backward, I an input gradient and W a\n"
        "weight gradient. The number after the letter is the micro; the number before it is\n"
        "the stage, if ranks have several. Dots are idle time. F7&B3 is an overlapped pair.\n"
        "\n"
        "The makespan is the time from 0 to the last end. The span is the longest time of a\n"
        "rank from its first start to its last end. The bubble is the idle fraction of either.\n"
        "In a layout E is the embedding, t a layer, L the head and | the next stage; x*n\n"
        "repeats x n times. Events in --json are [start, rank, stage, chunk, micro, kind] with\n"
        "kind 0=F 1=B 2=I 3=W.\n",
    .examples =
        "  weft plan --schedule 1f1b --ranks 4 --micros 8\n"
        "  weft plan --schedule zb-auto -p 8 -m 24 --cost F=10,I=12,W=8,C=1 --mem-limit 12\n"
        "  weft plan --schedule interleaved-1f1b -p 4 -m 8 --model gpt2-124m --partition "
        "balanced\n"
        "  weft plan --schedule zb-v -p 4 -m 8 --format pytorch -o zbv.csv\n"
        "  weft plan --list\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_plan,
};
