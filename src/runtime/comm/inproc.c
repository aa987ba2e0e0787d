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
    struct wf_inproc *group;
    uint32_t rank;
    int64_t timeout_ns;
    weft_hang_fn *on_hang;
    void *hang_arg;
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

/* -- waking and sleeping ------------------------------------------------------------------- */

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

static void inproc_rest(void *self, uint64_t round, int64_t ns)
{
    struct inproc_endpoint *e = self;
    struct shared *own = &e->group->at[e->rank];
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

/* -- messages ------------------------------------------------------------------------------ */

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

static enum weft_status inproc_send(void *self, struct weft_message *m, struct weft_error *err)
{
    struct inproc_endpoint *e = self;
    struct shared *to = &e->group->at[m->peer];
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
    struct shared *own = &e->group->at[e->rank];
    if (e->gave_up || atomic_load_explicit(&own->inbox, memory_order_relaxed) == NULL)
        return;

    /* The list has the newest message first. */
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

static enum weft_status inproc_post(void *self, struct weft_message *m, struct weft_error *err)
{
    struct inproc_endpoint *e = self;
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

static enum weft_status inproc_test(void *self, struct weft_message *m, struct weft_error *err)
{
    (void)err;
    drain_inbox(self);
    m->done =
        m->posted ? m->sender != NULL : __atomic_load_n(&m->released, __ATOMIC_ACQUIRE) != 0;
    return WEFT_OK;
}

static void inproc_release(void *self, struct weft_message *m)
{
    struct inproc_endpoint *e = self;
    /* The sender may free the message once it is released, so the sender's wake_seq is located
     * first. */
    struct shared *to = &e->group->at[m->peer];
    if (e->gave_up)
        return;
    __atomic_store_n(&m->sender->released, 1, __ATOMIC_RELEASE);
    m->sender = NULL;
    wake(to);
}

/* -- heartbeats ---------------------------------------------------------------------------- */

static void inproc_publish(void *self, const struct weft_activity *activity)
{
    struct inproc_endpoint *e = self;
    struct shared *own = &e->group->at[e->rank];
    atomic_store_explicit(&own->step, activity->step, memory_order_relaxed);
    atomic_store_explicit(&own->doing, activity->doing, memory_order_relaxed);
    atomic_store_explicit(&own->waits_for, activity->waits_for, memory_order_relaxed);
    atomic_store_explicit(&own->moved, activity->moved, memory_order_relaxed);
    atomic_store_explicit(&own->alive_ns, wf_clock_ns(), memory_order_relaxed);
}

static void inproc_inspect(void *self, uint32_t rank, struct weft_activity *activity,
                           int64_t *age_ns)
{
    struct inproc_endpoint *e = self;
    struct shared *other = &e->group->at[rank];
    activity->step = atomic_load_explicit(&other->step, memory_order_relaxed);
    activity->doing = atomic_load_explicit(&other->doing, memory_order_relaxed);
    activity->waits_for = atomic_load_explicit(&other->waits_for, memory_order_relaxed);
    activity->moved = atomic_load_explicit(&other->moved, memory_order_relaxed);
    *age_ns = wf_clock_ns() - atomic_load_explicit(&other->alive_ns, memory_order_relaxed);
}

/* -- closing ------------------------------------------------------------------------------- */

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
        if (waited > e->timeout_ns && e->on_hang != NULL && !said) {
            said = true;
            e->on_hang(e->hang_arg, &g->abort_error);
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

static void inproc_abort(void *self, const struct weft_error *err)
{
    struct inproc_endpoint *e = self;
    set_abort(e->group, err);
    give_up(e, true);
}

static bool inproc_aborted(void *self, struct weft_error *err)
{
    struct inproc_endpoint *e = self;
    if (atomic_load_explicit(&e->group->abort_state, memory_order_acquire) != 2)
        return false;
    *err = e->group->abort_error;
    give_up(e, true);
    return true;
}

static void inproc_close(void *self)
{
    struct inproc_endpoint *e = self;
    give_up(e, false);
    free(e->arrived);
    free(e->posted);
    free(e);
}

static void inproc_set_timeout(void *self, int64_t ns)
{
    struct inproc_endpoint *e = self;
    e->timeout_ns = ns;
}

static void inproc_on_hang(void *self, weft_hang_fn *on_hang, void *arg)
{
    struct inproc_endpoint *e = self;
    e->on_hang = on_hang;
    e->hang_arg = arg;
}

/* -- opening ------------------------------------------------------------------------------- */

static const struct weft_transport inproc_transport = {
    .abi = WEFT_TRANSPORT_ABI,
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
    .set_timeout = inproc_set_timeout,
    .on_hang = inproc_on_hang,
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
        g->at[r].waits_for = WEFT_NO_PEER;
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
    e->group = group;
    e->rank = rank;
    e->arrived = calloc(queue_index(group->n, 0), sizeof *e->arrived);
    e->posted = calloc(queue_index(group->n, 0), sizeof *e->posted);
    enum weft_status st = WEFT_OK;
    if (e->arrived == NULL || e->posted == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the channels of %u ranks", group->n);
    else
        st = weft_comm_open(&inproc_transport, e, rank, group->n, group->run, out, err);
    if (st != WEFT_OK) {
        free(e->arrived);
        free(e->posted);
        free(e);
    }
    return st;
}
