/* Parses any bytes as profiles of PyTorch.  A byte 0 separates the files of several ranks.  Checks
 * that an accepted trace can be written, read and measured. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "weft/sim.h"
#include "weft/trace.h"

static void check_trace(const struct weft_trace *t)
{
    struct weft_trace again;
    struct weft_trace_summary sum;
    struct weft_cost_spread s;
    char *text = NULL;
    size_t len = 0;
    require(t->n_ranks <= t->n_events && t->n_stages <= t->n_events);
    require(t->unit_seconds == 1e-9 && t->makespan >= 0);
    require(weft_trace_write(t, &text, &len, NULL) == WEFT_OK);
    require(weft_trace_parse(text, len, "again", &again, NULL) == WEFT_OK);
    require(again.n_events == t->n_events && again.makespan == t->makespan);
    free(text);
    weft_trace_release(&again);
    require(weft_trace_summary_init(&sum, t, NULL) == WEFT_OK);
    require(sum.span <= sum.makespan);
    weft_trace_summary_release(&sum);
    require(weft_cost_spread_init(&s, t, NULL) == WEFT_OK);
    require(s.hop.min <= s.hop.median && s.hop.median <= s.hop.max && s.hop.min >= 0);
    weft_cost_spread_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    struct weft_kineto *k = NULL;
    struct weft_error err = {.msg = ""};
    struct weft_trace t;
    enum weft_status st = WEFT_OK;
    require(weft_kineto_new(&k, NULL) == WEFT_OK);
    for (const char *stop = at; st == WEFT_OK && stop != NULL && at < end; at = stop + 1) {
        stop = memchr(at, '\0', (size_t)(end - at));
        size_t len = (size_t)((stop == NULL ? end : stop) - at);
        st = weft_kineto_add(k, at, len, "fuzz", WEFT_NO_RANK, &err);
        if (stop == NULL)
            break;
    }
    if (st == WEFT_OK && size > 0)
        st = weft_kineto_trace(k, -1, &t, &err);
    if (st != WEFT_OK) {
        require(st == WEFT_DATA && err.status == st && err.msg[0] != '\0');
    } else if (size > 0) {
        check_trace(&t);
        weft_trace_release(&t);
    }
    weft_kineto_free(k);
    return 0;
}
