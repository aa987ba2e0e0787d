/* Computes the bounds of the best layouts and tunes the order of the best one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/values.h"
#include "planning/tune/layout_priv.h"

/* A kept layout with the costs of its stages. */
struct refined {
    struct weft_layout *layout; /* borrowed */
    struct weft_stage_sums sums;
    struct weft_cost cost; /* owns its lists; with the hops of the pipeline */
};

static enum weft_status rebuild(struct wf_layout_search *c, struct refined *r,
                                struct weft_error *err)
{
    struct weft_layout *l = r->layout;
    if (c->clustered)
        wf_layout_arrange(c, l->ranks, l->replicas_adjacent);
    c->now = *l;
    WEFT_TRY(wf_layout_fill_items(c, err));
    WEFT_TRY(weft_stage_sums_init(&r->sums, &l->partition, &c->items, err));
    return wf_layout_place_cost(c, weft_schedule_placement(l->result), &r->sums, &r->cost, err);
}

static enum weft_status find_bound(const struct wf_layout_search *c, struct refined *r,
                                   struct weft_error *err)
{
    struct weft_layout *l = r->layout;
    struct weft_bounds b = {0};
    const struct weft_bound_input in = {.placement = weft_schedule_placement(l->result),
                                        .cost = &r->cost,
                                        .backwards = WEFT_BACKWARD_ANY,
                                        .pairs = true,
                                        .effort = c->kept->stopped ? -1 : 0,
                                        .known_makespan = l->makespan,
                                        .known_span = l->span};
    WEFT_TRY(weft_bounds_compute(&in, &b, err));
    l->bound = c->problem->minimize == WEFT_MINIMIZE_SPAN ? b.span : b.makespan;
    return WEFT_OK;
}

/* Returns true if weft_tune() can improve a layout. */
static bool is_tunable(const struct weft_layout *l)
{
    switch (weft_schedule_placement_kind(l->result)) {
    case WEFT_PLACEMENT_LINEAR:
    case WEFT_PLACEMENT_V:
    case WEFT_PLACEMENT_LOOP:
    case WEFT_PLACEMENT_WAVE:
        return true;
    case WEFT_PLACEMENT_BIDIRECTIONAL:
    case WEFT_PLACEMENT_EXPLICIT:
        return false;
    }
    return false;
}

/* Forwards the progress of weft_tune(), and stops it if the search for layouts must stop. */
static bool forward_progress(const struct weft_tune_progress *progress, void *user)
{
    struct wf_layout_search *c = user;
    const struct weft_layout_progress p = {
        .seconds = c->problem->seconds > 0 ? c->problem->seconds - wf_layout_seconds_left(c)
                                           : progress->seconds,
        .share = 1,
        .n_tried = c->kept->n_tried,
        .time = c->kept->at[0].time,
        .schedule = "tuned"};
    if (c->problem->progress != NULL && !c->problem->progress(&p, c->problem->user))
        c->kept->stopped = true;
    return !c->kept->stopped;
}

/* Searches for a better order of a layout's actions and keeps it if there is one. */
static enum weft_status tune_order(struct wf_layout_search *c, struct refined *r,
                                   struct weft_error *err)
{
    const struct weft_layout *l = r->layout;
    bool by_span = c->problem->minimize == WEFT_MINIMIZE_SPAN;
    double left = wf_layout_seconds_left(c), reduction = l->reduction, time = l->time;
    struct wf_layout_parts *parts = &c->built;
    struct weft_tune_problem t = {.ranks = l->ranks,
                                  .micros = l->micros,
                                  .chunks = l->chunks,
                                  .placement = weft_schedule_placement_kind(l->result),
                                  .minimize = c->problem->minimize,
                                  .cost = &r->cost};
    if (left <= 0) {
        c->kept->stopped = true;
        return WEFT_OK;
    }
    if (c->problem->bytes_limit != 0) {
        WEFT_TRY(wf_layout_limits_init(&parts->limits, c, &l->partition,
                                       weft_schedule_placement(l->result), err));
        t.memory = parts->memory = &parts->limits.memory;
    }

    struct weft_tune_result best;
    const struct weft_tune_options options = {.iterations = c->problem->iterations,
                                              .seconds = left < HUGE_VAL ? left : 0,
                                              .progress = forward_progress,
                                              .user = c};
    const struct wf_layout_source source = wf_layout_make_source(c);
    const struct wf_layout_candidate tuned = {.schedule = "tuned"};
    struct wf_layout_built built = {0};
    enum weft_status st = weft_tune(&t, &options, &best, err);
    if (st == WEFT_NOMEM)
        return st;
    if (st == WEFT_OK) {
        built.schedule = best.schedule;
        c->now.bound = by_span ? best.bounds.span : best.bounds.makespan;
    }
    st = WEFT_OK; /* the layout cannot be tuned, for example within its memory */
    bool better = built.schedule != NULL &&
                  (by_span ? best.span : best.makespan) + reduction < time * (1 - 1e-9);
    if (better)
        st = wf_partition_copy(&parts->partition, &l->partition, err);
    if (better && st == WEFT_OK) {
        parts->cost = r->cost; /* released with the parts */
        r->cost = (struct weft_cost){0};
        built.cost = &parts->cost;
        return wf_layout_score(&source, &tuned, &built, err);
    }
    source.release(c, &built);
    return st;
}

/* Computes the bounds of a kept layout.  Also tunes the layout if it is the first that can
 * be tuned. */
static enum weft_status refine(struct wf_layout_search *c, size_t i, bool *tuned,
                               struct weft_error *err)
{
    struct refined r = {.layout = &c->kept->at[i]};
    enum weft_status st = rebuild(c, &r, err);
    if (st == WEFT_OK)
        st = find_bound(c, &r, err);
    if (st == WEFT_OK && !*tuned && !c->kept->stopped && is_tunable(r.layout)) {
        *tuned = true;
        st = tune_order(c, &r, err);
    }
    wf_cost_release(&r.cost);
    weft_stage_sums_release(&r.sums);
    return st;
}

enum weft_status wf_layouts_refine(struct wf_layout_search *c, struct weft_error *err)
{
    bool tuned = c->problem->iterations == 0;
    for (size_t i = 0; i < c->kept->n; i++)
        if (strcmp(c->kept->at[i].schedule, "tuned") != 0)
            WEFT_TRY(refine(c, i, &tuned, err));
    return WEFT_OK;
}
