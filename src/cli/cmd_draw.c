/* weft draw: draws traces, schedules and runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "config/values.h"
#include "planning/planner/trace_source.h"
#include "training/run/rundir_trace.h"
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
    {"lanes", 0, WF_OPTION_SWITCH, NULL, "draw sends and receives in separate rows", NULL,
     AT(lanes)},
    {"width", 0, WF_OPTION_COUNT, "N", "width in pixels (in a terminal: columns)", NULL,
     AT(width)},
    {"height", 0, WF_OPTION_COUNT, "N", "height in pixels, if rows can be that high", NULL,
     AT(height)},
    {"cost", 'c', WF_OPTION_TEXT, "F=1,I=1,W=1", "times of schedules, as in weft plan", NULL,
     AT(cost)},
    {"mem", 0, WF_OPTION_TEXT, "F=1,I=0,W=-1", "memory of schedules, as in weft plan", NULL,
     AT(mem)},
    {"unit", 0, WF_OPTION_TEXT, "TIME", "length of one unit of abstract time: 1ms, 20us, 0.5s",
     NULL, AT(unit)},
    {"color", 0, WF_OPTION_CHOICE, "WHEN", "auto, always or never", "auto|always|never",
     AT(color)},
};

/* Parses a time such as "1ms", "20us", "0.5s" or "3ns". */
static enum weft_status parse_unit(const char *text, double *out, struct weft_error *err)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    char *end = NULL;
    double value = strtod(text, &end);
    for (size_t i = 0; i < WEFT_LEN(units); i++)
        if (end != text && strcmp(end, units[i].name) == 0 && isfinite(value) && value > 0) {
            *out = value * units[i].seconds;
            return WEFT_OK;
        }
    return WEFT_FAIL(err, WEFT_USAGE, "--unit: '%.40s' is not a time such as 1ms, 20us or 0.5s",
                     text);
}

/* -- traces --------------------------------------------------------------------------------- */

/* Reads two traces of a run: its schedule with measured times, and the measured trace. */
static enum weft_status read_run(const char *dir, struct weft_trace out[2],
                                 struct weft_error *err)
{
    const struct weft_memory_cost activations = {0}; /* one activation per forward */
    char *trace = NULL;
    WEFT_TRY(wf_rundir_find_trace(dir, &trace, NULL, err));
    enum weft_status st =
        wf_rundir_read_traces(dir, trace, &activations, &out[0], &out[1], err);
    free(trace);
    return st;
}

static enum weft_status read_traces(const char *const *files, size_t n,
                                    const struct draw_settings *s, struct weft_trace *out,
                                    struct weft_error *err)
{
    const struct wf_plan_settings plan = {.cost = s->cost, .mem = s->mem};
    struct weft_cost cost = {0};
    struct weft_memory_cost memory = {0};
    enum weft_status st = wf_plan_parse_costs(&plan, &cost, &memory, err);
    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        bool run = wf_is_directory(files[i]);
        st = run ? read_run(files[i], out, err)
                 : wf_trace_read(files[i], &cost, &memory, out, err);
        out += run ? 2 : 1;
    }
    wf_costs_release(&cost, &memory);
    return st;
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

static bool have_mixed_units(const struct weft_trace *traces, size_t n)
{
    size_t n_real = 0;
    for (size_t i = 0; i < n; i++)
        n_real += traces[i].unit_seconds > 0;
    return n_real > 0 && n_real < n;
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
    size_t n_files = n;
    for (size_t i = 0; i < n_files; i++)
        n += wf_is_directory(files[i]); /* a run has two traces */
    struct weft_trace *traces = calloc(n, sizeof *traces);
    if (traces == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu traces", n);
    struct wf_output sink;
    enum weft_status st = read_traces(files, n_files, s, traces, err);
    if (st == WEFT_OK && s->unit == NULL && have_mixed_units(traces, n))
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "some traces are in real time and others in abstract units; give the "
                       "length of an abstract unit with --unit, such as --unit 1ms");
    if (st == WEFT_OK)
        st = wf_output_open(&sink, s->output, err);
    if (st == WEFT_OK) {
        how.style = wf_style_for(sink.out, s->color, s->width);
        st = wf_output_close(&sink, weft_render(sink.out, format, traces, n, &how, err), err);
    }
    for (size_t i = 0; i < n; i++)
        weft_trace_release(&traces[i]);
    free(traces);
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
    .summary = "draw traces and schedules: terminal, SVG, PNG, PDF, a page, Perfetto",
    .operands = "FILE...",
    .text =
        "Draws the actions of every rank over time. A FILE is a trace, or a schedule in weft's\n"
        "or PyTorch's CSV, which is first proven and timed with --cost. Several files are drawn\n"
        "one above the other on one axis, for example a plan and a measured trace. The\n"
        "directory of a run with traces (log.trace_steps) gives both.\n"
        "\n"
        "Colours distinguish forward (F), whole backward (B), input gradient (I) and weight\n"
        "gradient (W). So do dark bands: I has a band at the top, W at the bottom, B has both,\n"
        "and F has none. Shades are the stages of a rank, a divided cell is an overlapped pair,\n"
        "and grey is idle time. Numbers are micros. An .html page can be zoomed and describes\n"
        "the action under the mouse. A .json file can be opened in Perfetto (ui.perfetto.dev) or\n"
        "chrome://tracing.\n",
    .examples = "  weft draw plan.csv\n"
                "  weft draw plan.csv --cost F=10,I=12,W=8 -o plan.svg\n"
                "  weft draw plan.csv measured.trace --unit 1ms -o both.html\n"
                "  weft draw runs/a -o run.svg\n"
                "  weft draw measured.trace --lanes -o measured.png --width 1600\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_draw,
};
