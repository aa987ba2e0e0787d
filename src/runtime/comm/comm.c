/* Messages, waits with deadlines and detection of lost ranks, on top of a transport. */
#include "weft/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/comm/comm_priv.h"
#include "runtime/comm/transport.h"

enum {
    MAGIC = 0x77656674,      /* "weft" */
    HEARTBEAT_NS = 20000000, /* interval of the heartbeats of a waiting rank */
    MAX_SLEEP_NS = 2000000,  /* maximum sleep between two checks of a wait */
    /* A busy rank does not read heartbeats.  When it starts to wait, it reads heartbeats for
     * this time before it reports a lost rank. */
    GRACE_NS = 250000000,
};

uint32_t weft_comm_rank(const struct weft_comm *comm)
{
    return comm->rank;
}

uint32_t weft_comm_size(const struct weft_comm *comm)
{
    return comm->n_ranks;
}

const char *weft_comm_name(const struct weft_comm *comm)
{
    return comm->ops.name;
}

bool weft_comm_by_reference(const struct weft_comm *comm)
{
    return comm->ops.by_reference;
}

void weft_comm_set_timeout(struct weft_comm *comm, double seconds)
{
    comm->timeout_ns = (int64_t)(seconds * 1e9);
    if (comm->ops.set_timeout != NULL)
        comm->ops.set_timeout(comm->self, comm->timeout_ns);
}

void weft_comm_describe(struct weft_comm *comm, weft_describe_fn *describe, void *arg)
{
    comm->describe = describe;
    comm->describe_arg = arg;
}

void weft_comm_on_progress(struct weft_comm *comm, weft_progress_fn *progress, void *arg)
{
    comm->progress = progress;
    comm->progress_arg = arg;
}

void weft_comm_on_hang(struct weft_comm *comm, weft_hang_fn *on_hang, void *arg)
{
    if (comm->ops.on_hang != NULL)
        comm->ops.on_hang(comm->self, on_hang, arg);
}

void weft_comm_abort(struct weft_comm *comm, const struct weft_error *err)
{
    struct weft_error own = *err;
    if (own.status == WEFT_OK) /* an error without a status would not be noticed by any rank */
        own.status = WEFT_INTERNAL;
    comm->ops.abort(comm->self, &own);
}

/* -- messages ------------------------------------------------------------------------------ */

static enum weft_status check_given(const struct weft_comm *comm, const struct weft_message *m,
                                    struct weft_error *err)
{
    if (comm != NULL && m != NULL)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE, "the %s is NULL",
                     comm == NULL ? "communicator of a message" : "message");
}

static enum weft_status check_address(const struct weft_comm *comm,
                                      const struct weft_message *m, struct weft_error *err)
{
    WEFT_TRY(check_given(comm, m, err));
    if (m->peer < comm->n_ranks && m->channel < WEFT_N_CHANNELS)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "rank %u: invalid address of a message: rank %u, channel %u (there are %u "
                     "ranks and %d channels)",
                     comm->rank, m->peer, m->channel, comm->n_ranks, WEFT_N_CHANNELS);
}

/* Aborts all ranks if a function of the transport failed, so that the caller may free its
 * messages; see runtime/comm/ownership.h.  Returns the first error of any rank. */
static enum weft_status abort_on_failure(struct weft_comm *comm, enum weft_status st,
                                         struct weft_error *err)
{
    struct weft_error first;
    if (st == WEFT_OK)
        return WEFT_OK;
    err->status = st;
    comm->ops.abort(comm->self, err);
    if (comm->ops.aborted(comm->self, &first))
        *err = first;
    return err->status;
}

/* Sets the fields of a header that weft fills in. */
static void fill_header(struct weft_comm *comm, struct weft_message *m, uint64_t *counters,
                        uint32_t from, uint32_t to)
{
    m->head.bytes = m->bytes;
    m->head.run = comm->run;
    m->head.sequence = counters[(size_t)m->peer * WEFT_N_CHANNELS + m->channel]++;
    m->head.from = from;
    m->head.to = to;
    m->head.channel = m->channel;
    m->head.magic = MAGIC;
    m->done = m->posted = m->checked = false;
    m->sender = m->next = NULL;
    m->released = 0;
    m->request[0] = m->request[1] = 0;
    comm->activity.moved++;
}

enum weft_status weft_comm_send(struct weft_comm *comm, struct weft_message *m,
                                struct weft_error *err)
{
    struct weft_error own;
    WEFT_TRY(check_address(comm, m, err));
    fill_header(comm, m, comm->sent, comm->rank, m->peer);
    err = err != NULL ? err : &own;
    return abort_on_failure(comm, comm->ops.send(comm->self, m, err), err);
}

enum weft_status weft_comm_post(struct weft_comm *comm, struct weft_message *m,
                                struct weft_error *err)
{
    struct weft_error own;
    WEFT_TRY(check_address(comm, m, err));
    fill_header(comm, m, comm->received, m->peer, comm->rank);
    m->posted = true;
    err = err != NULL ? err : &own;
    return abort_on_failure(comm, comm->ops.post(comm->self, m, err), err);
}

/* Returns the name of the first number of the header that differs from its expected value, or
 * NULL. */
static const char *find_mismatch(const struct weft_message *m, uint64_t *want, uint64_t *got)
{
    const struct weft_message_header *a = &m->head, *b = &m->received;
    const struct {
        const char *name;
        uint64_t want, got;
    } rows[] = {
        {"magic number", a->magic, b->magic}, {"run", a->run, b->run},
        {"sender", a->from, b->from},         {"receiver", a->to, b->to},
        {"channel", a->channel, b->channel},  {"sequence number", a->sequence, b->sequence},
        {"step", a->step, b->step},           {"kind", a->kind, b->kind},
        {"stage", a->stage, b->stage},        {"micro", a->micro, b->micro},
        {"part", a->part, b->part},
    };
    for (size_t i = 0; i < WEFT_LEN(rows); i++)
        if (rows[i].want != rows[i].got) {
            *want = rows[i].want;
            *got = rows[i].got;
            return rows[i].name;
        }
    return NULL;
}

static const char *check_bytes(const struct weft_message *m, uint64_t *want, uint64_t *got)
{
    *want = m->bytes;
    *got = m->received.bytes;
    if (m->up_to ? *got <= *want : *got == *want)
        return NULL;
    return m->up_to ? "maximum number of bytes" : "number of bytes";
}

static enum weft_status report_shape(struct weft_comm *comm, const struct weft_message *m,
                                     struct weft_error *err)
{
    return WEFT_FAIL(
        err, WEFT_PEER,
        "rank %u: a message from rank %u on channel %u has the data %.*s (expected "
        "%.*s at step %" PRIu64
        ", stage %u, micro %u); both ranks must give the same tensors and rows",
        comm->rank, m->peer, m->channel, WEFT_SHAPE_TEXT, m->received.shape, WEFT_SHAPE_TEXT,
        m->head.shape, m->head.step, m->head.stage, m->head.micro);
}

static enum weft_status check_header(struct weft_comm *comm, struct weft_message *m,
                                     struct weft_error *err)
{
    uint64_t want, got;
    const char *what = find_mismatch(m, &want, &got);
    if (what == NULL && strncmp(m->head.shape, m->received.shape, WEFT_SHAPE_TEXT) != 0)
        return report_shape(comm, m, err);
    if (what == NULL)
        what = check_bytes(m, &want, &got);
    if (what == NULL) {
        m->head.bytes = m->received.bytes;
        return WEFT_OK;
    }
    return WEFT_FAIL(err, WEFT_PEER,
                     "rank %u: a message from rank %u on channel %u has %s %" PRIu64
                     " (expected %" PRIu64 " at step %" PRIu64
                     ", stage %u, micro %u); the ranks do not run the same schedule",
                     comm->rank, m->peer, m->channel, what, got, want, m->head.step,
                     m->head.stage, m->head.micro);
}

static enum weft_status check_abort(struct weft_comm *comm, struct weft_error *err)
{
    struct weft_error first;
    if (!comm->ops.aborted(comm->self, &first))
        return WEFT_OK;
    if (err != NULL)
        *err = first;
    return first.status;
}

enum weft_status weft_comm_test(struct weft_comm *comm, struct weft_message *m,
                                struct weft_error *err)
{
    /* A transport may complete a receive while it tests another receive: `done` is then set
     * before `checked`. */
    struct weft_error own;
    WEFT_TRY(check_given(comm, m, err));
    err = err != NULL ? err : &own;
    if (!m->done)
        WEFT_TRY(abort_on_failure(comm, comm->ops.test(comm->self, m, err), err));
    if (!m->done)
        return check_abort(comm, err);
    if (!m->posted || m->checked)
        return WEFT_OK;
    m->checked = true;
    comm->activity.moved++;
    return abort_on_failure(comm, check_header(comm, m, err), err);
}

void weft_comm_release(struct weft_comm *comm, struct weft_message *m)
{
    comm->ops.release(comm->self, m);
}

/* -- heartbeats ---------------------------------------------------------------------------- */

static void publish_activity(struct weft_comm *comm, bool other_work)
{
    char what[96] = "";
    comm->ops.publish(comm->self, &comm->activity);
    if (comm->flight == NULL)
        return;
    if (other_work && comm->describe != NULL)
        comm->describe(comm->describe_arg, comm->rank, comm->activity.doing, what, sizeof what);
    wf_flight_update(comm->flight, &comm->activity, other_work ? what : NULL);
}

void weft_comm_publish(struct weft_comm *comm, uint64_t step, uint64_t doing)
{
    comm->activity = (struct weft_activity){step, doing, WEFT_NO_PEER, comm->activity.moved};
    publish_activity(comm, true);
}

void weft_comm_heartbeat(struct weft_comm *comm)
{
    int64_t now = wf_clock_ns();
    if (now - comm->heartbeat_ns < HEARTBEAT_NS)
        return;
    comm->heartbeat_ns = now;
    publish_activity(comm, false);
}

enum weft_status weft_comm_record(struct weft_comm *comm, const char *path,
                                  struct weft_error *err)
{
    if (comm->flight != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u already has a flight record", comm->rank);
    return wf_flight_open(path, comm->rank, comm->n_ranks, !comm->ops.by_reference,
                          &comm->flight, err);
}

enum weft_status weft_comm_progress(struct weft_comm *comm, struct weft_error *err)
{
    WEFT_TRY(check_abort(comm, err));
    if (comm->progress == NULL || comm->in_progress)
        return WEFT_OK;
    comm->in_progress = true;
    enum weft_status st = comm->progress(comm->progress_arg, err);
    comm->in_progress = false;
    return st;
}

static void describe(struct weft_comm *comm, uint32_t rank,
                     const struct weft_activity *activity, char *out, size_t room)
{
    char what[96] = "";
    if (comm->describe != NULL)
        comm->describe(comm->describe_arg, rank, activity->doing, what, sizeof what);
    snprintf(out, room, "step %" PRIu64 "%s%s", activity->step, what[0] != '\0' ? ", " : "",
             what);
}

/* Reads the latest activity of any rank, and its age. */
static void inspect_rank(struct weft_comm *comm, uint32_t rank, struct weft_activity *activity,
                         int64_t *age_ns)
{
    if (rank != comm->rank) {
        comm->ops.inspect(comm->self, rank, activity, age_ns);
        return;
    }
    *activity = comm->activity;
    *age_ns = 0;
}

/* Follows the chain of ranks that wait for each other, starting at `peer`, and returns its last
 * rank.  A waiting rank sends frequent heartbeats, so the chain also ends at a rank without
 * heartbeats.  *moved is the sum of the message counters (weft_activity.moved) of all ranks in
 * the chain. */
static uint32_t follow_wait_chain(struct weft_comm *comm, uint32_t peer, bool *circle,
                                  uint64_t *moved)
{
    *circle = false;
    *moved = comm->activity.moved;
    for (uint32_t i = 0; i < comm->n_ranks; i++) {
        struct weft_activity activity;
        int64_t age;
        inspect_rank(comm, peer, &activity, &age);
        *moved += activity.moved;
        if (activity.waits_for == WEFT_NO_PEER || age > comm->timeout_ns / 2)
            return peer;
        if (activity.waits_for == comm->rank)
            break;
        peer = activity.waits_for;
    }
    *circle = true;
    return peer;
}

struct wait {
    int64_t begin, beat;
    uint64_t rounds;
    uint32_t peer;
    /* The time since which the ranks of a cycle have waited for each other without moving a
     * message. */
    int64_t circle_ns;
    uint64_t circle_moved;
};

/* Prints the other ranks that have been silent for about as long as rank `who`, such as "; also
 * silent: rank 3, 5".  The host may be down, or MPI ended or blocked the ranks that
 * communicated with a dead rank. */
static void list_silent(struct weft_comm *comm, uint32_t who, char *out, size_t room)
{
    enum { SHOWN = 8 };
    size_t at = 0;
    uint32_t n = 0;
    out[0] = '\0';
    for (uint32_t r = 0; r < comm->n_ranks && at < room; r++) {
        struct weft_activity activity;
        int64_t age;
        inspect_rank(comm, r, &activity, &age);
        if (r == who || r == comm->rank || age < comm->timeout_ns / 10 * 9)
            continue;
        if (n < SHOWN)
            at += (size_t)snprintf(out + at, room - at, "%s%u",
                                   n == 0 ? "; also silent: rank " : ", ", r);
        else if (n == SHOWN)
            at += (size_t)snprintf(out + at, room - at, ", ...");
        n++;
    }
}

static enum weft_status report_lost(struct weft_comm *comm, const struct wait *w, uint32_t who,
                                    const struct weft_activity *activity, int64_t age,
                                    struct weft_error *err)
{
    char own[128], other[128], more[128];
    describe(comm, comm->rank, &comm->activity, own, sizeof own);
    describe(comm, who, activity, other, sizeof other);
    list_silent(comm, who, more, sizeof more);
    return WEFT_FAIL(err, WEFT_PEER,
                     "rank %u (%s) waits for rank %u: rank %u has sent no heartbeat for %.1f "
                     "s (the last one at %s)%s; it died, was stopped or cannot be reached",
                     comm->rank, own, w->peer, who, (double)age * 1e-9, other, more);
}

static enum weft_status report_deadlock(struct weft_comm *comm, const struct wait *w,
                                        struct weft_error *err)
{
    char own[128], other[128];
    struct weft_activity activity;
    int64_t age;
    inspect_rank(comm, w->peer, &activity, &age);
    describe(comm, comm->rank, &comm->activity, own, sizeof own);
    describe(comm, w->peer, &activity, other, sizeof other);
    return WEFT_FAIL(err, WEFT_PEER,
                     "rank %u (%s) has waited %.1f s for rank %u (%s), which also waits; the "
                     "waits form a cycle, so a message was lost or never sent",
                     comm->rank, own, (double)(wf_clock_ns() - w->circle_ns) * 1e-9, w->peer,
                     other);
}

/* Returns the rank, other than this rank, that has been silent longest. */
static uint32_t longest_silent(struct weft_comm *comm, struct weft_activity *activity,
                               int64_t *age_ns)
{
    uint32_t who = comm->rank;
    *age_ns = -1;
    for (uint32_t r = 0; r < comm->n_ranks; r++) {
        struct weft_activity its;
        int64_t age;
        if (r == comm->rank)
            continue;
        inspect_rank(comm, r, &its, &age);
        if (age > *age_ns) {
            who = r;
            *activity = its;
            *age_ns = age;
        }
    }
    return who;
}

/* Decides whether a cycle of waiting ranks is an error.  The ranks of the cycle may depend on
 * another rank that became silent after they started to wait.  In that case the silent rank is
 * reported as lost, but only after it was silent for the whole time-out. */
static enum weft_status check_cycle(struct weft_comm *comm, const struct wait *w,
                                    struct weft_error *err)
{
    struct weft_activity activity = {0};
    int64_t age;
    uint32_t who = longest_silent(comm, &activity, &age);
    if (age > comm->timeout_ns)
        return report_lost(comm, w, who, &activity, age, err);
    return age > comm->timeout_ns / 2 ? WEFT_OK : report_deadlock(comm, w, err);
}

/* Checks for lost ranks.  A waiting rank calls this function regularly.  Ranks can appear to
 * wait in a cycle for a moment when the last of them has just started to wait, and repeatedly
 * while they exchange many messages.  The ranks are stuck only if no message has moved for the
 * time-out. */
static enum weft_status check_liveness(struct weft_comm *comm, struct wait *w, int64_t now,
                                       struct weft_error *err)
{
    bool circle;
    uint64_t moved;
    if (now - w->begin < GRACE_NS)
        return WEFT_OK;
    uint32_t who = follow_wait_chain(comm, w->peer, &circle, &moved);
    struct weft_activity activity;
    int64_t age;
    inspect_rank(comm, who, &activity, &age);
    if (age > comm->timeout_ns)
        return report_lost(comm, w, who, &activity, age, err);
    if (!circle || w->circle_ns == 0 || moved != w->circle_moved) {
        w->circle_ns = circle ? now : 0;
        w->circle_moved = moved;
    }
    if (circle && now - w->circle_ns > comm->timeout_ns)
        return check_cycle(comm, w, err);
    return WEFT_OK;
}

static enum weft_status wait_once(struct weft_comm *comm, struct wait *w,
                                  struct weft_error *err)
{
    WEFT_TRY(check_abort(comm, err));
    WEFT_TRY(weft_comm_progress(comm, err));
    int64_t now = wf_clock_ns();
    if (w->rounds == 0) {
        w->begin = now;
        w->beat = now - HEARTBEAT_NS;
    }
    if (now - w->beat >= HEARTBEAT_NS) {
        w->beat = now;
        comm->activity.waits_for = w->peer;
        publish_activity(comm, false);
        if (w->peer != WEFT_NO_PEER)
            WEFT_TRY(check_liveness(comm, w, now, err));
    }
    comm->ops.rest(comm->self, w->rounds++, MAX_SLEEP_NS);
    return WEFT_OK;
}

/* Ends a wait.  An error aborts all ranks. */
static enum weft_status end_wait(struct weft_comm *comm, enum weft_status st,
                                 struct weft_error *err)
{
    struct weft_error own = {.status = st};
    if (err != NULL)
        err->status = st;
    if (comm->activity.waits_for != WEFT_NO_PEER) {
        comm->activity.waits_for = WEFT_NO_PEER;
        publish_activity(comm, false);
    }
    if (st == WEFT_OK)
        return WEFT_OK;
    comm->ops.abort(comm->self, err != NULL ? err : &own);
    /* Several ranks may find an error at the same time: all ranks return the first error. */
    enum weft_status first = check_abort(comm, err);
    return first != WEFT_OK ? first : st;
}

enum weft_status weft_comm_wait_until(struct weft_comm *comm, uint32_t peer,
                                      weft_ready_fn *ready, void *arg, struct weft_error *err)
{
    struct wait w = {.peer = peer};
    bool yes = false;
    enum weft_status st = ready(arg, &yes, err);
    while (st == WEFT_OK && !yes) {
        st = wait_once(comm, &w, err);
        if (st == WEFT_OK)
            st = ready(arg, &yes, err);
    }
    return end_wait(comm, st, err);
}

struct one_message {
    struct weft_comm *comm;
    struct weft_message *m;
};

static enum weft_status message_is_done(void *arg, bool *yes, struct weft_error *err)
{
    struct one_message *one = arg;
    WEFT_TRY(weft_comm_test(one->comm, one->m, err));
    *yes = one->m->done;
    return WEFT_OK;
}

enum weft_status weft_comm_wait(struct weft_comm *comm, struct weft_message *m,
                                struct weft_error *err)
{
    struct one_message one = {comm, m};
    WEFT_TRY(check_given(comm, m, err));
    return weft_comm_wait_until(comm, m->peer, message_is_done, &one, err);
}
