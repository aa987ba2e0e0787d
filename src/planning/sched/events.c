/* Derives two lists from a schedule: the events sorted by start time, and the number of
 * activations in flight per stage. */
#include <stdlib.h>

#include "base/error.h"
#include "planning/sched/deps.h"
#include "weft/timing.h"

static size_t collect(const struct weft_schedule *s, const struct weft_metrics *m,
                      struct weft_event *out)
{
    size_t n = 0;
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        const double *start = m->start + weft_schedule_offset(s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            if (weft_act_is_compute(a.kind))
                out[n++] = (struct weft_event){start[i], r,
                                               a.stage,  weft_schedule_chunk(s, r, a.stage),
                                               a.micro,  (enum weft_act_kind)a.kind};
        }
    }
    return n;
}

/* Sorts at[0 .. n-1] by start time, with `spare` as scratch memory.  The sort is stable: of two
 * events with the same start time, the event of the lower rank comes first. */
static void merge_sort(struct weft_event *at, struct weft_event *spare, size_t n)
{
    if (n < 2)
        return;
    size_t half = n / 2, i = 0, j = half;
    merge_sort(at, spare, half);
    merge_sort(at + half, spare, n - half);
    for (size_t k = 0; k < n; k++)
        spare[k] = j == n || (i < half && at[i].start <= at[j].start) ? at[i++] : at[j++];
    for (size_t k = 0; k < n; k++)
        at[k] = spare[k];
}

enum weft_status weft_event_list(const struct weft_schedule *s, const struct weft_metrics *m,
                                 struct weft_event **out, size_t *n, struct weft_error *err)
{
    struct weft_event *at = malloc(sizeof *at * (m->n_actions + 1));
    struct weft_event *spare = malloc(sizeof *spare * (m->n_actions + 1));
    if (at == NULL || spare == NULL) {
        free(at);
        free(spare);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu events", m->n_actions);
    }
    *n = collect(s, m, at);
    merge_sort(at, spare, *n);
    free(spare);
    *out = at;
    return WEFT_OK;
}

enum weft_status weft_schedule_in_flight(const struct weft_schedule *s, uint32_t *out,
                                         struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    size_t n = (size_t)p->n_pipes * p->n_stages;
    uint32_t *live = calloc(n, sizeof *live);
    if (live == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu stages", n);
    for (size_t i = 0; i < n; i++)
        out[i] = 0;

    bool forward_only = weft_schedule_is_forward_only(s);
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            if (!weft_act_is_compute(a.kind))
                continue;
            size_t at = (size_t)weft_placement_pipe(p, a.micro) * p->n_stages + a.stage;
            if (a.kind == WEFT_ACT_F && ++live[at] > out[at])
                out[at] = live[at];
            if ((wf_act_frees_activation(a.kind) || forward_only) && live[at] > 0)
                live[at]--;
        }
    }
    free(live);
    return WEFT_OK;
}
