/* Makes one trace of the profiles of several ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/trace/grow.h"
#include "planning/trace/json_scan.h"
#include "planning/trace/kineto_priv.h"

bool weft_kineto_detect(const char *text, size_t len)
{
    struct wf_scan s = {.source = "", .begin = text, .at = text, .end = text + len};
    return wf_scan_peek(&s) == '{';
}

enum weft_status weft_kineto_new(struct weft_kineto **out, struct weft_error *err)
{
    struct weft_kineto *k = calloc(1, sizeof *k);
    if (k == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for profiles");
    *out = k;
    return WEFT_OK;
}

void weft_kineto_free(struct weft_kineto *k)
{
    if (k == NULL)
        return;
    for (size_t i = 0; i < k->n; i++)
        wf_kineto_file_release(&k->files[i]);
    free(k->files);
    free(k);
}

enum weft_status weft_kineto_add(struct weft_kineto *k, const char *text, size_t len,
                                 const char *source, uint32_t rank, struct weft_error *err)
{
    struct wf_kineto_file file;
    uint32_t file_rank;
    if (k->n >= WEFT_NO_RANK - 1)
        return WEFT_FAIL(err, WEFT_DATA, "%.80s: too many profiles", source);
    struct wf_kineto_file *at = wf_array_grow(k->files, &k->cap, k->n, sizeof *at);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu profiles", k->n);
    k->files = at;
    WEFT_TRY(wf_kineto_read(text, len, source, &file, &file_rank, err));

    file.rank = rank != WEFT_NO_RANK        ? rank
                : file_rank != WEFT_NO_RANK ? file_rank
                                            : (uint32_t)k->n;
    size_t i = 0;
    while (i < k->n && k->files[i].rank < file.rank)
        i++;
    if (i < k->n && k->files[i].rank == file.rank) {
        wf_kineto_file_release(&file);
        return WEFT_FAIL(err, WEFT_DATA, "%.80s: rank %u is also the rank of %.80s", source,
                         k->files[i].rank, k->files[i].source);
    }
    memmove(&k->files[i + 1], &k->files[i], (k->n - i) * sizeof *k->files);
    k->files[i] = file;
    k->n++;
    return WEFT_OK;
}

/* -- the trace ------------------------------------------------------------------------------ */

/* The step that is shown, its sizes and its start. */
struct kineto_step {
    uint32_t number;
    uint32_t n_ranks, n_stages, n_micros;
    size_t n_events;
    int64_t first_ns, last_ns; /* start of the step, end of its last event */
};

/* Returns the times of an action without its wait. */
static void work_times(const struct wf_kineto_action *a, int64_t *start, int64_t *end)
{
    bool gpu = a->gpu_end > a->gpu_start;
    *start = gpu ? a->gpu_start : a->work;
    *end = gpu ? a->gpu_end : a->end;
}

static bool is_complete(const struct weft_kineto *k, uint32_t step)
{
    size_t i = 0;
    while (i < k->n && wf_kineto_step_in_order(&k->files[i], step))
        i++;
    return i == k->n;
}

/* Finds the complete step with index `wanted`; a negative index counts from the last one. */
static enum weft_status find_step(const struct weft_kineto *k, int64_t wanted, uint32_t *out,
                                  struct weft_error *err)
{
    uint32_t n = UINT32_MAX, n_complete = 0;
    for (size_t i = 0; i < k->n; i++)
        n = k->files[i].n_steps < n ? k->files[i].n_steps : n;
    if (wanted < 0)
        for (uint32_t step = n; step-- > 0;)
            if (is_complete(k, step) && -(int64_t)++n_complete == wanted) {
                *out = step;
                return WEFT_OK;
            }
    if (wanted >= 0)
        for (uint32_t step = 0; step < n; step++)
            if (is_complete(k, step) && n_complete++ == wanted) {
                *out = step;
                return WEFT_OK;
            }
    if (n_complete > 0)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.80s: there is no step %lld (number of complete steps: %u)",
                         k->files[0].source, (long long)wanted, n_complete);
    return WEFT_FAIL(err, WEFT_DATA,
                     "%.80s: the profile%s no complete step; start the profiler before a step "
                     "and stop it after one",
                     k->files[0].source, k->n > 1 ? "s of all ranks have in common" : " has");
}

/* Doubles represent all whole numbers up to this one. */
static const int64_t MAX_LENGTH_NS = (int64_t)1 << 53;

static enum weft_status fail_time(const struct wf_kineto_file *f, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_DATA, "%.80s: a time is out of range", f->source);
}

static void include_action(struct kineto_step *s, struct weft_action a)
{
    s->n_stages = a.stage >= s->n_stages ? a.stage + 1u : s->n_stages;
    if (weft_act_has_micro(a.kind) && a.micro >= s->n_micros)
        s->n_micros = a.micro + 1;
}

/* Computes the times of an action since 1970: of the annotation or, on a GPU, of its kernels. */
static enum weft_status absolute_times(const struct wf_kineto_file *f,
                                       const struct wf_kineto_action *a, int64_t *start,
                                       int64_t *work, int64_t *end, struct weft_error *err)
{
    work_times(a, work, end);
    *start = a->start < *work && a->gpu_end == a->gpu_start ? a->start : *work;
    if (__builtin_add_overflow(*start, f->base_ns, start) ||
        __builtin_add_overflow(*work, f->base_ns, work) ||
        __builtin_add_overflow(*end, f->base_ns, end))
        return fail_time(f, err);
    return WEFT_OK;
}

/* Computes the sizes of the step, its end, and the file of the rank that computes first. */
static enum weft_status measure_sizes(const struct weft_kineto *k, struct kineto_step *s,
                                      size_t *first_file, struct weft_error *err)
{
    int64_t first_work = INT64_MAX;
    *first_file = 0;
    for (size_t i = 0; i < k->n; i++)
        for (size_t j = 0; j < k->files[i].n; j++) {
            const struct wf_kineto_action *a = &k->files[i].at[j];
            int64_t start, work, end;
            if (a->step != s->number)
                continue;
            WEFT_TRY(absolute_times(&k->files[i], a, &start, &work, &end, err));
            s->first_ns = s->n_events == 0 || start < s->first_ns ? start : s->first_ns;
            s->last_ns = s->n_events == 0 || end > s->last_ns ? end : s->last_ns;
            s->n_events++;
            include_action(s, a->action);
            if (a->action.paired)
                include_action(s, a->partner);
            if (a->lane == WEFT_LANE_COMPUTE && work < first_work) {
                first_work = work;
                *first_file = i;
            }
        }
    s->n_micros = s->n_micros == 0 ? 1 : s->n_micros;
    return WEFT_OK;
}

/* Computes the sizes of the step and its start: the first event of the rank that computes first.
 * Ranks that arrive earlier only wait for it.  Times that are too far apart for a double are an
 * error. */
static enum weft_status measure_step(const struct weft_kineto *k, struct kineto_step *s,
                                     struct weft_error *err)
{
    size_t first_file;
    int64_t length, first_ns = INT64_MAX;
    WEFT_TRY(measure_sizes(k, s, &first_file, err));
    if (__builtin_sub_overflow(s->last_ns, s->first_ns, &length) || length > MAX_LENGTH_NS)
        return fail_time(&k->files[0], err);

    const struct wf_kineto_file *f = &k->files[first_file];
    for (size_t j = 0; j < f->n; j++) {
        int64_t start, work, end;
        if (f->at[j].step != s->number)
            continue;
        WEFT_TRY(absolute_times(f, &f->at[j], &start, &work, &end, err));
        first_ns = start < first_ns ? start : first_ns;
    }
    s->first_ns = first_ns;
    return WEFT_OK;
}

/* Finds out whether the files have every stage. */
static enum weft_status check_stages(const struct weft_kineto *k, const struct kineto_step *s,
                                     bool *all, struct weft_error *err)
{
    uint32_t n = 0;
    bool *seen = calloc(s->n_stages, sizeof *seen);
    if (seen == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u stages", s->n_stages);
    for (size_t i = 0; i < k->n; i++)
        for (size_t j = 0; j < k->files[i].n; j++) {
            struct weft_action a = k->files[i].at[j].action;
            if (!seen[a.stage] && k->files[i].at[j].lane == WEFT_LANE_COMPUTE)
                n++;
            seen[a.stage] = seen[a.stage] || k->files[i].at[j].lane == WEFT_LANE_COMPUTE;
        }
    free(seen);
    *all = n == s->n_stages;
    return WEFT_OK;
}

static enum weft_status check_sizes(const struct weft_kineto *k, const struct kineto_step *s,
                                    struct weft_error *err)
{
    const struct {
        const char *what;
        uint32_t n;
    } sizes[] = {{"ranks", s->n_ranks}, {"stages", s->n_stages}, {"micros", s->n_micros}};
    for (size_t i = 0; i < WEFT_LEN(sizes); i++)
        if (sizes[i].n > s->n_events)
            return WEFT_FAIL(err, WEFT_DATA,
                             "%.80s: %u %s, but only %zu events; give the files of all ranks",
                             k->files[0].source, sizes[i].n, sizes[i].what, s->n_events);
    return WEFT_OK;
}

/* Adds an action.  What happens before the start of the step is cut off. */
static enum weft_status add_action(struct weft_trace *t, const struct wf_kineto_action *a,
                                   uint32_t rank, int64_t origin, struct weft_error *err)
{
    struct weft_trace_event e = {.rank = rank,
                                 .lane = a->lane,
                                 .action = a->action,
                                 .partner = a->partner,
                                 .peer = WEFT_NO_RANK};
    int64_t start, end, begin = a->start > origin ? a->start : origin;
    work_times(a, &start, &end);
    start = start > origin ? start : origin;
    end = end > start ? end : start;
    if (start > begin && a->gpu_end == a->gpu_start) {
        struct weft_trace_event wait = e;
        wait.lane = WEFT_LANE_WAIT;
        wait.start = (double)(begin - origin);
        wait.length = (double)(start - begin);
        WEFT_TRY(weft_trace_add_event(t, &wait, err));
    }
    e.start = (double)(start - origin);
    e.length = (double)(end - start);
    return weft_trace_add_event(t, &e, err);
}

static enum weft_status add_file(struct weft_trace *t, const struct wf_kineto_file *f,
                                 uint32_t rank, const struct kineto_step *s,
                                 struct weft_error *err)
{
    int64_t origin;
    if (__builtin_sub_overflow(s->first_ns, f->base_ns, &origin))
        return fail_time(f, err);
    for (size_t i = 0; i < f->n; i++)
        if (f->at[i].step == s->number)
            WEFT_TRY(add_action(t, &f->at[i], rank, origin, err));
    return WEFT_OK;
}

enum weft_status weft_kineto_trace(const struct weft_kineto *k, int64_t step,
                                   struct weft_trace *out, struct weft_error *err)
{
    struct kineto_step s = {0};
    struct weft_trace t;
    bool all_stages = false;
    if (k->n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "no profile was added");
    WEFT_TRY(find_step(k, step, &s.number, err));
    WEFT_TRY(measure_step(k, &s, err));
    s.n_ranks = (uint32_t)k->n;
    WEFT_TRY(check_sizes(k, &s, err));
    WEFT_TRY(check_stages(k, &s, &all_stages, err));
    if (!all_stages) {
        s.n_ranks = k->files[k->n - 1].rank + 1;
        WEFT_TRY(check_sizes(k, &s, err));
    }

    WEFT_TRY(weft_trace_init(&t, "torch", s.n_ranks, s.n_stages, s.n_micros, 1e-9, err));
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < k->n; i++)
        st = add_file(&t, &k->files[i], all_stages ? (uint32_t)i : k->files[i].rank, &s, err);
    if (st == WEFT_OK)
        st = weft_trace_finish(&t, err);
    if (st == WEFT_OK)
        *out = t;
    else
        weft_trace_release(&t);
    return st;
}
