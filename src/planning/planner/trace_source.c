/* Reads traces and profiles, or creates traces from schedules. */
#include "planning/planner/trace_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/planner/plan.h"

static enum weft_status time_schedule(const struct weft_schedule *s,
                                      const struct wf_trace_costs *costs, const char *source,
                                      struct weft_trace *out, struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    struct weft_verify_result proof;
    struct weft_metrics m;
    WEFT_TRY(wf_schedule_prove(s, source, &proof, err));
    weft_verify_result_release(&proof);
    WEFT_TRY(
        weft_cost_check(costs->cost, costs->memory, p->n_ranks, p->n_stages, p->n_micros, err));
    WEFT_TRY(weft_metrics_init(&m, s, costs->cost, costs->memory, err));
    enum weft_status st = weft_trace_init_plan(out, s, &m, costs->memory, err);
    weft_metrics_release(&m);
    return st;
}

enum weft_status wf_trace_set_take(struct wf_trace_set *s, struct weft_trace *trace,
                                   struct weft_error *err)
{
    if (s->n == s->cap) {
        size_t cap = 2 * s->cap + 4;
        struct weft_trace *at = realloc(s->at, cap * sizeof *at);
        if (at == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu traces", cap);
        s->at = at;
        s->cap = cap;
    }
    s->at[s->n++] = *trace;
    return WEFT_OK;
}

static enum weft_status add_profile(struct wf_trace_set *s, const char *text, size_t len,
                                    const char *source, struct weft_error *err)
{
    struct weft_trace place = {.n_ranks = 0};
    if (s->profiles == NULL) {
        WEFT_TRY(weft_kineto_new(&s->profiles, err));
        s->profiles_at = s->n;
        WEFT_TRY(wf_trace_set_take(s, &place, err));
    }
    return weft_kineto_add(s->profiles, text, len, source, WEFT_NO_RANK, err);
}

/* Makes the trace of a text that is not a profile. */
static enum weft_status parse_trace(const char *text, size_t len, const char *source,
                                    const struct wf_trace_costs *costs, struct weft_trace *out,
                                    struct weft_error *err)
{
    struct weft_schedule *s = NULL;
    if (costs == NULL || weft_trace_detect(text, len))
        return weft_trace_parse(text, len, source, out, err);
    WEFT_TRY(weft_schedule_parse(text, len, source, &s, err));
    enum weft_status st = time_schedule(s, costs, source, out, err);
    weft_schedule_free(s);
    return st;
}

/* Returns the status for a file that cannot be read, by its name. */
static enum weft_status status_of(const char *path, const struct wf_trace_costs *costs)
{
    bool measured = costs == NULL || wf_path_ends_in(path, ".trace") ||
                    wf_path_ends_in(path, ".json") || wf_path_ends_in(path, ".gz");
    return measured ? WEFT_DATA : WEFT_SCHEDULE;
}

enum weft_status wf_trace_set_add_file(struct wf_trace_set *s, const char *path,
                                       const struct wf_trace_costs *costs,
                                       struct weft_error *err)
{
    const char *source = strcmp(path, "-") == 0 ? "standard input" : path;
    char *text = NULL;
    size_t len = 0;
    struct weft_trace trace;
    WEFT_TRY(s->read(status_of(path, costs), path, &text, &len, err));
    enum weft_status st;
    if (weft_kineto_detect(text, len)) {
        st = add_profile(s, text, len, source, err);
    } else {
        st = parse_trace(text, len, source, costs, &trace, err);
        if (st == WEFT_OK) {
            st = wf_trace_set_take(s, &trace, err);
            if (st != WEFT_OK)
                weft_trace_release(&trace);
        }
    }
    free(text);
    return st;
}

enum weft_status wf_trace_set_finish(struct wf_trace_set *s, struct weft_error *err)
{
    return s->profiles == NULL
               ? WEFT_OK
               : weft_kineto_trace(s->profiles, -1, &s->at[s->profiles_at], err);
}

void wf_trace_set_release(struct wf_trace_set *s)
{
    for (size_t i = 0; i < s->n; i++)
        weft_trace_release(&s->at[i]);
    free(s->at);
    weft_kineto_free(s->profiles);
    *s = (struct wf_trace_set){.read = s->read};
}

/* -- one measured trace --------------------------------------------------------------------- */

/* Adds the files of a list.  `list` is changed. */
static enum weft_status add_list(struct wf_trace_set *s, char *list, struct weft_error *err)
{
    for (char *next = NULL; list != NULL; list = next) {
        next = strchr(list, ',');
        if (next != NULL)
            *next++ = '\0';
        WEFT_TRY(wf_trace_set_add_file(s, list, NULL, err));
    }
    WEFT_TRY(wf_trace_set_finish(s, err));
    if (s->n != 1)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "found %zu measured traces (expected 1); give one trace, or the profiles of one step",
            s->n);
    return WEFT_OK;
}

enum weft_status wf_trace_read_measured(const char *paths, wf_input_fn read,
                                        struct weft_trace *out, struct weft_error *err)
{
    struct wf_trace_set s = {.read = read};
    enum weft_status st;
    char *list = strdup(paths);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of files");
    if (wf_is_file(paths)) { /* the name of a file may contain commas */
        st = wf_trace_set_add_file(&s, paths, NULL, err);
        if (st == WEFT_OK)
            st = wf_trace_set_finish(&s, err);
    } else {
        st = add_list(&s, list, err);
    }
    free(list);
    if (st == WEFT_OK) {
        *out = s.at[0];
        s.n = 0;
    }
    wf_trace_set_release(&s);
    return st;
}
