/* Heartbeats and aborts, on a separate communicator.
 *
 * Every rank always has one receive posted per peer, so no call here waits for a peer.  A rank
 * sends each note to all peers; it skips a peer that has not yet received the previous note.
 *
 * Leaving after an error takes two rounds, because a launcher kills all ranks when the first
 * ends:
 *
 *     abort    the first error is sent to all ranks
 *     ack      the sender has the error, and MPI no longer writes to its memory; a rank returns
 *              to its caller when all ranks that seem alive have acknowledged
 *     gone     the sender's caller has printed its message; it is sent from exit(), and a
 *              process ends when all ranks that acknowledged have sent it
 *
 * Both rounds have a time limit, and no rank calls MPI_Finalize, which would wait for dead
 * ranks.  A normal end has only the last round, before MPI_Finalize. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/comm/mpi/endpoint_priv.h"

enum {
    POLL_NS = 1000000,       /* interval of polls for notes */
    HEARTBEAT_NS = 20000000, /* minimum interval of heartbeats */
    BEATS_PER_TIMEOUT = 16,
    NAP_NS = 50000,        /* sleep between two polls while leaving */
    LINGER_NS = 5000000,   /* time for all ranks to notice that every rank has sent "gone" */
    LEAVE_NS = 1000000000, /* maximum wait of each round of leaving */
    MAX_READS = 100000,    /* maximum number of notes per poll */
};

/* The failed endpoint, for the exit() handler.  It is a global variable because MPI is global
 * to the process, too. */
static struct endpoint *leaving;

static bool is_other(const struct endpoint *e, uint32_t rank)
{
    return rank != e->rank;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
}

/* -- receiving ----------------------------------------------------------------------------- */

static void post_note_receive(struct endpoint *e, uint32_t rank)
{
    struct peer *p = &e->peers[rank];
    if (MPI_Irecv(&p->in, sizeof p->in, MPI_BYTE, (int)rank, 0, e->control,
                  &e->listening[rank]) != MPI_SUCCESS)
        e->listening[rank] = MPI_REQUEST_NULL; /* the peer counts as silent from now on */
}

static void take_abort(struct endpoint *e, uint32_t from, const struct note *n)
{
    if (e->failed && e->failed_rank <= from)
        return;
    e->failed = true;
    e->failed_rank = from;
    e->error = (struct weft_error){
        .status = (enum weft_status)n->status, .file = "another rank", .line = n->line};
    memcpy(e->error.msg, n->msg, sizeof e->error.msg);
    e->error.msg[sizeof e->error.msg - 1] = '\0';
}

static void take_note(struct endpoint *e, uint32_t from, int64_t now)
{
    struct peer *p = &e->peers[from];
    const struct note *n = &p->in;
    p->heard_ns = now;

    switch ((enum note_kind)n->kind) {
    case NOTE_HEARTBEAT:
        p->activity =
            (struct weft_activity){n->step, n->doing, n->waits_for, (uint32_t)n->moved};
        break;
    case NOTE_ABORT:
        take_abort(e, from, n);
        break;
    case NOTE_GONE:
        p->gone = true;
        break;
    case NOTE_ACK:
        p->acked = true;
        break;
    case N_NOTES:
        break;
    }
}

static void read_notes(struct endpoint *e, int64_t now)
{
    e->polled_ns = now;
    for (int i = 0; i < MAX_READS; i++) {
        int n = 0;
        int rc = MPI_Testsome((int)e->n_ranks, e->listening, &n, e->heard_from, e->heard);
        if (n == MPI_UNDEFINED || n <= 0)
            return;
        for (int k = 0; k < n; k++) {
            if (rc != MPI_SUCCESS && e->heard[k].MPI_ERROR != MPI_SUCCESS)
                continue;
            uint32_t from = (uint32_t)e->heard_from[k];
            take_note(e, from, now);
            if (!e->peers[from].gone) /* "gone" is the peer's last note */
                post_note_receive(e, from);
        }
    }
}

void wf_mpi_poll(struct endpoint *e, int64_t now)
{
    if (e->gave_up || now - e->polled_ns < POLL_NS)
        return;
    read_notes(e, now);
    if (!e->failed) /* the memory of a failed rank must not be read any more */
        wf_mpi_advance(e);
}

/* -- heartbeats ---------------------------------------------------------------------------- */

static bool is_complete(MPI_Request *request)
{
    int done = 1;
    if (*request != MPI_REQUEST_NULL &&
        MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        *request = MPI_REQUEST_NULL;
    return done != 0;
}

static void send_heartbeat(struct endpoint *e, uint32_t to,
                           const struct weft_activity *activity)
{
    struct peer *p = &e->peers[to];
    if (!is_complete(&p->sent))
        return;
    p->out = (struct note){.kind = NOTE_HEARTBEAT,
                           .waits_for = activity->waits_for,
                           .step = activity->step,
                           .doing = activity->doing,
                           .moved = activity->moved};
    if (MPI_Isend(&p->out, offsetof(struct note, status), MPI_BYTE, (int)to, 0, e->control,
                  &p->sent) != MPI_SUCCESS)
        p->sent = MPI_REQUEST_NULL;
}

/* Sends a heartbeat.  A change of waits_for is sent sooner than an unchanged state, because
 * other ranks follow the chain of waiting ranks. */
void wf_mpi_publish(void *self, const struct weft_activity *activity)
{
    struct endpoint *e = self;
    int64_t time = wf_clock_ns(), gap = HEARTBEAT_NS;
    if (e->gave_up)
        return;
    wf_mpi_poll(e, time);
    if (activity->waits_for == e->published_peer && e->timeout_ns / BEATS_PER_TIMEOUT > gap)
        gap = e->timeout_ns / BEATS_PER_TIMEOUT;
    if (time - e->published_ns < gap)
        return;
    e->published_ns = time;
    e->published_peer = activity->waits_for;
    for (uint32_t r = 0; r < e->n_ranks; r++)
        if (is_other(e, r))
            send_heartbeat(e, r, activity);
}

/* Reads the latest heartbeat of a rank.  All pending notes are read first, so that no live rank
 * is reported as silent. */
void wf_mpi_inspect(void *self, uint32_t rank, struct weft_activity *activity, int64_t *age_ns)
{
    struct endpoint *e = self;
    int64_t now = wf_clock_ns();
    wf_mpi_poll(e, now);
    *activity = e->peers[rank].activity;
    *age_ns = now - e->peers[rank].heard_ns;
}

/* -- leaving after an error ---------------------------------------------------------------- */

static void send_to_all(struct endpoint *e, enum note_kind kind)
{
    int bytes =
        kind == NOTE_ABORT ? (int)sizeof(struct note) : (int)offsetof(struct note, status);
    e->closing[kind].kind = kind;
    for (uint32_t r = 0; r < e->n_ranks; r++)
        if (is_other(e, r) && MPI_Isend(&e->closing[kind], bytes, MPI_BYTE, (int)r, 0,
                                        e->control, &e->peers[r].closing[kind]) != MPI_SUCCESS)
            e->peers[r].closing[kind] = MPI_REQUEST_NULL;
}

/* Returns true if a peer seems alive: its last note arrived less than half of the time-out
 * ago. */
bool wf_mpi_seems_alive(const struct endpoint *e, uint32_t rank, int64_t now)
{
    return now - e->peers[rank].heard_ns < e->timeout_ns / 2;
}

/* Returns true if all peers that seem alive have acknowledged and have received this rank's
 * notes. */
static bool all_acked(struct endpoint *e, int64_t now)
{
    bool all = true;
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        struct peer *p = &e->peers[r];
        if (!is_other(e, r) || (!p->acked && !wf_mpi_seems_alive(e, r, now)))
            continue;
        all = all && p->acked && is_complete(&p->closing[NOTE_ABORT]) &&
              is_complete(&p->closing[NOTE_ACK]);
    }
    return all;
}

static void give_up(struct endpoint *e)
{
    if (e->gave_up)
        return;
    e->gave_up = true;
    leaving = e;
    bool said = false;
    for (int64_t begin = wf_clock_ns(), now = begin; now - begin < LEAVE_NS;
         now = wf_clock_ns()) {
        bool stopped = wf_mpi_stop_receives(e, now);
        read_notes(e, now);
        if (stopped && !said)
            send_to_all(e, NOTE_ACK);
        said = said || stopped;
        if (said && all_acked(e, now))
            return;
        nap();
    }
}

void wf_mpi_abort(void *self, const struct weft_error *err)
{
    struct endpoint *e = self;
    read_notes(e, wf_clock_ns());
    if (!e->failed) {
        struct note *n = &e->closing[NOTE_ABORT];
        e->failed = true;
        e->failed_rank = e->rank;
        e->error = *err;
        n->status = (int32_t)err->status;
        n->line = err->line;
        memcpy(n->msg, err->msg, sizeof n->msg);
        send_to_all(e, NOTE_ABORT);
    }
    give_up(e);
}

bool wf_mpi_aborted(void *self, struct weft_error *err)
{
    struct endpoint *e = self;
    if (!e->failed)
        return false;
    give_up(e);
    *err = e->error;
    return true;
}

static bool all_gone(struct endpoint *e)
{
    bool all = true;
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        struct peer *p = &e->peers[r];
        if (is_other(e, r) && (p->acked || !e->gave_up))
            all = all && p->gone && is_complete(&p->closing[NOTE_GONE]);
    }
    return all;
}

static void announce_exit(struct endpoint *e)
{
    send_to_all(e, NOTE_GONE);
    for (int64_t begin = wf_clock_ns(), now = begin; now - begin < LEAVE_NS;
         now = wf_clock_ns()) {
        read_notes(e, now);
        if (all_gone(e))
            return;
        nap();
    }
}

/* Returns true if this rank is the first leaving rank and some other rank does not leave. */
static bool has_to_call_launcher(const struct endpoint *e)
{
    bool behind = false;
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        if (is_other(e, r) && e->peers[r].acked && r < e->rank)
            return false;
        behind = behind || (is_other(e, r) && !e->peers[r].acked);
    }
    return behind;
}

/* Calls MPI_Abort under MPICH.  The launcher of MPICH ignores the exit code of a rank, so a
 * stopped rank that is alone on its host would never end.  MPI_Abort calls exit(), whose other
 * handlers may wait for that rank; an alarm limits that wait. */
static void call_launcher(const struct endpoint *e, int status)
{
#if defined(MPICH_VERSION)
    if (!has_to_call_launcher(e))
        return;
    signal(SIGALRM, SIG_DFL);
    alarm(1);
    MPI_Abort(MPI_COMM_WORLD, status);
#else
    (void)status;
    (void)has_to_call_launcher(e);
#endif
}

/* Runs in exit(), after the caller has printed its error message.  Ends the process with the
 * caller's exit code, before the exit handlers of MPI libraries run: those may wait for ranks
 * that no longer exist. */
static void leave(int status, void *unused)
{
    struct endpoint *e = leaving;
    (void)unused;
    if (e == NULL)
        return;
    fflush(NULL);
    announce_exit(e);
    /* All ranks end at about the same time: MPICH's launcher kills late ranks and may then
     * return the signal as its own exit code. */
    nanosleep(&(struct timespec){0, LINGER_NS}, NULL);
    call_launcher(e, status);
    _exit(status);
}

/* -- opening and closing ------------------------------------------------------------------- */

enum weft_status wf_mpi_control_open(struct endpoint *e, struct weft_error *err)
{
    uint32_t n = e->n_ranks;
    int64_t now = wf_clock_ns();

    e->peers = calloc(n, sizeof *e->peers);
    e->listening = calloc(n, sizeof *e->listening);
    e->heard = calloc(n, sizeof *e->heard);
    e->heard_from = calloc(n, sizeof *e->heard_from);
    if (e->peers == NULL || e->listening == NULL || e->heard == NULL || e->heard_from == NULL ||
        on_exit(leave, NULL) != 0)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the heartbeats of %u ranks", n);

    e->published_peer = WEFT_NO_PEER;
    for (uint32_t r = 0; r < n; r++) {
        struct peer *p = &e->peers[r];
        p->sent = MPI_REQUEST_NULL;
        for (int k = 0; k < N_NOTES; k++)
            p->closing[k] = MPI_REQUEST_NULL;
        p->activity.waits_for = WEFT_NO_PEER;
        p->heard_ns = now;
        e->listening[r] = MPI_REQUEST_NULL;
        if (is_other(e, r))
            post_note_receive(e, r);
    }
    return WEFT_OK;
}

static void drop(MPI_Request *request)
{
    if (!is_complete(request))
        MPI_Request_free(request);
}

/* Closes the control communicator.  All ranks announce that they close it, so no heartbeat
 * remains in flight. */
void wf_mpi_control_close(struct endpoint *e)
{
    announce_exit(e);
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        drop(&e->peers[r].sent);
        drop(&e->peers[r].closing[NOTE_GONE]);
        if (e->listening[r] == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(&e->listening[r]);
        MPI_Wait(&e->listening[r],
                 MPI_STATUS_IGNORE); /* the receive is cancelled or complete */
    }
    free(e->peers);
    free(e->listening);
    free(e->heard);
    free(e->heard_from);
}
