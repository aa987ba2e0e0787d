/* The schedule builder.  All actions are stored in one array, in which every rank has a range
 * of slots. */
#include "planning/sched/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "planning/sched/schedule_priv.h"

struct wf_shape wf_shape(const struct weft_gen_params *params, uint32_t chunks)
{
    return (struct wf_shape){params->ranks, params->ranks * chunks, params->micros, 1};
}

/* Assigns a range of slots to every rank.  For each stage that a pipe has on the rank, the
 * range has per_cell slots per micro of that pipe.  In addition, every rank has `extra`
 * slots. */
static void reserve_slots(struct wf_builder *b, uint32_t per_cell, size_t extra)
{
    struct weft_schedule *s = b->schedule;
    const struct weft_placement *p = &s->place;
    for (uint32_t r = 0; r <= p->n_ranks; r++)
        s->first[r] = r * extra;

    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++) {
        size_t micros = wf_pipe_first_micro(p->n_micros, p->n_pipes, pipe + 1) -
                        wf_pipe_first_micro(p->n_micros, p->n_pipes, pipe);
        for (uint32_t stage = 0; stage < p->n_stages; stage++)
            s->first[s->rank_of[(size_t)pipe * p->n_stages + stage] + 1] += micros * per_cell;
    }

    /* Here first[r + 1] is the sum of the slots of rank r without extra slots and (r + 1) *
     * extra.  The loop converts the array into prefix sums. */
    size_t sum = 0;
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        sum += s->first[r + 1] - (r + 1) * extra;
        s->first[r + 1] = sum + (r + 1) * extra;
    }

    for (uint32_t r = 0; r < p->n_ranks; r++)
        b->next[r] = s->actions + s->first[r];
}

enum weft_status wf_builder_init(struct wf_builder *b, const char *name, struct wf_shape shape,
                                 uint32_t per_cell, size_t extra, struct weft_error *err)
{
    size_t n, more;
    if (!wf_size_mul(shape.stages, shape.micros, &n) || !wf_size_mul(n, per_cell, &n) ||
        !wf_size_mul(extra, shape.ranks, &more) || !wf_size_add(n, more, &n) ||
        !wf_size_mul(n, sizeof(struct weft_action), &more))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: too many actions (%u stages x %u micros); use fewer", name,
                         shape.stages, shape.micros);

    *b = (struct wf_builder){0};
    b->schedule = wf_schedule_new(name, shape.ranks, shape.stages, shape.micros, shape.pipes);
    b->next = malloc(sizeof *b->next * shape.ranks);
    if (b->schedule != NULL)
        b->schedule->actions = wf_pages_alloc(more);
    if (b->schedule == NULL || b->next == NULL || b->schedule->actions == NULL) {
        wf_builder_release(b);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory for %zu actions", name, n);
    }

    b->rank_of = b->schedule->rank_of;
    b->end = b->schedule->actions + n;
    b->per_cell = per_cell;
    b->extra = extra;
    wf_builder_place(b, WEFT_PLACEMENT_LOOP);
    return WEFT_OK;
}

void wf_builder_place(struct wf_builder *b, enum weft_placement_kind kind)
{
    const struct weft_placement *p = &b->schedule->place;
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++)
        wf_placement_fill(b->rank_of + (size_t)pipe * p->n_stages, p->n_ranks, p->n_stages,
                          kind);
    reserve_slots(b, b->per_cell, b->extra);
}

void wf_builder_place_explicit(struct wf_builder *b)
{
    reserve_slots(b, b->per_cell, b->extra);
}

/* Removes unused slots: moves the actions of all ranks together, without gaps. */
static void compact(struct wf_builder *b)
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

    size_t used = (size_t)(to - s->actions);
    s->first[s->place.n_ranks] = used;
    if (s->actions + used < b->end) {
        struct weft_action *shrunk = realloc(s->actions, sizeof *shrunk * (used ? used : 1));
        if (shrunk != NULL)
            s->actions = shrunk;
    }
}

enum weft_status wf_builder_finish(struct wf_builder *b, struct weft_schedule **out,
                                   struct weft_error *err)
{
    compact(b);
    if (!wf_schedule_finalize(b->schedule, false)) {
        wf_builder_release(b);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to finish a schedule");
    }
    *out = b->schedule;
    b->schedule = NULL;
    wf_builder_release(b);
    return WEFT_OK;
}

void wf_builder_release(struct wf_builder *b)
{
    weft_schedule_free(b->schedule);
    free(b->next);
    *b = (struct wf_builder){0};
}
