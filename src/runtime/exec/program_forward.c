/* Numbers the memory of a forward-only program.
 *
 * In training, the gradient of an activation shows that its buffer is free.  A forward-only step
 * sends nothing back, so that a rank with few buffers waits: the forward that writes to a buffer
 * waits until the previous message from this buffer has arrived, that is, until the peer has
 * copied it to an input buffer.  These waits could close a cycle if ranks run their micro-batches
 * in different orders.  The lists of all ranks are therefore walked with these waits, and the
 * number of buffers is doubled until the walk completes.  With one buffer per micro-batch there
 * are no such waits, and the schedule was verified.
 *
 *     buffer      in use from      until
 *     input       RECV_F           F of the same stage
 *     output      F                F of the next stage on this rank, or arrival at its rank
 *     block set   first action     last action of the micro-batch on this rank, and arrival of
 *                                  all of its messages
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "runtime/exec/program.h"

enum { FIRST_LIMIT = 2 }; /* lets a rank compute while its previous output is in transit */

/* -- numbers -------------------------------------------------------------------------------- */

enum number_state { NUMBER_FREE, NUMBER_USED, NUMBER_SENDING };

struct number {
    enum number_state state;
    uint32_t user; /* the last micro-batch */
    size_t since;  /* the position at which sending began */
};

struct pool {
    struct number *at; /* (micros) */
    uint32_t n;
};

/* Takes a number for a micro-batch: one that is free, a new one below the limit, the one that has
 * been sending for the longest time, or a new one.  Sets *before to the previous user, or to
 * WF_NO_MICRO. */
static uint32_t take_number(struct pool *pool, uint32_t micro, uint32_t limit, uint32_t *before)
{
    uint32_t best = pool->n;
    for (uint32_t i = 0; i < pool->n; i++) {
        const struct number *x = &pool->at[i], *y = &pool->at[best];
        if (x->state == NUMBER_FREE) {
            best = i;
            break;
        }
        if (x->state == NUMBER_SENDING && pool->n >= limit &&
            (best == pool->n || x->since < y->since))
            best = i;
    }
    struct number *x = &pool->at[best];
    *before = best < pool->n ? x->user : WF_NO_MICRO;
    pool->n += best == pool->n;
    *x = (struct number){.state = NUMBER_USED, .user = micro};
    return best;
}

/* The numbers of all ranks.  A cell is a pair (stage, micro). */
struct forward_numbers {
    const struct weft_schedule *schedule;
    const struct weft_placement *place;
    uint32_t limit;
    uint32_t *out, *out_before; /* owned: by cell */
    uint32_t *set, *set_before; /* owned: (ranks, micros) */
    uint32_t *n_out, *n_in;     /* owned: by stage, of the rank that was numbered last */
    uint32_t *live_in;          /* owned: by stage */
    uint32_t n_sets;
    struct pool *pools;     /* owned: by stage, and one for sets */
    struct number *numbers; /* owned: (stages + 1, micros) */
    size_t *last_at;        /* owned: (micros), position of the last action */
    bool *sends;            /* owned: (micros), the rank sends messages of the micro-batch */
};

static size_t cell_of(const struct forward_numbers *x, uint32_t stage, uint32_t micro)
{
    return (size_t)stage * x->place->n_micros + micro;
}

static bool is_remote(const struct forward_numbers *x, uint32_t rank, uint32_t stage,
                      uint32_t micro)
{
    return weft_placement_rank(x->place, stage, micro) != rank;
}

/* Resets what number_rank() computes for one rank. */
static void begin_rank(struct forward_numbers *x, struct weft_action_span row)
{
    uint32_t n_micros = x->place->n_micros, n_stages = x->place->n_stages;
    memset(x->n_in, 0, n_stages * sizeof *x->n_in);
    memset(x->live_in, 0, n_stages * sizeof *x->live_in);
    memset(x->sends, 0, n_micros * sizeof *x->sends);
    for (uint32_t s = 0; s <= n_stages; s++)
        x->pools[s] = (struct pool){x->numbers + (size_t)s * n_micros, 0};
    for (uint32_t m = 0; m < n_micros; m++)
        x->last_at[m] = SIZE_MAX;
    for (size_t i = 0; i < row.len; i++)
        if (weft_act_has_micro(row.at[i].kind)) {
            x->last_at[row.at[i].micro] = i;
            x->sends[row.at[i].micro] |= row.at[i].kind == WEFT_ACT_SEND_F;
        }
}

/* Takes the set of a micro-batch at its first action, which is the only one without a user. */
static void take_set(struct forward_numbers *x, uint32_t rank, uint32_t micro)
{
    size_t at = (size_t)rank * x->place->n_micros + micro;
    if (x->set[at] == WF_NO_MICRO)
        x->set[at] =
            take_number(&x->pools[x->place->n_stages], micro, x->limit, &x->set_before[at]);
}

static void number_forward(struct forward_numbers *x, uint32_t rank, struct weft_action a)
{
    size_t cell = cell_of(x, a.stage, a.micro);
    if ((uint32_t)a.stage + 1 < x->place->n_stages)
        x->out[cell] = take_number(&x->pools[a.stage], a.micro, x->limit, &x->out_before[cell]);
    if (a.stage == 0)
        return;
    if (is_remote(x, rank, a.stage - 1, a.micro))
        x->live_in[a.stage]--;
    else
        x->pools[a.stage - 1].at[x->out[cell_of(x, a.stage - 1, a.micro)]].state = NUMBER_FREE;
}

static void number_action(struct forward_numbers *x, uint32_t rank, struct weft_action a,
                          size_t at)
{
    take_set(x, rank, a.micro);
    if (a.kind == WEFT_ACT_RECV_F) {
        uint32_t live = ++x->live_in[a.stage];
        x->n_in[a.stage] = live > x->n_in[a.stage] ? live : x->n_in[a.stage];
    } else if (a.kind == WEFT_ACT_F) {
        number_forward(x, rank, a);
    } else if (a.kind == WEFT_ACT_SEND_F) {
        struct number *out = &x->pools[a.stage].at[x->out[cell_of(x, a.stage, a.micro)]];
        out->state = NUMBER_SENDING;
        out->since = at;
    }
    if (at == x->last_at[a.micro]) {
        uint32_t set = x->set[(size_t)rank * x->place->n_micros + a.micro];
        struct number *n = &x->pools[x->place->n_stages].at[set];
        n->state = x->sends[a.micro] ? NUMBER_SENDING : NUMBER_FREE;
        n->since = at;
    }
}

static void number_rank(struct forward_numbers *x, uint32_t rank)
{
    struct weft_action_span row = weft_schedule_rank(x->schedule, rank);
    begin_rank(x, row);
    for (size_t i = 0; i < row.len; i++)
        if (weft_act_has_micro(row.at[i].kind))
            number_action(x, rank, row.at[i], i);
    for (uint32_t s = 0; s < x->place->n_stages; s++)
        x->n_out[s] = x->pools[s].n;
    x->n_sets = x->pools[x->place->n_stages].n;
}

static void number_all(struct forward_numbers *x, uint32_t own_rank)
{
    size_t n_sets = (size_t)x->place->n_ranks * x->place->n_micros;
    for (size_t i = 0; i < n_sets; i++)
        x->set[i] = x->set_before[i] = WF_NO_MICRO;
    size_t n_cells = (size_t)x->place->n_stages * x->place->n_micros;
    for (size_t i = 0; i < n_cells; i++)
        x->out_before[i] = WF_NO_MICRO;
    for (uint32_t r = 0; r < x->place->n_ranks; r++)
        if (r != own_rank)
            number_rank(x, r);
    number_rank(x, own_rank); /* its counts remain in *x */
}

/* -- the walk ------------------------------------------------------------------------------- */

struct forward_walk {
    const struct forward_numbers *x;
    size_t *next;           /* owned: (ranks), position of the next action */
    bool *sent, *received;  /* owned: by cell, the output of the cell */
    uint32_t *n_in_transit; /* owned: (ranks, micros), messages that have not arrived */
};

/* Returns true if the action can run now. */
static bool is_ready(const struct forward_walk *w, uint32_t rank, struct weft_action a)
{
    const struct forward_numbers *x = w->x;
    size_t cell = cell_of(x, a.stage, a.micro);
    size_t first = (size_t)rank * x->place->n_micros;
    uint32_t before = x->set_before[first + a.micro];
    if (before != WF_NO_MICRO && w->n_in_transit[first + before] > 0)
        return false;
    if (a.kind == WEFT_ACT_RECV_F)
        return w->sent[cell_of(x, a.stage - 1, a.micro)];
    before = a.kind == WEFT_ACT_F ? x->out_before[cell] : WF_NO_MICRO;
    return before == WF_NO_MICRO || !is_remote(x, rank, a.stage + 1, before) ||
           w->received[cell_of(x, a.stage, before)];
}

static void run(struct forward_walk *w, uint32_t rank, struct weft_action a)
{
    const struct forward_numbers *x = w->x;
    if (a.kind == WEFT_ACT_SEND_F) {
        w->sent[cell_of(x, a.stage, a.micro)] = true;
        w->n_in_transit[(size_t)rank * x->place->n_micros + a.micro]++;
    } else if (a.kind == WEFT_ACT_RECV_F) {
        uint32_t from = weft_placement_rank(x->place, a.stage - 1, a.micro);
        w->received[cell_of(x, a.stage - 1, a.micro)] = true;
        w->n_in_transit[(size_t)from * x->place->n_micros + a.micro]--;
    }
}

/* Runs the actions of a rank until one must wait.  Returns true if at least one has run. */
static bool advance(struct forward_walk *w, uint32_t rank)
{
    struct weft_action_span row = weft_schedule_rank(w->x->schedule, rank);
    size_t begin = w->next[rank];
    for (; w->next[rank] < row.len; w->next[rank]++) {
        struct weft_action a = row.at[w->next[rank]];
        if (!weft_act_has_micro(a.kind))
            continue;
        if (!is_ready(w, rank, a))
            break;
        run(w, rank, a);
    }
    return w->next[rank] > begin;
}

static bool completes(struct forward_walk *w)
{
    bool moved = true, done = true;
    uint32_t n_ranks = w->x->place->n_ranks;
    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < n_ranks; r++)
            moved |= advance(w, r);
    }
    for (uint32_t r = 0; r < n_ranks; r++)
        done = done && w->next[r] == weft_schedule_rank(w->x->schedule, r).len;
    return done;
}

/* Sets *yes to true if the waits for memory do not stop the schedule.  Returns false if there is
 * no memory. */
static bool walk(const struct forward_numbers *x, bool *yes)
{
    size_t n_cells = (size_t)x->place->n_stages * x->place->n_micros;
    struct forward_walk w = {
        .x = x,
        .next = calloc(x->place->n_ranks, sizeof *w.next),
        .sent = calloc(n_cells, sizeof *w.sent),
        .received = calloc(n_cells, sizeof *w.received),
        .n_in_transit =
            calloc((size_t)x->place->n_ranks * x->place->n_micros, sizeof *w.n_in_transit),
    };
    bool ok = w.next != NULL && w.sent != NULL && w.received != NULL && w.n_in_transit != NULL;
    if (ok)
        *yes = completes(&w);
    free(w.next);
    free(w.sent);
    free(w.received);
    free(w.n_in_transit);
    return ok;
}

/* -- the program ---------------------------------------------------------------------------- */

static bool numbering_init(struct forward_numbers *x, const struct weft_program *p)
{
    size_t n_micros = p->place->n_micros, n_stages = p->place->n_stages, n_cells, n_sets;
    if (!wf_size_mul(n_stages + 1, n_micros, &n_cells) ||
        !wf_size_mul(p->place->n_ranks, n_micros, &n_sets))
        return false;
    *x = (struct forward_numbers){
        .schedule = p->schedule,
        .place = p->place,
        .out = calloc(n_cells, sizeof *x->out),
        .out_before = calloc(n_cells, sizeof *x->out_before),
        .set = calloc(n_sets, sizeof *x->set),
        .set_before = calloc(n_sets, sizeof *x->set_before),
        .n_out = calloc(n_stages, sizeof *x->n_out),
        .n_in = calloc(n_stages, sizeof *x->n_in),
        .live_in = calloc(n_stages, sizeof *x->live_in),
        .pools = calloc(n_stages + 1, sizeof *x->pools),
        .numbers = calloc(n_cells, sizeof *x->numbers),
        .last_at = calloc(n_micros, sizeof *x->last_at),
        .sends = calloc(n_micros, sizeof *x->sends),
    };
    return x->out != NULL && x->out_before != NULL && x->set != NULL && x->set_before != NULL &&
           x->n_out != NULL && x->n_in != NULL && x->live_in != NULL && x->pools != NULL &&
           x->numbers != NULL && x->last_at != NULL && x->sends != NULL;
}

static void numbering_release(struct forward_numbers *x)
{
    free(x->out);
    free(x->out_before);
    free(x->set);
    free(x->set_before);
    free(x->n_out);
    free(x->n_in);
    free(x->live_in);
    free(x->pools);
    free(x->numbers);
    free(x->last_at);
    free(x->sends);
}

/* Copies the numbers of the program's rank. */
static void store_numbers(struct weft_program *p, const struct forward_numbers *x)
{
    uint32_t n_micros = p->place->n_micros;
    size_t first = (size_t)p->rank * n_micros;
    for (uint32_t h = 0; h < p->n_local; h++) {
        uint32_t stage = p->local[h].stage;
        p->local[h].n_out = x->n_out[stage];
        p->local[h].n_in = x->n_in[stage];
        for (uint32_t m = 0; m < n_micros; m++)
            p->cells[(size_t)h * n_micros + m].out = x->out[cell_of(x, stage, m)];
    }
    memcpy(p->set_of, x->set + first, n_micros * sizeof *p->set_of);
    memcpy(p->set_before, x->set_before + first, n_micros * sizeof *p->set_before);
    p->n_sets = x->n_sets;
    p->peak = p->n_local > 0;
}

enum weft_status wf_program_number_forward(struct weft_program *p, struct weft_error *err)
{
    struct forward_numbers x = {0};
    uint32_t n_micros = p->place->n_micros;
    p->set_of = calloc(n_micros, sizeof *p->set_of);
    p->set_before = calloc(n_micros, sizeof *p->set_before);
    bool ok = p->set_of != NULL && p->set_before != NULL && numbering_init(&x, p);
    bool done = false;
    for (x.limit = FIRST_LIMIT; ok && !done; x.limit *= 2) {
        number_all(&x, p->rank);
        ok = walk(&x, &done);
        done = done || x.limit >= n_micros;
    }
    if (ok)
        store_numbers(p, &x);
    numbering_release(&x);
    if (!ok)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the forwards of rank %u", p->rank);
    return WEFT_OK;
}
