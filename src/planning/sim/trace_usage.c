/* Splits a trace's time per rank into busy time by kind of action and idle time by cause. */
#include "planning/sim/trace_usage.h"

#include <stdlib.h>

#include "base/error.h"
#include "planning/sim/completion.h"

static void explain_gap(const struct wf_completion *d, const struct weft_trace_event *e,
                        double gap, struct weft_idle_time *idle)
{
    double from = wf_completion_input(d, e->action, e->rank);
    if (e->action.paired) {
        double other = wf_completion_input(d, e->partner, e->rank);
        from = other > from ? other : from;
    }
    double under_way = from < 0 || from > e->start ? 0 : e->start - from;
    double communication = under_way < gap ? under_way : gap;
    idle->communication += communication;
    idle->data += gap - communication;
}

/* Fills the busy and idle times of a rank, except the imbalance.  Returns the total busy
 * time of the rank. */
static double explain_rank(struct wf_trace_usage *u, const struct weft_trace *t,
                           const struct wf_completion *d, uint32_t rank)
{
    struct weft_idle_time *idle = &u->idle[rank];
    double free_at = 0, sum = 0;
    bool first = true;

    for (size_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
        const struct weft_trace_event *e = &t->events[i];
        if (e->lane != WEFT_LANE_COMPUTE)
            continue;
        if (first)
            idle->warm_up = e->start;
        else if (e->start > free_at)
            explain_gap(d, e, e->start - free_at, idle);
        first = false;
        free_at = e->start + e->length > free_at ? e->start + e->length : free_at;
        u->busy[rank * WEFT_N_ACT_KINDS + e->action.kind] += e->length;
        sum += e->length;
    }

    idle->drain = t->makespan - free_at;
    return sum;
}

/* Moves idle time from `data` to imbalance: at most the difference between the work of the
 * busiest rank and the work of this rank. */
static void split_imbalance(struct wf_trace_usage *u, const double *sums, uint32_t n_ranks)
{
    double busiest = 0;
    for (uint32_t r = 0; r < n_ranks; r++)
        busiest = sums[r] > busiest ? sums[r] : busiest;
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct weft_idle_time *idle = &u->idle[r];
        double less = busiest - sums[r];
        idle->imbalance = less < idle->data ? less : idle->data;
        idle->data -= idle->imbalance;
    }
}

enum weft_status wf_trace_usage_init(struct wf_trace_usage *u, const struct weft_trace *t,
                                     struct weft_error *err)
{
    struct wf_completion d = {0};
    uint32_t n = t->n_ranks;
    double *sums = calloc(n, sizeof *sums);
    u->busy = calloc((size_t)n * WEFT_N_ACT_KINDS, sizeof *u->busy);
    u->idle = calloc(n, sizeof *u->idle);
    enum weft_status st = sums == NULL || u->busy == NULL || u->idle == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", n)
                              : wf_completion_init(&d, t, err);

    if (st == WEFT_OK) {
        for (uint32_t r = 0; r < n; r++)
            sums[r] = explain_rank(u, t, &d, r);
        split_imbalance(u, sums, n);
        wf_completion_release(&d);
    } else {
        wf_trace_usage_release(u);
    }
    free(sums);
    return st;
}

void wf_trace_usage_release(struct wf_trace_usage *u)
{
    free(u->busy);
    free(u->idle);
    *u = (struct wf_trace_usage){0};
}
