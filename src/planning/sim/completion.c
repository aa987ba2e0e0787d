/* When and where a trace completed the output of each stage and micro-batch. */
#include "planning/sim/completion.h"

#include <stdlib.h>

#include "base/error.h"

static size_t completion_index(const struct wf_completion *d, bool gradient, uint32_t stage,
                               uint32_t micro)
{
    return ((size_t)gradient * d->n_stages + stage) * d->n_micros + micro;
}

static void record_completion(struct wf_completion *d, struct weft_action a,
                              const struct weft_trace_event *e)
{
    if (a.kind != WEFT_ACT_F && a.kind != WEFT_ACT_B && a.kind != WEFT_ACT_I)
        return;
    size_t i = completion_index(d, a.kind != WEFT_ACT_F, a.stage, a.micro);
    d->at[i] = e->start + e->length;
    d->rank[i] = e->rank;
}

enum weft_status wf_completion_init(struct wf_completion *d, const struct weft_trace *t,
                                    struct weft_error *err)
{
    size_t n = 0;
    *d = (struct wf_completion){.n_stages = t->n_stages, .n_micros = t->n_micros};
    if (!__builtin_mul_overflow((size_t)t->n_stages * 2, (size_t)t->n_micros, &n)) {
        d->at = calloc(n + 1, sizeof *d->at);
        d->rank = calloc(n + 1, sizeof *d->rank);
    }
    if (d->at == NULL || d->rank == NULL) {
        wf_completion_release(d);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trace");
    }

    for (size_t i = 0; i < n; i++)
        d->at[i] = -1;
    for (size_t i = 0; i < t->n_events; i++)
        if (t->events[i].lane == WEFT_LANE_COMPUTE) {
            record_completion(d, t->events[i].action, &t->events[i]);
            if (t->events[i].action.paired)
                record_completion(d, t->events[i].partner, &t->events[i]);
        }
    return WEFT_OK;
}

void wf_completion_release(struct wf_completion *d)
{
    free(d->at);
    free(d->rank);
    *d = (struct wf_completion){0};
}

double wf_completion_input(const struct wf_completion *d, struct weft_action a, uint32_t rank)
{
    size_t i;
    if (a.kind == WEFT_ACT_F && a.stage > 0)
        i = completion_index(d, false, a.stage - 1u, a.micro);
    else if ((a.kind == WEFT_ACT_B || a.kind == WEFT_ACT_I) && a.stage + 1u < d->n_stages)
        i = completion_index(d, true, a.stage + 1u, a.micro);
    else
        return -1;
    return d->rank[i] == rank ? -1 : d->at[i];
}
