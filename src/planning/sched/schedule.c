/* The schedule object: names, placement, allocation, accessors. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/sched/schedule_priv.h"

const char *weft_act_name(unsigned kind)
{
    static const char *const names[WEFT_N_ACT_KINDS] = {
        [WEFT_ACT_F] = "F",
        [WEFT_ACT_B] = "B",
        [WEFT_ACT_I] = "I",
        [WEFT_ACT_W] = "W",
        [WEFT_ACT_SEND_F] = "SEND_F",
        [WEFT_ACT_RECV_F] = "RECV_F",
        [WEFT_ACT_SEND_B] = "SEND_B",
        [WEFT_ACT_RECV_B] = "RECV_B",
        [WEFT_ACT_UNSHARD] = "UNSHARD",
        [WEFT_ACT_RESHARD] = "RESHARD",
        [WEFT_ACT_REDUCE_GRAD] = "REDUCE_GRAD",
        [WEFT_ACT_WAIT_SEND_F] = "WAIT_SEND_F",
        [WEFT_ACT_WAIT_SEND_B] = "WAIT_SEND_B",
        [WEFT_ACT_WAIT_REDUCE_GRAD] = "WAIT_REDUCE_GRAD",
    };
    return kind < WEFT_N_ACT_KINDS ? names[kind] : "?";
}

const char *weft_placement_name(enum weft_placement_kind kind)
{
    switch (kind) {
    case WEFT_PLACEMENT_LINEAR:
        return "linear";
    case WEFT_PLACEMENT_LOOP:
        return "loop";
    case WEFT_PLACEMENT_V:
        return "v";
    case WEFT_PLACEMENT_WAVE:
        return "wave";
    case WEFT_PLACEMENT_BIDIRECTIONAL:
        return "bidirectional";
    case WEFT_PLACEMENT_EXPLICIT:
        return "explicit";
    }
    return "?";
}

static uint32_t place_stage(uint32_t stage, uint32_t ranks, enum weft_placement_kind kind)
{
    uint32_t lap = stage / ranks, at = stage % ranks;
    bool back = lap % 2 == 1 && (kind == WEFT_PLACEMENT_V || kind == WEFT_PLACEMENT_WAVE);
    return back ? ranks - 1 - at : at;
}

void wf_placement_fill(uint32_t *rank_of, uint32_t ranks, uint32_t stages,
                       enum weft_placement_kind kind)
{
    for (uint32_t s = 0; s < stages; s++)
        rank_of[s] = place_stage(s, ranks, kind);
}

static bool matches_placement(const struct weft_schedule *s, enum weft_placement_kind kind)
{
    for (uint32_t i = 0; i < s->place.n_stages; i++)
        if (s->rank_of[i] != place_stage(i, s->place.n_ranks, kind))
            return false;
    return true;
}

static enum weft_placement_kind classify_placement(const struct weft_schedule *s)
{
    const struct weft_placement *p = &s->place;
    if (p->n_pipes > 1)
        return WEFT_PLACEMENT_BIDIRECTIONAL;
    if (matches_placement(s, WEFT_PLACEMENT_LOOP))
        return p->n_stages <= p->n_ranks ? WEFT_PLACEMENT_LINEAR : WEFT_PLACEMENT_LOOP;
    if (matches_placement(s, WEFT_PLACEMENT_WAVE))
        return p->n_stages <= 2 * p->n_ranks ? WEFT_PLACEMENT_V : WEFT_PLACEMENT_WAVE;
    return WEFT_PLACEMENT_EXPLICIT;
}

struct weft_schedule *wf_schedule_new(const char *name, uint32_t ranks, uint32_t stages,
                                      uint32_t micros, uint32_t pipes)
{
    struct weft_schedule *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;

    size_t cells = (size_t)pipes * stages;
    strncpy(s->name, name, sizeof s->name - 1);
    s->rank_of = calloc(cells ? cells : 1, sizeof *s->rank_of);
    s->chunk_of = calloc(cells ? cells : 1, sizeof *s->chunk_of);
    s->first = calloc((size_t)ranks + 1, sizeof *s->first);
    if (pipes > 1)
        s->pipe_of = calloc(micros ? micros : 1, sizeof *s->pipe_of);
    if (s->rank_of == NULL || s->chunk_of == NULL || s->first == NULL ||
        (pipes > 1 && s->pipe_of == NULL)) {
        weft_schedule_free(s);
        return NULL;
    }

    for (uint32_t j = 0; pipes > 1 && j < pipes; j++)
        for (uint32_t m = wf_pipe_first_micro(micros, pipes, j);
             m < wf_pipe_first_micro(micros, pipes, j + 1); m++)
            s->pipe_of[m] = (uint16_t)j;
    s->place = (struct weft_placement){ranks, stages, micros, pipes, s->rank_of, s->pipe_of};
    return s;
}

struct weft_schedule *wf_schedule_dup_empty(const struct weft_schedule *s)
{
    const struct weft_placement *p = &s->place;
    struct weft_schedule *d =
        wf_schedule_new(s->name, p->n_ranks, p->n_stages, p->n_micros, p->n_pipes);
    if (d == NULL)
        return NULL;
    memcpy(d->rank_of, s->rank_of, sizeof *d->rank_of * p->n_pipes * p->n_stages);
    if (s->pipe_of != NULL)
        memcpy(d->pipe_of, s->pipe_of, sizeof *d->pipe_of * p->n_micros);
    return d;
}

enum weft_status weft_schedule_dup(const struct weft_schedule *s, struct weft_schedule **out,
                                   struct weft_error *err)
{
    size_t n = weft_schedule_n_actions(s);
    struct weft_schedule *d = wf_schedule_dup_empty(s);
    if (d != NULL)
        d->actions = malloc(sizeof *d->actions * (n ? n : 1));
    if (d == NULL || d->actions == NULL) {
        weft_schedule_free(d);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a schedule with %zu actions", n);
    }

    memcpy(d->first, s->first, sizeof *d->first * ((size_t)s->place.n_ranks + 1));
    if (n > 0)
        memcpy(d->actions, s->actions, sizeof *d->actions * n);
    memcpy(d->chunk_of, s->chunk_of,
           sizeof *d->chunk_of * s->place.n_pipes * s->place.n_stages);
    d->n_chunks = s->n_chunks;
    d->kind = s->kind;
    d->lowered = s->lowered;
    d->forward_only = s->forward_only;
    *out = d;
    return WEFT_OK;
}

void weft_schedule_free(struct weft_schedule *s)
{
    if (s == NULL)
        return;
    free(s->rank_of);
    free(s->pipe_of);
    free(s->chunk_of);
    free(s->first);
    free(s->actions);
    free(s);
}

/* Numbers the chunks of each rank.  The chunks of a rank are the distinct stages that any pipe
 * has on the rank, in ascending order. */
static bool number_chunks(struct weft_schedule *s)
{
    const struct weft_placement *p = &s->place;
    /* number of chunks found so far per rank */
    uint32_t *count = calloc(p->n_ranks, sizeof *count);
    uint32_t *last = malloc(sizeof *last * p->n_ranks);
    if (count == NULL || last == NULL) {
        free(count);
        free(last);
        return false;
    }

    memset(last, 0xff, sizeof *last * p->n_ranks);
    s->n_chunks = 0;
    for (uint32_t stage = 0; stage < p->n_stages; stage++) {
        for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++) {
            size_t at = (size_t)pipe * p->n_stages + stage;
            uint32_t rank = s->rank_of[at];
            if (last[rank] != stage) {
                last[rank] = stage;
                count[rank]++;
            }
            s->chunk_of[at] = count[rank] - 1;
            if (count[rank] > s->n_chunks)
                s->n_chunks = count[rank];
        }
    }

    free(count);
    free(last);
    return true;
}

bool wf_schedule_finalize(struct weft_schedule *s, bool has_messages)
{
    if (!number_chunks(s))
        return false;
    s->kind = classify_placement(s);
    s->lowered = has_messages;
    s->forward_only = wf_schedule_find_forward_only(s);
    return true;
}

const char *weft_schedule_name(const struct weft_schedule *s)
{
    return s->name;
}

const struct weft_placement *weft_schedule_placement(const struct weft_schedule *s)
{
    return &s->place;
}

enum weft_placement_kind weft_schedule_placement_kind(const struct weft_schedule *s)
{
    return s->kind;
}

struct weft_action_span weft_schedule_rank(const struct weft_schedule *s, uint32_t rank)
{
    /* A schedule without actions has no array, but callers may add 0 to the pointer, which is
     * undefined for NULL. */
    static const struct weft_action none = {0};
    const struct weft_action *actions = s->actions != NULL ? s->actions : &none;
    return (struct weft_action_span){actions + s->first[rank],
                                     s->first[rank + 1] - s->first[rank]};
}

size_t weft_schedule_n_actions(const struct weft_schedule *s)
{
    return s->first[s->place.n_ranks];
}

uint32_t weft_schedule_n_chunks(const struct weft_schedule *s)
{
    return s->n_chunks;
}

uint32_t weft_schedule_chunk(const struct weft_schedule *s, uint32_t rank, uint32_t stage)
{
    for (uint32_t pipe = 0; pipe < s->place.n_pipes; pipe++) {
        size_t at = (size_t)pipe * s->place.n_stages + stage;
        if (s->rank_of[at] == rank)
            return s->chunk_of[at];
    }
    return 0;
}

bool weft_schedule_is_lowered(const struct weft_schedule *s)
{
    return s->lowered;
}

bool weft_schedule_has_header(const struct weft_schedule *s)
{
    return s->has_header;
}

bool weft_schedule_is_forward_only(const struct weft_schedule *s)
{
    return s->forward_only;
}

size_t weft_schedule_bytes(const struct weft_schedule *s)
{
    const struct weft_placement *p = &s->place;
    return sizeof *s + weft_schedule_n_actions(s) * sizeof *s->actions +
           (size_t)p->n_pipes * p->n_stages * (sizeof *s->rank_of + sizeof *s->chunk_of) +
           (s->pipe_of == NULL ? 0 : p->n_micros * sizeof *s->pipe_of) +
           ((size_t)p->n_ranks + 1) * sizeof *s->first;
}
