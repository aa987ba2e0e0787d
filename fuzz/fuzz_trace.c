/* Parses any bytes as a trace.  Checks that an accepted trace is unchanged after writing and
 * parsing, and that it can be summarized and drawn. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "require.h"
#include "weft/draw.h"

static int same(const struct weft_trace *a, const struct weft_trace *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n_events != b->n_events ||
        a->n_memory != b->n_memory || a->makespan != b->makespan ||
        a->n_chunks != b->n_chunks || a->unit_seconds != b->unit_seconds)
        return 0;
    for (size_t i = 0; i < a->n_events; i++) {
        const struct weft_trace_event *x = &a->events[i], *y = &b->events[i];
        if (x->start != y->start || x->length != y->length || x->rank != y->rank ||
            x->lane != y->lane || x->bytes != y->bytes || x->peer != y->peer ||
            memcmp(&x->action, &y->action, sizeof x->action) != 0 ||
            memcmp(&x->partner, &y->partner, sizeof x->partner) != 0)
            return 0;
    }
    return 1;
}

/* Draws one of the formats; the input selects it.  PNG and PDF render the SVG with cairo. */
static void check_drawing(const struct weft_trace *t, uint64_t selection)
{
    static const enum weft_draw_format forms[] = {WEFT_DRAW_FORMAT_TEXT, WEFT_DRAW_FORMAT_SVG,
                                                  WEFT_DRAW_FORMAT_CHROME,
                                                  WEFT_DRAW_FORMAT_HTML};
    const struct weft_draw_options options = {.lanes = true, .style = {.width = 60}};
    char *text = NULL;
    size_t len = 0;
    struct weft_error err = {.msg = ""};
    FILE *out = open_memstream(&text, &len);
    require(out != NULL);
    enum weft_status st =
        weft_draw(out, forms[selection % WEFT_LEN(forms)], t, 1, &options, &err);
    require(st == WEFT_OK || (st == WEFT_DATA && err.msg[0] != '\0'));
    fclose(out);
    require(strstr(text, "nan") == NULL || strstr(t->name, "nan") != NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_trace t, again;
    struct weft_error err = {.msg = ""};
    enum weft_status st = weft_trace_parse((const char *)data, size, "fuzz", &t, &err);
    if (st != WEFT_OK) {
        require(st == WEFT_DATA && err.status == st && err.msg[0] != '\0');
        return 0;
    }

    char *text = NULL;
    size_t len = 0;
    require(weft_trace_write(&t, &text, &len, NULL) == WEFT_OK);
    require(weft_trace_parse(text, len, "again", &again, NULL) == WEFT_OK);
    require(same(&t, &again));
    free(text);

    struct weft_trace_summary sum;
    require(weft_trace_summary_init(&sum, &t, NULL) == WEFT_OK);
    require(sum.span <= sum.makespan);
    weft_trace_summary_release(&sum);

    struct weft_trace_comparison c;
    require(weft_trace_comparison_init(&c, &t, &again, NULL) == WEFT_OK);
    size_t n_waits = 0;
    for (size_t i = 0; i < t.n_events; i++)
        n_waits += t.events[i].lane == WEFT_LANE_WAIT;
    require(c.total.n_matched == t.n_events - n_waits && c.total.max_start_diff == 0);
    weft_trace_comparison_release(&c);

    check_drawing(&t, wf_hash(0, data, size));
    weft_trace_release(&again);
    weft_trace_release(&t);
    return 0;
}
