/* The transport between ranks that are threads of one process.  A send pushes a pointer to the
 * message to the receiver's inbox, a lock-free list that all peers share.  The receiver sorts
 * the inbox by sender and channel.  The payload is not copied; the sender may reuse its memory
 * once the receiver has released the message. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "runtime/comm/comm_priv.h"

enum {
    SPIN = 3000, /* number of polls (about 100 us) before a rank that has its own core sleeps */
    NAP_NS = 1000000, /* interval of checks for ranks that have not noticed an abort */
    CACHE_LINE = 64,
};

struct queue {
    struct weft_message *first, *last;
};

struct inproc_endpoint {
    struct weft_comm base; /* must be the first member: the ops receive a pointer to it */
    struct wf_inproc *group;
    uint32_t wake_seen;
    bool gave_up;          /* this rank has noticed an abort */
    struct queue *arrived; /* owned: (ranks, channels), messages without a posted receive */
    struct queue *posted;  /* owned: (ranks, channels), receives without a message */
};

/* The part of a rank that other ranks access; each field group has its own cache lines. */
struct shared {
    _Alignas(CACHE_LINE) _Atomic(struct weft_message *) inbox;
    atomic_uint wake_seq; /* increases with every event that may end a wait */
    atomic_uint asleep;
    _Alignas(CACHE_LINE) _Atomic uint64_t step;
    _Atomic uint64_t doing;
    _Atomic uint32_t waits_for, moved;
    _Atomic int64_t alive_ns;
};

struct wf_inproc {
    uint32_t n;
    uint32_t spin;
    uint64_t run;
    struct shared *at; /* owned */
    atomic_uint n_gave_up;
    /* 0: no abort; 1: the error is being written; 2: the error is complete. */
    atomic_int abort_state;
    struct weft_error abort_error;
};

static struct inproc_endpoint *endpoint_of(struct weft_comm *comm)
{
    return (struct inproc_endpoint *)comm;
}

/* -- waking and sleeping -------------------------------------------------------------------- */

static void futex(atomic_uint *at, int op, unsigned value, const struct timespec *timeout)
{
    syscall(SYS_futex, (unsigned *)at, op, value, timeout, NULL, 0);
}

static void wake(struct shared *rank)
{
    atomic_fetch_add(&rank->wake_seq, 1);
    if (atomic_load(&rank->asleep) != 0)
        futex(&rank->wake_seq, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void inproc_rest(struct weft_comm *comm, uint64_t round, int64_t ns)
{
    struct inproc_endpoint *e = endpoint_of(comm);
    struct shared *own = &e->group->at[comm->rank];
    unsigned now = atomic_load(&own->wake_seq);
    (void)round;
    for (uint32_t i = 0; now == e->wake_seen && i < e->group->spin; i++) {
        spin_pause();
        now = atomic_load(&own->wake_seq);
    }
    if (now == e->wake_seen) {
        const struct timespec timeout = {ns / 1000000000, ns % 1000000000};
        atomic_store(&own->asleep, 1);
        futex(&own->wake_seq, FUTEX_WAIT_PRIVATE, now, &timeout);
        atomic_store(&own->asleep, 0);
        now = atomic_load(&own->wake_seq);
    }
    e->wake_seen = now;
}

/* -- messages ------------------------------------------------------------------------------- */

static void append(struct queue *q, struct weft_message *m)
{
    m->next = NULL;
    if (q->first == NULL)
        q->first = m;
    else
        q->last->next = m;
    q->last = m;
}

static struct weft_message *take(struct queue *q)
{
    struct weft_message *m = q->first;
    q->first = m->next;
    return m;
}

static size_t queue_index(uint32_t peer, uint32_t channel)
{
    return (size_t)peer * WEFT_N_CHANNELS + channel;
}

static enum weft_status inproc_send(struct weft_comm *comm, struct weft_message *m,
                                    struct weft_error *err)
{
    struct shared *to = &endpoint_of(comm)->group->at[m->peer];
    (void)err;
    struct weft_message *head = atomic_load_explicit(&to->inbox, memory_order_relaxed);
    do
        m->next = head;
    while (!atomic_compare_exchange_weak_explicit(&to->inbox, &head, m, memory_order_release,
                                                  memory_order_relaxed));
    wake(to);
    return WEFT_OK;
}

/* Matches a message with a posted receive.  The receive is not marked as done here: its own
 * test does that and then checks the header. */
static void deliver(struct weft_message *in, struct weft_message *out)
{
    in->received = out->head;
    in->data = out->data;
    in->sender = out;
}

/* Empties the inbox and matches messages with posted receives.  The newest message of the inbox
 * is first. */
static void drain_inbox(struct inproc_endpoint *e)
{
    struct shared *own = &e->group->at[e->base.rank];
    if (e->gave_up || atomic_load_explicit(&own->inbox, memory_order_relaxed) == NULL)
        return;
    struct weft_message *top =
        atomic_exchange_explicit(&own->inbox, NULL, memory_order_acquire);
    struct weft_message *oldest = NULL;
    while (top != NULL) {
        struct weft_message *next = top->next;
        top->next = oldest;
        oldest = top;
        top = next;
    }
    while (oldest != NULL) {
        struct weft_message *m = oldest;
        oldest = m->next;
        size_t i = queue_index(m->head.from, m->head.channel);
        if (e->posted[i].first != NULL)
            deliver(take(&e->posted[i]), m);
        else
            append(&e->arrived[i], m);
    }
}

static enum weft_status inproc_post(struct weft_comm *comm, struct weft_message *m,
                                    struct weft_error *err)
{
    struct inproc_endpoint *e = endpoint_of(comm);
    size_t i = queue_index(m->peer, m->channel);
    (void)err;
    if (e->gave_up)
        return WEFT_OK; /* no message will arrive */
    if (e->arrived[i].first != NULL)
        deliver(m, take(&e->arrived[i]));
    else
        append(&e->posted[i], m);
    return WEFT_OK;
}

static enum weft_status inproc_test(struct weft_comm *comm, struct weft_message *m,
                                    struct weft_error *err)
{
    (void)err;
    drain_inbox(endpoint_of(comm));
    m->done =
        m->posted ? m->sender != NULL : __atomic_load_n(&m->released, __ATOMIC_ACQUIRE) != 0;
    return WEFT_OK;
}

static void inproc_release(struct weft_comm *comm, struct weft_message *m)
{
    /* The sender may free the message once it is released, so the sender's wake_seq is located
     * first. */
    struct shared *to = &endpoint_of(comm)->group->at[m->peer];
    if (endpoint_of(comm)->gave_up)
        return;
    __atomic_store_n(&m->sender->released, 1, __ATOMIC_RELEASE);
    m->sender = NULL;
    wake(to);
}

/* -- heartbeats -------------------------------------------------------------------------- */

static void inproc_publish(struct weft_comm *comm, const struct weft_activity *activity,
                           bool now)
{
    struct shared *own = &endpoint_of(comm)->group->at[comm->rank];
    (void)now;
    atomic_store_explicit(&own->step, activity->step, memory_order_relaxed);
    atomic_store_explicit(&own->doing, activity->doing, memory_order_relaxed);
    atomic_store_explicit(&own->waits_for, activity->waits_for, memory_order_relaxed);
    atomic_store_explicit(&own->moved, activity->moved, memory_order_relaxed);
    atomic_store_explicit(&own->alive_ns, wf_clock_ns(), memory_order_relaxed);
}

static void inproc_inspect(struct weft_comm *comm, uint32_t rank,
                           struct weft_activity *activity, int64_t *age_ns)
{
    struct shared *other = &endpoint_of(comm)->group->at[rank];
    activity->step = atomic_load_explicit(&other->step, memory_order_relaxed);
    activity->doing = atomic_load_explicit(&other->doing, memory_order_relaxed);
    activity->waits_for = atomic_load_explicit(&other->waits_for, memory_order_relaxed);
    activity->moved = atomic_load_explicit(&other->moved, memory_order_relaxed);
    *age_ns = wf_clock_ns() - atomic_load_explicit(&other->alive_ns, memory_order_relaxed);
}

/* -- closing -------------------------------------------------------------------------------- */

/* Waits until no rank accesses another rank's memory any more.  From this call on, this rank
 * does not access the memory of other ranks.  It waits for all other ranks, however long
 * they are busy, before it frees its own memory, because they may still read messages that
 * it sent. */
static void give_up(struct inproc_endpoint *e, bool wait)
{
    struct wf_inproc *g = e->group;
    const struct timespec nap = {0, NAP_NS};
    if (!e->gave_up)
        atomic_fetch_add(&g->n_gave_up, 1);
    e->gave_up = true;
    bool said = false;
    for (int64_t waited = 0; wait && atomic_load(&g->n_gave_up) < g->n; waited += NAP_NS) {
        nanosleep(&nap, NULL);
        if (waited > e->base.timeout_ns && e->base.on_hang != NULL && !said) {
            said = true;
            e->base.on_hang(e->base.hang_arg, &g->abort_error);
        }
    }
}

static void set_abort(struct wf_inproc *g, const struct weft_error *err)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&g->abort_state, &none, 1)) {
        g->abort_error = *err;
        atomic_store(&g->abort_state, 2);
    }
    for (uint32_t r = 0; r < g->n; r++)
        wake(&g->at[r]);
}

void wf_inproc_cancel(struct wf_inproc *group, uint32_t n_missing, const struct weft_error *err)
{
    atomic_fetch_add(&group->n_gave_up, n_missing);
    set_abort(group, err);
}

static void inproc_abort(struct weft_comm *comm, const struct weft_error *err)
{
    struct inproc_endpoint *e = endpoint_of(comm);
    set_abort(e->group, err);
    give_up(e, true);
}

static bool inproc_aborted(struct weft_comm *comm, struct weft_error *err)
{
    struct inproc_endpoint *e = endpoint_of(comm);
    if (atomic_load_explicit(&e->group->abort_state, memory_order_acquire) != 2)
        return false;
    *err = e->group->abort_error;
    give_up(e, true);
    return true;
}

static void inproc_close(struct weft_comm *comm)
{
    struct inproc_endpoint *e = endpoint_of(comm);
    give_up(e, false);
    wf_comm_base_release(comm);
    free(e->arrived);
    free(e->posted);
    free(e);
}

/* -- opening -------------------------------------------------------------------------------- */

static const struct wf_comm_ops inproc_ops = {
    .name = "inproc",
    .by_reference = true,
    .send = inproc_send,
    .post = inproc_post,
    .test = inproc_test,
    .release = inproc_release,
    .rest = inproc_rest,
    .publish = inproc_publish,
    .inspect = inproc_inspect,
    .abort = inproc_abort,
    .aborted = inproc_aborted,
    .close = inproc_close,
};

enum weft_status wf_inproc_new(uint32_t n, struct wf_inproc **out, struct weft_error *err)
{
    struct wf_inproc *g = calloc(1, sizeof *g);
    if (g != NULL)
        g->at = aligned_alloc(CACHE_LINE, n * sizeof *g->at);
    if (g == NULL || g->at == NULL) {
        free(g);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", n);
    }
    g->n = n;
    g->spin = n <= wf_cores_available() ? SPIN : 0;
    g->run = (uint64_t)wf_clock_ns();
    memset(g->at, 0, n * sizeof *g->at);
    for (uint32_t r = 0; r < n; r++) {
        g->at[r].waits_for = WF_NO_PEER;
        g->at[r].alive_ns = wf_clock_ns();
    }
    *out = g;
    return WEFT_OK;
}

void wf_inproc_free(struct wf_inproc *group)
{
    if (group == NULL)
        return;
    free(group->at);
    free(group);
}

enum weft_status wf_inproc_open(struct wf_inproc *group, uint32_t rank, struct weft_comm **out,
                                struct weft_error *err)
{
    struct inproc_endpoint *e = calloc(1, sizeof *e);
    if (e == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for rank %u", rank);
    e->base = (struct weft_comm){
        .ops = &inproc_ops, .rank = rank, .n_ranks = group->n, .run = group->run};
    e->group = group;
    e->arrived = calloc(queue_index(group->n, 0), sizeof *e->arrived);
    e->posted = calloc(queue_index(group->n, 0), sizeof *e->posted);
    enum weft_status st = WEFT_OK;
    if (e->arrived == NULL || e->posted == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the channels of %u ranks", group->n);
    else
        st = wf_comm_base_init(&e->base, err);
    if (st != WEFT_OK) {
        free(e->arrived);
        free(e->posted);
        free(e);
        return st;
    }
    *out = &e->base;
    return WEFT_OK;
}
