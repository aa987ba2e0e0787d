#include "planning/sched/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "planning/sched/schedule_priv.h"

struct weft_shape weft_shape(const struct weft_params *params, uint32_t chunks)
{
    return (struct weft_shape){params->ranks, params->ranks * chunks, params->micros, 1};
}

/* Gives every rank its room: the micros of each pipe, for each stage that it holds there. */
static void hand_out_room(struct weft_builder *b, uint32_t per_cell, size_t extra)
{
    struct weft_schedule *s = b->schedule;
    const struct weft_placement *p = &s->place;
    for (uint32_t r = 0; r <= p->n_ranks; r++)
        s->first[r] = r * extra;
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++) {
        size_t micros = weft_pipe_first(p->n_micros, p->n_pipes, pipe + 1) -
                        weft_pipe_first(p->n_micros, p->n_pipes, pipe);
        for (uint32_t stage = 0; stage < p->n_stages; stage++)
            s->first[s->rank_of[(size_t)pipe * p->n_stages + stage] + 1] += micros * per_cell;
    }
    size_t sum = 0; /* first[r + 1] holds r's own room plus (r + 1) * extra: make it a prefix */
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        sum += s->first[r + 1] - (r + 1) * extra;
        s->first[r + 1] = sum + (r + 1) * extra;
    }
    for (uint32_t r = 0; r < p->n_ranks; r++)
        b->next[r] = s->actions + s->first[r];
}

enum weft_status weft_builder_init(struct weft_builder *b, const char *name,
                                   struct weft_shape shape, uint32_t per_cell, size_t extra,
                                   struct weft_error *err)
{
    size_t n, more;
    if (!weft_size_mul(shape.stages, shape.micros, &n) || !weft_size_mul(n, per_cell, &n) ||
        !weft_size_mul(extra, shape.ranks, &more) || !weft_size_add(n, more, &n) ||
        !weft_size_mul(n, sizeof(struct weft_action), &more))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: %u stages x %u micros are more actions than a "
                         "machine can count: make them fewer",
                         name, shape.stages, shape.micros);
    *b = (struct weft_builder){0};
    b->schedule = weft_schedule_new(name, shape.ranks, shape.stages, shape.micros, shape.pipes);
    b->next = malloc(sizeof *b->next * shape.ranks);
    if (b->schedule != NULL)
        b->schedule->actions = weft_pages_alloc(more);
    if (b->schedule == NULL || b->next == NULL || b->schedule->actions == NULL) {
        weft_builder_release(b);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory for %zu actions", name, n);
    }
    b->rank_of = b->schedule->rank_of;
    b->end = b->schedule->actions + n;
    b->per_cell = per_cell;
    b->extra = extra;
    weft_builder_place(b, WEFT_PLACE_LOOP);
    return WEFT_OK;
}

void weft_builder_place(struct weft_builder *b, enum weft_placement_kind kind)
{
    const struct weft_placement *p = &b->schedule->place;
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++)
        weft_place_fill(b->rank_of + (size_t)pipe * p->n_stages, p->n_ranks, p->n_stages, kind);
    hand_out_room(b, b->per_cell, b->extra);
}

void weft_builder_place_by_hand(struct weft_builder *b)
{
    hand_out_room(b, b->per_cell, b->extra);
}

/* Closes the gaps that ranks left which needed less than their room. */
static void compact(struct weft_builder *b)
{
    struct weft_schedule *s = b->schedule;
    struct weft_action *to = s->actions;
    for (uint32_t r = 0; r < s->place.n_ranks; r++) {
        struct weft_action *from = s->actions + s->first[r];
        size_t n = (size_t)(b->next[r] - from);
        if (from != to)
            memmove(to, from, n * sizeof *to);
        s->first[r] = (size_t)(to - s->actions);
        to += n;
    }
    s->first[s->place.n_ranks] = (size_t)(to - s->actions);
    size_t used = s->first[s->place.n_ranks];
    if (s->actions + used < b->end) {
        struct weft_action *less = realloc(s->actions, sizeof *less * (used ? used : 1));
        if (less != NULL)
            s->actions = less;
    }
}

enum weft_status weft_builder_finish(struct weft_builder *b, struct weft_schedule **out,
                                     struct weft_error *err)
{
    compact(b);
    if (!weft_schedule_seal(b->schedule, false)) {
        weft_builder_release(b);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to finish a schedule");
    }
    *out = b->schedule;
    b->schedule = NULL;
    weft_builder_release(b);
    return WEFT_OK;
}

void weft_builder_release(struct weft_builder *b)
{
    weft_schedule_free(b->schedule);
    free(b->next);
    *b = (struct weft_builder){0};
}
