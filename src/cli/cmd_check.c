#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "planning/draw/findings.h"
#include "weft/verify.h"

struct check_settings {
    const char *transport, *channels, *lower_like, *color;
    uint32_t width;
    bool json;
};

#define AT(field) offsetof(struct check_settings, field)

static const struct wf_option options[] = {
    {"transport", 't', WF_OPTION_TEXT, "HOW",
     "buffered (the default), rendezvous, or depth=N messages a channel", NULL, AT(transport)},
    {"channels", 0, WF_OPTION_CHOICE, "BY",
     "a queue for each direction of data between two ranks, or one for both", "direction|pair",
     AT(channels)},
    {"lower-like", 0, WF_OPTION_CHOICE, "WHOM", "how to add messages when the file has none",
     "weft|pytorch", AT(lower_like)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "findings and sizes, for programs", NULL, AT(json)},
    {"width", 0, WF_OPTION_COUNT, "N", "columns to draw in (the terminal's)", NULL, AT(width)},
    {"color", 0, WF_OPTION_CHOICE, "WHEN", "auto, always or never", "auto|always|never",
     AT(color)},
};

struct check {
    const char *file; /* borrowed */
    struct weft_channel_model transport;
    const char *transport_name;
    struct weft_schedule *read;    /* owned: as the file has it */
    struct weft_schedule *lowered; /* owned: with messages added, NULL when it had them */
    struct weft_verify_result report;
};

static enum weft_status parse_transport(const char *text, struct weft_channel_model *out,
                                        struct weft_error *err)
{
    out->depth = WEFT_CHANNEL_BUFFERED;
    if (text == NULL || strcmp(text, "buffered") == 0)
        return WEFT_OK;
    if (strcmp(text, "rendezvous") == 0) {
        out->depth = 0;
        return WEFT_OK;
    }
    char *end = NULL;
    if (strncmp(text, "depth=", 6) == 0 && text[6] >= '0' && text[6] <= '9') {
        unsigned long long n = strtoull(text + 6, &end, 10);
        if (*end == '\0' && n < SIZE_MAX) {
            out->depth = (size_t)n;
            return WEFT_OK;
        }
    }
    return WEFT_FAIL(err, WEFT_USAGE,
                     "--transport: '%.40s' is none of buffered, rendezvous, depth=N", text);
}

/* The schedule that the report speaks of. */
static const struct weft_schedule *judged(const struct check *c)
{
    return c->lowered != NULL ? c->lowered : c->read;
}

/* A file without messages is proven as it is, then with the messages that it will have. */
static enum weft_status prove(struct check *c, const struct check_settings *s,
                              struct weft_error *err)
{
    bool pytorch = s->lower_like != NULL && strcmp(s->lower_like, "pytorch") == 0;
    if (s->lower_like != NULL && weft_schedule_is_lowered(c->read))
        return WEFT_FAIL(err, WEFT_USAGE, "%s has its messages already: leave out --lower-like",
                         c->file);
    WEFT_TRY(weft_verify(c->read, &c->transport, &c->report, err));
    if (c->report.n_findings > 0 || weft_schedule_is_lowered(c->read))
        return WEFT_OK;
    WEFT_TRY(weft_schedule_lower(c->read, pytorch ? WEFT_LOWERING_PYTORCH : WEFT_LOWERING_LATE,
                                 &c->lowered, err));
    weft_verify_result_release(&c->report);
    return weft_verify(c->lowered, &c->transport, &c->report, err);
}

static enum weft_status read_and_prove(struct check *c, const struct check_settings *s,
                                       struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(parse_transport(s->transport, &c->transport, err));
    c->transport.by_pair = s->channels != NULL && strcmp(s->channels, "pair") == 0;
    c->transport_name = s->transport != NULL ? s->transport : "buffered";
    WEFT_TRY(wf_input_read_as(WEFT_SCHEDULE, c->file, &text, &len, err));
    bool keep_idle = s->lower_like != NULL && strcmp(s->lower_like, "pytorch") == 0;
    enum weft_status st = weft_schedule_parse(text, len, c->file, keep_idle, &c->read, err);
    free(text);
    return st == WEFT_OK ? prove(c, s, err) : st;
}

/* -- printing ------------------------------------------------------------------------------- */

static size_t n_kept(const struct weft_verify_result *r)
{
    return r->n_findings < WEFT_MAX_FINDINGS ? r->n_findings : WEFT_MAX_FINDINGS;
}

static void put_finding(struct wf_json *j, const struct check *c, const struct weft_finding *f)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "rule", weft_rule_name(f->rule));
    if (f->has_position) {
        char cell[WEFT_ACTION_TEXT_MAX];
        struct weft_action_span row = weft_schedule_rank(judged(c), f->rank);
        wf_json_uint(j, "rank", f->rank);
        wf_json_uint(j, "position", f->position);
        if (f->position < row.len) {
            weft_action_print(row.at[f->position], cell);
            wf_json_string(j, "action", cell);
        }
    }
    wf_json_string(j, "text", f->text);
    wf_json_end(j, '}');
}

static void print_json(FILE *out, const struct check *c)
{
    const struct weft_placement *place = weft_schedule_placement(c->read);
    const struct weft_verify_result *r = &c->report;
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "file", c->file);
    wf_json_bool(&j, "ok", r->n_findings == 0);
    wf_json_string(&j, "schedule", weft_schedule_name(c->read));
    wf_json_uint(&j, "ranks", place->n_ranks);
    wf_json_uint(&j, "stages", place->n_stages);
    wf_json_uint(&j, "micros", place->n_micros);
    wf_json_string(&j, "placement_kind",
                   weft_placement_name(weft_schedule_placement_kind(c->read)));
    wf_json_bool(&j, "lowered", weft_schedule_is_lowered(c->read));
    wf_json_string(&j, "transport", c->transport_name);
    wf_json_uint(&j, "actions", r->n_compute);
    wf_json_uint(&j, "messages", r->n_messages);
    wf_json_uint(&j, "channels", r->n_channels);
    wf_json_begin(&j, "peak_activations", '[');
    for (uint32_t i = 0; i < r->n_ranks; i++)
        wf_json_uint(&j, NULL, r->peak_activations[i]);
    wf_json_end(&j, ']');
    wf_json_uint(&j, "n_findings", r->n_findings);
    wf_json_begin(&j, "findings", '[');
    for (size_t i = 0; i < n_kept(r); i++)
        put_finding(&j, c, &r->findings[i]);
    wf_json_end(&j, ']');
    wf_json_begin(&j, "cycle", '[');
    for (size_t i = 0; i < r->n_cycle; i++) {
        char at[WEFT_ACTION_TEXT_MAX], for_action[WEFT_ACTION_TEXT_MAX];
        weft_action_print(r->cycle[i].action, at);
        weft_action_print(r->cycle[i].for_action, for_action);
        wf_json_begin(&j, NULL, '{');
        wf_json_uint(&j, "rank", r->cycle[i].rank);
        wf_json_string(&j, "at", at);
        wf_json_string(&j, "waits_for", for_action);
        wf_json_uint(&j, "of_rank", r->cycle[i].for_rank);
        wf_json_end(&j, '}');
    }
    wf_json_end(&j, ']');
    wf_json_end(&j, '}');
    fputc('\n', out);
}

/* A file that is no schedule: programs that asked for JSON get JSON. */
static void print_unreadable(FILE *out, const struct check *c, const struct weft_error *why)
{
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "file", c->file);
    wf_json_bool(&j, "ok", false);
    wf_json_string(&j, "error", why->msg);
    wf_json_end(&j, '}');
    fputc('\n', out);
}

/* The text of a finding without the place, which the arrow shows.  The stage and micro of what is
 * missing are no place: the arrow stands where they could be. */
static const char *without_place(const struct weft_finding *f)
{
    const char *colon = strncmp(f->text, "rank ", 5) == 0 ? strstr(f->text, ": ") : NULL;
    return colon != NULL ? colon + 2 : f->text;
}

/* Arrows for the first findings that have a place, one a row; the others as lines. */
static void draw_findings(struct wf_text *out, const struct check *c,
                          struct weft_text_style style)
{
    enum { ARROWS = 8, LINES = 8 };
    const struct weft_verify_result *r = &c->report;
    struct wf_annotation annotations[ARROWS];
    bool drawn[WEFT_MAX_FINDINGS] = {false};
    size_t n = 0, lines = 0, left = r->n_findings;
    for (size_t i = 0; i < n_kept(r) && n < ARROWS; i++) {
        const struct weft_finding *f = &r->findings[i];
        bool taken = false;
        for (size_t k = 0; k < n; k++)
            taken = taken || annotations[k].rank == f->rank;
        if (f->has_position && !taken) {
            annotations[n++] = (struct wf_annotation){f->rank, f->position, without_place(f)};
            drawn[i] = true;
            left--;
        }
    }
    if (n > 0)
        wf_draw_annotations(out, judged(c), annotations, n, style);
    for (size_t i = 0; i < n_kept(r) && lines < LINES; i++) {
        if (drawn[i])
            continue;
        wf_text_addf(out, "  %s: %s\n", weft_rule_name(r->findings[i].rule),
                     r->findings[i].text);
        lines++;
        left--;
    }
    if (left > 0)
        wf_text_addf(out, "  and %zu more (--json shows %d)\n", left, WEFT_MAX_FINDINGS);
}

/* Deadlocks of bounded channels are cured by deeper ones.  Finds the least depth that is enough,
 * which exists: a schedule that completes buffered needs no more than all of its messages. */
static bool completes(const struct check *c, size_t depth)
{
    struct weft_channel_model transport = {.depth = depth, .by_pair = c->transport.by_pair};
    struct weft_verify_result report;
    if (weft_verify(judged(c), &transport, &report, NULL) != WEFT_OK)
        return false;
    bool ok = report.n_findings == 0;
    weft_verify_result_release(&report);
    return ok;
}

static void say_enough(struct wf_text *out, const struct check *c)
{
    size_t low = c->transport.depth, most = c->report.n_messages, high = low + 1;
    if (c->report.n_cycle == 0 || low >= most)
        return;
    while (!completes(c, high)) {
        if (high >= most)
            return;
        low = high;
        high = high > most / 2 ? most : 2 * high;
    }
    while (high - low > 1) { /* low is too little, high is enough */
        size_t middle = low + (high - low) / 2;
        if (completes(c, middle))
            high = middle;
        else
            low = middle;
    }
    wf_text_addf(out, "  it completes with --transport depth=%zu or more%s\n", high,
                 c->lowered != NULL ? ", or with --lower-like pytorch" : "");
}

static void print_text(FILE *out, const struct check *c, const struct check_settings *s)
{
    const struct weft_placement *place = weft_schedule_placement(c->read);
    const struct weft_verify_result *r = &c->report;
    struct wf_text text = {0};
    wf_text_addf(&text, "%s: %s%s%u rank%s, %u stage%s (%s), %u micro%s\n", c->file,
                 weft_schedule_name(c->read), weft_schedule_name(c->read)[0] ? ", " : "",
                 place->n_ranks, wf_plural(place->n_ranks), place->n_stages,
                 wf_plural(place->n_stages),
                 weft_placement_name(weft_schedule_placement_kind(c->read)), place->n_micros,
                 wf_plural(place->n_micros));
    if (r->n_findings > 0) {
        draw_findings(&text, c, wf_style_for(out, s->color, s->width));
        say_enough(&text, c);
    } else {
        wf_text_addf(&text,
                     "right: %zu actions, every stage and micro once each way, %zu messages "
                     "over %zu channels agree, completes %s\npeak activations ",
                     r->n_compute, r->n_messages, r->n_channels, c->transport_name);
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

static void check_release(struct check *c)
{
    weft_schedule_free(c->read);
    weft_schedule_free(c->lowered);
    weft_verify_result_release(&c->report);
}

static enum weft_status print_result(const struct check *c, const struct check_settings *s,
                                     struct weft_error *err)
{
    struct wf_output sink;
    WEFT_TRY(wf_output_open(&sink, NULL, err));
    if (s->json)
        print_json(sink.out, c);
    else
        print_text(sink.out, c, s);
    WEFT_TRY(wf_output_close(&sink, WEFT_OK, err));
    if (c->report.n_findings > 0)
        return WEFT_FAIL(err, WEFT_SCHEDULE, "%s is wrong: %s", c->file,
                         c->report.findings[0].text);
    return WEFT_OK;
}

static enum weft_status run_check(int argc, char **argv, struct weft_error *err)
{
    struct check_settings s = {0};
    struct check c = {0};
    WEFT_TRY(wf_command_parse(&wf_command_check, argc, argv, &s, &c.file, err));
    struct weft_error why = {0};
    enum weft_status st = read_and_prove(&c, &s, &why);
    if (st == WEFT_SCHEDULE && s.json)
        print_unreadable(stdout, &c, &why);
    if (st != WEFT_OK && err != NULL)
        *err = why;
    if (st == WEFT_OK)
        st = print_result(&c, &s, err);
    check_release(&c);
    return st;
}

const struct wf_command wf_command_check = {
    .name = "check",
    .summary = "prove a schedule file right, or show where it is wrong",
    .operands = "FILE",
    .text =
        "Reads a schedule (weft's own CSV or PyTorch's, with or without messages) and proves\n"
        "that every stage runs every micro once forward and once backward, in an order in\n"
        "which no rank waits for ever. Both ends of every channel must list the same\n"
        "sequence, and the transport named must get it through: buffered sends never wait;\n"
        "a rendezvous send waits for the receiver to stand at its receive; with depth=N a\n"
        "channel holds N messages. Exit code 5 when the schedule is wrong.\n",
    .examples = "  weft check zbv.csv\n"
                "  weft check lowered.csv --transport rendezvous\n"
                "  weft plan -s 1f1b -p 4 -m 8 --format csv | weft check -\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_check,
};
