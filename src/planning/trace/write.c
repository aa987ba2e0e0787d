/* Writer of the text form of traces. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "weft/trace.h"

/* Appends the shortest text that reads back as the same double. */
static void add_number(struct wf_text *out, double value)
{
    char text[WF_NUMBER_CHARS];
    if (value >= 0 && value < 1e15 && value == (double)(uint64_t)value) {
        wf_text_addu(out, (uint64_t)value);
        return;
    }
    wf_number_print(value, text);
    wf_text_adds(out, text);
}

static void add_action(struct wf_text *out, struct weft_action a)
{
    wf_text_addu(out, a.stage);
    wf_text_adds(out, weft_act_name(a.kind));
    if (weft_act_has_micro(a.kind))
        wf_text_addu(out, a.micro);
}

static void add_event(struct wf_text *out, const struct weft_trace_event *e)
{
    wf_text_addu(out, e->rank);
    wf_text_addc(out, ' ');
    wf_text_adds(out, weft_lane_name(e->lane));
    wf_text_adds(out, e->action.paired ? " (" : " ");
    add_action(out, e->action);
    if (e->action.paired) {
        wf_text_addc(out, ';');
        add_action(out, e->partner);
        wf_text_adds(out, ")OVERLAP_F_B");
    }
    wf_text_addc(out, ' ');
    add_number(out, e->start);
    wf_text_addc(out, ' ');
    add_number(out, e->length);
    if (e->bytes != 0 || e->peer != WEFT_NO_RANK)
        wf_text_addf(out, " %" PRIu64, e->bytes);
    if (e->peer != WEFT_NO_RANK)
        wf_text_addf(out, " %u", e->peer);
    wf_text_addc(out, '\n');
}

enum weft_status weft_trace_write(const struct weft_trace *t, char **out, size_t *len,
                                  struct weft_error *err)
{
    struct wf_text text = {0};
    wf_text_adds(&text, "# weft trace 1\n");
    if (t->name[0] != '\0')
        wf_text_addf(&text, "# weft name %s\n", t->name);
    wf_text_addf(&text, "# weft ranks %u stages %u micros %u\n# weft unit ", t->n_ranks,
                 t->n_stages, t->n_micros);
    add_number(&text, t->unit_seconds);
    wf_text_addc(&text, '\n');

    for (size_t i = 0; i < t->n_events; i++)
        add_event(&text, &t->events[i]);
    for (size_t i = 0; i < t->n_memory; i++) {
        wf_text_addf(&text, "%u memory ", t->memory[i].rank);
        add_number(&text, t->memory[i].time);
        wf_text_addc(&text, ' ');
        add_number(&text, t->memory[i].amount);
        wf_text_addc(&text, '\n');
    }

    if (text.failed) {
        wf_text_release(&text);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to print a trace");
    }
    *out = text.at;
    if (len != NULL)
        *len = text.len;
    return WEFT_OK;
}
