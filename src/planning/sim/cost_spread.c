/* Computes the distributions of measured times. */
#include <stdlib.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/size.h"
#include "planning/sim/completion.h"
#include "weft/sim.h"

enum { PAIR = WEFT_ACT_W + 1, N_TIMED_KINDS };

/* Returns the kind of a compute event, N_TIMED_KINDS for any other event. */
static unsigned timed_kind(const struct weft_trace_event *e)
{
    if (e->lane != WEFT_LANE_COMPUTE || !weft_act_is_compute(e->action.kind))
        return N_TIMED_KINDS;
    return e->action.paired ? PAIR : e->action.kind;
}

/* Returns the stage of an event.  The stage of a pair is that of its F. */
static uint32_t timed_stage(const struct weft_trace_event *e)
{
    return e->action.paired && e->action.kind != WEFT_ACT_F ? e->partner.stage
                                                            : e->action.stage;
}

/* Sorts the samples. */
static struct weft_spread measure_spread(double *samples, size_t n)
{
    struct weft_spread s = {.n = n};
    if (n == 0)
        return s;
    s.median = wf_median(samples, n);
    s.min = samples[0];
    s.max = samples[n - 1];
    for (size_t i = 0; i < n; i++)
        s.mean += samples[i];
    s.mean /= (double)n;
    return s;
}

/* Fills the spreads of all kinds and stages.  `samples` has space for all events, `first` for
 * one index per kind and stage, and one more. */
static void measure_compute(const struct weft_trace *t, struct weft_spread *out,
                            double *samples, size_t *first)
{
    size_t n_bins = (size_t)N_TIMED_KINDS * t->n_stages;
    for (size_t i = 0; i < t->n_events; i++) {
        unsigned kind = timed_kind(&t->events[i]);
        if (kind < N_TIMED_KINDS)
            first[(size_t)kind * t->n_stages + timed_stage(&t->events[i]) + 1]++;
    }
    for (size_t k = 0; k < n_bins; k++)
        first[k + 1] += first[k];

    for (size_t i = 0; i < t->n_events; i++) {
        unsigned kind = timed_kind(&t->events[i]);
        if (kind < N_TIMED_KINDS)
            samples[first[(size_t)kind * t->n_stages + timed_stage(&t->events[i])]++] =
                t->events[i].length;
    }
    for (size_t k = 0; k < n_bins; k++) { /* first[k] is now the end of bin k */
        size_t begin = k == 0 ? 0 : first[k - 1];
        out[k] = measure_spread(samples + begin, first[k] - begin);
    }
}

static enum weft_status measure_hops(const struct weft_trace *t, double *samples,
                                     struct weft_spread *out, struct weft_error *err)
{
    struct wf_completion d;
    size_t n = 0;
    WEFT_TRY(wf_completion_init(&d, t, err));
    for (size_t i = 0; i < t->n_events; i++) {
        const struct weft_trace_event *e = &t->events[i];
        if (e->lane != WEFT_LANE_WAIT || !weft_act_is_compute(e->action.kind))
            continue;
        double ready = wf_completion_input(&d, e->action, e->rank);
        if (e->action.paired)
            ready = wf_double_max(ready, wf_completion_input(&d, e->partner, e->rank));
        if (ready >= e->start && ready <= e->start + e->length)
            samples[n++] = e->start + e->length - ready;
    }
    *out = measure_spread(samples, n);
    wf_completion_release(&d);
    return WEFT_OK;
}

static bool has_waits(const struct weft_trace *t)
{
    size_t i = 0;
    while (i < t->n_events && t->events[i].lane != WEFT_LANE_WAIT)
        i++;
    return i < t->n_events;
}

enum weft_status weft_cost_spread_init(struct weft_cost_spread *out,
                                       const struct weft_trace *trace, struct weft_error *err)
{
    size_t n = trace->n_stages, n_bins = (size_t)N_TIMED_KINDS * n;
    struct weft_spread *all = calloc(n_bins, sizeof *all);
    double *samples = malloc(sizeof *samples * (trace->n_events + 1));
    size_t *first = calloc(n_bins + 1, sizeof *first);
    struct weft_cost_spread s = {.n_stages = trace->n_stages};
    enum weft_status st = WEFT_OK;
    if (all == NULL || samples == NULL || first == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the costs of %zu stages", n);
    if (st == WEFT_OK && has_waits(trace))
        st = measure_hops(trace, samples, &s.hop, err);
    if (st == WEFT_OK) {
        measure_compute(trace, all, samples, first);
        s.f = all + WEFT_ACT_F * n;
        s.b = all + WEFT_ACT_B * n;
        s.i = all + WEFT_ACT_I * n;
        s.w = all + WEFT_ACT_W * n;
        s.fb = all + PAIR * n;
        *out = s;
    } else {
        free(all);
    }
    free(samples);
    free(first);
    return st;
}

void weft_cost_spread_release(struct weft_cost_spread *s)
{
    free(s->f); /* the first of the arrays, which are one allocation */
    *s = (struct weft_cost_spread){0};
}
