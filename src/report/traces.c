/* A run's newest trace, its plan with the same times, and why ranks were idle in both. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "ckpt/file.h"
#include "report/run.h"
#include "weft/verify.h"

/* -- why ranks are idle --------------------------------------------------------------------- */

/* When each stage's forward and gradient of each micro were done, and where. */
struct done {
    double *at;     /* owned: (2, stages, micros); negative: never */
    uint32_t *rank; /* owned: the same */
    uint32_t n_stages, n_micros;
};

static size_t done_index(const struct done *d, bool gradient, uint32_t stage, uint32_t micro)
{
    return ((size_t)gradient * d->n_stages + stage) * d->n_micros + micro;
}

static void note(struct done *d, struct weft_action a, const struct weft_trace_event *e)
{
    if (a.kind != WEFT_ACT_F && a.kind != WEFT_ACT_B && a.kind != WEFT_ACT_I)
        return;
    size_t i = done_index(d, a.kind != WEFT_ACT_F, a.stage, a.micro);
    d->at[i] = e->start + e->length;
    d->rank[i] = e->rank;
}

static enum weft_status done_init(struct done *d, const struct weft_trace *t,
                                  struct weft_error *err)
{
    size_t n = 0;
    *d = (struct done){.n_stages = t->n_stages, .n_micros = t->n_micros};
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
            note(d, t->events[i].action, &t->events[i]);
            if (t->events[i].action.paired)
                note(d, t->events[i].partner, &t->events[i]);
        }
    return WEFT_OK;
}

/* When another rank had computed what an action needs; negative when none had to. */
static double given(const struct done *d, struct weft_action a, uint32_t rank)
{
    size_t i;
    if (a.kind == WEFT_ACT_F && a.stage > 0)
        i = done_index(d, false, a.stage - 1u, a.micro);
    else if ((a.kind == WEFT_ACT_B || a.kind == WEFT_ACT_I) && a.stage + 1u < d->n_stages)
        i = done_index(d, true, a.stage + 1u, a.micro);
    else
        return -1;
    return d->rank[i] == rank ? -1 : d->at[i];
}

static void explain_gap(const struct done *d, const struct weft_trace_event *e, double gap,
                        struct weft_idle_time *idle)
{
    double from = given(d, e->action, e->rank);
    if (e->action.paired) {
        double other = given(d, e->partner, e->rank);
        from = other > from ? other : from;
    }
    double under_way = from < 0 || from > e->start ? 0 : e->start - from;
    double communication = under_way < gap ? under_way : gap;
    idle->communication += communication;
    idle->data += gap - communication;
}

static double explain_rank(struct weft_run_trace *t, const struct done *d, uint32_t rank)
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
        t->busy[rank * WEFT_N_KINDS + e->action.kind] += e->length;
        sum += e->length;
    }
    idle->drain = t->trace.makespan - free_at;
    return sum;
}

enum weft_status weft_run_trace_explain(struct weft_run_trace *t, struct weft_error *err)
{
    struct done d;
    uint32_t n = t->trace.n_ranks;
    double busiest = 0;
    t->busy = calloc((size_t)n * WEFT_N_KINDS, sizeof *t->busy);
    t->idle = calloc(n, sizeof *t->idle);
    if (t->busy == NULL || t->idle == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", n);
    WEFT_TRY(done_init(&d, &t->trace, err));
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

static enum weft_status read_trace(const char *path, struct weft_trace *out,
                                   struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(weft_input_read(path, &text, &len, err));
    enum weft_status st = weft_trace_parse(text, len, path, out, err);
    free(text);
    return st;
}

static enum weft_status time_schedule(const struct weft_schedule *s,
                                      const struct weft_measured_cost *m,
                                      struct weft_trace *out, struct weft_error *err)
{
    const struct weft_cost cost = {.f = {m->f, m->n_stages},
                                   .i = {m->i, m->n_stages},
                                   .w = {m->w, m->n_stages},
                                   .b = {m->b, m->n_stages},
                                   .fb = {m->fb, m->n_stages}};
    struct weft_report findings;
    struct weft_metrics metrics;
    const struct weft_placement *p = weft_schedule_placement(s);
    WEFT_TRY(weft_verify(s, NULL, &findings, err));
    size_t n = findings.n_findings;
    weft_report_release(&findings);
    if (n > 0 || p->n_stages != m->n_stages)
        return WEFT_FAIL(err, WEFT_SCHEDULE, "schedule.csv is not that of the trace");
    WEFT_TRY(weft_metrics_init(&metrics, s, &cost, NULL, err));
    enum weft_status st = weft_trace_init_plan(out, s, &metrics, NULL, err);
    weft_metrics_release(&metrics);
    return st;
}

/* The schedule as it would run with the mean times of the measured trace, and messages that take
 * no time. */
static enum weft_status make_plan(const char *path, const struct weft_trace *measured,
                                  struct weft_trace *out, struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    struct weft_schedule *s = NULL;
    struct weft_measured_cost m = {0};
    WEFT_TRY(weft_input_read(path, &text, &len, err));
    enum weft_status st = weft_schedule_parse(text, len, path, false, &s, err);
    if (st == WEFT_OK)
        st = weft_measured_cost_init(&m, measured, err);
    if (st == WEFT_OK)
        st = time_schedule(s, &m, out, err);
    if (st == WEFT_OK)
        out->unit_seconds = measured->unit_seconds;
    weft_measured_cost_release(&m);
    weft_schedule_free(s);
    free(text);
    return st;
}

/* step-000003.trace of step 3, or that of the first replica. */
static bool is_trace(const char *name, unsigned *step)
{
    int end = 0;
    if (sscanf(name, "step-%u%n", step, &end) != 1)
        return false;
    return strcmp(name + end, ".trace") == 0 || strcmp(name + end, "-replica-0.trace") == 0;
}

static bool find_newest(const char *folder, char newest[256], unsigned *step)
{
    DIR *list = opendir(folder);
    bool found = false;
    unsigned number;
    for (const struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;)
        if (is_trace(entry->d_name, &number) && (!found || number > *step)) {
            snprintf(newest, 256, "%s", entry->d_name);
            *step = number;
            found = true;
        }
    if (list != NULL)
        closedir(list);
    return found;
}

static enum weft_status read_both(struct weft_run *run, const char *trace, const char *schedule,
                                  struct weft_error *err)
{
    WEFT_TRY(read_trace(trace, &run->measured.trace, err));
    WEFT_TRY(weft_run_trace_explain(&run->measured, err));
    WEFT_TRY(make_plan(schedule, &run->measured.trace, &run->planned.trace, err));
    WEFT_TRY(weft_run_trace_explain(&run->planned, err));
    snprintf(run->planned.trace.name, sizeof run->planned.trace.name, "planned");
    snprintf(run->measured.trace.name, sizeof run->measured.trace.name, "measured");
    return WEFT_OK;
}

void weft_run_update_traces(struct weft_run *run)
{
    char newest[256], key[sizeof run->traces_from];
    unsigned step = 0;
    char *folder = weft_path_join(run->dir, "trace");
    char *schedule = weft_path_join(run->dir, "schedule.csv");
    bool found = folder != NULL && find_newest(folder, newest, &step);
    char *trace = found ? weft_path_join(folder, newest) : NULL;
    struct stat info;
    if (trace != NULL && schedule != NULL && stat(trace, &info) == 0) {
        snprintf(key, sizeof key, "%s %lld", newest, (long long)info.st_mtime);
        if (strcmp(key, run->traces_from) != 0) {
            weft_run_trace_release(&run->planned);
            weft_run_trace_release(&run->measured);
            run->has_traces = read_both(run, trace, schedule, NULL) == WEFT_OK;
            run->trace_step = step;
            memcpy(run->traces_from, key, sizeof key);
        }
    } else {
        run->has_traces = false;
        run->traces_from[0] = '\0';
    }
    free(trace);
    free(schedule);
    free(folder);
}

void weft_run_trace_release(struct weft_run_trace *t)
{
    weft_trace_release(&t->trace);
    free(t->busy);
    free(t->idle);
    *t = (struct weft_run_trace){0};
}
