/* Splits a trace's time per rank into busy time by kind of action and idle time by cause. */
#include "planning/sim/trace_usage.h"

#include <stdlib.h>

#include "base/error.h"

/* The time at which, and the rank on which, the forward and the gradient of each stage and
 * micro-batch were completed. */
struct completion {
    double *at; /* owned: (2, stages, micros), completion time; negative if never completed */
    uint32_t *rank; /* owned: (2, stages, micros) */
    uint32_t n_stages, n_micros;
};

static size_t completion_index(const struct completion *d, bool gradient, uint32_t stage,
                               uint32_t micro)
{
    return ((size_t)gradient * d->n_stages + stage) * d->n_micros + micro;
}

static void record_completion(struct completion *d, struct weft_action a,
                              const struct weft_trace_event *e)
{
    if (a.kind != WEFT_ACT_F && a.kind != WEFT_ACT_B && a.kind != WEFT_ACT_I)
        return;
    size_t i = completion_index(d, a.kind != WEFT_ACT_F, a.stage, a.micro);
    d->at[i] = e->start + e->length;
    d->rank[i] = e->rank;
}

static enum weft_status completion_init(struct completion *d, const struct weft_trace *t,
                                        struct weft_error *err)
{
    size_t n = 0;
    *d = (struct completion){.n_stages = t->n_stages, .n_micros = t->n_micros};
    if (!__builtin_mul_overflow((size_t)t->n_stages * 2, (size_t)t->n_micros, &n)) {
        d->at = calloc(n + 1, sizeof *d->at);
        d->rank = calloc(n + 1, sizeof *d->rank);
    }
    if (d->at == NULL || d->rank == NULL) {
        free(d->at);
        free(d->rank);
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

/* Returns the time at which another rank completed the input of an action.  Returns a
 * negative number if no other rank computes this input. */
static double ready_time(const struct completion *d, struct weft_action a, uint32_t rank)
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

static void explain_gap(const struct completion *d, const struct weft_trace_event *e,
                        double gap, struct weft_idle_time *idle)
{
    double from = ready_time(d, e->action, e->rank);
    if (e->action.paired) {
        double other = ready_time(d, e->partner, e->rank);
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
                           const struct completion *d, uint32_t rank)
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
    struct completion d = {0};
    uint32_t n = t->n_ranks;
    double *sums = calloc(n, sizeof *sums);
    u->busy = calloc((size_t)n * WEFT_N_ACT_KINDS, sizeof *u->busy);
    u->idle = calloc(n, sizeof *u->idle);
    enum weft_status st = sums == NULL || u->busy == NULL || u->idle == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", n)
                              : completion_init(&d, t, err);

    if (st == WEFT_OK) {
        for (uint32_t r = 0; r < n; r++)
            sums[r] = explain_rank(u, t, &d, r);
        split_imbalance(u, sums, n);
        free(d.at);
        free(d.rank);
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
