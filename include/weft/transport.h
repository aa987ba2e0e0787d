/* Your own transport: the functions that move messages between ranks.
 *
 * weft/comm.h is built on a table of functions, struct weft_transport.  weft has two tables:
 * ranks as threads, and MPI.  A program that starts its ranks in another way fills in a table
 * and opens an endpoint with it:
 *
 *     static const struct weft_transport mine = {.abi = WEFT_TRANSPORT_ABI, ...};
 *     weft_comm_open(&mine, self, rank, n_ranks, run, &comm, &err);
 *     weft_comm_run(comm, fn, arg, &err);            runs fn on this rank, and closes comm
 *
 * Everything that uses a struct weft_comm then works: executors, reducers, training
 * steps.  weft checks headers, numbers messages, has deadlines, finds lost ranks, and
 * implements collectives.  A transport moves bytes in order, passes on heartbeats, and
 * passes on the first error.
 *
 * weft/conformance.h tests a transport.  examples/socket is a transport over Unix domain
 * sockets between processes.
 *
 * THREADS.  Each rank has one endpoint.  weft calls the functions of an endpoint from the
 * thread that uses the struct weft_comm, one at a time.  A transport needs locks only for state
 * that ranks share, and for threads that it starts itself.
 *
 * MESSAGES.  A record (struct weft_message) belongs to the caller.  It stays at its address
 * from send() or post() until `done` is set or until the endpoint has noticed an abort; the
 * transport does not access it later.  Exception: a transport by reference reads the record of
 * a send until the receiver has called release().  These fields concern a transport:
 *
 *     field            send                      receive
 *     peer, channel    in: the receiver          in: the sender
 *     data, bytes      in: the payload           in: a buffer and its size; out: data, if the
 *                                                payload is in other memory (by_reference)
 *     head             in: send it unchanged     in: not for the transport
 *     received         -                         out: the header that was sent
 *     posted           in: false                 in: true
 *     done             out: the memory of the    out: the payload has arrived
 *                      payload may be reused
 *     sender, next, request, released            for the transport; zero at first
 *
 * A message consists of `head` and of head.bytes bytes of payload, which may be none.  weft
 * compares `received` with `head` after `done`; a transport compares nothing.  If a payload is
 * larger than the buffer of its receive (head.bytes > bytes), the transport stores none of it,
 * sets `received` and `done`, and weft reports the error.
 *
 * ORDER.  The messages of one sender on one channel match the receives that the receiver posts
 * for them, both in their order.  Channels are independent: a message that nobody receives must
 * not delay messages on other channels.  There are WEFT_N_CHANNELS channels.  Peer and own rank
 * may be equal.  A send may complete before or after its receive is posted, but the caller must
 * not need to post it first to send more: any number of sends and receives may be pending.
 *
 * PROGRESS.  Only calls of the same endpoint need to make progress.  test() and rest() advance
 * all messages of the endpoint, in both directions, whatever message the caller waits for.
 *
 * HEARTBEATS.  publish() and inspect() carry the activity of every rank to every other rank.  A
 * rank that waits publishes every 20 ms; a rank that computes publishes at every action.  The
 * age of a heartbeat decides whether a rank is lost, so heartbeats must not wait behind large
 * messages.
 *
 * ABORTS.  abort() ends the work of all ranks.  The first error wins: it is what aborted()
 * returns on every rank, also if several ranks call abort() at the same time.  Once abort() has
 * returned, or aborted() has returned true, the caller frees its messages.  From then on no
 * rank may read or write them: the functions wait for that, with a limit if another rank may be
 * dead.  Later calls of send(), post() and test() do nothing; they return WEFT_OK or the first
 * error.  Ranks that are threads share memory, so there these functions wait for all ranks
 * without a limit, and call the function of on_hang().
 *
 * LOST RANKS.  A transport that notices the end of a peer, such as a closed connection, may
 * behave as if a rank had called abort(), with status WEFT_PEER and a message that names the
 * peer.  A transport that notices nothing is correct, too: weft reports the missing heartbeats.
 *
 * ERRORS.  A function that fails fills in err->status and err->msg, which must not be empty,
 * and returns the same status.  `err` is never NULL here.
 *
 * Unstable: the table changes together with WEFT_TRANSPORT_VERSION.
 */
#ifndef WEFT_TRANSPORT_H
#define WEFT_TRANSPORT_H

#include "weft/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of struct weft_transport and of the rules above. */
enum { WEFT_TRANSPORT_VERSION = 1 };

/* No rank, as in weft_activity.waits_for. */
#define WEFT_NO_PEER UINT32_MAX

/* What a transport was compiled with.  weft_comm_open() refuses a table whose values differ
 * from those of the library. */
struct weft_transport_abi {
    uint32_t version;       /* WEFT_TRANSPORT_VERSION */
    uint32_t table_bytes;   /* sizeof(struct weft_transport) */
    uint32_t message_bytes; /* sizeof(struct weft_message) */
    uint32_t error_bytes;   /* sizeof(struct weft_error) */
};

/* Initializes the first member of a table. */
#define WEFT_TRANSPORT_ABI                                                                     \
    {                                                                                          \
        WEFT_TRANSPORT_VERSION, sizeof(struct weft_transport), sizeof(struct weft_message),    \
            sizeof(struct weft_error)                                                          \
    }

/* The functions of a transport.  `self` is the pointer that was passed to weft_comm_open().  A
 * function may be NULL only if its comment permits it.  No function waits unless its comment
 * permits it.  All functions are Local. */
struct weft_transport {
    /* The first two members keep their place in every version. */
    struct weft_transport_abi abi; /* WEFT_TRANSPORT_ABI */
    const char *name;              /* of weft_comm_name() and of errors */

    /* A receive returns the memory of the sender, which both ranks then share.  All ranks of
     * such a transport are threads of one process. */
    bool by_reference;

    /* Starts to send m->head and the payload. */
    enum weft_status (*send)(void *self, struct weft_message *m, struct weft_error *err);

    /* Posts a receive. */
    enum weft_status (*post)(void *self, struct weft_message *m, struct weft_error *err);

    /* Makes progress with all messages, and sets m->done if m is complete.  It may set `done`
     * of other messages as well.  It is called often, also by ranks that do not wait. */
    enum weft_status (*test)(void *self, struct weft_message *m, struct weft_error *err);

    /* Ends the use of the data of a received message.  By reference, the send is complete from
     * then on.  Otherwise the data are in the buffer of the receiver, and there is nothing to
     * do. */
    void (*release)(void *self, struct weft_message *m);

    /* Waits for at most `ns` ns until a message, a heartbeat or an abort may have arrived.
     * `round` counts the calls within one wait from 0: the first calls should not sleep for
     * long. */
    void (*rest)(void *self, uint64_t round, int64_t ns);

    /* Sends the activity of this rank to all others as a heartbeat.  The transport may drop
     * heartbeats, except the first one after a sixteenth of the time-out; it should send a
     * change of waits_for within 20 ms. */
    void (*publish)(void *self, const struct weft_activity *activity);

    /* Reads the latest heartbeat of another rank, and the time in ns since it arrived;
     * before the first heartbeat, since the endpoint was opened.  Pending heartbeats
     * are read first. */
    void (*inspect)(void *self, uint32_t rank, struct weft_activity *activity, int64_t *age_ns);

    /* Reports an error to all ranks, unless there was an error before.  May wait: see ABORTS
     * above. */
    void (*abort)(void *self, const struct weft_error *err);

    /* Returns false if there was no abort.  Otherwise sets *err to the first error and returns
     * true.  It is called often and must be cheap, but the call that returns true for the first
     * time may wait: see ABORTS above. */
    bool (*aborted)(void *self, struct weft_error *err);

    /* Closes the endpoint and frees `self`.  After success it is called when this rank neither
     * sends nor receives any more, and it may wait for other ranks, which all close their
     * endpoints; messages that a rank has sent still arrive.  After an abort it does not
     * wait. */
    void (*close)(void *self);

    /* The remaining functions may be NULL. */

    /* Receives the time-out: when the endpoint is opened, and whenever it changes. */
    void (*set_timeout)(void *self, int64_t ns);

    /* Receives the function of weft_comm_on_hang().  Transports whose ranks share memory call
     * it if another rank does not notice an abort within the time-out. */
    void (*on_hang)(void *self, weft_hang_fn *on_hang, void *arg);

    /* Sends `bytes` bytes to a peer and back with blocking calls of the system below, as a
     * baseline for benchmarks. */
    void (*plain_round)(void *self, uint32_t peer, void *data, size_t bytes);
};

/* Opens an endpoint over a table.  The table is copied.  `self` belongs to the endpoint from
 * now on if the call succeeds.  All ranks pass the same n_ranks and the same `run`, which
 * should be random: messages of another run are rejected.  Returns WEFT_USAGE if the table was
 * compiled with another version of this header, if a function is missing, or if rank >=
 * n_ranks.  The caller frees *out with weft_comm_close() or weft_comm_run().  Local. */
WEFT_API enum weft_status weft_comm_open(const struct weft_transport *t, void *self,
                                         uint32_t rank, uint32_t n_ranks, uint64_t run,
                                         struct weft_comm **out, struct weft_error *err);

/* Closes an endpoint.  NULL is allowed.  All ranks must close their endpoints; a rank that has
 * failed calls weft_comm_abort() first. */
WEFT_API void weft_comm_close(struct weft_comm *comm);

/* Runs fn as the whole program of this rank, waits until all ranks have finished, and closes
 * the endpoint.  If fn fails on any rank, all ranks return the first error.  A function that
 * starts the ranks of a transport calls this function on each of them.  Collective. */
WEFT_API enum weft_status weft_comm_run(struct weft_comm *comm, weft_rank_fn *fn, void *arg,
                                        struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
