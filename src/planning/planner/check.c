/* Reads, lowers and proves a schedule file, and writes the result as JSON. */
#include "planning/planner/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/planner/choice.h"

enum weft_status wf_channel_depth_parse(const char *text, const char *what, size_t *depth,
                                        struct weft_error *err)
{
    static const char prefix[] = "depth=";
    const size_t len = sizeof prefix - 1;
    if (text == NULL || strcmp(text, "buffered") == 0) {
        *depth = WEFT_CHANNEL_BUFFERED;
        return WEFT_OK;
    }
    if (strcmp(text, "rendezvous") == 0) {
        *depth = 0;
        return WEFT_OK;
    }
    if (strncmp(text, prefix, len) == 0 && text[len] >= '0' && text[len] <= '9') {
        char *end = NULL;
        unsigned long long n = strtoull(text + len, &end, 10);
        if (*end == '\0' && n < SIZE_MAX) {
            *depth = (size_t)n;
            return WEFT_OK;
        }
    }
    return WEFT_FAIL(err, WEFT_USAGE, "%s: '%.40s' is not one of buffered, rendezvous, depth=N",
                     what, text);
}

const struct weft_schedule *wf_check_schedule(const struct wf_check *c)
{
    return c->lowered != NULL ? c->lowered : c->read;
}

const char *wf_torch_severity_name(enum weft_torch_severity severity)
{
    static const char *const names[] = {"refused", "wrong", "note"};
    return names[severity];
}

size_t wf_check_n_findings(const struct wf_check *c)
{
    return c->result.n_findings < WEFT_MAX_FINDINGS ? c->result.n_findings : WEFT_MAX_FINDINGS;
}

enum weft_status wf_torch_require(const struct weft_schedule *s, struct weft_error *err)
{
    struct weft_torch_report r;
    weft_torch_check(s, &r);
    if (r.n > 0 && r.at[0].severity != WEFT_TORCH_SEVERITY_NOTE)
        return WEFT_FAIL(err, WEFT_SCHEDULE, "PyTorch cannot run %s: %s",
                         weft_schedule_name(s)[0] != '\0' ? weft_schedule_name(s)
                                                          : "this schedule",
                         r.at[0].text);
    return WEFT_OK;
}

const char *wf_check_failure(const struct wf_check *c)
{
    if (c->result.n_findings > 0)
        return c->result.findings[0].text;
    for (size_t i = 0; i < c->torch.n; i++)
        if (c->torch.at[i].severity != WEFT_TORCH_SEVERITY_NOTE)
            return c->torch.at[i].text;
    return NULL;
}

/* Chooses the channels and the lowering.  Rows without a header are PyTorch's, unless they run a
 * stage on several ranks, which PyTorch cannot do. */
static enum weft_status choose_models(struct wf_check *c, const struct wf_check_options *o,
                                      struct weft_error *err)
{
    bool torch = o->for_torch || (!weft_schedule_has_header(c->read) &&
                                  weft_schedule_placement(c->read)->n_pipes == 1);
    c->channels_assumed = o->channels == WF_CHECK_CHANNELS_OF_FILE;
    c->channels = (struct weft_channel_model){
        .depth = o->depth,
        .by_pair = c->channels_assumed ? torch : o->channels == WF_CHECK_CHANNELS_PAIR};
    c->lowering = torch ? WEFT_LOWERING_TORCH_2_10 : WEFT_LOWERING_WEFT;
    if (o->lowering == NULL)
        return WEFT_OK;
    if (weft_schedule_is_lowered(c->read))
        return WEFT_FAIL(err, WEFT_USAGE, "%s already contains messages; none can be added",
                         c->file);
    return weft_lowering_find(o->lowering, &c->lowering, err);
}

static enum weft_status prove(struct wf_check *c, struct weft_error *err)
{
    WEFT_TRY(weft_verify(c->read, &c->channels, &c->result, err));
    if (c->result.n_findings > 0 || weft_schedule_is_lowered(c->read))
        return WEFT_OK;
    WEFT_TRY(weft_schedule_lower(c->read, c->lowering, &c->lowered, err));
    weft_verify_result_release(&c->result);
    return weft_verify(c->lowered, &c->channels, &c->result, err);
}

/* Proves the schedule with the channels of the other system. */
static enum weft_status prove_other(struct wf_check *c, struct weft_error *err)
{
    const struct weft_channel_model other = {c->channels.depth, !c->channels.by_pair};
    struct weft_verify_result r;
    WEFT_TRY(weft_verify(wf_check_schedule(c), &other, &r, err));
    c->other_ok = r.n_findings == 0;
    if (!c->other_ok)
        memcpy(c->other_finding, r.findings[0].text, sizeof c->other_finding);
    weft_verify_result_release(&r);
    return WEFT_OK;
}

enum weft_status wf_check_init(struct wf_check *out, const char *file,
                               const struct wf_check_options *options, struct weft_error *err)
{
    struct wf_check c = {.file = file, .for_torch = options->for_torch};
    WEFT_TRY(wf_schedule_read(file, &c.read, err));
    enum weft_status st = choose_models(&c, options, err);
    if (st == WEFT_OK && c.for_torch)
        weft_torch_check(c.read, &c.torch);
    bool refused = c.torch.n > 0 && c.torch.at[0].severity == WEFT_TORCH_SEVERITY_REFUSED;
    if (st == WEFT_OK && refused)
        c.lowering = WEFT_LOWERING_WEFT; /* PyTorch has no lowering for it */
    if (st == WEFT_OK)
        st = prove(&c, err);
    if (st == WEFT_OK)
        st = prove_other(&c, err);
    if (st == WEFT_OK)
        *out = c;
    else
        wf_check_release(&c);
    return st;
}

void wf_check_release(struct wf_check *c)
{
    weft_schedule_free(c->read);
    weft_schedule_free(c->lowered);
    weft_verify_result_release(&c->result);
    *c = (struct wf_check){0};
}

/* -- depth of channels ---------------------------------------------------------------------- */

static enum weft_status completes(const struct wf_check *c, size_t depth, bool *out,
                                  struct weft_error *err)
{
    const struct weft_channel_model channels = {.depth = depth, .by_pair = c->channels.by_pair};
    struct weft_verify_result r;
    WEFT_TRY(weft_verify(wf_check_schedule(c), &channels, &r, err));
    *out = r.n_findings == 0;
    weft_verify_result_release(&r);
    return WEFT_OK;
}

/* Searches by doubling, then by bisection.  If a schedule completes with buffered channels,
 * it also completes with a depth equal to its number of messages. */
enum weft_status wf_check_enough_depth(const struct wf_check *c, size_t *out,
                                       struct weft_error *err)
{
    size_t low = c->channels.depth, max = c->result.n_messages, high = low + 1;
    bool done = false;
    *out = 0;
    if (c->result.n_cycle == 0 || low >= max)
        return WEFT_OK;
    WEFT_TRY(completes(c, high, &done, err));
    while (!done) {
        if (high >= max)
            return WEFT_OK;
        low = high;
        high = high > max / 2 ? max : 2 * high;
        WEFT_TRY(completes(c, high, &done, err));
    }

    /* invariant: deadlock at depth `low`, completion at depth `high` */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        WEFT_TRY(completes(c, middle, &done, err));
        if (done)
            high = middle;
        else
            low = middle;
    }
    *out = high;
    return WEFT_OK;
}

/* -- JSON ----------------------------------------------------------------------------------- */

static void put_finding(struct wf_json *j, const struct wf_check *c,
                        const struct weft_finding *f)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "rule", weft_rule_name(f->rule));
    if (f->has_position) {
        char cell[WEFT_ACTION_TEXT_MAX];
        struct weft_action_span row = weft_schedule_rank(wf_check_schedule(c), f->rank);
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

static void put_cycle(struct wf_json *j, const struct weft_verify_result *r)
{
    wf_json_begin(j, "cycle", '[');
    for (size_t i = 0; i < r->n_cycle; i++) {
        char at[WEFT_ACTION_TEXT_MAX], for_action[WEFT_ACTION_TEXT_MAX];
        weft_action_print(r->cycle[i].action, at);
        weft_action_print(r->cycle[i].for_action, for_action);
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "rank", r->cycle[i].rank);
        wf_json_string(j, "at", at);
        wf_json_string(j, "waits_for", for_action);
        wf_json_uint(j, "of_rank", r->cycle[i].for_rank);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

static void put_torch(struct wf_json *j, const struct weft_torch_report *t)
{
    wf_json_begin(j, "torch", '[');
    for (size_t i = 0; i < t->n; i++) {
        const struct weft_torch_finding *f = &t->at[i];
        wf_json_begin(j, NULL, '{');
        wf_json_string(j, "severity", wf_torch_severity_name(f->severity));
        if (f->has_place) {
            wf_json_uint(j, "rank", f->place.rank);
            wf_json_uint(j, "position", f->place.position);
        }
        wf_json_string(j, "text", f->text);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

void wf_check_write_json(struct wf_json *j, const struct wf_check *c, const char *transport)
{
    const struct weft_placement *place = weft_schedule_placement(c->read);
    const struct weft_verify_result *r = &c->result;
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "file", c->file);
    wf_json_bool(j, "ok", wf_check_failure(c) == NULL);
    wf_json_string(j, "schedule", weft_schedule_name(c->read));
    wf_json_uint(j, "ranks", place->n_ranks);
    wf_json_uint(j, "stages", place->n_stages);
    wf_json_uint(j, "micros", place->n_micros);
    wf_json_string(j, "placement_kind",
                   weft_placement_name(weft_schedule_placement_kind(c->read)));
    wf_json_bool(j, "lowered", weft_schedule_is_lowered(c->read));
    wf_json_bool(j, "forward_only", weft_schedule_is_forward_only(c->read));
    wf_json_string(j, "transport", transport);
    wf_json_string(j, "channels_by", c->channels.by_pair ? "pair" : "direction");
    if (c->lowered != NULL)
        wf_json_string(j, "lowering", weft_lowering_name(c->lowering));
    wf_json_uint(j, "actions", r->n_compute);
    wf_json_uint(j, "messages", r->n_messages);
    wf_json_uint(j, "channels", r->n_channels);
    wf_json_begin(j, "peak_activations", '[');
    for (uint32_t i = 0; i < r->n_ranks; i++)
        wf_json_uint(j, NULL, r->peak_activations[i]);
    wf_json_end(j, ']');
    wf_json_uint(j, "n_findings", r->n_findings);
    wf_json_begin(j, "findings", '[');
    for (size_t i = 0; i < wf_check_n_findings(c); i++)
        put_finding(j, c, &r->findings[i]);
    wf_json_end(j, ']');
    put_cycle(j, r);
    wf_json_begin(j, "other_channels", '{');
    wf_json_string(j, "by", c->channels.by_pair ? "direction" : "pair");
    wf_json_bool(j, "ok", c->other_ok);
    if (!c->other_ok)
        wf_json_string(j, "finding", c->other_finding);
    wf_json_end(j, '}');
    if (c->for_torch)
        put_torch(j, &c->torch);
    wf_json_end(j, '}');
}

void wf_check_write_error_json(struct wf_json *j, const char *file,
                               const struct weft_error *why)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "file", file);
    wf_json_bool(j, "ok", false);
    wf_json_string(j, "error", why->msg);
    wf_json_end(j, '}');
}
