#include "planning/sched/infer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/size.h"

#define NOWHERE UINT32_MAX

enum { MOST_PIPES = UINT16_MAX };

struct inference {
    uint32_t ranks, stages, micros;
    const struct weft_action *actions; /* borrowed */
    const size_t *first;               /* borrowed */
    uint32_t *holder;                  /* owned: (micros, stages), or NOWHERE */
    uint32_t *pipe_of;                 /* owned: (micros) */
    uint32_t *pipe_micro;              /* owned: (micros), a pipe's first micro */
    uint32_t n_pipes;
};

/* One holder a stage: the usual case.  False when a stage has several. */
static bool single_holders(const struct inference *f, uint32_t *rank_of)
{
    bool single = true;
    for (uint32_t s = 0; s < f->stages; s++)
        rank_of[s] = NOWHERE;
    for (uint32_t r = 0; r < f->ranks; r++) {
        for (size_t i = f->first[r]; i < f->first[r + 1]; i++) {
            if (f->actions[i].kind == WEFT_ACT_IDLE)
                continue;
            uint32_t *at = &rank_of[f->actions[i].stage];
            if (*at == NOWHERE)
                *at = r;
            single = single && *at == r;
        }
    }
    for (uint32_t s = 0; s < f->stages; s++)
        if (rank_of[s] == NOWHERE)
            rank_of[s] = 0;
    return single;
}

/* Who runs each (stage, micro): the rank of its forward, or of whatever else there is. */
static void find_holders(struct inference *f)
{
    size_t cells = (size_t)f->stages * f->micros;
    for (size_t i = 0; i < cells; i++)
        f->holder[i] = NOWHERE;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t r = 0; r < f->ranks; r++)
            for (size_t i = f->first[r]; i < f->first[r + 1]; i++) {
                struct weft_action a = f->actions[i];
                uint32_t *at = &f->holder[(size_t)a.micro * f->stages + a.stage];
                bool counts = pass == 0 ? a.kind == WEFT_ACT_F : weft_kind_has_micro(a.kind);
                if (counts && *at == NOWHERE)
                    *at = r;
            }
    for (size_t i = 0; i < cells; i++)
        if (f->holder[i] == NOWHERE)
            f->holder[i] = 0;
}

static uint64_t way_hash(const uint32_t *way, uint32_t stages)
{
    uint64_t h = stages;
    for (uint32_t s = 0; s < stages; s++)
        h = weft_random_mix(h ^ way[s]) + s;
    return h;
}

/* Micros that go the same way share a pipe; pipes are numbered by their first micro. */
static bool group_micros(struct inference *f)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)f->micros)
        slots *= 2;
    uint32_t *table = malloc(sizeof *table * slots);
    if (table == NULL)
        return false;
    memset(table, 0xff, sizeof *table * slots);
    for (uint32_t m = 0; m < f->micros; m++) {
        const uint32_t *way = f->holder + (size_t)m * f->stages;
        size_t at = way_hash(way, f->stages) & (slots - 1);
        while (table[at] != NOWHERE &&
               memcmp(f->holder + (size_t)f->pipe_micro[table[at]] * f->stages, way,
                      sizeof *way * f->stages) != 0)
            at = (at + 1) & (slots - 1);
        if (table[at] == NOWHERE) {
            table[at] = f->n_pipes;
            f->pipe_micro[f->n_pipes++] = m;
        }
        f->pipe_of[m] = table[at];
    }
    free(table);
    return true;
}

static struct weft_schedule *several_pipes(struct inference *f, const char *name)
{
    size_t cells = (size_t)f->stages * f->micros;
    struct weft_schedule *s = NULL;
    f->holder = malloc(sizeof *f->holder * cells);
    f->pipe_of = malloc(sizeof *f->pipe_of * f->micros);
    f->pipe_micro = malloc(sizeof *f->pipe_micro * f->micros);
    if (f->holder == NULL || f->pipe_of == NULL || f->pipe_micro == NULL)
        goto done;
    find_holders(f);
    if (!group_micros(f) || f->n_pipes > MOST_PIPES)
        goto done;
    s = weft_schedule_new(name, f->ranks, f->stages, f->micros, f->n_pipes);
    if (s == NULL)
        goto done;
    for (uint32_t m = 0; f->n_pipes > 1 && m < f->micros; m++)
        s->pipe_of[m] = (uint16_t)f->pipe_of[m];
    for (uint32_t p = 0; p < f->n_pipes; p++)
        memcpy(s->rank_of + (size_t)p * f->stages,
               f->holder + (size_t)f->pipe_micro[p] * f->stages,
               sizeof *s->rank_of * f->stages);
done:
    free(f->holder);
    free(f->pipe_of);
    free(f->pipe_micro);
    return s;
}

enum weft_status weft_schedule_infer(const char *name, uint32_t ranks, uint32_t stages,
                                     uint32_t micros, struct weft_action *actions,
                                     size_t *first, struct weft_schedule **out,
                                     struct weft_error *err)
{
    struct inference f = {ranks, stages, micros, actions, first, NULL, NULL, NULL, 0};
    struct weft_schedule *s = weft_schedule_new(name, ranks, stages, micros, 1);
    size_t cells;
    /* A complete schedule has two actions or more a cell.  One that has fewer is broken whatever
     * its placement, and is not worth a table that may be far larger than the file. */
    if (s != NULL && !single_holders(&f, s->rank_of) && weft_size_mul(stages, micros, &cells) &&
        cells <= first[ranks]) {
        weft_schedule_free(s);
        s = several_pipes(&f, name);
    }
    if (s == NULL) {
        free(actions);
        free(first);
        if (f.n_pipes > MOST_PIPES)
            return WEFT_FAIL(err, WEFT_SCHEDULE,
                             "the micros take more than %d different ways through the ranks",
                             MOST_PIPES);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the placement of %u stages", stages);
    }
    free(s->first);
    s->actions = actions;
    s->first = first;
    bool has_messages = false;
    for (size_t i = 0; i < first[ranks] && !has_messages; i++)
        has_messages = weft_kind_is_message(actions[i].kind);
    if (!weft_schedule_seal(s, has_messages)) {
        weft_schedule_free(s);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a schedule");
    }
    *out = s;
    return WEFT_OK;
}

enum weft_status weft_schedule_add_pipes(struct weft_schedule **s, uint32_t n_pipes,
                                         const uint32_t *rank_of, struct weft_error *err)
{
    struct weft_schedule *old = *s;
    const struct weft_placement *p = &old->place;
    struct weft_schedule *d =
        weft_schedule_new(old->name, p->n_ranks, p->n_stages, p->n_micros, n_pipes);
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
    return weft_schedule_seal(d, has_messages)
               ? WEFT_OK
               : WEFT_FAIL(err, WEFT_NOMEM, "no memory for pipes");
}
