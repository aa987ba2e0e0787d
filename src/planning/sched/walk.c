/* The walk over a schedule, and the description of blocked ranks. */
#include "planning/sched/walk.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"

/* A wait key: one number that identifies what a blocked rank waits for, which is either an
 * event of a cell or space in a channel. */
#define WAIT_NOTHING UINT64_C(0)
#define WAIT_CHANNEL (UINT64_C(1) << 63)

static size_t cell_of(const struct wf_walk *w, uint32_t stage, uint32_t micro)
{
    return (size_t)stage * w->rules.place->n_micros + micro;
}

static uint64_t wait_event(size_t cell, unsigned event)
{
    return (uint64_t)cell << 8 | event;
}

enum weft_status wf_walk_init(struct wf_walk *w, const struct weft_schedule *s,
                              enum wf_walk_mode mode, const struct wf_channels *channels,
                              size_t depth, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    bool messages = mode == WF_WALK_MODE_MESSAGES;
    *w = (struct wf_walk){
        .schedule = s,
        .rules = {place, messages},
        .channels = messages ? channels : NULL,
        .depth = depth,
        .n_total = weft_schedule_n_actions(s),
    };

    size_t cells;
    if (wf_size_mul(place->n_stages, place->n_micros, &cells))
        w->cells = calloc(cells + 1, 1);
    w->pc = calloc(place->n_ranks, sizeof *w->pc);
    w->wait = calloc(place->n_ranks, sizeof *w->wait);
    w->ready = malloc(sizeof *w->ready * place->n_ranks);
    w->flows = calloc(messages ? channels->n + 1 : 1, sizeof *w->flows);
    if (w->cells == NULL || w->pc == NULL || w->wait == NULL || w->ready == NULL ||
        w->flows == NULL) {
        wf_walk_release(w);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to walk %u stages x %u micros",
                         place->n_stages, place->n_micros);
    }

    for (uint32_t r = place->n_ranks; r-- > 0;)
        w->ready[w->n_ready++] = r;
    return WEFT_OK;
}

void wf_walk_release(struct wf_walk *w)
{
    free(w->cells);
    free(w->pc);
    free(w->wait);
    free(w->ready);
    free(w->flows);
    *w = (struct wf_walk){0};
}

static void wake(struct wf_walk *w, uint32_t rank, uint64_t key)
{
    if (w->wait[rank] == key) {
        w->wait[rank] = WAIT_NOTHING;
        w->ready[w->n_ready++] = rank;
    }
}

/* Returns true if a send need not wait.  A send waits for space in its channel.  With
 * rendezvous, a send waits until the receiver has reached the matching receive. */
static bool channel_has_space(const struct wf_walk *w, struct weft_action a, uint32_t channel)
{
    const struct wf_channel_state *flow = &w->flows[channel];
    if (w->depth != WF_DEPTH_RENDEZVOUS)
        return flow->sent - flow->received < w->depth;
    return w->wait[w->channels->at[channel].to] ==
           wait_event(cell_of(w, a.stage, a.micro), wf_act_done_bit(a.kind));
}

/* Returns the wait key of an action that cannot run yet, or WAIT_NOTHING if the action can
 * run. */
static uint64_t blocked_by(const struct wf_walk *w, struct weft_action a)
{
    if (w->channels == NULL && (weft_act_is_message(a.kind) || weft_act_is_send_wait(a.kind)))
        return WAIT_NOTHING;

    struct wf_dep deps[2];
    unsigned n = wf_action_deps(&w->rules, a, deps);
    for (unsigned i = 0; i < n; i++) {
        size_t cell = cell_of(w, deps[i].stage, deps[i].micro);
        if (!(w->cells[cell] & deps[i].event))
            return wait_event(cell, deps[i].event);
    }

    if (w->depth != WF_DEPTH_UNLIMITED &&
        (a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_SEND_B)) {
        uint32_t channel = wf_channel_of(w->channels, w->rules.place, a);
        if (!channel_has_space(w, a, channel))
            return WAIT_CHANNEL | channel;
    }
    return WAIT_NOTHING;
}

/* Blocks a rank on a wait key.  If `a` is a receive, also wakes the rendezvous sender that
 * waits for this receive. */
static void stall_rank(struct wf_walk *w, uint32_t rank, struct weft_action a, uint64_t key)
{
    w->wait[rank] = key;
    if (w->channels != NULL && w->depth == WF_DEPTH_RENDEZVOUS &&
        (a.kind == WEFT_ACT_RECV_F || a.kind == WEFT_ACT_RECV_B)) {
        uint32_t channel = wf_channel_of(w->channels, w->rules.place, a);
        wake(w, w->channels->at[channel].from, WAIT_CHANNEL | channel);
    }
}

static void count_message(struct wf_walk *w, struct weft_action a)
{
    uint32_t channel = wf_channel_of(w->channels, w->rules.place, a);
    if (a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_SEND_B) {
        w->flows[channel].sent++;
    } else {
        w->flows[channel].received++;
        wake(w, w->channels->at[channel].from, WAIT_CHANNEL | channel);
    }
}

static void apply_action(struct wf_walk *w, struct weft_action a)
{
    bool message = weft_act_is_message(a.kind);
    if (message && w->channels == NULL)
        return;
    unsigned event = wf_act_done_bit(a.kind);
    if (event == 0)
        return;
    size_t cell = cell_of(w, a.stage, a.micro);
    w->cells[cell] |= (uint8_t)event;
    if (message)
        count_message(w, a);
    /* A receive is waited for by its own rank, which is running, and by the rank of the sender,
     * if that has a wait for the send. */
    int64_t dependent = event & WF_DONE_RECV_F   ? (int64_t)a.stage - 1
                        : event & WF_DONE_RECV_B ? (int64_t)a.stage + 1
                                                 : wf_action_dependent(a);
    if (dependent >= 0 && dependent < w->rules.place->n_stages)
        wake(w, weft_placement_rank(w->rules.place, (uint32_t)dependent, a.micro),
             wait_event(cell, event));
}

bool wf_walk_next(struct wf_walk *w, struct wf_walk_run *run)
{
    while (w->n_ready > 0) {
        uint32_t rank = w->ready[--w->n_ready];
        struct weft_action_span row = weft_schedule_rank(w->schedule, rank);
        size_t begin = w->pc[rank], at = begin;

        while (at < row.len) {
            size_t unit = row.at[at].paired ? 2 : 1;
            uint64_t key = blocked_by(w, row.at[at]);
            if (key == WAIT_NOTHING && unit == 2)
                key = blocked_by(w, row.at[at + 1]);
            if (key != WAIT_NOTHING) {
                stall_rank(w, rank, row.at[at], key);
                break;
            }
            for (size_t i = 0; i < unit; i++)
                apply_action(w, row.at[at + i]);
            at += unit;
        }

        w->pc[rank] = at;
        w->n_done += at - begin;
        if (at > begin) {
            *run = (struct wf_walk_run){rank, begin, at};
            return true;
        }
    }
    return false;
}

/* Returns the action that produces `event` of the cell (stage, micro). */
static struct weft_action cause_of(const struct wf_walk *w, uint32_t stage, uint32_t micro,
                                   unsigned event)
{
    static const struct {
        unsigned event;
        enum weft_act_kind kind;
    } causes[] = {
        {WF_DONE_F, WEFT_ACT_F},           {WF_DONE_GRAD, WEFT_ACT_B},
        {WF_DONE_SEND_F, WEFT_ACT_SEND_F}, {WF_DONE_SEND_B, WEFT_ACT_SEND_B},
        {WF_DONE_RECV_F, WEFT_ACT_RECV_F}, {WF_DONE_RECV_B, WEFT_ACT_RECV_B},
    };
    struct weft_action a = {.micro = micro, .stage = stage};

    for (size_t i = 0; i < WEFT_LEN(causes); i++)
        if (causes[i].event == event)
            a.kind = causes[i].kind;
    if (event != WF_DONE_GRAD)
        return a;

    /* B or I produces the gradient.  Search the rank's list for the kind that it contains. */
    uint32_t rank = weft_placement_rank(w->rules.place, stage, micro);
    struct weft_action_span row = weft_schedule_rank(w->schedule, rank);
    for (size_t i = w->pc[rank]; i < row.len; i++)
        if (row.at[i].stage == stage && row.at[i].micro == micro &&
            row.at[i].kind == WEFT_ACT_I)
            a.kind = WEFT_ACT_I;
    return a;
}

/* Returns the receive that makes space in a channel: the next receive from this channel in the
 * list of `rank`. */
static struct weft_action next_receive(const struct wf_walk *w, uint32_t rank, uint32_t channel)
{
    struct weft_action_span row = weft_schedule_rank(w->schedule, rank);
    size_t i = w->pc[rank];
    while (i + 1 < row.len &&
           ((row.at[i].kind != WEFT_ACT_RECV_F && row.at[i].kind != WEFT_ACT_RECV_B) ||
            wf_channel_of(w->channels, w->rules.place, row.at[i]) != channel))
        i++;
    return row.at[i];
}

bool wf_walk_get_stall(const struct wf_walk *w, uint32_t rank, struct wf_walk_stall *out)
{
    struct weft_action_span row = weft_schedule_rank(w->schedule, rank);
    uint64_t key = w->wait[rank];
    if (w->pc[rank] >= row.len || key == WAIT_NOTHING)
        return false;
    size_t at = w->pc[rank];
    if (row.at[at].paired && blocked_by(w, row.at[at]) == WAIT_NOTHING)
        at++; /* the second action of the pair is blocked */
    *out = (struct wf_walk_stall){.action = row.at[at], .position = at};

    if (key & WAIT_CHANNEL) {
        out->full = true;
        out->for_rank = w->channels->at[key & ~WAIT_CHANNEL].to;
        out->for_action = next_receive(w, out->for_rank, (uint32_t)(key & ~WAIT_CHANNEL));
        return true;
    }

    size_t cell = (size_t)(key >> 8);
    uint32_t stage = (uint32_t)(cell / w->rules.place->n_micros);
    uint32_t micro = (uint32_t)(cell % w->rules.place->n_micros);
    out->for_rank = weft_placement_rank(w->rules.place, stage, micro);
    out->for_action = cause_of(w, stage, micro, (unsigned)(key & 0xff));
    return true;
}
