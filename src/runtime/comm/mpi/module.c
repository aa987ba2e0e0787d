/* weft's transport over MPI: a module that is compiled once per MPI and loaded if that MPI
 * launched the process.
 *
 * A message consists of two MPI messages: its header and, if it has bytes, its payload.  The
 * receive of the payload starts when the header has arrived, with the size in the header.  So
 * MPI never receives more bytes than fit into the buffer; Open MPI 4.1 would write past the end
 * of the buffer.
 *
 * After an error the module registers an exit() handler that ends the process with _exit() (see
 * control.c); under MPICH it may call MPI_Abort. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/comm/mpi/endpoint_priv.h"
#include "runtime/comm/mpi/segments.h"

/* Payloads above WEFT_MPI_LIMIT bytes are sent in segments.  Tests use a small limit. */
#ifndef WEFT_MPI_LIMIT
#define WEFT_MPI_LIMIT INT_MAX
#define WEFT_MPI_SEGMENT (1 << 20)
#endif

enum {
    HEAD_TAG = 0, /* the tag of a header is HEAD_TAG + channel */
    DATA_TAG = WEFT_N_CHANNELS,
    LAST_TAG = 2 * WEFT_N_CHANNELS - 1, /* MPI guarantees tags up to 32767 */
    /* A wait first polls without a pause, then yields between polls, and then sleeps between
     * polls. */
    SPIN_NS = 50000,
    YIELD_NS = 1000000,
    NAP_NS = 50000,
    /* A wait for a long payload spins until the payload should have arrived at this rate, but
     * at most for YIELD_NS.  It does not sleep for a while after that, because the payload may
     * arrive in pieces. */
    MOVING_BYTES = 65536,
    BYTES_PER_NS = 4,
    MOVING_NS = 20000000,
};

enum weft_status wf_mpi_fail(const struct endpoint *e, const char *what, uint32_t peer,
                             int code, struct weft_error *err)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    for (char *c = text; *c != '\0'; c++) /* MPICH adds its call stack, one line per call */
        if (*c == '\n')
            *c = ' ';
    return WEFT_FAIL(err, WEFT_PEER, "rank %u: %s rank %u: MPI error: %.200s", e->rank, what,
                     peer, text);
}

/* Returns the first error, which all calls after an abort return. */
static enum weft_status first_error(const struct endpoint *e, struct weft_error *err)
{
    if (err != NULL)
        *err = e->error;
    return e->error.status;
}

/* -- slots --------------------------------------------------------------------------------- */

static enum weft_status more_slots(struct endpoint *e, struct weft_error *err)
{
    struct slot_slab *b = calloc(1, sizeof *b);
    if (b == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "rank %u: no memory for more messages in flight",
                         e->rank);
    b->next = e->blocks;
    e->blocks = b;
    for (int i = 0; i < SLOTS_PER_SLAB; i++) {
        b->at[i].next = e->free_slots;
        e->free_slots = &b->at[i];
    }
    return WEFT_OK;
}

static enum weft_status take_slot(struct endpoint *e, struct weft_message *m, struct slot **out,
                                  struct weft_error *err)
{
    if (e->free_slots == NULL)
        WEFT_TRY(more_slots(e, err));
    struct slot *s = e->free_slots;
    e->free_slots = s->next;
    s->request[0] = s->request[1] = MPI_REQUEST_NULL;
    s->data = m->data;
    s->bytes = m->bytes;
    s->peer = m->peer;
    s->channel = m->channel;
    s->rc = MPI_SUCCESS;
    s->used = true;
    s->cancelled = s->waits = false;
    s->receives = m->posted;
    m->request[0] = (uintptr_t)s;
    *out = s;
    return WEFT_OK;
}

static void return_slot(struct endpoint *e, struct slot *s)
{
    s->used = false;
    s->next = e->free_slots;
    e->free_slots = s;
}

static bool stop_slot(struct slot *s)
{
    int done = 1;
    for (int k = 0; k < 2; k++) {
        int one = 1;
        if (s->request[k] == MPI_REQUEST_NULL)
            continue;
        if (!s->cancelled)
            MPI_Cancel(&s->request[k]);
        if (MPI_Test(&s->request[k], &one, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            s->request[k] = MPI_REQUEST_NULL;
            one = 1;
        }
        done &= one;
    }
    s->cancelled = true;
    return done != 0;
}

bool wf_mpi_stop_receives(struct endpoint *e, int64_t now)
{
    bool all = true;
    for (struct slot_slab *b = e->blocks; b != NULL; b = b->next)
        for (int i = 0; i < SLOTS_PER_SLAB; i++) {
            struct slot *s = &b->at[i];
            if (s->used && s->receives && !stop_slot(s))
                all = all && !wf_mpi_seems_alive(e, s->peer, now);
        }
    return all;
}

/* -- messages ------------------------------------------------------------------------------ */

/* Creates one MPI type of `n_segments` segments and `rest` bytes; the caller frees it. */
static int make_type(struct wf_mpi_segments p, MPI_Datatype *out)
{
    MPI_Datatype block = MPI_DATATYPE_NULL;
    int rc = MPI_Type_contiguous(WEFT_MPI_SEGMENT, MPI_BYTE, &block);
    if (rc != MPI_SUCCESS)
        return rc;
    int lengths[2] = {p.n_segments, p.rest};
    MPI_Aint at[2] = {0, (MPI_Aint)p.n_segments * WEFT_MPI_SEGMENT};
    MPI_Datatype types[2] = {block, MPI_BYTE};
    rc = MPI_Type_create_struct(2, lengths, at, types, out);
    if (rc == MPI_SUCCESS)
        rc = MPI_Type_commit(out);
    MPI_Type_free(&block);
    return rc;
}

static int start_typed(struct endpoint *e, struct slot *s, int count, MPI_Datatype type)
{
    int peer = (int)s->peer, tag = DATA_TAG + (int)s->channel;
    return s->receives ? MPI_Irecv(s->data, count, type, peer, tag, e->data, &s->request[1])
                       : MPI_Isend(s->data, count, type, peer, tag, e->data, &s->request[1]);
}

/* Starts the send or receive of the payload of s->head.bytes bytes. */
static int start_payload(struct endpoint *e, struct slot *s)
{
    struct wf_mpi_segments p;
    if (s->head.bytes == 0)
        return MPI_SUCCESS;
    if (!wf_mpi_split(s->head.bytes, WEFT_MPI_LIMIT, WEFT_MPI_SEGMENT, &p))
        return MPI_ERR_COUNT;
    if (p.n_segments == 0)
        return start_typed(e, s, p.rest, MPI_BYTE);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int rc = make_type(p, &type);
    if (rc == MPI_SUCCESS)
        rc = start_typed(e, s, 1, type);
    if (type != MPI_DATATYPE_NULL)
        MPI_Type_free(&type); /* MPI keeps the type until the message is complete */
    return rc;
}

static int start_head(struct endpoint *e, struct slot *s)
{
    int peer = (int)s->peer, tag = HEAD_TAG + (int)s->channel;
    return s->receives ? MPI_Irecv(&s->head, sizeof s->head, MPI_BYTE, peer, tag, e->data,
                                   &s->request[0])
                       : MPI_Isend(&s->head, sizeof s->head, MPI_BYTE, peer, tag, e->data,
                                   &s->request[0]);
}

/* Records that a payload is in flight, so that a wait spins for the expected time of the
 * transfer. */
static void expect_bytes(struct endpoint *e, uint64_t bytes)
{
    if (bytes < MOVING_BYTES)
        return;
    int64_t ns =
        bytes < (uint64_t)YIELD_NS * BYTES_PER_NS ? (int64_t)bytes / BYTES_PER_NS : YIELD_NS;
    e->payload_ns = wf_clock_ns();
    e->spin_until_ns = e->payload_ns + ns;
}

static enum weft_status mpi_send(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *e = self;
    struct slot *s = NULL;
    if (e->gave_up)
        return first_error(e, err);
    WEFT_TRY(take_slot(e, m, &s, err));
    s->head = m->head;
    int rc = start_head(e, s);
    if (rc == MPI_SUCCESS)
        rc = start_payload(e, s);
    expect_bytes(e, m->bytes);
    return rc == MPI_SUCCESS ? WEFT_OK : wf_mpi_fail(e, "cannot send to", m->peer, rc, err);
}

static struct slot_queue *queue_of(struct endpoint *e, uint32_t peer, uint32_t channel)
{
    return &e->waiting[(size_t)peer * WEFT_N_CHANNELS + channel];
}

static enum weft_status mpi_post(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *e = self;
    struct slot *s = NULL;
    if (e->gave_up)
        return first_error(e, err);
    WEFT_TRY(take_slot(e, m, &s, err));
    int rc = start_head(e, s);
    if (rc != MPI_SUCCESS)
        return wf_mpi_fail(e, "cannot receive from", m->peer, rc, err);
    struct slot_queue *q = queue_of(e, m->peer, m->channel);
    s->next = NULL;
    s->waits = true;
    if (q->first == NULL)
        q->first = s;
    else
        q->last->next = s;
    q->last = s;
    e->n_waiting++;
    return WEFT_OK;
}

/* Starts the payload of the first receive of each queue, because payloads must be received in
 * sending order.  A payload that is too large is not received; the check of its header reports
 * the error. */
static void advance_queue(struct endpoint *e, struct slot_queue *q)
{
    while (q->first != NULL) {
        struct slot *s = q->first;
        int done = 0;
        s->rc = MPI_Test(&s->request[0], &done, MPI_STATUS_IGNORE);
        if (s->rc == MPI_SUCCESS && !done)
            return;
        if (s->rc == MPI_SUCCESS && s->head.bytes <= s->bytes) {
            s->rc = start_payload(e, s);
            expect_bytes(e, s->head.bytes);
        }
        q->first = s->next;
        s->waits = false;
        e->n_waiting--;
    }
}

void wf_mpi_advance(struct endpoint *e)
{
    size_t n = (size_t)e->n_ranks * WEFT_N_CHANNELS;
    for (size_t i = 0; e->n_waiting > 0 && i < n; i++)
        advance_queue(e, &e->waiting[i]);
}

static enum weft_status test_send(struct endpoint *e, struct weft_message *m, struct slot *s,
                                  struct weft_error *err)
{
    MPI_Status unused[2];
    int done = 0;
    int rc = MPI_Testall(2, s->request, &done, unused);
    if (rc != MPI_SUCCESS)
        return wf_mpi_fail(e, "cannot send to", m->peer, rc, err);
    if (!done)
        return WEFT_OK;
    m->done = true;
    return_slot(e, s);
    return WEFT_OK;
}

static enum weft_status check_count(struct endpoint *e, const struct slot *s,
                                    const MPI_Status *status, struct weft_error *err)
{
    MPI_Count came = 0;
    MPI_Get_elements_x(status, MPI_BYTE, &came);
    if ((uint64_t)came == s->head.bytes)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_PEER,
                     "rank %u: a message from rank %u on channel %u has %" PRIu64
                     " bytes, but its header declares %" PRIu64,
                     e->rank, s->peer, s->channel, (uint64_t)came, s->head.bytes);
}

static enum weft_status test_receive(struct endpoint *e, struct weft_message *m, struct slot *s,
                                     struct weft_error *err)
{
    MPI_Status status;
    int done = 1;
    if (s->waits)
        advance_queue(e, queue_of(e, s->peer, s->channel));
    if (s->waits)
        return WEFT_OK;
    if (s->rc == MPI_SUCCESS && s->request[1] != MPI_REQUEST_NULL) {
        s->rc = MPI_Test(&s->request[1], &done, &status);
        if (s->rc == MPI_SUCCESS && done)
            WEFT_TRY(check_count(e, s, &status, err));
    }
    if (s->rc != MPI_SUCCESS)
        return wf_mpi_fail(e, "cannot receive from", m->peer, s->rc, err);
    if (!done)
        return WEFT_OK;
    m->received = s->head;
    m->done = true;
    return_slot(e, s);
    return WEFT_OK;
}

static enum weft_status mpi_test(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *e = self;
    if (e->gave_up) /* the caller checks for an abort next */
        return WEFT_OK;
    wf_mpi_poll(e, wf_clock_ns());
    if (e->failed) /* a receive that starts now could read the memory of a failed rank */
        return WEFT_OK;
    struct slot *s = (struct slot *)(uintptr_t)m->request[0];
    return m->posted ? test_receive(e, m, s, err) : test_send(e, m, s, err);
}

static void mpi_release(void *self, struct weft_message *m)
{
    (void)self;
    (void)m;
}

static void mpi_rest(void *self, uint64_t round, int64_t ns)
{
    struct endpoint *e = self;
    int64_t now = wf_clock_ns();
    wf_mpi_poll(e, now);
    if (round == 0)
        e->rest_begin_ns = now;
    if (now - e->rest_begin_ns < SPIN_NS || now < e->spin_until_ns)
        return;
    if (now - e->rest_begin_ns < YIELD_NS || now - e->payload_ns < MOVING_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, ns < NAP_NS ? ns : NAP_NS}, NULL);
}

/* -- opening and closing ------------------------------------------------------------------- */

static void free_endpoint(struct endpoint *e)
{
    while (e->blocks != NULL) {
        struct slot_slab *b = e->blocks;
        e->blocks = b->next;
        free(b);
    }
    free(e->waiting);
    free(e);
}

/* Completes the messages for which no caller waited. */
static void drop_messages(struct endpoint *e)
{
    wf_mpi_stop_receives(e, wf_clock_ns());
    for (struct slot_slab *b = e->blocks; b != NULL; b = b->next)
        for (int i = 0; i < SLOTS_PER_SLAB; i++)
            for (int k = 0; b->at[i].used && k < 2; k++)
                if (b->at[i].request[k] != MPI_REQUEST_NULL)
                    MPI_Request_free(&b->at[i].request[k]);
}

/* Closes the endpoint.  After an error all memory remains allocated until exit(); see
 * control.c. */
static void mpi_close(void *self)
{
    struct endpoint *e = self;
    if (e->gave_up)
        return;
    drop_messages(e);
    wf_mpi_control_close(e);
    if (e->started_mpi) {
        MPI_Finalize();
    } else {
        MPI_Comm_free(&e->data);
        MPI_Comm_free(&e->control);
    }
    free_endpoint(e);
}

/* Sends the bytes of the lower rank to the higher rank and back. */
static void mpi_plain_round(void *self, uint32_t peer, void *data, size_t bytes)
{
    struct endpoint *e = self;
    enum { TAG = 32767 };
    for (int turn = 0; turn < 2; turn++)
        if ((e->rank < peer) == (turn == 0))
            MPI_Send(data, (int)bytes, MPI_BYTE, (int)peer, TAG, e->data);
        else
            MPI_Recv(data, (int)bytes, MPI_BYTE, (int)peer, TAG, e->data, MPI_STATUS_IGNORE);
}

static void mpi_set_timeout(void *self, int64_t ns)
{
    struct endpoint *e = self;
    e->timeout_ns = ns;
}

static const struct weft_transport mpi_transport = {
    .abi = WEFT_TRANSPORT_ABI,
    .name = "mpi",
    .by_reference = false,
    .send = mpi_send,
    .post = mpi_post,
    .test = mpi_test,
    .release = mpi_release,
    .rest = mpi_rest,
    .publish = wf_mpi_publish,
    .inspect = wf_mpi_inspect,
    .abort = wf_mpi_abort,
    .aborted = wf_mpi_aborted,
    .close = mpi_close,
    .set_timeout = mpi_set_timeout,
    .plain_round = mpi_plain_round,
};

static enum weft_status start_mpi(bool *started, struct weft_error *err)
{
    int before = 0, after = 0, provided = 0;
    MPI_Initialized(&before);
    MPI_Finalized(&after);
    if (after)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "MPI was finalized in this process already; it can be used only once");
    if (before)
        MPI_Query_thread(&provided);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return WEFT_FAIL(err, WEFT_PEER, "MPI cannot be started");
    if (provided < MPI_THREAD_FUNNELED)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "this MPI does not support threads; weft needs at least "
                         "MPI_THREAD_FUNNELED");
    *started = !before;
    if (*started)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return WEFT_OK;
}

static enum weft_status check_tags(MPI_Comm comm, struct weft_error *err)
{
    int *most = NULL, there = 0;
    MPI_Comm_get_attr(comm, MPI_TAG_UB, &most, &there);
    if (there && *most < LAST_TAG)
        return WEFT_FAIL(err, WEFT_USAGE, "this MPI supports tags up to %d; weft needs %d",
                         *most, LAST_TAG);
    return WEFT_OK;
}

/* Creates separate communicators that carry only weft's messages and return errors instead of
 * aborting. */
static enum weft_status make_comms(struct endpoint *e, struct weft_error *err)
{
    MPI_Comm *comms[] = {&e->data, &e->control};
    for (size_t i = 0; i < WEFT_LEN(comms); i++) {
        int rc = MPI_Comm_dup(MPI_COMM_WORLD, comms[i]);
        if (rc == MPI_SUCCESS)
            rc = MPI_Comm_set_errhandler(*comms[i], MPI_ERRORS_RETURN);
        if (rc != MPI_SUCCESS)
            return wf_mpi_fail(e, "cannot set up communication with", 0, rc, err);
    }
    return check_tags(e->data, err);
}

static enum weft_status share_run_id(struct endpoint *e, struct weft_error *err)
{
    uint64_t run = 0;
    if (e->rank == 0 && getrandom(&run, sizeof run, 0) != (ssize_t)sizeof run)
        run = (uint64_t)wf_clock_ns();
    int rc = MPI_Bcast(&run, sizeof run, MPI_BYTE, 0, e->data);
    if (rc != MPI_SUCCESS)
        return wf_mpi_fail(e, "cannot receive from", 0, rc, err);
    e->run = run;
    return WEFT_OK;
}

/* Opens the endpoint.  If this fails, MPI is not finalized, because MPI_Finalize would wait for
 * the other ranks; the process should exit. */
static enum weft_status mpi_open(struct wf_endpoint *out, struct weft_error *err)
{
    struct endpoint *e = calloc(1, sizeof *e);
    if (e == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for this rank");

    enum weft_status st = start_mpi(&e->started_mpi, err);
    if (st != WEFT_OK) {
        free_endpoint(e);
        return st;
    }

    int rank = 0, n = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    e->rank = (uint32_t)rank;
    e->n_ranks = (uint32_t)n;
    e->timeout_ns = INT64_MAX / 2;

    WEFT_TRY(make_comms(e, err));
    WEFT_TRY(share_run_id(e, err));
    WEFT_TRY(more_slots(e, err));
    e->waiting = calloc((size_t)n * WEFT_N_CHANNELS, sizeof *e->waiting);
    if (e->waiting == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the channels of %d ranks", n);
    WEFT_TRY(wf_mpi_control_open(e, err));

    *out = (struct wf_endpoint){&mpi_transport, e, e->rank, e->n_ranks, e->run};
    return WEFT_OK;
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

#if defined(OMPI_MAJOR_VERSION)
#define LIBRARY                                                                                \
    "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(                \
        OMPI_RELEASE_VERSION)
#elif defined(MPICH_VERSION)
#define LIBRARY "MPICH " MPICH_VERSION
#else
#define LIBRARY "an MPI of version " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#endif

extern const struct wf_transport_module wf_transport_module;
__attribute__((visibility("default"))) const struct wf_transport_module wf_transport_module = {
    .abi = WEFT_TRANSPORT_ABI,
    .library = LIBRARY,
    .open = mpi_open,
};
