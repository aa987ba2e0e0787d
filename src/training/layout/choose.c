/* Measures, compares and chooses the layout of a run, and stores it in the settings. */
#include "training/layout/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/comm/background.h"
#include "training/layout/choose_priv.h"

/* -- comparing ----------------------------------------------------------------------------- */

static double rows_of_micro(const struct wf_train_settings *s, uint32_t micros)
{
    return (double)((s->data.batch + micros - 1) / micros);
}

/* Sets the number of micro-batches and scales the measured pass times, which are proportional
 * to the rows of a micro-batch. */
static void set_micros(struct wf_train_settings *s, struct wf_layout_measurement *m,
                       uint32_t micros)
{
    double factor = rows_of_micro(s, micros) / rows_of_micro(s, s->parallel.micros);
    for (size_t i = 0; i < m->machine.n_profiles; i++)
        wf_layout_scale_passes(&m->profiles[i], factor);
    s->parallel.micros = micros;
}

/* Sorts all candidates.  The number of micro-batches changes the results, so it is raised only
 * if no layout can run with the default number, and then to the smallest number with which a
 * layout can run. */
static enum weft_status rank_candidates(struct wf_train_settings *s,
                                        const struct weft_model *model,
                                        struct wf_layout_measurement *m,
                                        struct wf_auto_candidates *out, struct weft_error *err)
{
    uint32_t micros = s->parallel.micros;
    enum weft_status st = wf_auto_choose(s, model, &m->machine, out, err);
    struct weft_error first = *err;
    while (st == WEFT_USAGE && out->min_micros > s->parallel.micros) {
        set_micros(s, m, out->min_micros);
        st = wf_auto_choose(s, model, &m->machine, out, err);
    }
    if (st == WEFT_USAGE) {
        s->parallel.micros = micros;
        *err = first;
    }
    return st;
}

/* -- deciding on rank 0 -------------------------------------------------------------------- */

enum { NAME_SIZE = 64 };

/* The decision of rank 0, which is broadcast to the other ranks. */
struct decision {
    uint32_t pp, dp, chunks, threads, micros;
    char schedule[NAME_SIZE]; /* "": the schedule is unchanged */
    struct weft_error err;
};

struct comparison {
    struct wf_train_settings *settings;
    const struct weft_model *model;
    struct wf_layout_measurement *measured;
    struct wf_auto_candidates *out;
};

static enum weft_status run_comparison(void *arg, struct weft_error *err)
{
    struct comparison *c = arg;
    return rank_candidates(c->settings, c->model, c->measured, c->out, err);
}

/* Runs in the background, because the other ranks wait and need heartbeats of rank 0. */
static void decide(struct wf_train_settings *s, const struct weft_model *model,
                   struct wf_layout_measurement *m, struct weft_comm *comm,
                   struct wf_layout_choice *out, struct decision *d)
{
    struct comparison comparison = {s, model, m, &out->candidates};
    out->default_micros = s->parallel.micros;
    d->err.status = wf_background_run(comm, run_comparison, &comparison, &d->err);
    if (d->err.status != WEFT_OK)
        return;

    const struct wf_auto_candidate *c = &out->candidates.at[0];
    *d = (struct decision){c->pp, c->dp, c->chunks, c->threads, s->parallel.micros, "", {0}};
    if (c->schedule != s->parallel.schedule)
        snprintf(d->schedule, sizeof d->schedule, "%s", c->schedule);

    memcpy(out->profiles, m->profiles, sizeof out->profiles);
    out->n_profiles = m->machine.n_profiles;
    out->seconds = (double)(wf_clock_ns() - m->begin_ns) * 1e-9;
}

static enum weft_status apply(struct wf_train_settings *s, const struct decision *d,
                              struct wf_layout_choice *out, struct weft_error *err)
{
    if (d->err.status != WEFT_OK) /* err.file is a pointer that is valid only on rank 0 */
        return WEFT_FAIL(err, d->err.status, "%s", d->err.msg);
    if (d->schedule[0] != '\0') {
        char *copy = strdup(d->schedule);
        if (copy == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of a schedule");
        out->old_schedule = s->parallel.schedule;
        s->parallel.schedule = copy;
    }
    s->parallel.pp = d->pp;
    s->parallel.dp = d->dp;
    s->parallel.chunks = d->chunks;
    if (!s->parallel.given.threads) /* a given number of threads may differ between ranks */
        s->parallel.threads = d->threads;
    s->parallel.micros = d->micros;
    s->parallel.automatic = false;
    return WEFT_OK;
}

/* -- keys that are given ------------------------------------------------------------------- */

/* Finds the keys that are given.  A key with the value "auto" is not given.  In a file that
 * sets every key, for example one written by --print-config, keys with their default values do
 * not count as given either; otherwise nothing would be left to choose. */
static void find_given(struct wf_train_settings *s)
{
    const struct wf_setting_list list = wf_train_setting_list();
    bool *const given[] = {&s->parallel.given.pp, &s->parallel.given.dp,
                           &s->parallel.given.schedule, &s->parallel.given.chunks,
                           &s->parallel.given.micros};
    static const char *const names[] = {"parallel.pp", "parallel.dp", "parallel.schedule",
                                        "parallel.chunks", "parallel.micros"};
    bool all = true;
    for (size_t i = 0; i < WEFT_LEN(given); i++)
        all = all && *given[i];

    s->parallel.given.chunks = s->parallel.given.chunks && s->parallel.chunks != 0;
    s->parallel.given.threads = s->parallel.given.threads && s->parallel.threads != 0;
    /* The last key, micros, stays given. */
    for (size_t i = 0; all && i + 1 < WEFT_LEN(given); i++)
        if (wf_setting_is_default(wf_setting_find(list, names[i]), s))
            *given[i] = false;
}

enum weft_status wf_layout_choose(struct wf_train_settings *s, const struct weft_model *model,
                                  struct weft_comm *comm, struct wf_layout_choice *out,
                                  struct weft_error *err)
{
    struct wf_layout_measurement m = {.begin_ns = wf_clock_ns()};
    struct decision d = {0};
    *out = (struct wf_layout_choice){0};

    find_given(s);
    WEFT_TRY(wf_layout_measure(&m, s, model, comm, err));
    if (comm == NULL || weft_comm_rank(comm) == 0)
        decide(s, model, &m, comm, out, &d);
    if (comm != NULL)
        WEFT_TRY(weft_comm_broadcast(comm, &d, sizeof d, err));
    return apply(s, &d, out, err);
}

void wf_layout_choice_release(struct wf_layout_choice *choice)
{
    wf_auto_candidates_release(&choice->candidates);
    free(choice->old_schedule);
    *choice = (struct wf_layout_choice){0};
}

/* -- explaining ---------------------------------------------------------------------------- */

static bool same_division(const struct wf_auto_candidate *a, const struct wf_auto_candidate *b)
{
    return a->pp == b->pp && a->dp == b->dp && a->threads == b->threads;
}

size_t wf_layout_choice_divisions(const struct wf_layout_choice *choice,
                                  const struct wf_auto_candidate **out, size_t max)
{
    const struct wf_auto_candidates *list = &choice->candidates;
    size_t n = 0;
    for (size_t i = 0; i < list->n && n < max; i++) {
        size_t k = 0;
        while (k < i && !same_division(&list->at[k], &list->at[i]))
            k++;
        if (k == i)
            out[n++] = &list->at[i];
    }
    return n;
}
