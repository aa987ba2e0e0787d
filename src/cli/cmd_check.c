/* weft check: verifies a schedule file and shows its errors. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "planning/draw/findings.h"
#include "planning/planner/check.h"

struct check_settings {
    const char *transport, *channels, *lower, *for_system, *color;
    uint32_t width;
    bool json;
};

#define AT(field) offsetof(struct check_settings, field)

static const struct wf_option options[] = {
    {"transport", 't', WF_OPTION_TEXT, "HOW",
     "buffered (default), rendezvous, or depth=N messages per channel", NULL, AT(transport)},
    {"channels", 0, WF_OPTION_CHOICE, "BY",
     "direction: one queue per pair of ranks and direction of data (weft); pair: one per directed "
     "pair of ranks (PyTorch); default: pair for files without weft's header, else direction",
     "direction|pair", AT(channels)},
    {"lower", 0, WF_OPTION_CHOICE, "HOW",
     "the messages to add if the file has none (default: torch-2.10 for files without weft's "
     "header, else weft)",
     WF_LOWERINGS, AT(lower)},
    {"for", 0, WF_OPTION_CHOICE, "SYSTEM", "also apply the rules of PyTorch's runtime", "torch",
     AT(for_system)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print findings and sizes as JSON", NULL, AT(json)},
    {"width", 0, WF_OPTION_COUNT, "N",
     "width of the drawing in columns (default: that of the terminal)", NULL, AT(width)},
    {"color", 0, WF_OPTION_CHOICE, "WHEN",
     "colours in the drawing (default: auto, on a terminal)", "auto|always|never", AT(color)},
};

static const char *transport_name(const struct check_settings *s)
{
    return s->transport != NULL ? s->transport : "buffered";
}

/* Draws arrows for the first findings that have a position, one per row, and prints all other
 * findings as lines.  An arrow shows the position, so that its text omits it. */
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
                (struct wf_annotation){f->rank, f->position, f->text + f->detail};
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
static enum weft_status print_enough(struct wf_text *out, const struct wf_check *c,
                                     struct weft_error *err)
{
    size_t depth = 0;
    WEFT_TRY(wf_check_enough_depth(c, &depth, err));
    if (depth > 0)
        wf_text_addf(out, "  it completes with --transport depth=%zu or more%s\n", depth,
                     c->lowered != NULL ? ", or with --lower=torch-2.10" : "");
    return WEFT_OK;
}

static const char *channel_words(bool by_pair)
{
    return by_pair ? "one queue per directed pair of ranks (PyTorch)"
                   : "one queue per pair of ranks and direction of data (weft)";
}

/* Prints the channels that were assumed, what holds with the other ones, and the findings for
 * PyTorch. */
static void print_models(struct wf_text *out, const struct wf_check *c)
{
    const char *other = channel_words(!c->channels.by_pair);
    bool ok = c->result.n_findings == 0;
    wf_text_addf(out, "channels: %s%s", channel_words(c->channels.by_pair),
                 c->channels_assumed ? ", from the form of the file" : "");
    if (c->other_ok)
        wf_text_addf(out, "; %scorrect with %s\n", ok ? "also " : "", other);
    else if (ok)
        wf_text_addf(out, "; wrong with %s: %s\n", other, c->other_finding);
    else
        wf_text_adds(out, "\n");
    for (size_t i = 0; i < c->torch.n; i++)
        wf_text_addf(out, "torch: %s: %s\n", wf_torch_severity_name(c->torch.at[i].severity),
                     c->torch.at[i].text);
}

static enum weft_status print_text(FILE *out, const struct wf_check *c,
                                   const struct check_settings *s, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(c->read);
    const struct weft_verify_result *r = &c->result;
    struct wf_text text = {0};
    enum weft_status st = WEFT_OK;
    bool forward_only = weft_schedule_is_forward_only(c->read);
    wf_text_addf(&text, "%s: %s%s%u rank%s, %u stage%s (%s), %u micro%s%s\n",
                 wf_shown(c->file).at, weft_schedule_name(c->read),
                 weft_schedule_name(c->read)[0] ? ", " : "", place->n_ranks,
                 wf_plural(place->n_ranks), place->n_stages, wf_plural(place->n_stages),
                 weft_placement_name(weft_schedule_placement_kind(c->read)), place->n_micros,
                 wf_plural(place->n_micros), forward_only ? ", forward-only" : "");
    if (r->n_findings > 0) {
        draw_findings(&text, c, wf_style_for(out, s->color, s->width));
        st = print_enough(&text, c, err);
    } else {
        wf_text_addf(&text,
                     "correct: %zu actions; every stage runs every micro once forward%s; %zu "
                     "messages over %zu channels match; completes with %s sends\n"
                     "peak activations ",
                     r->n_compute, forward_only ? "" : " and once backward", r->n_messages,
                     r->n_channels, transport_name(s));
        for (uint32_t i = 0; i < r->n_ranks && i < 32; i++)
            wf_text_addf(&text, " %zu", r->peak_activations[i]);
        wf_text_adds(&text, r->n_ranks > 32 ? " ...\n" : "\n");
    }
    print_models(&text, c);
    if (st == WEFT_OK)
        return wf_text_flush(&text, out, err);
    wf_text_release(&text);
    return st;
}

static enum weft_status print_result(const struct wf_check *c, const struct check_settings *s,
                                     struct weft_error *err)
{
    struct wf_output sink;
    enum weft_status st = WEFT_OK;
    WEFT_TRY(wf_output_open(&sink, NULL, err));
    if (s->json) {
        wf_check_write_json(&(struct wf_json){.out = sink.out}, c, transport_name(s));
        fputc('\n', sink.out);
    } else {
        st = print_text(sink.out, c, s, err);
    }
    WEFT_TRY(wf_output_close(&sink, st, err));
    const char *failure = wf_check_failure(c);
    if (failure != NULL)
        return WEFT_FAIL(err, WEFT_SCHEDULE, "%s is wrong%s: %s", c->file,
                         c->result.n_findings == 0 ? " for PyTorch" : "", failure);
    return WEFT_OK;
}

static enum weft_status run_check(int argc, char **argv, struct weft_error *err)
{
    struct check_settings s = {0};
    struct wf_check c = {0};
    const char *file = NULL;
    struct weft_error why = {0};
    struct wf_check_options o = {0};
    WEFT_TRY(wf_command_parse(&wf_command_check, argc, argv, &s, &file, err));
    WEFT_TRY(wf_channel_depth_parse(s.transport, "--transport", &o.depth, err));
    if (s.channels != NULL)
        o.channels = strcmp(s.channels, "pair") == 0 ? WF_CHECK_CHANNELS_PAIR
                                                     : WF_CHECK_CHANNELS_DIRECTION;
    o.lowering = s.lower;
    o.for_torch = s.for_system != NULL;

    enum weft_status st = wf_check_init(&c, file, &o, &why);
    if (st == WEFT_SCHEDULE && s.json) {
        wf_check_write_error_json(&(struct wf_json){.out = stdout}, file, &why);
        putchar('\n');
    }
    if (st != WEFT_OK && err != NULL)
        *err = why;
    if (st == WEFT_OK)
        st = print_result(&c, &s, err);
    wf_check_release(&c);
    return st;
}

const struct wf_command wf_command_check = {
    .name = "check",
    .summary = "verify a schedule file, or show where it is wrong",
    .operands = "FILE",
    .text =
        "Reads a schedule (weft's own CSV or PyTorch's, with or without messages) and proves\n"
        "that every stage runs every micro once forward and once backward, in an order that\n"
        "cannot deadlock. A file without any backward is a forward-only schedule: every stage\n"
        "runs every micro once forward. Both endpoints of every channel must have the same\n"
        "sequence of messages, and the schedule must complete with the given transport: buffered\n"
        "sends\n"
        "never wait; a rendezvous send waits until the receiver reaches its receive; with\n"
        "depth=N a channel holds N messages. The exit code is 5 if the schedule is wrong.\n"
        "\n"
        "PyTorch has one queue per directed pair of ranks and no tags. A schedule can therefore\n"
        "be correct in weft and still deliver tensors to the wrong receives in PyTorch. Files\n"
        "without weft's header are checked as PyTorch runs them. --for torch also reports what\n"
        "PyTorch refuses, what it runs with wrong results, and the releases that accept the\n"
        "file.\n",
    .examples = "  weft check zbv.csv\n"
                "  weft check lowered.csv --transport rendezvous\n"
                "  weft plan -s 1f1b -p 4 -m 8 --format csv | weft check -\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_check,
};
