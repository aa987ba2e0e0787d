/* Lowering: adds send and receive actions to a schedule.
 *
 * The sender and the receiver of a channel must list the messages of the channel in the same
 * order; otherwise the receiver would take one message for another.  Both methods guarantee
 * this order by construction:
 *
 *  - late: a send directly follows its producer.  A receive directly precedes its consumer, but
 *    follows all receives of messages that were sent earlier on the same channel.  This order
 *    adds no wait, because the messages of a channel arrive in order.
 *  - sweep, as PyTorch does it: a sweep over the ranks processes one cell of each rank per
 *    round.  When a rank sends a message, the receive is appended to the list of the receiver
 *    at once.  So all messages have one common order, and even blocking sends cannot deadlock.
 *    Receives are earlier than necessary.
 *
 * lower_torch.c adds what PyTorch's tables contain besides messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/sched/channel.h"
#include "planning/sched/deps.h"
#include "planning/sched/lower_priv.h"
#include "planning/sched/schedule_priv.h"

struct lowering {
    const struct weft_schedule *s;
    const struct weft_placement *place;
    struct weft_schedule *out; /* owned until the lowering is complete */
    struct weft_action **next; /* owned: (ranks), where to store the next action of each rank */
    /* owned: (pipes, stages), number of weight gradients still to run on the stage's rank */
    uint64_t *n_pending_w;
    bool reduce; /* true: add REDUCE_GRAD actions */
    size_t n_messages;
};

/* Finds the send and the receive that transfer the result of an action.  Returns false if the
 * result stays on the rank. */
static bool message_of(const struct lowering *l, struct weft_action a, uint32_t rank,
                       struct weft_action *send, struct weft_action *recv, uint32_t *to)
{
    if (a.kind != WEFT_ACT_F && a.kind != WEFT_ACT_B && a.kind != WEFT_ACT_I)
        return false;
    int64_t dependent = wf_action_dependent(a);
    if (dependent < 0 || dependent >= l->place->n_stages)
        return false;
    *to = weft_placement_rank(l->place, (uint32_t)dependent, a.micro);
    if (*to == rank)
        return false;

    bool forward = a.kind == WEFT_ACT_F;
    *send = (struct weft_action){.micro = a.micro,
                                 .stage = a.stage,
                                 .kind = forward ? WEFT_ACT_SEND_F : WEFT_ACT_SEND_B};
    *recv = (struct weft_action){.micro = a.micro,
                                 .stage = (uint32_t)dependent & (WEFT_MAX_STAGES - 1),
                                 .kind = forward ? WEFT_ACT_RECV_F : WEFT_ACT_RECV_B};
    return true;
}

static void append(struct lowering *l, uint32_t rank, struct weft_action a)
{
    *l->next[rank]++ = a;
}

/* Counts the weight gradients of a rank per stage, since REDUCE_GRAD follows the last weight
 * gradient of a stage.  The count includes all pipes, because two pipes may have the same stage
 * on the same rank. */
static void count_weights(struct lowering *l, uint32_t rank)
{
    struct weft_action_span row = weft_schedule_rank(l->s, rank);
    for (size_t i = 0; i < row.len; i++)
        if (wf_act_frees_activation(row.at[i].kind))
            l->n_pending_w[row.at[i].stage]++;
}

/* Returns true if an action is copied to the lowered schedule.  Waits for sends are dropped.
 * Existing reductions are dropped if the lowering adds new ones. */
static bool is_kept(const struct lowering *l, struct weft_action a)
{
    bool reduction = a.kind == WEFT_ACT_REDUCE_GRAD || a.kind == WEFT_ACT_WAIT_REDUCE_GRAD;
    return !weft_act_is_send_wait(a.kind) && !(l->reduce && reduction);
}

/* Adds the actions of this rank in the lowered schedule to the counts: its own actions and
 * sends, and the matching receives on the ranks that it sends to. */
static enum weft_status count_rank(struct lowering *l, uint32_t rank, uint64_t *n_actions,
                                   struct weft_error *err)
{
    struct weft_action_span row = weft_schedule_rank(l->s, rank);
    struct weft_action send, recv;
    uint32_t to;

    count_weights(l, rank);
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        if (!is_kept(l, a))
            continue;
        if (weft_act_is_compute(a.kind) &&
            weft_placement_rank(l->place, a.stage, a.micro) != rank)
            return WEFT_FAIL(err, WEFT_SCHEDULE,
                             "cannot lower: two ranks run stage %u, micro %u",
                             (unsigned)a.stage, a.micro);

        n_actions[rank]++;
        if (message_of(l, a, rank, &send, &recv, &to)) {
            n_actions[rank]++;
            n_actions[to]++;
            l->n_messages++;
        }
        if (wf_act_frees_activation(a.kind) && --l->n_pending_w[a.stage] == 0)
            n_actions[rank] += l->reduce;
    }
    return WEFT_OK;
}

static enum weft_status lowering_init(struct lowering *l, const struct weft_schedule *s,
                                      bool reduce, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    *l = (struct lowering){.s = s, .place = place, .reduce = reduce};
    uint64_t *n_actions = calloc(place->n_ranks, sizeof *n_actions);
    enum weft_status st = WEFT_OK;

    l->out = wf_schedule_dup_empty(s);
    l->next = calloc(place->n_ranks, sizeof *l->next);
    l->n_pending_w = calloc((size_t)place->n_pipes * place->n_stages, sizeof *l->n_pending_w);
    if (n_actions == NULL || l->out == NULL || l->next == NULL || l->n_pending_w == NULL)
        goto fail;

    for (uint32_t r = 0; st == WEFT_OK && r < place->n_ranks; r++)
        st = count_rank(l, r, n_actions, err);
    if (st != WEFT_OK)
        goto done;

    for (uint32_t r = 0; r < place->n_ranks; r++)
        l->out->first[r + 1] = l->out->first[r] + n_actions[r];
    l->out->actions = malloc(sizeof *l->out->actions * (l->out->first[place->n_ranks] + 1));
    if (l->out->actions == NULL)
        goto fail;
    for (uint32_t r = 0; r < place->n_ranks; r++)
        l->next[r] = l->out->actions + l->out->first[r];
done:
    free(n_actions);
    return st;
fail:
    free(n_actions);
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory to lower a schedule of %zu actions",
                     weft_schedule_n_actions(s));
}

static void lowering_release(struct lowering *l)
{
    weft_schedule_free(l->out);
    free(l->next);
    free(l->n_pending_w);
}

/* -- late ----------------------------------------------------------------------------------- */

/* The messages of all channels, in the order in which they are sent. */
struct traffic {
    struct wf_channels channels;
    /* owned: (channels + 1), index of the first message of each channel */
    size_t *first;
    size_t *n_received; /* owned: (channels), number of messages received so far */
    /* owned: the receives of all channels, each channel's in the order of its sends */
    struct weft_action *recvs;
    /* owned: (2, stages, micros), position of a receive within its channel */
    uint32_t *position;
};

#define POSITION_NONE UINT32_MAX

static size_t recv_index(const struct lowering *l, struct weft_action recv)
{
    size_t half = recv.kind == WEFT_ACT_RECV_B ? l->place->n_stages : 0;
    return (half + recv.stage) * l->place->n_micros + recv.micro;
}

/* Calls `each` for every message, rank by rank in program order. */
static void for_messages(const struct lowering *l, struct traffic *t,
                         void (*each)(const struct lowering *, struct traffic *, uint32_t,
                                      struct weft_action))
{
    struct weft_action send, recv;
    uint32_t to;
    for (uint32_t r = 0; r < l->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(l->s, r);
        for (size_t i = 0; i < row.len; i++)
            if (message_of(l, row.at[i], r, &send, &recv, &to))
                each(l, t, wf_channel_of(&t->channels, l->place, send), recv);
    }
}

static void count_message(const struct lowering *l, struct traffic *t, uint32_t channel,
                          struct weft_action recv)
{
    (void)l;
    (void)recv;
    t->first[channel + 1]++;
}

static void list_message(const struct lowering *l, struct traffic *t, uint32_t channel,
                         struct weft_action recv)
{
    t->recvs[t->first[channel] + t->n_received[channel]] = recv;
    t->position[recv_index(l, recv)] = (uint32_t)t->n_received[channel]++;
}

static void traffic_release(struct traffic *t)
{
    wf_channels_release(&t->channels);
    free(t->first);
    free(t->n_received);
    free(t->recvs);
    free(t->position);
}

static enum weft_status traffic_init(struct traffic *t, const struct lowering *l, bool by_pair,
                                     struct weft_error *err)
{
    *t = (struct traffic){0};
    WEFT_TRY(wf_channels_init(&t->channels, l->place, by_pair, err));
    size_t n = t->channels.n, cells = (size_t)l->place->n_stages * l->place->n_micros;

    t->first = calloc(n + 1, sizeof *t->first);
    t->n_received = calloc(n + 1, sizeof *t->n_received);
    t->position = malloc(sizeof *t->position * (2 * cells + 1));
    if (t->first != NULL && t->n_received != NULL && t->position != NULL) {
        /* all bytes 0xff: POSITION_NONE */
        memset(t->position, 0xff, sizeof *t->position * (2 * cells + 1));
        for_messages(l, t, count_message);
        for (size_t c = 0; c < n; c++)
            t->first[c + 1] += t->first[c];
        t->recvs = malloc(sizeof *t->recvs * (t->first[n] + 1));
    }
    if (t->recvs == NULL) {
        traffic_release(t);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the messages of %zu cells", cells);
    }

    for_messages(l, t, list_message);
    memset(t->n_received, 0, sizeof *t->n_received * n);
    return WEFT_OK;
}

/* Appends the receives that `a` needs, after all earlier receives of their channels.  Returns
 * false if no rank sends a message that `a` needs. */
static bool receive_for(struct lowering *l, struct traffic *t, uint32_t rank,
                        struct weft_action a)
{
    struct wf_dep_rules rules = {l->place, true};
    struct wf_dep deps[2];
    unsigned n = wf_action_deps(&rules, a, deps);

    for (unsigned i = 0; i < n; i++) {
        if (!(deps[i].event & (WF_DONE_RECV_F | WF_DONE_RECV_B)))
            continue;
        struct weft_action recv = {.micro = a.micro,
                                   .stage = a.stage,
                                   .kind = deps[i].event == WF_DONE_RECV_F ? WEFT_ACT_RECV_F
                                                                           : WEFT_ACT_RECV_B};
        uint32_t channel = wf_channel_of(&t->channels, l->place, recv);
        uint32_t position = t->position[recv_index(l, recv)];
        if (position == POSITION_NONE)
            return false;
        while (t->n_received[channel] <= position)
            append(l, rank, t->recvs[t->first[channel] + t->n_received[channel]++]);
    }
    return true;
}

/* Appends the sends of a cell's results, and REDUCE_GRAD after the last weight gradient of a
 * stage if it is to be added. */
static void append_results(struct lowering *l, uint32_t rank, const struct weft_action *cell,
                           size_t unit)
{
    struct weft_action send, recv;
    uint32_t to;
    for (size_t k = 0; k < unit; k++)
        if (message_of(l, cell[k], rank, &send, &recv, &to))
            append(l, rank, send);
    for (size_t k = 0; l->reduce && k < unit; k++)
        if (wf_act_frees_activation(cell[k].kind) && --l->n_pending_w[cell[k].stage] == 0)
            append(l, rank,
                   (struct weft_action){.stage = cell[k].stage, .kind = WEFT_ACT_REDUCE_GRAD});
}

static bool lower_rank_late(struct lowering *l, struct traffic *t, uint32_t rank)
{
    struct weft_action_span row = weft_schedule_rank(l->s, rank);
    size_t unit;

    count_weights(l, rank);
    for (size_t i = 0; i < row.len; i += unit) {
        unit = row.at[i].paired ? 2 : 1;
        if (!is_kept(l, row.at[i]))
            continue;
        for (size_t k = i; k < i + unit; k++)
            if (!receive_for(l, t, rank, row.at[k]))
                return false;
        for (size_t k = i; k < i + unit; k++)
            append(l, rank, row.at[k]);
        append_results(l, rank, &row.at[i], unit);
    }
    return l->next[rank] == l->out->actions + l->out->first[rank + 1];
}

static enum weft_status lower_late(struct lowering *l, bool by_pair, struct weft_error *err)
{
    struct traffic t;
    WEFT_TRY(traffic_init(&t, l, by_pair, err));
    bool ok = true;
    for (uint32_t r = 0; ok && r < l->place->n_ranks; r++)
        ok = lower_rank_late(l, &t, r);
    traffic_release(&t);
    if (!ok)
        return WEFT_FAIL(err, WEFT_SCHEDULE,
                         "cannot lower: a message has no sender or no receiver");
    return WEFT_OK;
}

/* -- sweep ---------------------------------------------------------------------------------- */

/* The state of the sweep over the ranks.  A rank that waits for a receive is not awake.  When
 * the receive is appended, the rank becomes awake: it runs in this round if the sweep has not
 * passed the rank yet, or else in the next round. */
struct sweep {
    uint8_t *events; /* owned: (stages, micros), bits of enum wf_done */
    size_t *pc;      /* owned: (ranks), position of the next cell of each rank */
    uint64_t *awake; /* owned: one bit per rank */
    uint32_t n_words;
};

static bool cell_ready(const struct lowering *l, const uint8_t *events, struct weft_action a)
{
    struct wf_dep_rules rules = {l->place, true};
    struct wf_dep deps[2];
    unsigned n = wf_action_deps(&rules, a, deps);
    for (unsigned i = 0; i < n; i++)
        if (!(events[(size_t)deps[i].stage * l->place->n_micros + deps[i].micro] &
              deps[i].event))
            return false;
    return true;
}

static void mark_done(const struct lowering *l, struct sweep *s, struct weft_action a)
{
    s->events[(size_t)a.stage * l->place->n_micros + a.micro] |=
        (uint8_t)wf_act_done_bit(a.kind);
}

/* Lowers one cell.  Appends the actions of the cell; then, for each action with a remote
 * dependent, appends a send to this rank's list and a receive to the list of the other rank. */
static void lower_cell(struct lowering *l, struct sweep *s, uint32_t rank,
                       const struct weft_action *cell, size_t unit)
{
    struct weft_action send, recv;
    uint32_t to;

    for (size_t k = 0; k < unit; k++) {
        append(l, rank, cell[k]);
        mark_done(l, s, cell[k]);
    }

    for (size_t k = 0; k < unit; k++) {
        if (!message_of(l, cell[k], rank, &send, &recv, &to))
            continue;
        append(l, rank, send);
        append(l, to, recv);
        mark_done(l, s, recv);
        s->awake[to / 64] |= UINT64_C(1) << to % 64;
    }
}

/* Lowers the next cell of a rank if the cell is ready.  Returns the number of actions in the
 * cell, or 0 if the cell is not ready. */
static size_t lower_next_cell(struct lowering *l, struct sweep *s, uint32_t rank)
{
    struct weft_action_span row = weft_schedule_rank(l->s, rank);
    const struct weft_action *cell = &row.at[s->pc[rank]];
    if (s->pc[rank] < row.len) {
        size_t unit = cell->paired ? 2 : 1;
        if (cell_ready(l, s->events, cell[0]) && cell_ready(l, s->events, cell[unit - 1])) {
            lower_cell(l, s, rank, cell, unit);
            s->pc[rank] += unit;
            return unit;
        }
    }
    s->awake[rank / 64] &= ~(UINT64_C(1) << rank % 64);
    return 0;
}

/* Runs one round over the ranks that are awake, in order, including ranks that a lower rank
 * wakes.  Returns the number of actions lowered in this round. */
static size_t sweep_once(struct lowering *l, struct sweep *s)
{
    size_t n = 0;
    for (uint32_t word = 0; word < s->n_words; word++) {
        uint64_t done = 0; /* ranks of this word that the round has passed */
        for (uint64_t bits; (bits = s->awake[word] & ~done) != 0;) {
            uint32_t bit = (uint32_t)__builtin_ctzll(bits);
            done = bit == 63 ? UINT64_MAX : (UINT64_C(2) << bit) - 1;
            n += lower_next_cell(l, s, word * 64 + bit);
        }
    }
    return n;
}

static enum weft_status lower_by_sweep(struct lowering *l, struct weft_error *err)
{
    uint32_t n_ranks = l->place->n_ranks;
    struct sweep s = {.n_words = (n_ranks + 63) / 64};
    s.events = calloc((size_t)l->place->n_stages * l->place->n_micros + 1, 1);
    s.pc = calloc(n_ranks, sizeof *s.pc);
    s.awake = calloc(s.n_words, sizeof *s.awake);
    size_t n_left = weft_schedule_n_actions(l->s), n = 1;
    enum weft_status st = WEFT_OK;
    if (s.events == NULL || s.pc == NULL || s.awake == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to lower a schedule");
        n_left = 0;
    }

    for (uint32_t r = 0; n_left > 0 && r < n_ranks; r++)
        s.awake[r / 64] |= UINT64_C(1) << r % 64;
    while (n_left > 0 && n > 0) {
        n = sweep_once(l, &s);
        n_left -= n;
    }

    free(s.events);
    free(s.pc);
    free(s.awake);
    if (n_left > 0)
        return WEFT_FAIL(err, WEFT_SCHEDULE, "cannot lower: the schedule deadlocks");
    return st;
}

/* -- the lowerings -------------------------------------------------------------------------- */

static const struct lowering_rules {
    const char *name;
    bool torch;  /* adds PyTorch's other actions; one channel per directed pair of ranks */
    bool reduce; /* adds REDUCE_GRAD with the messages */
    bool late;   /* the late method; else the sweep */
    struct wf_torch_dialect dialect;
} all_rules[WEFT_N_LOWERINGS] = {
    [WEFT_LOWERING_WEFT] = {"weft", .reduce = true, .late = true},
    [WEFT_LOWERING_TORCH_2_10] = {"torch-2.10", .torch = true},
    [WEFT_LOWERING_TORCH_2_15] = {"torch-2.15", .torch = true, .dialect = {.waits = true}},
    [WEFT_LOWERING_TORCH_2_10_LATE] = {"torch-2.10-late", .torch = true, .late = true},
    [WEFT_LOWERING_TORCH_2_15_LATE] = {"torch-2.15-late", .torch = true, .late = true,
                                       .dialect = {.waits = true}},
};

const char *weft_lowering_name(enum weft_lowering how)
{
    return (unsigned)how < WEFT_N_LOWERINGS ? all_rules[how].name : "?";
}

enum weft_status weft_lowering_find(const char *name, enum weft_lowering *out,
                                    struct weft_error *err)
{
    for (size_t i = 0; i < WEFT_N_LOWERINGS; i++)
        if (strcmp(name, all_rules[i].name) == 0) {
            *out = (enum weft_lowering)i;
            return WEFT_OK;
        }

    char names[120] = "";
    for (size_t i = 0, n = 0; i < WEFT_N_LOWERINGS && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                              all_rules[i].name);
    return WEFT_FAIL(err, WEFT_USAGE, "there is no lowering '%.40s' (expected one of %s)", name,
                     names);
}

static enum weft_status add_messages(const struct weft_schedule *s,
                                     const struct lowering_rules *rules,
                                     struct weft_schedule **out, struct weft_error *err)
{
    struct lowering l;
    enum weft_status st = lowering_init(&l, s, rules->reduce, err);
    if (st == WEFT_OK)
        st = rules->late ? lower_late(&l, rules->torch, err) : lower_by_sweep(&l, err);
    if (st == WEFT_OK && !wf_schedule_finalize(l.out, l.n_messages > 0))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to finish a lowered schedule");
    if (st == WEFT_OK) {
        *out = l.out;
        l.out = NULL;
    }
    lowering_release(&l);
    return st;
}

/* The steps of PyTorch's runtime: sharding and reductions, messages, waits. */
static enum weft_status lower_for_torch(const struct weft_schedule *s,
                                        const struct lowering_rules *rules,
                                        struct weft_schedule **out, struct weft_error *err)
{
    struct weft_schedule *sharded = NULL, *lowered = NULL;
    if (weft_schedule_placement(s)->n_pipes > 1)
        return WEFT_FAIL(
            err, WEFT_SCHEDULE,
            "cannot lower for PyTorch: the schedule runs a stage on several ranks, "
            "and PyTorch runs each stage on one");

    WEFT_TRY(wf_torch_add_sharding(s, rules->dialect, &sharded, err));
    enum weft_status st = add_messages(sharded, rules, &lowered, err);
    weft_schedule_free(sharded);
    if (st != WEFT_OK || !rules->dialect.waits) {
        *out = st == WEFT_OK ? lowered : *out;
        return st;
    }

    st = wf_torch_add_send_waits(lowered, out, err);
    weft_schedule_free(lowered);
    return st;
}

enum weft_status weft_schedule_lower(const struct weft_schedule *s, enum weft_lowering how,
                                     struct weft_schedule **out, struct weft_error *err)
{
    if ((unsigned)how >= WEFT_N_LOWERINGS)
        return WEFT_FAIL(err, WEFT_USAGE, "there is no lowering number %d", (int)how);
    if (weft_schedule_is_lowered(s))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "cannot lower: the schedule already contains messages");
    const struct lowering_rules *rules = &all_rules[how];
    return rules->torch ? lower_for_torch(s, rules, out, err)
                        : add_messages(s, rules, out, err);
}
