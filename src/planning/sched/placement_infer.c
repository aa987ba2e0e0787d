/* Infers the placement of a schedule.  The placement has one rank per stage, or several pipes.
 * All micros of a pipe take the same path through the ranks. */
#include "planning/sched/placement_infer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/size.h"

#define NO_RANK UINT32_MAX

enum { MAX_PIPES = UINT16_MAX };

struct placement_scan {
    uint32_t ranks, stages, micros;
    const struct weft_action *actions; /* borrowed */
    const size_t *first;               /* borrowed */
    /* owned: (micros, stages), the rank of each cell, or NO_RANK */
    uint32_t *owner;
    uint32_t *pipe_of;    /* owned: (micros), the pipe of each micro */
    uint32_t *pipe_micro; /* owned: (micros), the first micro of each pipe */
    uint32_t n_pipes;
};

/* Finds the rank of each stage.  Returns false if several ranks run the same stage. */
static bool single_owners(const struct placement_scan *f, uint32_t *rank_of)
{
    bool single = true;
    for (uint32_t s = 0; s < f->stages; s++)
        rank_of[s] = NO_RANK;
    for (uint32_t r = 0; r < f->ranks; r++) {
        for (size_t i = f->first[r]; i < f->first[r + 1]; i++) {
            uint32_t *at = &rank_of[f->actions[i].stage];
            if (*at == NO_RANK)
                *at = r;
            single = single && *at == r;
        }
    }
    for (uint32_t s = 0; s < f->stages; s++)
        if (rank_of[s] == NO_RANK)
            rank_of[s] = 0;
    return single;
}

/* Finds the rank of each (stage, micro): the rank that runs the forward or, if there is no
 * forward, the rank that runs any other action of the (stage, micro). */
static void find_owners(struct placement_scan *f)
{
    size_t cells = (size_t)f->stages * f->micros;
    for (size_t i = 0; i < cells; i++)
        f->owner[i] = NO_RANK;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t r = 0; r < f->ranks; r++)
            for (size_t i = f->first[r]; i < f->first[r + 1]; i++) {
                struct weft_action a = f->actions[i];
                uint32_t *at = &f->owner[(size_t)a.micro * f->stages + a.stage];
                bool counts = pass == 0 ? a.kind == WEFT_ACT_F : weft_act_has_micro(a.kind);
                if (counts && *at == NO_RANK)
                    *at = r;
            }
    for (size_t i = 0; i < cells; i++)
        if (f->owner[i] == NO_RANK)
            f->owner[i] = 0;
}

static uint64_t path_hash(const uint32_t *path, uint32_t stages)
{
    uint64_t h = stages;
    for (uint32_t s = 0; s < stages; s++)
        h = wf_random_mix(h ^ path[s]) + s;
    return h;
}

/* Assigns micros to pipes with a hash table of paths.  Micros with the same path share a pipe;
 * pipes are numbered in the order of their first micros. */
static bool group_micros(struct placement_scan *f)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)f->micros)
        slots *= 2;
    uint32_t *table = malloc(sizeof *table * slots);
    if (table == NULL)
        return false;
    memset(table, 0xff, sizeof *table * slots);

    for (uint32_t m = 0; m < f->micros; m++) {
        const uint32_t *path = f->owner + (size_t)m * f->stages;
        size_t at = path_hash(path, f->stages) & (slots - 1);
        while (table[at] != NO_RANK &&
               memcmp(f->owner + (size_t)f->pipe_micro[table[at]] * f->stages, path,
                      sizeof *path * f->stages) != 0)
            at = (at + 1) & (slots - 1);
        if (table[at] == NO_RANK) {
            table[at] = f->n_pipes;
            f->pipe_micro[f->n_pipes++] = m;
        }
        f->pipe_of[m] = table[at];
    }
    free(table);
    return true;
}

static struct weft_schedule *infer_pipes(struct placement_scan *f, const char *name)
{
    size_t cells = (size_t)f->stages * f->micros;
    struct weft_schedule *s = NULL;
    f->owner = malloc(sizeof *f->owner * cells);
    f->pipe_of = malloc(sizeof *f->pipe_of * f->micros);
    f->pipe_micro = malloc(sizeof *f->pipe_micro * f->micros);
    if (f->owner == NULL || f->pipe_of == NULL || f->pipe_micro == NULL)
        goto done;

    find_owners(f);
    if (!group_micros(f) || f->n_pipes > MAX_PIPES)
        goto done;
    s = wf_schedule_new(name, f->ranks, f->stages, f->micros, f->n_pipes);
    if (s == NULL)
        goto done;

    for (uint32_t m = 0; f->n_pipes > 1 && m < f->micros; m++)
        s->pipe_of[m] = (uint16_t)f->pipe_of[m];
    for (uint32_t p = 0; p < f->n_pipes; p++)
        memcpy(s->rank_of + (size_t)p * f->stages,
               f->owner + (size_t)f->pipe_micro[p] * f->stages, sizeof *s->rank_of * f->stages);
done:
    free(f->owner);
    free(f->pipe_of);
    free(f->pipe_micro);
    return s;
}

enum weft_status wf_schedule_from_rows(const char *name, uint32_t ranks, uint32_t stages,
                                       uint32_t micros, struct weft_action *actions,
                                       size_t *first, struct weft_schedule **out,
                                       struct weft_error *err)
{
    struct placement_scan f = {ranks, stages, micros, actions, first, NULL, NULL, NULL, 0};
    struct weft_schedule *s = wf_schedule_new(name, ranks, stages, micros, 1);
    size_t cells;

    /* A complete schedule has at least two actions per (stage, micro).  A schedule with fewer
     * actions is incorrect with any placement.  In this case no table is allocated, because the
     * table could be far larger than the file. */
    if (s != NULL && !single_owners(&f, s->rank_of) && wf_size_mul(stages, micros, &cells) &&
        cells <= first[ranks]) {
        weft_schedule_free(s);
        s = infer_pipes(&f, name);
    }
    if (s == NULL) {
        free(actions);
        free(first);
        if (f.n_pipes > MAX_PIPES)
            return WEFT_FAIL(err, WEFT_SCHEDULE,
                             "the micros take too many different paths through the ranks "
                             "(maximum %d)",
                             MAX_PIPES);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the placement of %u stages", stages);
    }

    free(s->first);
    s->actions = actions;
    s->first = first;
    bool has_messages = false;
    for (size_t i = 0; i < first[ranks] && !has_messages; i++)
        has_messages = weft_act_is_message(actions[i].kind);
    if (!wf_schedule_finalize(s, has_messages)) {
        weft_schedule_free(s);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a schedule");
    }
    *out = s;
    return WEFT_OK;
}

enum weft_status wf_schedule_add_pipes(struct weft_schedule **s, uint32_t n_pipes,
                                       const uint32_t *rank_of, struct weft_error *err)
{
    struct weft_schedule *old = *s;
    const struct weft_placement *p = &old->place;
    struct weft_schedule *d =
        wf_schedule_new(old->name, p->n_ranks, p->n_stages, p->n_micros, n_pipes);
    if (d == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u pipes", n_pipes);

    memcpy(d->rank_of, rank_of, sizeof *rank_of * n_pipes * p->n_stages);
    bool same = true;
    for (uint32_t m = 0; m < p->n_micros; m++)
        for (uint32_t stage = 0; stage < p->n_stages; stage++)
            same = same &&
                   weft_placement_rank(p, stage, m) == weft_placement_rank(&d->place, stage, m);
    if (!same) {
        weft_schedule_free(d);
        return WEFT_OK;
    }

    free(d->first);
    d->first = old->first;
    d->actions = old->actions;
    old->first = NULL;
    old->actions = NULL;
    bool has_messages = old->lowered;
    weft_schedule_free(old);
    *s = d;
    return wf_schedule_finalize(d, has_messages)
               ? WEFT_OK
               : WEFT_FAIL(err, WEFT_NOMEM, "no memory for pipes");
}
