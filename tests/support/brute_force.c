/* Executes a schedule step by step until all ranks have finished or none can continue, and
 * derives the verdict from the result. */
#include "brute_force.h"

#include <stdlib.h>
#include <string.h>

const char *verdict_name(enum verdict v)
{
    static const char *const names[N_VERDICTS] = {"right", "incomplete", "order", "channel",
                                                  "deadlock"};
    return names[v];
}

/* A message, identified by its receive. */
struct message {
    uint32_t kind, stage, micro;
};

struct queue {
    struct message *at; /* owned */
    size_t head, tail;
};

struct executor {
    const struct weft_schedule *s;
    struct weft_channel_model channels;
    uint32_t ranks, stages, micros;
    bool messages;       /* the lists have sends and receives */
    bool forward_only;   /* the lists have forwards, but nothing that belongs to backwards */
    unsigned *count;     /* owned: (kinds, stages, micros), occurrences in the lists */
    bool *done;          /* owned: the same shape: true once it has run */
    uint32_t *holder;    /* owned: (stages, micros), the rank of the forward */
    size_t *pc;          /* owned: (ranks) */
    struct queue *queue; /* owned: (ranks, ranks, 2) */
};

static size_t slot(const struct executor *x, unsigned kind, uint32_t stage, uint32_t micro)
{
    return ((size_t)kind * x->stages + stage) * x->micros + micro;
}

static unsigned count(const struct executor *x, unsigned kind, uint32_t stage, uint32_t micro)
{
    return x->count[slot(x, kind, stage, micro)];
}

static uint32_t holder(const struct executor *x, uint32_t stage, uint32_t micro)
{
    return x->holder[(size_t)stage * x->micros + micro];
}

/* -- completeness -------------------------------------------------------------------------- */

static bool is_of_backward(unsigned kind)
{
    return kind == WEFT_ACT_B || kind == WEFT_ACT_I || kind == WEFT_ACT_W ||
           kind == WEFT_ACT_SEND_B || kind == WEFT_ACT_RECV_B || kind == WEFT_ACT_REDUCE_GRAD ||
           kind == WEFT_ACT_WAIT_SEND_B || kind == WEFT_ACT_WAIT_REDUCE_GRAD;
}

static void count_actions(struct executor *x)
{
    size_t forwards = 0, of_backward = 0;
    for (uint32_t r = 0; r < x->ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(x->s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            forwards += a.kind == WEFT_ACT_F;
            of_backward += is_of_backward(a.kind);
            if (a.kind > WEFT_ACT_RECV_B)
                continue;
            x->count[slot(x, a.kind, a.stage, a.micro)]++;
            if (a.kind == WEFT_ACT_F)
                x->holder[(size_t)a.stage * x->micros + a.micro] = r;
            if (a.kind >= WEFT_ACT_SEND_F)
                x->messages = true;
        }
    }
    x->forward_only = forwards > 0 && of_backward == 0;
}

/* Returns true if the lists have F once, and B once or I and W once each, unless there is no
 * backward at all. */
static bool computed_once(const struct executor *x, uint32_t s, uint32_t m)
{
    unsigned b = count(x, WEFT_ACT_B, s, m);
    unsigned i = count(x, WEFT_ACT_I, s, m), w = count(x, WEFT_ACT_W, s, m);
    return count(x, WEFT_ACT_F, s, m) == 1 &&
           (x->forward_only || (b == 1 && i == 0 && w == 0) || (b == 0 && i == 1 && w == 1));
}

/* Returns true if tensors between ranks are sent and received once, and others are not. */
static bool carried_once(const struct executor *x, uint32_t s, uint32_t m)
{
    unsigned up = x->messages && s + 1 < x->stages && holder(x, s, m) != holder(x, s + 1, m);
    unsigned down = x->messages && s > 0 && holder(x, s, m) != holder(x, s - 1, m);
    unsigned back_up = x->forward_only ? 0 : up, back_down = x->forward_only ? 0 : down;
    return count(x, WEFT_ACT_SEND_F, s, m) == up && count(x, WEFT_ACT_RECV_F, s, m) == down &&
           count(x, WEFT_ACT_RECV_B, s, m) == back_up &&
           count(x, WEFT_ACT_SEND_B, s, m) == back_down;
}

/* Returns the number of actions of these kinds (one bit each) that a rank has for a stage. */
static size_t count_on(const struct executor *x, uint32_t rank, uint32_t stage, unsigned kinds)
{
    struct weft_action_span row = weft_schedule_rank(x->s, rank);
    size_t n = 0;
    for (size_t i = 0; i < row.len; i++)
        n += row.at[i].stage == stage && (kinds >> row.at[i].kind & 1);
    return n;
}

/* Returns true if every rank that computes gradients of a stage reduces them, or no rank
 * reduces anything.  Replicas that do not run the same reductions would wait without end. */
static bool reduced_by_all(const struct executor *x)
{
    const unsigned reduction = 1u << WEFT_ACT_REDUCE_GRAD;
    const unsigned weight = 1u << WEFT_ACT_B | 1u << WEFT_ACT_W;
    size_t with = 0, without = 0;
    for (uint32_t r = 0; r < x->ranks; r++)
        for (uint32_t s = 0; s < x->stages; s++) {
            bool reduces = count_on(x, r, s, reduction) > 0;
            with += reduces;
            without += !reduces && count_on(x, r, s, weight) > 0;
        }
    return with == 0 || without == 0;
}

static bool complete(const struct executor *x)
{
    for (uint32_t s = 0; s < x->stages; s++)
        for (uint32_t m = 0; m < x->micros; m++)
            if (!computed_once(x, s, m))
                return false;
    for (uint32_t s = 0; s < x->stages; s++)
        for (uint32_t m = 0; m < x->micros; m++)
            if (!carried_once(x, s, m))
                return false;
    for (uint32_t r = 0; r < x->ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(x->s, r);
        for (size_t i = 0; i < row.len; i++)
            if (row.at[i].kind <= WEFT_ACT_RECV_B &&
                holder(x, row.at[i].stage, row.at[i].micro) != r)
                return false;
    }
    return reduced_by_all(x);
}

/* -- order of one list --------------------------------------------------------------------- */

static bool precedes(struct weft_action_span row, size_t at, unsigned kind,
                     struct weft_action a)
{
    for (size_t i = 0; i < at; i++)
        if (row.at[i].kind == kind && row.at[i].stage == a.stage && row.at[i].micro == a.micro)
            return true;
    return false;
}

/* Returns true if the gradients of a stage on a rank are reduced once, after all of them. */
static bool is_valid_reduction(struct weft_action_span row, size_t at)
{
    bool before = false;
    for (size_t i = 0; i < row.len; i++) {
        if (i == at || row.at[i].stage != row.at[at].stage)
            continue;
        bool weight = row.at[i].kind == WEFT_ACT_B || row.at[i].kind == WEFT_ACT_W;
        if (row.at[i].kind == WEFT_ACT_REDUCE_GRAD || (weight && i > at))
            return false;
        before = before || weight;
    }
    return before;
}

static bool in_order(const struct executor *x, struct weft_action_span row, size_t at)
{
    struct weft_action a = row.at[at];
    bool f = precedes(row, at, WEFT_ACT_F, a);
    bool gradient = precedes(row, at, WEFT_ACT_B, a) || precedes(row, at, WEFT_ACT_I, a);

    switch (a.kind) {
    case WEFT_ACT_F:
        return count(x, WEFT_ACT_RECV_F, a.stage, a.micro) == 0 ||
               precedes(row, at, WEFT_ACT_RECV_F, a);
    case WEFT_ACT_B:
    case WEFT_ACT_I:
        return f && (count(x, WEFT_ACT_RECV_B, a.stage, a.micro) == 0 ||
                     precedes(row, at, WEFT_ACT_RECV_B, a));
    case WEFT_ACT_W:
    case WEFT_ACT_SEND_B:
        return gradient;
    case WEFT_ACT_SEND_F:
        return f;
    case WEFT_ACT_REDUCE_GRAD:
        return is_valid_reduction(row, at);
    default:
        return true;
    }
}

static bool is_wait(unsigned kind)
{
    return kind >= WEFT_ACT_WAIT_SEND_F && kind <= WEFT_ACT_WAIT_REDUCE_GRAD;
}

/* Returns the kind of the action that a wait ends, or the kind itself. */
static unsigned ended_by(unsigned kind)
{
    return kind == WEFT_ACT_WAIT_SEND_F   ? WEFT_ACT_SEND_F
           : kind == WEFT_ACT_WAIT_SEND_B ? WEFT_ACT_SEND_B
                                          : WEFT_ACT_REDUCE_GRAD;
}

/* Counts the waits for `a` between two positions of a list. */
static size_t waits_between(struct weft_action_span row, size_t from, size_t to,
                            struct weft_action a)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++)
        n += is_wait(row.at[i].kind) && ended_by(row.at[i].kind) == a.kind &&
             row.at[i].stage == a.stage && row.at[i].micro == a.micro;
    return n;
}

/* Every send and every reduction has one wait after it and none before it; every wait has a send
 * or a reduction; a reduction ends before the next one starts. */
static bool waits_valid_on(struct weft_action_span row)
{
    size_t waits = 0, waited = 0;
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        waits += is_wait(a.kind);
        if (a.kind != WEFT_ACT_SEND_F && a.kind != WEFT_ACT_SEND_B &&
            a.kind != WEFT_ACT_REDUCE_GRAD)
            continue;
        size_t end = i + 1;
        while (a.kind == WEFT_ACT_REDUCE_GRAD && end < row.len &&
               row.at[end].kind != WEFT_ACT_REDUCE_GRAD)
            end++;
        if (a.kind != WEFT_ACT_REDUCE_GRAD)
            end = row.len;
        if (waits_between(row, i, end, a) != 1 || waits_between(row, 0, i, a) != 0)
            return false;
        waited++;
    }
    return waits == waited;
}

static bool waits_valid(const struct executor *x)
{
    bool any = false, valid = true;
    for (uint32_t r = 0; r < x->ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(x->s, r);
        for (size_t i = 0; i < row.len; i++)
            any = any || is_wait(row.at[i].kind);
        valid = valid && waits_valid_on(row);
    }
    return !any || valid;
}

static bool all_in_order(const struct executor *x)
{
    for (uint32_t r = 0; r < x->ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(x->s, r);
        for (size_t i = 0; i < row.len; i++)
            if (!in_order(x, row, i))
                return false;
    }
    return true;
}

/* -- running ------------------------------------------------------------------------------- */

enum step { STEP_DONE, STEP_WAIT, STEP_MISMATCH };

static bool is_send(struct weft_action a)
{
    return a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_SEND_B;
}

static bool is_receive(struct weft_action a)
{
    return a.kind == WEFT_ACT_RECV_F || a.kind == WEFT_ACT_RECV_B;
}

/* Returns the message of a send or a receive. */
static struct message message_of(struct weft_action a)
{
    switch (a.kind) {
    case WEFT_ACT_SEND_F:
        return (struct message){WEFT_ACT_RECV_F, a.stage + 1, a.micro};
    case WEFT_ACT_SEND_B:
        return (struct message){WEFT_ACT_RECV_B, a.stage - 1, a.micro};
    default:
        return (struct message){a.kind, a.stage, a.micro};
    }
}

static bool same_message(struct message a, struct message b)
{
    return a.kind == b.kind && a.stage == b.stage && a.micro == b.micro;
}

static struct queue *queue_of(const struct executor *x, struct weft_action a)
{
    struct message m = message_of(a);
    uint32_t to = holder(x, m.stage, m.micro);
    uint32_t sender = m.kind == WEFT_ACT_RECV_F ? m.stage - 1 : m.stage + 1;
    uint32_t from = holder(x, sender, m.micro);
    size_t gradient = m.kind == WEFT_ACT_RECV_B && !x->channels.by_pair;
    return &x->queue[((size_t)from * x->ranks + to) * 2 + gradient];
}

static uint32_t receiver_of(const struct executor *x, struct weft_action a)
{
    struct message m = message_of(a);
    return holder(x, m.stage, m.micro);
}

static enum step try_send(struct executor *x, struct weft_action a)
{
    struct queue *q = queue_of(x, a);
    if (x->channels.depth == 0) {
        /* Completes only if the next action of the other rank is a receive from this queue. */
        uint32_t to = receiver_of(x, a);
        struct weft_action_span row = weft_schedule_rank(x->s, to);
        if (q->head < q->tail || x->pc[to] == row.len || !is_receive(row.at[x->pc[to]]) ||
            queue_of(x, row.at[x->pc[to]]) != q)
            return STEP_WAIT;
    } else if (q->tail - q->head >= x->channels.depth) {
        return STEP_WAIT;
    }
    q->at[q->tail++] = message_of(a);
    return STEP_DONE;
}

static enum step try_receive(struct executor *x, struct weft_action a)
{
    struct queue *q = queue_of(x, a);
    if (q->head == q->tail)
        return STEP_WAIT;
    return same_message(q->at[q->head++], message_of(a)) ? STEP_DONE : STEP_MISMATCH;
}

static bool is_done(const struct executor *x, unsigned kind, uint32_t stage, uint32_t micro)
{
    return x->done[slot(x, kind, stage, micro)];
}

static bool gradient_done(const struct executor *x, uint32_t stage, uint32_t micro)
{
    return is_done(x, WEFT_ACT_B, stage, micro) || is_done(x, WEFT_ACT_I, stage, micro);
}

/* Returns true if all inputs of a compute action are available; inputs from other ranks have
 * been received. */
static bool can_compute(const struct executor *x, struct weft_action a)
{
    uint32_t s = a.stage, m = a.micro;

    switch (a.kind) {
    case WEFT_ACT_F:
        if (s == 0)
            return true;
        return count(x, WEFT_ACT_RECV_F, s, m) ? is_done(x, WEFT_ACT_RECV_F, s, m)
                                               : is_done(x, WEFT_ACT_F, s - 1, m);
    case WEFT_ACT_B:
    case WEFT_ACT_I:
        if (!is_done(x, WEFT_ACT_F, s, m))
            return false;
        if (s + 1 == x->stages)
            return true;
        return count(x, WEFT_ACT_RECV_B, s, m) ? is_done(x, WEFT_ACT_RECV_B, s, m)
                                               : gradient_done(x, s + 1, m);
    case WEFT_ACT_W:
        return is_done(x, WEFT_ACT_I, s, m);
    case WEFT_ACT_WAIT_SEND_F:
        return !x->messages || is_done(x, WEFT_ACT_RECV_F, s + 1, m);
    case WEFT_ACT_WAIT_SEND_B:
        return !x->messages || is_done(x, WEFT_ACT_RECV_B, s - 1, m);
    default:
        return true;
    }
}

/* Runs one cell of a rank: an action, or an overlapped pair, which starts once both halves
 * can run. */
static enum step step_rank(struct executor *x, uint32_t rank)
{
    struct weft_action_span row = weft_schedule_rank(x->s, rank);
    if (x->pc[rank] == row.len)
        return STEP_WAIT;
    const struct weft_action *cell = &row.at[x->pc[rank]];
    size_t n = cell->paired ? 2 : 1;
    enum step step = STEP_DONE;
    if (is_send(*cell))
        step = try_send(x, *cell);
    else if (is_receive(*cell))
        step = try_receive(x, *cell);
    else if (!can_compute(x, cell[0]) || !can_compute(x, cell[n - 1]))
        step = STEP_WAIT;
    if (step != STEP_DONE)
        return step;
    for (size_t i = 0; i < n; i++)
        if (cell[i].kind <= WEFT_ACT_RECV_B)
            x->done[slot(x, cell[i].kind, cell[i].stage, cell[i].micro)] = true;
    x->pc[rank] += n;
    return STEP_DONE;
}

static enum verdict run(struct executor *x)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < x->ranks; r++) {
            enum step step = step_rank(x, r);
            if (step == STEP_MISMATCH)
                return VERDICT_CHANNEL;
            moved = moved || step == STEP_DONE;
        }
    }
    for (uint32_t r = 0; r < x->ranks; r++)
        if (x->pc[r] < weft_schedule_rank(x->s, r).len)
            return VERDICT_DEADLOCK;
    return VERDICT_VALID;
}

/* -- interface ----------------------------------------------------------------------------- */

static void *zeroed(size_t n, size_t size)
{
    void *at = calloc(n + 1, size);
    if (at == NULL)
        abort();
    return at;
}

enum verdict brute_force_verify(const struct weft_schedule *s,
                                struct weft_channel_model channels)
{
    const struct weft_placement *sizes = weft_schedule_placement(s);
    struct executor x = {.s = s,
                         .channels = channels,
                         .ranks = sizes->n_ranks,
                         .stages = sizes->n_stages,
                         .micros = sizes->n_micros};

    size_t cells = (size_t)x.stages * x.micros, queues = (size_t)x.ranks * x.ranks * 2;
    x.count = zeroed(WEFT_N_ACT_KINDS * cells, sizeof *x.count);
    x.done = zeroed(WEFT_N_ACT_KINDS * cells, sizeof *x.done);
    x.holder = zeroed(cells, sizeof *x.holder);
    x.pc = zeroed(x.ranks, sizeof *x.pc);
    x.queue = zeroed(queues, sizeof *x.queue);
    memset(x.holder, 0xff, cells * sizeof *x.holder); /* no rank */

    count_actions(&x);
    enum verdict v = !complete(&x) ? VERDICT_INCOMPLETE : VERDICT_ORDER;
    if (v == VERDICT_ORDER && all_in_order(&x) && waits_valid(&x)) {
        for (size_t q = 0; x.messages && q < queues; q++)
            x.queue[q].at = zeroed(2 * cells, sizeof *x.queue[q].at);
        v = run(&x);
    }

    for (size_t q = 0; q < queues; q++)
        free(x.queue[q].at);
    free(x.count);
    free(x.done);
    free(x.holder);
    free(x.pc);
    free(x.queue);
    return v;
}
