/* A run's newest trace, its plan with the same times, and why ranks were idle in both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "training/report/run.h"
#include "training/run/rundir_trace.h"

/* -- why ranks are idle --------------------------------------------------------------------- */

/* When each stage's forward and gradient of each micro were completion, and where. */
struct completion {
    double *at;     /* owned: (2, stages, micros); negative: never */
    uint32_t *rank; /* owned: the same */
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

/* When another rank had computed what an action needs; negative when none had to. */
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

static double explain_rank(struct wf_run_trace *t, const struct completion *d, uint32_t rank)
{
    struct weft_idle_time *idle = &t->idle[rank];
    double free_at = 0, sum = 0;
    bool first = true;
    for (size_t i = t->trace.first[rank]; i < t->trace.first[rank + 1]; i++) {
        const struct weft_trace_event *e = &t->trace.events[i];
        if (e->lane != WEFT_LANE_COMPUTE)
            continue;
        if (first)
            idle->warm_up = e->start;
        else if (e->start > free_at)
            explain_gap(d, e, e->start - free_at, idle);
        first = false;
        free_at = e->start + e->length > free_at ? e->start + e->length : free_at;
        t->busy[rank * WEFT_N_ACT_KINDS + e->action.kind] += e->length;
        sum += e->length;
    }
    idle->drain = t->trace.makespan - free_at;
    return sum;
}

enum weft_status wf_run_trace_explain(struct wf_run_trace *t, struct weft_error *err)
{
    struct completion d;
    uint32_t n = t->trace.n_ranks;
    double busiest = 0;
    t->busy = calloc((size_t)n * WEFT_N_ACT_KINDS, sizeof *t->busy);
    t->idle = calloc(n, sizeof *t->idle);
    if (t->busy == NULL || t->idle == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", n);
    WEFT_TRY(completion_init(&d, &t->trace, err));
    double *sums = calloc(n, sizeof *sums);
    for (uint32_t r = 0; sums != NULL && r < n; r++) {
        sums[r] = explain_rank(t, &d, r);
        busiest = sums[r] > busiest ? sums[r] : busiest;
    }
    for (uint32_t r = 0; sums != NULL && r < n; r++) {
        struct weft_idle_time *idle = &t->idle[r];
        double less = busiest - sums[r];
        idle->imbalance = less < idle->data ? less : idle->data;
        idle->data -= idle->imbalance;
    }
    enum weft_status st =
        sums == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", n) : WEFT_OK;
    free(sums);
    free(d.at);
    free(d.rank);
    return st;
}

/* -- reading -------------------------------------------------------------------------------- */

static enum weft_status read_both(struct wf_run *run, const char *trace)
{
    WEFT_TRY(wf_rundir_read_traces(run->dir, trace, NULL, &run->planned.trace,
                                   &run->measured.trace, NULL));
    WEFT_TRY(wf_run_trace_explain(&run->measured, NULL));
    return wf_run_trace_explain(&run->planned, NULL);
}

void wf_run_update_traces(struct wf_run *run)
{
    char key[sizeof run->traces_key], *trace = NULL;
    unsigned step = 0;
    struct stat info;
    if (wf_rundir_find_trace(run->dir, &trace, &step, NULL) == WEFT_OK &&
        stat(trace, &info) == 0) {
        snprintf(key, sizeof key, "%u %lld", step, (long long)info.st_mtime);
        if (strcmp(key, run->traces_key) != 0) {
            wf_run_trace_release(&run->planned);
            wf_run_trace_release(&run->measured);
            run->has_traces = read_both(run, trace) == WEFT_OK;
            run->trace_step = step;
            memcpy(run->traces_key, key, sizeof key);
        }
    } else {
        run->has_traces = false;
        run->traces_key[0] = '\0';
    }
    free(trace);
}

void wf_run_trace_release(struct wf_run_trace *t)
{
    weft_trace_release(&t->trace);
    free(t->busy);
    free(t->idle);
    *t = (struct wf_run_trace){0};
}
