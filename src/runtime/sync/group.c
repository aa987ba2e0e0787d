#include "runtime/sync/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/ops.h"

enum {
    SPREAD_CHANNEL = 3,
    PIECE = 1 << 19, /* elements that are summed at once: 4 MiB of exact sums */
    TASK = 1 << 14,  /* elements of one thread's task */
    SETS = 2,        /* pieces that can be on their way, where receives need memory */
    KIND_REDUCE = 0x200,
    KIND_SPREAD,
};

struct weft_group {
    struct weft_group_setup setup;
    uint32_t self;  /* among the holders */
    size_t element; /* bytes of a gradient's element */
    bool by_reference;
    struct weft_message *out; /* owned: pieces for all other holders */
    size_t n_out;
    struct weft_message *in;                     /* owned: (SETS, holders) */
    char *room;                                  /* owned: (SETS, holders - 1) pieces */
    struct weft_message *spread_out, *spread_in; /* owned: (holders) */
    size_t bytes;

    /* The sum under way. */
    uint64_t step;
    bool reducing, overflowed;
    size_t n_pieces, next_post, next_sum;
};

static size_t share_begin(const struct weft_group *g, uint32_t holder)
{
    return g->setup.cuts[holder];
}

static size_t share_size(const struct weft_group *g, uint32_t holder)
{
    return g->setup.cuts[holder + 1] - g->setup.cuts[holder];
}

static size_t pieces_of(size_t n)
{
    return (n + PIECE - 1) / PIECE;
}

static char *gradient(const struct weft_group *g, size_t at)
{
    return g->setup.exact != NULL ? (char *)(g->setup.exact + at)
                                  : (char *)(g->setup.fast + at);
}

/* -- making it ------------------------------------------------------------------------------ */

size_t weft_group_room(uint32_t n_holders, size_t share, size_t element_bytes)
{
    return SETS * (size_t)(n_holders - 1) * weft_size_min(PIECE, share) * element_bytes;
}

static enum weft_status allocate(struct weft_group *g, struct weft_error *err)
{
    uint32_t n = g->setup.n_holders;
    for (uint32_t h = 0; h < n; h++)
        if (h != g->self)
            g->n_out += pieces_of(share_size(g, h));
    g->out = calloc(g->n_out + 1, sizeof *g->out);
    g->in = calloc((size_t)SETS * n, sizeof *g->in);
    g->spread_out = calloc(n, sizeof *g->spread_out);
    g->spread_in = calloc(n, sizeof *g->spread_in);
    if (!g->by_reference) {
        g->bytes = weft_group_room(n, share_size(g, g->self), g->element);
        g->room = weft_pages_alloc(g->bytes + 1);
        if (g->room != NULL)
            memset(g->room, 0, g->bytes);
    }
    if (g->out == NULL || g->in == NULL || g->spread_out == NULL || g->spread_in == NULL ||
        (!g->by_reference && g->room == NULL))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to sum gradients over %u ranks", n);
    return WEFT_OK;
}

enum weft_status weft_group_new(const struct weft_group_setup *setup, struct weft_group **out,
                                struct weft_error *err)
{
    struct weft_group *g = calloc(1, sizeof *g);
    if (g == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a group of ranks");
    g->setup = *setup;
    g->element = setup->exact != NULL ? sizeof(int64_t) : sizeof(float);
    g->by_reference = setup->comm == NULL || weft_comm_by_reference(setup->comm);
    for (uint32_t h = 0; setup->comm != NULL && h < setup->n_holders; h++)
        if (setup->holders[h] == weft_comm_rank(setup->comm))
            g->self = h;
    enum weft_status st = setup->n_holders > 1 ? allocate(g, err) : WEFT_OK;
    if (st != WEFT_OK) {
        weft_group_free(g);
        return st;
    }
    g->n_pieces = pieces_of(share_size(g, g->self));
    *out = g;
    return WEFT_OK;
}

void weft_group_free(struct weft_group *g)
{
    if (g == NULL)
        return;
    free(g->out);
    free(g->in);
    free(g->room);
    free(g->spread_out);
    free(g->spread_in);
    free(g);
}

size_t weft_group_bytes(const struct weft_group *g)
{
    return g->bytes;
}

/* -- summing -------------------------------------------------------------------------------- */

static struct weft_message piece_message(const struct weft_group *g, uint32_t holder,
                                         uint32_t owner, size_t piece)
{
    size_t begin = piece * PIECE;
    return (struct weft_message){
        .head = {.kind = KIND_REDUCE,
                 .stage = g->setup.id,
                 .part = (uint32_t)piece,
                 .step = g->step},
        .peer = g->setup.holders[holder],
        .channel = WEFT_GROUP_CHANNEL + g->setup.id,
        .bytes = weft_size_min(PIECE, share_size(g, owner) - begin) * g->element,
    };
}

/* Pieces of the same number go to all before the next: all owners have something to do. */
static enum weft_status send_pieces(struct weft_group *g, struct weft_error *err)
{
    size_t sent = 0;
    for (size_t piece = 0; sent < g->n_out; piece++)
        for (uint32_t h = 0; h < g->setup.n_holders; h++) {
            if (h == g->self || piece >= pieces_of(share_size(g, h)))
                continue;
            struct weft_message *m = &g->out[sent++];
            *m = piece_message(g, h, h, piece);
            m->data = gradient(g, share_begin(g, h) + piece * PIECE);
            WEFT_TRY(weft_comm_send(g->setup.comm, m, err));
        }
    return WEFT_OK;
}

static struct weft_message *set_of(struct weft_group *g, size_t piece)
{
    return g->in + (piece % SETS) * g->setup.n_holders;
}

static char *room_of(struct weft_group *g, size_t piece, uint32_t holder)
{
    size_t each = weft_size_min(PIECE, share_size(g, g->self)) * g->element;
    size_t index = holder - (holder > g->self);
    return g->room + ((piece % SETS) * (g->setup.n_holders - 1) + index) * each;
}

static enum weft_status post_pieces(struct weft_group *g, struct weft_error *err)
{
    while (g->next_post < g->n_pieces && g->next_post < g->next_sum + SETS) {
        struct weft_message *set = set_of(g, g->next_post);
        for (uint32_t h = 0; h < g->setup.n_holders; h++) {
            if (h == g->self)
                continue;
            set[h] = piece_message(g, h, g->self, g->next_post);
            if (!g->by_reference)
                set[h].data = room_of(g, g->next_post, h);
            WEFT_TRY(weft_comm_post(g->setup.comm, &set[h], err));
        }
        g->next_post++;
    }
    return WEFT_OK;
}

struct sum_job {
    struct weft_group *g;
    const struct weft_message *set;
    size_t begin, n; /* of the piece, in elements of the vector */
    bool bad[WEFT_MAX_THREADS];
};

static void sum_floats(const struct sum_job *job, size_t at, size_t n)
{
    struct weft_group *g = job->g;
    float *own = g->setup.fast + job->begin + at;
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t h = 0; h < g->setup.n_holders; h++)
            sum += h == g->self ? own[i] : ((const float *)job->set[h].data)[at + i];
        own[i] = sum;
    }
}

static void sum_task(void *arg, size_t task, unsigned worker)
{
    struct sum_job *job = arg;
    struct weft_group *g = job->g;
    size_t at = task * TASK, n = weft_size_min(TASK, job->n - at);
    if (g->setup.fast != NULL) {
        sum_floats(job, at, n);
        return;
    }
    for (uint32_t h = 0; h < g->setup.n_holders; h++)
        if (h != g->self)
            job->bad[worker] |= weft_ops()->exact_merge(
                g->setup.exact + job->begin + at, (const int64_t *)job->set[h].data + at, n);
}

static void sum_piece(struct weft_group *g)
{
    struct weft_message *set = set_of(g, g->next_sum);
    size_t first = g->next_sum * PIECE;
    struct sum_job job = {.g = g,
                          .set = set,
                          .begin = share_begin(g, g->self) + first,
                          .n = weft_size_min(PIECE, share_size(g, g->self) - first)};
    weft_pool_run(g->setup.pool, (job.n + TASK - 1) / TASK, sum_task, &job);
    for (unsigned w = 0; w < WEFT_MAX_THREADS; w++)
        g->overflowed |= job.bad[w];
    for (uint32_t h = 0; h < g->setup.n_holders; h++)
        if (h != g->self)
            weft_comm_release(g->setup.comm, &set[h]);
    g->next_sum++;
}

static enum weft_status piece_is_here(struct weft_group *g, bool *here, struct weft_error *err)
{
    struct weft_message *set = set_of(g, g->next_sum);
    *here = true;
    for (uint32_t h = 0; h < g->setup.n_holders; h++) {
        if (h == g->self)
            continue;
        WEFT_TRY(weft_comm_test(g->setup.comm, &set[h], err));
        *here = *here && set[h].done;
    }
    return WEFT_OK;
}

enum weft_status weft_group_reduce(struct weft_group *g, uint64_t step, struct weft_error *err)
{
    if (g->setup.n_holders == 1)
        return WEFT_OK;
    g->step = step;
    g->reducing = true;
    g->overflowed = false;
    g->next_post = g->next_sum = 0;
    WEFT_TRY(post_pieces(g, err));
    return send_pieces(g, err);
}

static enum weft_status all_taken(struct weft_group *g, bool *yes, struct weft_error *err)
{
    *yes = true;
    for (size_t i = 0; *yes && i < g->n_out; i++) {
        WEFT_TRY(weft_comm_test(g->setup.comm, &g->out[i], err));
        *yes = g->out[i].done;
    }
    return WEFT_OK;
}

/* One piece at a time: between two actions of a pipeline there is not much. */
enum weft_status weft_group_progress(struct weft_group *g, bool *done, struct weft_error *err)
{
    *done = !g->reducing;
    if (!g->reducing)
        return WEFT_OK;
    if (g->next_sum < g->n_pieces) {
        bool here;
        WEFT_TRY(piece_is_here(g, &here, err));
        if (here) {
            sum_piece(g);
            WEFT_TRY(post_pieces(g, err));
        }
    }
    if (g->next_sum < g->n_pieces)
        return WEFT_OK;
    WEFT_TRY(all_taken(g, done, err));
    g->reducing = !*done;
    return WEFT_OK;
}

static enum weft_status is_done(void *arg, bool *yes, struct weft_error *err)
{
    return weft_group_progress(arg, yes, err);
}

/* Who is waited for, as far as one can say. */
static uint32_t someone_else(const struct weft_group *g)
{
    if (g->next_sum < g->n_pieces) {
        const struct weft_message *set = g->in + (g->next_sum % SETS) * g->setup.n_holders;
        for (uint32_t h = 0; h < g->setup.n_holders; h++)
            if (h != g->self && !set[h].done)
                return g->setup.holders[h];
    }
    for (size_t i = 0; i < g->n_out; i++)
        if (!g->out[i].done)
            return g->out[i].peer;
    return g->setup.holders[g->self == 0];
}

enum weft_status weft_group_finish(struct weft_group *g, struct weft_error *err)
{
    if (g->setup.n_holders == 1)
        return WEFT_OK;
    WEFT_TRY(weft_comm_until(g->setup.comm, someone_else(g), is_done, g, err));
    if (g->overflowed)
        return WEFT_FAIL(err, WEFT_NUMERIC,
                         "a sum of gradients is beyond what exact sums hold");
    return WEFT_OK;
}

/* -- values --------------------------------------------------------------------------------- */

static struct weft_message share_message(const struct weft_group *g, uint32_t peer,
                                         uint32_t owner)
{
    return (struct weft_message){
        .head = {.kind = KIND_SPREAD, .stage = g->setup.id, .step = g->step},
        .peer = g->setup.holders[peer],
        .channel = SPREAD_CHANNEL,
        .bytes = share_size(g, owner) * sizeof(float),
        .data = g->setup.value + share_begin(g, owner),
    };
}

struct copy_job {
    float *to;
    const float *from;
    size_t n;
};

static void copy_task(void *arg, size_t task, unsigned worker)
{
    const struct copy_job *job = arg;
    size_t at = task * TASK;
    (void)worker;
    memcpy(job->to + at, job->from + at, weft_size_min(TASK, job->n - at) * sizeof(float));
}

static enum weft_status take_share(struct weft_group *g, uint32_t holder,
                                   struct weft_error *err)
{
    struct weft_message *m = &g->spread_in[holder];
    struct copy_job job = {.to = g->setup.value + share_begin(g, holder),
                           .n = share_size(g, holder)};
    WEFT_TRY(weft_comm_wait(g->setup.comm, m, err));
    job.from = m->data;
    if (job.from != job.to && job.n > 0)
        weft_pool_run(g->setup.pool, (job.n + TASK - 1) / TASK, copy_task, &job);
    weft_comm_release(g->setup.comm, m);
    return WEFT_OK;
}

enum weft_status weft_group_spread(struct weft_group *g, uint64_t step, struct weft_error *err)
{
    uint32_t n = g->setup.n_holders;
    if (n == 1)
        return WEFT_OK;
    g->step = step;
    for (uint32_t h = 0; h < n; h++) {
        if (h == g->self)
            continue;
        g->spread_in[h] = share_message(g, h, h);
        g->spread_out[h] = share_message(g, h, g->self);
        WEFT_TRY(weft_comm_post(g->setup.comm, &g->spread_in[h], err));
        WEFT_TRY(weft_comm_send(g->setup.comm, &g->spread_out[h], err));
    }
    for (uint32_t h = 0; h < n; h++)
        if (h != g->self)
            WEFT_TRY(take_share(g, h, err));
    for (uint32_t h = 0; h < n; h++)
        if (h != g->self)
            WEFT_TRY(weft_comm_wait(g->setup.comm, &g->spread_out[h], err));
    return WEFT_OK;
}
