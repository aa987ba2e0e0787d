/* A trace as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "weft/trace.h"

/* The shortest text that reads back as the same double. */
static void add_number(struct weft_text *out, double value)
{
    char text[32];
    if (value >= 0 && value < 1e15 && value == (double)(uint64_t)value) {
        weft_text_addu(out, (uint64_t)value);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    weft_text_adds(out, text);
}

static void add_action(struct weft_text *out, struct weft_action a)
{
    weft_text_addu(out, a.stage);
    weft_text_adds(out, weft_kind_name(a.kind));
    if (weft_kind_has_micro(a.kind))
        weft_text_addu(out, a.micro);
}

static void add_event(struct weft_text *out, const struct weft_trace_event *e)
{
    weft_text_addu(out, e->rank);
    weft_text_addc(out, ' ');
    weft_text_adds(out, weft_lane_name(e->lane));
    weft_text_adds(out, e->action.paired ? " (" : " ");
    add_action(out, e->action);
    if (e->action.paired) {
        weft_text_addc(out, ';');
        add_action(out, e->partner);
        weft_text_adds(out, ")OVERLAP_F_B");
    }
    weft_text_addc(out, ' ');
    add_number(out, e->start);
    weft_text_addc(out, ' ');
    add_number(out, e->length);
    if (e->bytes != 0 || e->peer != WEFT_NO_RANK)
        weft_text_addf(out, " %" PRIu64, e->bytes);
    if (e->peer != WEFT_NO_RANK)
        weft_text_addf(out, " %u", e->peer);
    weft_text_addc(out, '\n');
}

enum weft_status weft_trace_write(const struct weft_trace *t, char **out, size_t *len,
                                  struct weft_error *err)
{
    struct weft_text text = {0};
    weft_text_adds(&text, "# weft trace 1\n");
    if (t->name[0] != '\0')
        weft_text_addf(&text, "# weft name %s\n", t->name);
    weft_text_addf(&text, "# weft ranks %u stages %u micros %u\n# weft unit ", t->n_ranks,
                   t->n_stages, t->n_micros);
    add_number(&text, t->unit_seconds);
    weft_text_addc(&text, '\n');
    for (size_t i = 0; i < t->n_events; i++)
        add_event(&text, &t->events[i]);
    for (size_t i = 0; i < t->n_memory; i++) {
        weft_text_addf(&text, "%u memory ", t->memory[i].rank);
        add_number(&text, t->memory[i].time);
        weft_text_addc(&text, ' ');
        add_number(&text, t->memory[i].amount);
        weft_text_addc(&text, '\n');
    }
    if (text.failed) {
        weft_text_release(&text);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to print a trace");
    }
    *out = text.at;
    if (len != NULL)
        *len = text.len;
    return WEFT_OK;
}
