/* Reads, edits and prints tables, and applies random mutations to them. */
#include "table.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

bool table_read(struct table *t, const struct weft_schedule *s)
{
    t->n_ranks = weft_schedule_placement(s)->n_ranks;
    if (t->n_ranks > TABLE_RANKS)
        return false;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        if (row.len + 8 > TABLE_CELLS)
            return false;
        t->row[r].n = 0;
        for (size_t i = 0; i < row.len; i++) {
            struct cell c = {.a = row.at[i], .pair = row.at[i].paired};
            c.a.paired = 0;
            if (c.pair)
                c.b = row.at[++i];
            t->row[r].at[t->row[r].n++] = c;
        }
    }
    return true;
}

void table_insert(struct table *t, uint32_t rank, size_t at, struct cell c)
{
    struct cell *row = t->row[rank].at;
    require(t->row[rank].n < TABLE_CELLS && at <= t->row[rank].n);
    memmove(&row[at + 1], &row[at], (t->row[rank].n - at) * sizeof *row);
    row[at] = c;
    t->row[rank].n++;
}

void table_remove(struct table *t, uint32_t rank, size_t at)
{
    struct cell *row = t->row[rank].at;
    require(at < t->row[rank].n);
    t->row[rank].n--;
    memmove(&row[at], &row[at + 1], (t->row[rank].n - at) * sizeof *row);
}

static void print_action(struct weft_action a, struct wf_text *out)
{
    static const char *const kinds[WEFT_N_ACT_KINDS] = {"F",           "B",
                                                        "I",           "W",
                                                        "SEND_F",      "RECV_F",
                                                        "SEND_B",      "RECV_B",
                                                        "REDUCE_GRAD", "UNSHARD",
                                                        "RESHARD",     "WAIT_SEND_F",
                                                        "WAIT_SEND_B", "WAIT_REDUCE_GRAD"};
    wf_text_addf(out, "%u%s", (unsigned)a.stage, kinds[a.kind]);
    if (weft_act_has_micro(a.kind))
        wf_text_addf(out, "%u", (unsigned)a.micro);
}

void table_print(const struct table *t, const char *newline, struct wf_text *out)
{
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        for (size_t i = 0; i < t->row[r].n; i++) {
            const struct cell *c = &t->row[r].at[i];
            wf_text_adds(out, i > 0 ? "," : "");
            wf_text_adds(out, c->pair ? "(" : "");
            print_action(c->a, out);
            if (!c->pair)
                continue;
            wf_text_adds(out, ";");
            print_action(c->b, out);
            wf_text_adds(out, ")OVERLAP_F_B");
        }
        wf_text_adds(out, newline);
    }
}

/* -- mutations ----------------------------------------------------------------------------- */

/* Picks a random cell with a kind in `kinds` (one bit each); returns false if there is none. */
static bool pick(const struct table *t, struct dice *d, unsigned kinds, uint32_t *rank,
                 size_t *at)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < t->n_ranks; r++)
        for (size_t i = 0; i < t->row[r].n; i++)
            if (kinds >> t->row[r].at[i].a.kind & 1 && dice_once_in(d, ++n)) {
                *rank = r;
                *at = i;
            }
    return n > 0;
}

#define ANY UINT_MAX
#define BIT(kind) (1u << (kind))
#define SENDS (BIT(WEFT_ACT_SEND_F) | BIT(WEFT_ACT_SEND_B))
#define RECEIVES (BIT(WEFT_ACT_RECV_F) | BIT(WEFT_ACT_RECV_B))

static void swap(struct table *t, uint32_t rank, size_t i, size_t k)
{
    struct cell c = t->row[rank].at[i];
    t->row[rank].at[i] = t->row[rank].at[k];
    t->row[rank].at[k] = c;
}

static void move(struct table *t, uint32_t rank, size_t from, uint32_t to_rank, size_t to)
{
    struct cell c = t->row[rank].at[from];
    table_remove(t, rank, from);
    table_insert(t, to_rank, to, c);
}

/* Exchanges two receives of a rank. */
static void swap_receives(struct table *t, struct dice *d, uint32_t rank, size_t at)
{
    uint32_t n = 0;
    size_t with = at;
    for (size_t i = 0; i < t->row[rank].n; i++)
        if (RECEIVES >> t->row[rank].at[i].a.kind & 1 && i != at && dice_once_in(d, ++n))
            with = i;
    swap(t, rank, at, with);
}

/* Replaces B by I, and inserts W at a later position. */
static void split_backward(struct table *t, struct dice *d, uint32_t rank, size_t at)
{
    struct cell w = {.a = t->row[rank].at[at].a};
    w.a.kind = WEFT_ACT_W;
    t->row[rank].at[at].a.kind = WEFT_ACT_I;
    table_insert(t, rank, at + 1 + dice_below(d, (uint32_t)(t->row[rank].n - at)), w);
}

/* Replaces I by B and usually removes its W. */
static void join_backward(struct table *t, struct dice *d, uint32_t rank, size_t at)
{
    struct weft_action i = t->row[rank].at[at].a;
    t->row[rank].at[at].a.kind = WEFT_ACT_B;
    for (size_t k = 0; k < t->row[rank].n; k++) {
        struct weft_action w = t->row[rank].at[k].a;
        if (w.kind == WEFT_ACT_W && w.stage == i.stage && w.micro == i.micro &&
            !dice_once_in(d, 4)) {
            table_remove(t, rank, k);
            return;
        }
    }
}

static void change_number(struct dice *d, struct weft_action *a)
{
    int64_t by = dice_once_in(d, 2) ? 1 : -1;
    if (dice_once_in(d, 2) && weft_act_has_micro(a->kind) && (a->micro > 0 || by > 0))
        a->micro = (uint32_t)(a->micro + by);
    else if (a->stage > 0 || by > 0)
        a->stage = (uint32_t)(a->stage + by) & (WEFT_MAX_STAGES - 1);
}

/* Joins an adjacent forward and backward into an overlapped pair, or splits a pair. */
static void pair_or_split(struct table *t, uint32_t rank, size_t at)
{
    struct cell *c = &t->row[rank].at[at];
    if (c->pair) {
        struct cell second = {.a = c->b};
        c->pair = false;
        table_insert(t, rank, at + 1, second);
    } else if (at + 1 < t->row[rank].n && !c[1].pair) {
        unsigned kinds = BIT(c->a.kind) | BIT(c[1].a.kind);
        if (kinds == (BIT(WEFT_ACT_F) | BIT(WEFT_ACT_B)) ||
            kinds == (BIT(WEFT_ACT_F) | BIT(WEFT_ACT_I))) {
            c->b = c[1].a;
            c->pair = true;
            table_remove(t, rank, at + 1);
        }
    }
}

enum mutation {
    SWAP_NEXT,
    SWAP_ANY,
    SWAP_RECEIVES,
    MOVE,
    MOVE_NEAR,
    MOVE_SEND,
    MOVE_RECEIVE,
    MOVE_RANK,
    DELETE,
    DELETE_SEND,
    DELETE_REDUCTION,
    DUPLICATE,
    SPLIT,
    JOIN,
    NUMBER,
    INSERT,
    PAIR,
    N_MUTATIONS
};

static unsigned kinds_for(enum mutation how)
{
    switch (how) {
    case SWAP_RECEIVES:
    case MOVE_RECEIVE:
        return RECEIVES;
    case MOVE_SEND:
    case DELETE_SEND:
        return SENDS;
    case DELETE_REDUCTION:
        return BIT(WEFT_ACT_REDUCE_GRAD);
    case SPLIT:
        return BIT(WEFT_ACT_B);
    case JOIN:
        return BIT(WEFT_ACT_I);
    default:
        return ANY;
    }
}

void table_mutate(struct table *t, struct dice *d)
{
    /* Mutations that often keep a schedule complete are more frequent: a missing cell hides
     * other faults. */
    static const enum mutation often[] = {
        SWAP_NEXT, SWAP_NEXT,     SWAP_ANY,  SWAP_RECEIVES,   MOVE,  MOVE_NEAR,
        MOVE_NEAR, MOVE_SEND,     MOVE_SEND, MOVE_RECEIVE,    SPLIT, JOIN,
        SWAP_NEXT, SWAP_RECEIVES, PAIR,      DELETE_REDUCTION};

    enum mutation how = dice_below(d, 3) > 0
                            ? often[dice_below(d, sizeof often / sizeof often[0])]
                            : (enum mutation)dice_below(d, N_MUTATIONS);
    uint32_t rank = 0;
    size_t at = 0;

    if (!pick(t, d, kinds_for(how), &rank, &at))
        return;

    uint32_t n = (uint32_t)t->row[rank].n;
    struct cell *c = &t->row[rank].at[at];
    uint32_t to = dice_below(d, t->n_ranks);
    size_t near = at + dice_below(d, 4);

    switch (how) {
    case SWAP_NEXT:
        swap(t, rank, at, at + 1 < n ? at + 1 : at);
        break;
    case SWAP_ANY:
        swap(t, rank, at, dice_below(d, n));
        break;
    case SWAP_RECEIVES:
        swap_receives(t, d, rank, at);
        break;
    case MOVE:
        move(t, rank, at, rank, dice_below(d, n));
        break;
    case MOVE_NEAR:
    case MOVE_SEND:
    case MOVE_RECEIVE:
        move(t, rank, at, rank, near < n ? near : n - 1);
        break;
    case MOVE_RANK:
        move(t, rank, at, to, dice_below(d, (uint32_t)t->row[to].n));
        break;
    case DELETE:
    case DELETE_SEND:
    case DELETE_REDUCTION:
        table_remove(t, rank, at);
        break;
    case DUPLICATE:
        table_insert(t, rank, dice_below(d, n), *c);
        break;
    case SPLIT:
        if (!c->pair)
            split_backward(t, d, rank, at);
        break;
    case JOIN:
        if (!c->pair)
            join_backward(t, d, rank, at);
        break;
    case NUMBER:
        change_number(d, c->pair && dice_once_in(d, 2) ? &c->b : &c->a);
        break;
    case INSERT: {
        struct cell other = {.a = c->a};
        other.a.kind = dice_below(d, WEFT_N_ACT_KINDS) & 0xf;
        table_insert(t, rank, dice_below(d, n), other);
        break;
    }
    case PAIR:
        pair_or_split(t, rank, at);
        break;
    case N_MUTATIONS:
        break;
    }
}
