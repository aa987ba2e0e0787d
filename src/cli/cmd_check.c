/* weft check: verifies a schedule file and shows its errors. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "planning/draw/findings.h"
#include "planning/planner/check.h"

struct check_settings {
    const char *transport, *channels, *lower_like, *color;
    uint32_t width;
    bool json;
};

#define AT(field) offsetof(struct check_settings, field)

static const struct wf_option options[] = {
    {"transport", 't', WF_OPTION_TEXT, "HOW",
     "buffered (the default), rendezvous, or depth=N messages per channel", NULL,
     AT(transport)},
    {"channels", 0, WF_OPTION_CHOICE, "BY",
     "a queue per direction of data between two ranks, or one for both", "direction|pair",
     AT(channels)},
    {"lower-like", 0, WF_OPTION_CHOICE, "WHOM", "how to add messages if the file has none",
     "weft|pytorch", AT(lower_like)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print findings and sizes as JSON", NULL, AT(json)},
    {"width", 0, WF_OPTION_COUNT, "N", "width of the drawing in columns (the terminal's)", NULL,
     AT(width)},
    {"color", 0, WF_OPTION_CHOICE, "WHEN", "auto, always or never", "auto|always|never",
     AT(color)},
};

static const char *transport_name(const struct check_settings *s)
{
    return s->transport != NULL ? s->transport : "buffered";
}

/* Prints the JSON output for a file that is not a schedule. */
static void print_unreadable(FILE *out, const char *file, const struct weft_error *why)
{
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "file", file);
    wf_json_bool(&j, "ok", false);
    wf_json_string(&j, "error", why->msg);
    wf_json_end(&j, '}');
    fputc('\n', out);
}

/* Returns the text of a finding without its position, because an arrow shows the position.  The
 * text keeps the stage and the micro of a missing action, because its arrow only points to a
 * place where the action could be inserted. */
static const char *without_position(const struct weft_finding *f)
{
    const char *colon = strncmp(f->text, "rank ", 5) == 0 ? strstr(f->text, ": ") : NULL;
    return colon != NULL ? colon + 2 : f->text;
}

/* Draws arrows for the first findings that have a position, one per row, and prints all other
 * findings as lines. */
static void draw_findings(struct wf_text *out, const struct wf_check *c,
                          struct weft_text_style style)
{
    enum { ARROWS = 8, LINES = 8 };
    const struct weft_verify_result *r = &c->result;
    struct wf_annotation annotations[ARROWS];
    bool drawn[WEFT_MAX_FINDINGS] = {false};
    size_t n = 0, lines = 0, remaining = r->n_findings;
    for (size_t i = 0; i < wf_check_n_findings(c) && n < ARROWS; i++) {
        const struct weft_finding *f = &r->findings[i];
        bool used = false;
        for (size_t k = 0; k < n; k++)
            used = used || annotations[k].rank == f->rank;
        if (f->has_position && !used) {
            annotations[n++] =
                (struct wf_annotation){f->rank, f->position, without_position(f)};
            drawn[i] = true;
            remaining--;
        }
    }
    if (n > 0)
        wf_draw_annotations(out, wf_check_schedule(c), annotations, n, style);
    for (size_t i = 0; i < wf_check_n_findings(c) && lines < LINES; i++) {
        if (drawn[i])
            continue;
        wf_text_addf(out, "  %s: %s\n", weft_rule_name(r->findings[i].rule),
                     r->findings[i].text);
        lines++;
        remaining--;
    }
    if (remaining > 0)
        wf_text_addf(out, "  and %zu more (--json shows %d)\n", remaining, WEFT_MAX_FINDINGS);
}

/* Prints the channel depth with which the schedule completes, if it only deadlocks because its
 * channels are too short. */
static void print_enough(struct wf_text *out, const struct wf_check *c)
{
    size_t depth = wf_check_enough_depth(c);
    if (depth > 0)
        wf_text_addf(out, "  it completes with --transport depth=%zu or more%s\n", depth,
                     c->lowered != NULL ? ", or with --lower-like pytorch" : "");
}

static void print_text(FILE *out, const struct wf_check *c, const struct check_settings *s)
{
    const struct weft_placement *place = weft_schedule_placement(c->read);
    const struct weft_verify_result *r = &c->result;
    struct wf_text text = {0};
    wf_text_addf(&text, "%s: %s%s%u rank%s, %u stage%s (%s), %u micro%s\n", c->file,
                 weft_schedule_name(c->read), weft_schedule_name(c->read)[0] ? ", " : "",
                 place->n_ranks, wf_plural(place->n_ranks), place->n_stages,
                 wf_plural(place->n_stages),
                 weft_placement_name(weft_schedule_placement_kind(c->read)), place->n_micros,
                 wf_plural(place->n_micros));
    if (r->n_findings > 0) {
        draw_findings(&text, c, wf_style_for(out, s->color, s->width));
        print_enough(&text, c);
    } else {
        wf_text_addf(&text,
                     "correct: %zu actions; every stage runs every micro once forward and once "
                     "backward; %zu messages over %zu channels match; completes with %s sends\n"
                     "peak activations ",
                     r->n_compute, r->n_messages, r->n_channels, transport_name(s));
        for (uint32_t i = 0; i < r->n_ranks && i < 32; i++)
            wf_text_addf(&text, " %zu", r->peak_activations[i]);
        wf_text_adds(&text, r->n_ranks > 32 ? " ...\n" : "\n");
    }
    if (!text.failed)
        fwrite(text.at, 1, text.len, out);
    else
        fputs("(no memory to show the findings)\n", out);
    wf_text_release(&text);
}

static enum weft_status print_result(const struct wf_check *c, const struct check_settings *s,
                                     struct weft_error *err)
{
    struct wf_output sink;
    WEFT_TRY(wf_output_open(&sink, NULL, err));
    if (s->json) {
        wf_check_write_json(&(struct wf_json){.out = sink.out}, c, transport_name(s));
        fputc('\n', sink.out);
    } else {
        print_text(sink.out, c, s);
    }
    WEFT_TRY(wf_output_close(&sink, WEFT_OK, err));
    if (c->result.n_findings > 0)
        return WEFT_FAIL(err, WEFT_SCHEDULE, "%s is wrong: %s", c->file,
                         c->result.findings[0].text);
    return WEFT_OK;
}

static enum weft_status run_check(int argc, char **argv, struct weft_error *err)
{
    struct check_settings s = {0};
    struct wf_check c = {0};
    const char *file = NULL;
    struct weft_channel_model channels;
    struct weft_error why = {0};
    WEFT_TRY(wf_command_parse(&wf_command_check, argc, argv, &s, &file, err));
    WEFT_TRY(wf_channel_depth_parse(s.transport, "--transport", &channels.depth, err));
    channels.by_pair = s.channels != NULL && strcmp(s.channels, "pair") == 0;
    bool pytorch = s.lower_like != NULL && strcmp(s.lower_like, "pytorch") == 0;

    enum weft_status st = wf_check_init(
        &c, file, &channels, pytorch ? WEFT_LOWERING_PYTORCH : WEFT_LOWERING_LATE, &why);
    if (st == WEFT_SCHEDULE && s.json)
        print_unreadable(stdout, file, &why);
    if (st != WEFT_OK && err != NULL)
        *err = why;
    if (st == WEFT_OK && s.lower_like != NULL && weft_schedule_is_lowered(c.read))
        st = WEFT_FAIL(err, WEFT_USAGE, "%s already contains messages; leave out --lower-like",
                       file);
    if (st == WEFT_OK)
        st = print_result(&c, &s, err);
    wf_check_release(&c);
    return st;
}

const struct wf_command wf_command_check = {
    .name = "check",
    .summary = "prove that a schedule file is correct, or show where it is wrong",
    .operands = "FILE",
    .text =
        "Reads a schedule (weft's own CSV or PyTorch's, with or without messages) and proves\n"
        "that every stage runs every micro once forward and once backward, in an order that\n"
        "cannot deadlock. Both endpoints of every channel must have the same sequence of\n"
        "messages, and the schedule must complete with the given transport: buffered sends\n"
        "never wait; a rendezvous send waits until the receiver reaches its receive; with\n"
        "depth=N a channel holds N messages. The exit code is 5 if the schedule is wrong.\n",
    .examples = "  weft check zbv.csv\n"
                "  weft check lowered.csv --transport rendezvous\n"
                "  weft plan -s 1f1b -p 4 -m 8 --format csv | weft check -\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_check,
};
