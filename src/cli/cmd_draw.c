/* weft draw: draws traces, schedules and runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "config/values.h"
#include "training/run/trace_list.h"
#include "training/unpack/unpack.h"
#include "weft/render.h"

struct draw_settings {
    const char *output, *format, *title, *cost, *mem, *unit, *color;
    uint32_t width, height;
    bool lanes;
};

#define AT(field) offsetof(struct draw_settings, field)

static const struct wf_option options[] = {
    {"output", 'o', WF_OPTION_TEXT, "FILE",
     "write to FILE; the extension selects the format: .svg .png .pdf .html .json .txt .trace",
     NULL, AT(output)},
    {"format", 'f', WF_OPTION_CHOICE, "FORM", "format; overrides the file name extension",
     "text|svg|png|pdf|html|chrome|trace", AT(format)},
    {"title", 0, WF_OPTION_TEXT, "TEXT", "title of the drawing", NULL, AT(title)},
    {"lanes", 0, WF_OPTION_SWITCH, NULL,
     "draw sends, receives, collectives and waits in separate rows", NULL, AT(lanes)},
    {"width", 0, WF_OPTION_COUNT, "N", "width in pixels (in a terminal: columns)", NULL,
     AT(width)},
    {"height", 0, WF_OPTION_COUNT, "N",
     "minimum height in pixels; the picture is higher if its rows need more space", NULL,
     AT(height)},
    {"cost", 'c', WF_OPTION_TIME, "F=1,I=1,W=1", "times of schedules, as in weft plan", NULL,
     AT(cost)},
    {"mem", 0, WF_OPTION_BYTES, "F=1,I=0,W=-1", "memory of schedules, as in weft plan", NULL,
     AT(mem)},
    {"unit", 0, WF_OPTION_TIME, "TIME", "length of one unit of abstract time", NULL, AT(unit)},
    {"color", 0, WF_OPTION_CHOICE, "WHEN", "colours in a terminal (default: auto)",
     "auto|always|never", AT(color)},
};

/* Parses a time with a unit. */
static enum weft_status parse_unit(const char *text, double *out, struct weft_error *err)
{
    const char *end = NULL;
    struct wf_amount amount;
    bool ok = wf_amount_read(text, WF_QUANTITY_TIME, &amount, &end) == WF_AMOUNT_OK &&
              *end == '\0' && amount.scale > 0;
    double seconds = ok ? wf_amount_value(amount, WF_QUANTITY_TIME) : 0;
    if (!isfinite(seconds) || seconds <= 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--unit: '%.40s' is not a time such as 1ms, 20us or 0.5s", text);
    *out = seconds;
    return WEFT_OK;
}

/* -- the command ---------------------------------------------------------------------------- */

static enum weft_status choose_format(const struct draw_settings *s, enum weft_draw_format *out,
                                      struct weft_error *err)
{
    *out = WEFT_DRAW_FORMAT_TEXT;
    if (s->format != NULL)
        weft_draw_format_find(s->format, out); /* found: one of the choices */
    else if (s->output != NULL)
        weft_draw_format_from_path(s->output, out);
    return s->format != NULL
               ? WEFT_OK
               : wf_output_check(s->output, ".svg .png .pdf .html .json .txt .trace", err);
}

static enum weft_status read_traces(const char *const *files, size_t n,
                                    const struct draw_settings *s, struct wf_trace_list *out,
                                    double *unit_seconds, struct weft_error *err)
{
    const struct wf_plan_settings plan = {.cost = s->cost, .mem = s->mem};
    struct weft_cost cost = {0};
    struct weft_memory_cost memory = {0};
    struct wf_cost_units units = wf_cost_units_make(1e-3);
    enum weft_status st = wf_plan_parse_costs(&plan, &units, &cost, &memory, err);
    if (st == WEFT_OK)
        st = wf_costs_complete(&units, false, &cost, &memory, err);
    if (wf_costs_are_timed(&units) && *unit_seconds == 0)
        *unit_seconds = units.times.scale;
    if (st == WEFT_OK)
        st = wf_trace_list_init(out, files, n, wf_unpack_read_as, &cost, &memory, err);
    wf_costs_release(&cost, &memory);
    if (st == WEFT_OK && s->unit == NULL && out->mixed_units) {
        wf_trace_list_release(out);
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "some traces are in real time and others in abstract units; give the "
                       "length of an abstract unit with --unit, such as --unit 1ms");
    }
    return st;
}

static enum weft_status draw_files(const char *const *files, size_t n,
                                   const struct draw_settings *s, struct weft_error *err)
{
    enum weft_draw_format format;
    struct weft_draw_options how = {
        .title = s->title, .width = s->width, .height = s->height, .lanes = s->lanes};
    WEFT_TRY(choose_format(s, &format, err));
    if (s->unit != NULL)
        WEFT_TRY(parse_unit(s->unit, &how.unit_seconds, err));
    struct wf_trace_list traces = {0};
    struct wf_output sink;
    enum weft_status st = read_traces(files, n, s, &traces, &how.unit_seconds, err);
    if (st == WEFT_OK)
        st = wf_output_open(&sink, s->output, err);
    if (st == WEFT_OK) {
        how.style = wf_style_for(sink.out, s->color, s->width);
        st = wf_output_close(
            &sink, weft_render(sink.out, format, traces.set.at, traces.set.n, &how, err), err);
    }
    wf_trace_list_release(&traces);
    return st;
}

static enum weft_status run_draw(int argc, char **argv, struct weft_error *err)
{
    struct draw_settings s = {0};
    const char **files = malloc(sizeof *files * ((size_t)argc + 1));
    size_t n = 0;
    if (files == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    enum weft_status st =
        wf_options_parse(wf_command_draw.options, argc, argv, &s, files, &n, err);
    if (st == WEFT_OK && n == 0)
        st = WEFT_FAIL(err, WEFT_USAGE, "draw needs a FILE; see weft draw --help");
    if (st == WEFT_OK)
        st = draw_files(files, n, &s, err);
    free(files);
    return st;
}

const struct wf_command wf_command_draw = {
    .name = "draw",
    .summary = "draw traces and schedules as text, SVG, PNG, PDF, HTML or for Perfetto",
    .operands = "FILE...",
    .text =
        "Draws the actions of every rank over time. A FILE is a trace, or a schedule in weft's\n"
        "or PyTorch's CSV, which is first verified and timed with --cost. Several files are drawn\n"
        "one above the other on one axis, for example a plan and a measured trace. For the\n"
        "directory of a run with traces (log.trace_steps), the plan and the measured trace are\n"
        "drawn. The files of torch.profiler (.json, .json.gz), one per rank, are one trace: the\n"
        "last complete step, with the waits taken out of the compute actions.\n"
        "\n"
        "Colours distinguish forward (F), whole backward (B), input gradient (I) and weight\n"
        "gradient (W). So do dark bands: I has a band at the top, W at the bottom, B has both,\n"
        "and F has none. Shades distinguish the stages of a rank. A divided cell is an overlapped\n"
        "pair, and grey is idle time. Numbers are micros. An .html page can be zoomed and\n"
        "describes the action under the mouse. A .json file can be opened in Perfetto (ui.perfetto.dev) or\n"
        "chrome://tracing.\n",
    .examples = "  weft draw plan.csv\n"
                "  weft draw plan.csv --cost F=10,I=12,W=8 -o plan.svg\n"
                "  weft draw plan.csv measured.trace --unit 1ms -o both.html\n"
                "  weft draw runs/a -o run.svg\n"
                "  weft draw measured.trace --lanes -o measured.png --width 1600\n"
                "  weft draw plan.csv rank0.json rank1.json --unit 1ms -o step.html\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_draw,
};
