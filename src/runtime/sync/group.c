/* Reduce-scatter and all-gather of replicated parameters. */
#include "runtime/sync/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/ops.h"
#include "runtime/comm/channels.h"
#include "runtime/comm/ownership.h"

enum {
    PIECE = 1 << 19, /* elements per piece: 4 MiB of exact sums */
    TASK = 1 << 14,  /* elements per task of a thread */
    SETS = 2,        /* number of pieces in flight, on transports that copy */
};

struct wf_group {
    struct wf_group_setup setup;
    uint32_t self;  /* index of this rank among the members */
    size_t element; /* bytes per element of the gradient */
    bool by_reference;
    struct weft_message *out; /* owned: messages with the pieces for all other members */
    size_t n_out;
    struct weft_message *in; /* owned: (SETS, members) */
    char *room;              /* owned: memory for (SETS, members - 1) received pieces */
    struct weft_message *gather_out, *gather_in; /* owned: (members) */
    size_t bytes;

    /* The current reduction. */
    uint64_t step;
    bool reducing, overflowed;
    size_t n_pieces, next_post, next_sum;
};

static size_t share_begin(const struct wf_group *g, uint32_t member)
{
    return g->setup.cuts[member];
}

static size_t share_size(const struct wf_group *g, uint32_t member)
{
    return g->setup.cuts[member + 1] - g->setup.cuts[member];
}

static size_t pieces_of(size_t n)
{
    return (n + PIECE - 1) / PIECE;
}

static char *gradient(const struct wf_group *g, size_t at)
{
    return g->setup.exact != NULL ? (char *)(g->setup.exact + at)
                                  : (char *)(g->setup.fast + at);
}

/* -- creation ------------------------------------------------------------------------------ */

size_t wf_group_buffer_bytes(uint32_t n_members, size_t share, size_t element_bytes)
{
    return SETS * (size_t)(n_members - 1) * wf_size_min(PIECE, share) * element_bytes;
}

static enum weft_status allocate(struct wf_group *g, struct weft_error *err)
{
    uint32_t n = g->setup.n_members;
    for (uint32_t h = 0; h < n; h++)
        if (h != g->self)
            g->n_out += pieces_of(share_size(g, h));
    g->out = calloc(g->n_out + 1, sizeof *g->out);
    g->in = calloc((size_t)SETS * n, sizeof *g->in);
    g->gather_out = calloc(n, sizeof *g->gather_out);
    g->gather_in = calloc(n, sizeof *g->gather_in);
    if (!g->by_reference) {
        g->bytes = wf_group_buffer_bytes(n, share_size(g, g->self), g->element);
        g->room = wf_pages_alloc(g->bytes + 1);
        if (g->room != NULL)
            memset(g->room, 0, g->bytes);
    }
    if (g->out == NULL || g->in == NULL || g->gather_out == NULL || g->gather_in == NULL ||
        (!g->by_reference && g->room == NULL))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to sum gradients over %u ranks", n);
    return WEFT_OK;
}

enum weft_status wf_group_new(const struct wf_group_setup *setup, struct wf_group **out,
                              struct weft_error *err)
{
    struct wf_group *g = calloc(1, sizeof *g);
    if (g == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a group of ranks");
    g->setup = *setup;
    g->element = setup->exact != NULL ? sizeof(int64_t) : sizeof(float);
    g->by_reference = setup->comm == NULL || weft_comm_by_reference(setup->comm);
    for (uint32_t h = 0; setup->comm != NULL && h < setup->n_members; h++)
        if (setup->members[h] == weft_comm_rank(setup->comm))
            g->self = h;
    enum weft_status st = setup->n_members > 1 ? allocate(g, err) : WEFT_OK;
    if (st != WEFT_OK) {
        wf_group_free(g);
        return st;
    }
    g->n_pieces = pieces_of(share_size(g, g->self));
    *out = g;
    return WEFT_OK;
}

void wf_group_free(struct wf_group *g)
{
    if (g == NULL)
        return;
    free(g->out);
    free(g->in);
    free(g->room);
    free(g->gather_out);
    free(g->gather_in);
    free(g);
}

size_t wf_group_bytes(const struct wf_group *g)
{
    return g->bytes;
}

/* -- summing ------------------------------------------------------------------------------- */

static struct weft_message piece_message(const struct wf_group *g, uint32_t member,
                                         uint32_t owner, size_t piece)
{
    size_t begin = piece * PIECE;
    return (struct weft_message){
        .head = {.kind = WF_MESSAGE_REDUCE,
                 .stage = g->setup.id,
                 .part = (uint32_t)piece,
                 .step = g->step},
        .peer = g->setup.members[member],
        .channel = WEFT_GROUP_CHANNEL + g->setup.id,
        .bytes = wf_size_min(PIECE, share_size(g, owner) - begin) * g->element,
    };
}

/* Sends piece i of every shard before piece i + 1 of any shard, so that the owners of all
 * shards are busy. */
static enum weft_status send_pieces(struct wf_group *g, struct weft_error *err)
{
    size_t sent = 0;
    for (size_t piece = 0; sent < g->n_out; piece++)
        for (uint32_t h = 0; h < g->setup.n_members; h++) {
            if (h == g->self || piece >= pieces_of(share_size(g, h)))
                continue;
            struct weft_message *m = &g->out[sent++];
            *m = piece_message(g, h, h, piece);
            m->data = gradient(g, share_begin(g, h) + piece * PIECE);
            WEFT_TRY(weft_comm_send(g->setup.comm, m, err));
        }
    return WEFT_OK;
}

static struct weft_message *set_of(struct wf_group *g, size_t piece)
{
    return g->in + (piece % SETS) * g->setup.n_members;
}

static char *room_of(struct wf_group *g, size_t piece, uint32_t member)
{
    size_t each = wf_size_min(PIECE, share_size(g, g->self)) * g->element;
    size_t index = member - (member > g->self);
    return g->room + ((piece % SETS) * (g->setup.n_members - 1) + index) * each;
}

static enum weft_status post_pieces(struct wf_group *g, struct weft_error *err)
{
    while (g->next_post < g->n_pieces && g->next_post < g->next_sum + SETS) {
        struct weft_message *set = set_of(g, g->next_post);
        for (uint32_t h = 0; h < g->setup.n_members; h++) {
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
    struct wf_group *g;
    const struct weft_message *set;
    size_t begin, n; /* elements of the vector in this piece */
    bool overflow[WF_MAX_THREADS];
};

static void sum_floats(const struct sum_job *job, size_t at, size_t n)
{
    struct wf_group *g = job->g;
    float *own = g->setup.fast + job->begin + at;
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t h = 0; h < g->setup.n_members; h++)
            sum += h == g->self ? own[i] : ((const float *)job->set[h].data)[at + i];
        own[i] = sum;
    }
}

static void sum_task(void *arg, size_t task, unsigned worker)
{
    struct sum_job *job = arg;
    struct wf_group *g = job->g;
    size_t at = task * TASK, n = wf_size_min(TASK, job->n - at);
    if (g->setup.fast != NULL) {
        sum_floats(job, at, n);
        return;
    }
    for (uint32_t h = 0; h < g->setup.n_members; h++)
        if (h != g->self)
            job->overflow[worker] |= wf_ops()->exact_merge(
                g->setup.exact + job->begin + at, (const int64_t *)job->set[h].data + at, n);
}

static void sum_piece(struct wf_group *g)
{
    struct weft_message *set = set_of(g, g->next_sum);
    size_t first = g->next_sum * PIECE;
    struct sum_job job = {.g = g,
                          .set = set,
                          .begin = share_begin(g, g->self) + first,
                          .n = wf_size_min(PIECE, share_size(g, g->self) - first)};
    wf_pool_run(g->setup.pool, (job.n + TASK - 1) / TASK, sum_task, &job);
    for (unsigned w = 0; w < WF_MAX_THREADS; w++)
        g->overflowed |= job.overflow[w];
    for (uint32_t h = 0; h < g->setup.n_members; h++)
        if (h != g->self)
            weft_comm_release(g->setup.comm, &set[h]);
    g->next_sum++;
}

static enum weft_status piece_arrived(struct wf_group *g, bool *here, struct weft_error *err)
{
    struct weft_message *set = set_of(g, g->next_sum);
    *here = true;
    for (uint32_t h = 0; h < g->setup.n_members; h++) {
        if (h == g->self)
            continue;
        WEFT_TRY(weft_comm_test(g->setup.comm, &set[h], err));
        *here = *here && set[h].done;
    }
    return WEFT_OK;
}

enum weft_status wf_group_reduce(struct wf_group *g, uint64_t step, struct weft_error *err)
{
    if (g->setup.n_members == 1)
        return WEFT_OK;
    g->step = step;
    g->reducing = true;
    wf_comm_lend(g->setup.comm);
    g->overflowed = false;
    g->next_post = g->next_sum = 0;
    WEFT_TRY(post_pieces(g, err));
    return send_pieces(g, err);
}

static enum weft_status all_sent(struct wf_group *g, bool *yes, struct weft_error *err)
{
    *yes = true;
    for (size_t i = 0; *yes && i < g->n_out; i++) {
        WEFT_TRY(weft_comm_test(g->setup.comm, &g->out[i], err));
        *yes = g->out[i].done;
    }
    return WEFT_OK;
}

/* Adds at most one piece per call, because there is little time between two pipeline
 * actions. */
enum weft_status wf_group_progress(struct wf_group *g, bool *done, struct weft_error *err)
{
    *done = !g->reducing;
    if (!g->reducing)
        return WEFT_OK;
    if (g->next_sum < g->n_pieces) {
        bool here;
        WEFT_TRY(piece_arrived(g, &here, err));
        if (here) {
            sum_piece(g);
            WEFT_TRY(post_pieces(g, err));
        }
    }
    if (g->next_sum < g->n_pieces)
        return WEFT_OK;
    WEFT_TRY(all_sent(g, done, err));
    if (*done) {
        g->reducing = false;
        wf_comm_end_loan(g->setup.comm);
    }
    return WEFT_OK;
}

static enum weft_status is_done(void *arg, bool *yes, struct weft_error *err)
{
    return wf_group_progress(arg, yes, err);
}

/* Returns a member whose piece is missing.  An error about a lost rank names this member. */
static uint32_t pending_peer(const struct wf_group *g)
{
    if (g->next_sum < g->n_pieces) {
        const struct weft_message *set = g->in + (g->next_sum % SETS) * g->setup.n_members;
        for (uint32_t h = 0; h < g->setup.n_members; h++)
            if (h != g->self && !set[h].done)
                return g->setup.members[h];
    }
    for (size_t i = 0; i < g->n_out; i++)
        if (!g->out[i].done)
            return g->out[i].peer;
    return g->setup.members[g->self == 0];
}

enum weft_status wf_group_finish(struct wf_group *g, struct weft_error *err)
{
    if (g->setup.n_members == 1)
        return WEFT_OK;
    WEFT_TRY(weft_comm_wait_until(g->setup.comm, pending_peer(g), is_done, g, err));
    if (g->overflowed)
        return WEFT_FAIL(err, WEFT_NUMERIC,
                         "a sum of gradients is out of the range of exact sums");
    return WEFT_OK;
}

/* -- values -------------------------------------------------------------------------------- */

static struct weft_message share_message(const struct wf_group *g, uint32_t peer,
                                         uint32_t owner)
{
    return (struct weft_message){
        .head = {.kind = WF_MESSAGE_ALL_GATHER, .stage = g->setup.id, .step = g->step},
        .peer = g->setup.members[peer],
        .channel = WF_COMM_CHANNEL_ALL_GATHER,
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
    memcpy(job->to + at, job->from + at, wf_size_min(TASK, job->n - at) * sizeof(float));
}

static enum weft_status take_share(struct wf_group *g, uint32_t member, struct weft_error *err)
{
    struct weft_message *m = &g->gather_in[member];
    struct copy_job job = {.to = g->setup.value + share_begin(g, member),
                           .n = share_size(g, member)};
    WEFT_TRY(weft_comm_wait(g->setup.comm, m, err));
    job.from = m->data;
    if (job.from != job.to && job.n > 0)
        wf_pool_run(g->setup.pool, (job.n + TASK - 1) / TASK, copy_task, &job);
    weft_comm_release(g->setup.comm, m);
    return WEFT_OK;
}

enum weft_status wf_group_all_gather(struct wf_group *g, uint64_t step, struct weft_error *err)
{
    uint32_t n = g->setup.n_members;
    if (n == 1)
        return WEFT_OK;
    g->step = step;
    for (uint32_t h = 0; h < n; h++) {
        if (h == g->self)
            continue;
        g->gather_in[h] = share_message(g, h, h);
        g->gather_out[h] = share_message(g, h, g->self);
        WEFT_TRY(weft_comm_post(g->setup.comm, &g->gather_in[h], err));
        WEFT_TRY(weft_comm_send(g->setup.comm, &g->gather_out[h], err));
    }
    for (uint32_t h = 0; h < n; h++)
        if (h != g->self)
            WEFT_TRY(take_share(g, h, err));
    for (uint32_t h = 0; h < n; h++)
        if (h != g->self)
            WEFT_TRY(weft_comm_wait(g->setup.comm, &g->gather_out[h], err));
    return WEFT_OK;
}
