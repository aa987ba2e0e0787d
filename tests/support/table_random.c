/* Generates random valid schedules: each step runs a random action whose inputs are available.
 * */
#include <string.h>

#include "table.h"

enum { MAX_STAGES = 8, MAX_MICROS = 8, MAX_PIPES = 4 };

/* The progress of one micro on one stage. */
struct state {
    bool f, gradient, weight, split;
    bool sent_f, sent_b, got_f, got_b;
    unsigned order_f, order_b; /* order of sending: 1, 2, ... */
};

struct maker {
    struct table *t;
    struct random_shape shape;
    struct dice *d;
    uint32_t rank_of[MAX_PIPES][MAX_STAGES];
    uint32_t pipe_of[MAX_MICROS];
    struct state at[MAX_STAGES][MAX_MICROS];
    unsigned n_sent;
};

static uint32_t rank_of(const struct maker *k, uint32_t stage, uint32_t micro)
{
    return k->rank_of[k->pipe_of[micro]][stage];
}

/* Returns true if the neighbour stage exists on another rank and the schedule has messages. */
static bool crosses(const struct maker *k, uint32_t stage, int by, uint32_t micro)
{
    int64_t other = (int64_t)stage + by;
    return k->shape.messages && other >= 0 && other < k->shape.stages &&
           rank_of(k, stage, micro) != rank_of(k, (uint32_t)other, micro);
}

/* Returns true if no older message is in flight on the channel of (stage, micro). */
static bool is_oldest(const struct maker *k, uint32_t stage, int by, uint32_t micro)
{
    uint32_t from = rank_of(k, (uint32_t)((int)stage - by), micro),
             to = rank_of(k, stage, micro);
    const struct state *it = &k->at[(int)stage - by][micro];
    unsigned turn = by > 0 ? it->order_f : it->order_b;
    for (uint32_t s = 0; s < k->shape.stages; s++)
        for (uint32_t m = 0; m < k->shape.micros; m++) {
            if (!crosses(k, s, -by, m) || rank_of(k, s, m) != to ||
                rank_of(k, (uint32_t)((int)s - by), m) != from)
                continue;
            const struct state *other = &k->at[(int)s - by][m];
            unsigned order = by > 0 ? other->order_f : other->order_b;
            bool got = by > 0 ? k->at[s][m].got_f : k->at[s][m].got_b;
            if (order != 0 && order < turn && !got)
                return false;
        }
    return true;
}

static bool can_receive(const struct maker *k, uint32_t s, int by, uint32_t m)
{
    if (!crosses(k, s, -by, m) || (by > 0 ? k->at[s][m].got_f : k->at[s][m].got_b))
        return false;
    const struct state *from = &k->at[(int)s - by][m];
    return (by > 0 ? from->sent_f : from->sent_b) &&
           (k->shape.careless || is_oldest(k, s, by, m));
}

static bool can_forward(const struct maker *k, uint32_t s, uint32_t m)
{
    const struct state *it = &k->at[s][m];
    return !it->f && (s == 0 || (crosses(k, s, -1, m) ? it->got_f : k->at[s - 1][m].f));
}

static bool can_backward(const struct maker *k, uint32_t s, uint32_t m)
{
    const struct state *it = &k->at[s][m];
    return it->f && !it->gradient &&
           (s + 1 == k->shape.stages ||
            (crosses(k, s, 1, m) ? it->got_b : k->at[s + 1][m].gradient));
}

static bool can_run(const struct maker *k, struct weft_action a)
{
    const struct state *it = &k->at[a.stage][a.micro];

    switch (a.kind) {
    case WEFT_ACT_F:
        return can_forward(k, a.stage, a.micro);
    case WEFT_ACT_B:
        return !it->split && can_backward(k, a.stage, a.micro);
    case WEFT_ACT_I:
        return it->split && can_backward(k, a.stage, a.micro);
    case WEFT_ACT_W:
        return it->split && it->gradient && !it->weight;
    case WEFT_ACT_SEND_F:
        return it->f && !it->sent_f && crosses(k, a.stage, 1, a.micro);
    case WEFT_ACT_SEND_B:
        return it->gradient && !it->sent_b && crosses(k, a.stage, -1, a.micro);
    case WEFT_ACT_RECV_F:
        return can_receive(k, a.stage, 1, a.micro);
    case WEFT_ACT_RECV_B:
        return can_receive(k, a.stage, -1, a.micro);
    default:
        return false;
    }
}

static void run(struct maker *k, struct weft_action a)
{
    struct state *it = &k->at[a.stage][a.micro];

    switch (a.kind) {
    case WEFT_ACT_F:
        it->f = true;
        break;
    case WEFT_ACT_B:
    case WEFT_ACT_I:
        it->gradient = true;
        break;
    case WEFT_ACT_W:
        it->weight = true;
        break;
    case WEFT_ACT_SEND_F:
        it->sent_f = true;
        it->order_f = ++k->n_sent;
        break;
    case WEFT_ACT_SEND_B:
        it->sent_b = true;
        it->order_b = ++k->n_sent;
        break;
    case WEFT_ACT_RECV_F:
        it->got_f = true;
        break;
    case WEFT_ACT_RECV_B:
        it->got_b = true;
        break;
    }
}

/* Chooses a random action that can run and that `fits`; returns false if there is none. */
static bool choose(const struct maker *k, bool (*fits)(struct weft_action, const void *),
                   const void *with, struct weft_action *out)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < k->shape.stages; s++)
        for (uint32_t m = 0; m < k->shape.micros; m++)
            for (unsigned kind = 0; kind <= WEFT_ACT_RECV_B; kind++) {
                struct weft_action a = {.micro = m, .stage = s & 0xff, .kind = kind & 0xf};
                if (can_run(k, a) && (fits == NULL || fits(a, with)) && dice_once_in(k->d, ++n))
                    *out = a;
            }
    return n > 0;
}

struct partner {
    const struct maker *k;
    struct weft_action a;
};

static bool fits_pair(struct weft_action b, const void *with)
{
    const struct partner *p = with;
    bool f = p->a.kind == WEFT_ACT_F;
    bool kinds = f ? b.kind == WEFT_ACT_B || b.kind == WEFT_ACT_I : b.kind == WEFT_ACT_F;
    return kinds && p->a.kind != WEFT_ACT_W && weft_act_is_compute(p->a.kind) &&
           rank_of(p->k, b.stage, b.micro) == rank_of(p->k, p->a.stage, p->a.micro);
}

static void take_one(struct maker *k, struct weft_action a)
{
    uint32_t rank = rank_of(k, a.stage, a.micro);
    struct partner partner = {k, a};
    struct cell c = {.a = a};
    c.pair = dice_once_in(k->d, 3) && choose(k, fits_pair, &partner, &c.b);
    run(k, c.a);
    if (c.pair)
        run(k, c.b);
    table_insert(k->t, rank, k->t->row[rank].n, c);
}

/* Assigns at least one stage to every rank. */
static void place(struct maker *k)
{
    bool used[TABLE_RANKS];
    uint32_t n_used;
    do {
        memset(used, 0, sizeof used);
        n_used = 0;
        for (uint32_t m = 0; m < k->shape.micros; m++)
            k->pipe_of[m] = dice_below(k->d, k->shape.pipes);
        for (uint32_t p = 0; p < k->shape.pipes; p++)
            for (uint32_t s = 0; s < k->shape.stages; s++)
                k->rank_of[p][s] = dice_below(k->d, k->shape.ranks);
        for (uint32_t m = 0; m < k->shape.micros; m++)
            for (uint32_t s = 0; s < k->shape.stages; s++)
                used[rank_of(k, s, m)] = true;
        for (uint32_t r = 0; r < k->shape.ranks; r++)
            n_used += used[r];
    } while (n_used < k->shape.ranks);
}

void table_random(struct table *t, struct random_shape shape, struct dice *d)
{
    struct maker k = {.t = t, .shape = shape, .d = d};
    struct weft_action a;
    if (shape.ranks > shape.stages) /* place() would not terminate */
        k.shape.ranks = shape.stages;
    t->n_ranks = k.shape.ranks;
    for (uint32_t r = 0; r < t->n_ranks; r++)
        t->row[r].n = 0;
    place(&k);
    for (uint32_t s = 0; s < shape.stages; s++)
        for (uint32_t m = 0; m < shape.micros; m++)
            k.at[s][m].split = dice_once_in(d, 2);
    while (choose(&k, NULL, NULL, &a))
        take_one(&k, a);
}
