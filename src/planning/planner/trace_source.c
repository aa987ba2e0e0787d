/* Reads a trace, or creates one from a schedule. */
#include "planning/planner/trace_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "planning/planner/plan.h"

static enum weft_status time_schedule(const struct weft_schedule *s,
                                      const struct weft_cost *cost,
                                      const struct weft_memory_cost *memory, const char *source,
                                      struct weft_trace *out, struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    struct weft_verify_result proof;
    struct weft_metrics m;
    WEFT_TRY(wf_schedule_prove(s, source, &proof, err));
    weft_verify_result_release(&proof);
    WEFT_TRY(weft_cost_check(cost, memory, p->n_ranks, p->n_stages, p->n_micros, err));
    WEFT_TRY(weft_metrics_init(&m, s, cost, memory, err));
    enum weft_status st = weft_trace_init_plan(out, s, &m, memory, err);
    weft_metrics_release(&m);
    return st;
}

enum weft_status wf_trace_read(const char *path, const struct weft_cost *cost,
                               const struct weft_memory_cost *memory, struct weft_trace *out,
                               struct weft_error *err)
{
    static const char ending[] = ".trace";
    const char *source = strcmp(path, "-") == 0 ? "standard input" : path;
    size_t n = strlen(path), len = 0;
    bool named_trace =
        n >= sizeof ending && strcmp(path + n - (sizeof ending - 1), ending) == 0;
    char *text = NULL;
    struct weft_schedule *s = NULL;
    WEFT_TRY(wf_input_read_as(named_trace ? WEFT_DATA : WEFT_SCHEDULE, path, &text, &len, err));

    enum weft_status st;
    if (weft_trace_detect(text, len)) {
        st = weft_trace_parse(text, len, source, out, err);
    } else {
        st = weft_schedule_parse(text, len, source, false, &s, err);
        if (st == WEFT_OK)
            st = time_schedule(s, cost, memory, source, out, err);
        weft_schedule_free(s);
    }
    free(text);
    return st;
}
