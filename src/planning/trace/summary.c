/* Metrics of a trace, and the comparison of two traces. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "weft/trace.h"

/* -- summary -------------------------------------------------------------------------------- */

/* Sums up the events of a rank.  Overlapping time counts once, so that rounding of the clock
 * cannot increase the busy time. */
static void sum_rank(struct weft_trace_summary *s, const struct weft_trace *t, uint32_t rank)
{
    double begin = -1, end = 0;
    for (size_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
        const struct weft_trace_event *e = &t->events[i];
        if (e->lane == WEFT_LANE_SEND && weft_act_is_message(e->action.kind)) {
            s->n_messages++;
            s->bytes += e->bytes;
        }
        if (e->lane != WEFT_LANE_COMPUTE)
            continue;

        double stop = e->start + e->length;
        if (begin < 0)
            begin = end = e->start;
        if (e->start >= end)
            s->busy[rank] += e->length;
        else if (stop > end)
            s->busy[rank] += stop - end;
        end = fmax(end, stop);
        s->n_compute++;
    }
    s->rank_span[rank] = begin < 0 ? 0 : end - begin;
}

enum weft_status weft_trace_summary_init(struct weft_trace_summary *out,
                                         const struct weft_trace *t, struct weft_error *err)
{
    struct weft_trace_summary s = {.n_ranks = t->n_ranks, .makespan = t->makespan};
    double busy = 0;
    s.busy = calloc(t->n_ranks, sizeof *s.busy);
    s.idle = calloc(t->n_ranks, sizeof *s.idle);
    s.rank_span = calloc(t->n_ranks, sizeof *s.rank_span);
    if (s.busy == NULL || s.idle == NULL || s.rank_span == NULL) {
        weft_trace_summary_release(&s);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the metrics of %u ranks", t->n_ranks);
    }

    for (uint32_t r = 0; r < t->n_ranks; r++) {
        sum_rank(&s, t, r);
        s.idle[r] = s.makespan - s.busy[r];
        s.span = fmax(s.span, s.rank_span[r]);
        busy += s.busy[r];
    }
    if (s.makespan > 0)
        s.bubble = (t->n_ranks * s.makespan - busy) / (t->n_ranks * s.makespan);
    if (s.span > 0)
        s.bubble_span = (t->n_ranks * s.span - busy) / (t->n_ranks * s.span);
    *out = s;
    return WEFT_OK;
}

void weft_trace_summary_release(struct weft_trace_summary *s)
{
    free(s->busy);
    free(s->idle);
    free(s->rank_span);
    *s = (struct weft_trace_summary){0};
}

/* -- comparison ----------------------------------------------------------------------------- */

/* The search key of an event. */
struct event_key {
    uint64_t action, partner;
    size_t event;
};

static uint64_t action_key(struct weft_action a)
{
    return (uint64_t)a.kind << 56 | (uint64_t)a.stage << 32 | a.micro;
}

static int compare_keys(const void *a, const void *b)
{
    const struct event_key *x = a, *y = b;
    if (x->action != y->action)
        return x->action < y->action ? -1 : 1;
    if (x->partner != y->partner)
        return x->partner < y->partner ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* Writes the keys of a rank's events other than waits, sorted by key and then by time, and
 * returns the number of keys. */
static size_t sort_rank_keys(const struct weft_trace *t, uint32_t rank, struct event_key *out)
{
    size_t n = 0;
    for (size_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
        const struct weft_trace_event *e = &t->events[i];
        struct weft_action a = e->action, b = e->partner;
        bool swap = a.paired && a.kind != WEFT_ACT_F; /* the forward is the key of a pair */
        if (e->lane == WEFT_LANE_WAIT)
            continue;
        out[n] = (struct event_key){action_key(swap ? b : a), 0, i};
        if (a.paired)
            out[n].partner = action_key(swap ? a : b) | (uint64_t)1 << 63;
        n++;
    }
    qsort(out, n, sizeof *out, compare_keys);
    return n;
}

static void add_match(struct weft_trace_delta *d, double start, double planned, double measured)
{
    d->n_matched++;
    d->start += start;
    d->planned += planned;
    d->measured += measured;
    if (fabs(start) > fabs(d->max_start_diff))
        d->max_start_diff = start;
    if (fabs(measured - planned) > fabs(d->max_length_diff))
        d->max_length_diff = measured - planned;
}

struct matching {
    const struct weft_trace *planned, *measured;
    struct weft_trace_comparison *out;
    struct event_key *a, *b; /* owned: keys of one rank */
    double scale;            /* factor for measured times */
};

static void match_rank(const struct matching *m, uint32_t rank)
{
    struct weft_trace_comparison *c = m->out;
    struct weft_trace_delta *row = &c->at[(size_t)rank * WEFT_N_ACT_KINDS];
    size_t n = sort_rank_keys(m->planned, rank, m->a);
    size_t k = rank < m->measured->n_ranks ? sort_rank_keys(m->measured, rank, m->b) : 0;
    for (size_t i = 0, j = 0; i < n || j < k;) {
        struct event_key x = i < n ? m->a[i] : (struct event_key){UINT64_MAX, UINT64_MAX, 0};
        struct event_key y = j < k ? m->b[j] : (struct event_key){UINT64_MAX, UINT64_MAX, 0};
        x.event = y.event = 0; /* compare only the actions */

        int order = compare_keys(&x, &y);
        unsigned kind = (unsigned)((order <= 0 ? x : y).action >> 56);
        if (order != 0) {
            *(order < 0 ? &row[kind].n_planned_only : &row[kind].n_measured_only) += 1;
            *(order < 0 ? &c->total.n_planned_only : &c->total.n_measured_only) += 1;
            *(order < 0 ? &i : &j) += 1;
            continue;
        }

        const struct weft_trace_event *p = &m->planned->events[m->a[i].event];
        const struct weft_trace_event *q = &m->measured->events[m->b[j].event];
        c->match[m->a[i++].event] = m->b[j++].event;
        add_match(&row[kind], q->start * m->scale - p->start, p->length, q->length * m->scale);
        add_match(&c->total, q->start * m->scale - p->start, p->length, q->length * m->scale);
    }
}

static size_t max_rank_events(const struct weft_trace *t)
{
    size_t n = 0;
    for (uint32_t r = 0; r < t->n_ranks; r++)
        n = wf_size_max(n, t->first[r + 1] - t->first[r]);
    return n;
}

enum weft_status weft_trace_comparison_init(struct weft_trace_comparison *out,
                                            const struct weft_trace *planned,
                                            const struct weft_trace *measured,
                                            struct weft_error *err)
{
    struct weft_trace_comparison c = {.n_ranks = planned->n_ranks};
    struct matching m = {.planned = planned, .measured = measured, .out = &c, .scale = 1};
    if (planned->n_ranks != measured->n_ranks)
        return WEFT_FAIL(err, WEFT_DATA, "the traces have %u and %u ranks: they must be equal",
                         planned->n_ranks, measured->n_ranks);
    if (planned->unit_seconds > 0 && measured->unit_seconds > 0)
        m.scale = measured->unit_seconds / planned->unit_seconds;

    c.planned = planned->makespan;
    c.measured = measured->makespan * m.scale;
    c.at = calloc((size_t)c.n_ranks * WEFT_N_ACT_KINDS, sizeof *c.at);
    c.match = malloc(sizeof *c.match * (planned->n_events + 1));
    m.a = malloc(sizeof *m.a * (max_rank_events(planned) + 1));
    m.b = malloc(sizeof *m.b * (max_rank_events(measured) + 1));

    enum weft_status st = WEFT_OK;
    if (c.at == NULL || c.match == NULL || m.a == NULL || m.b == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to compare %zu events", planned->n_events);
    } else {
        memset(c.match, 0xff, sizeof *c.match * planned->n_events); /* SIZE_MAX */
        for (uint32_t r = 0; r < c.n_ranks; r++)
            match_rank(&m, r);
    }
    free(m.a);
    free(m.b);
    if (st == WEFT_OK)
        *out = c;
    else
        weft_trace_comparison_release(&c);
    return st;
}

void weft_trace_comparison_release(struct weft_trace_comparison *c)
{
    free(c->at);
    free(c->match);
    *c = (struct weft_trace_comparison){0};
}
