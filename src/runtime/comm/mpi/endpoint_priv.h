/* A process's end under MPI, as the two halves of the module see it: module.c moves messages,
 * control.c moves heartbeats and aborts. */
#ifndef RUNTIME_COMM_MPI_ENDPOINT_PRIV_H
#define RUNTIME_COMM_MPI_ENDPOINT_PRIV_H

#include <mpi.h>

#include "runtime/comm/transport.h"

/* A message that is under way.  What MPI and this module need of it is here: the caller's struct
 * may be gone when a failed rank takes back its receives. */
struct slot {
    MPI_Request request[2]; /* header, payload */
    struct weft_message_header head;
    void *data;
    size_t bytes; /* there is room for */
    uint32_t peer, channel;
    int rc;            /* what MPI said when the payload's receive was started */
    struct slot *next; /* free ones, or receives that wait for their header */
    bool used, receives, cancelled;
    bool waits; /* for its header */
};

struct slot_queue {
    struct slot *first, *last;
};

enum { SLOTS_PER_SLAB = 64 };

struct slot_slab {
    struct slot_slab *next; /* owned */
    struct slot at[SLOTS_PER_SLAB];
};

/* What goes over the control communicator. */
enum note_kind { NOTE_HEARTBEAT, NOTE_ABORT, NOTE_ACK, NOTE_GONE, N_NOTES };

struct note {
    uint32_t kind;
    uint32_t waits_for;
    uint64_t step, doing;
    uint64_t moved; /* low 32 bits */
    /* Only an abort has the rest. */
    int32_t status, line;
    char msg[sizeof((struct weft_error *)0)->msg];
};

struct peer {
    struct note in, out;
    MPI_Request sent;             /* of `out` */
    MPI_Request closing[N_NOTES]; /* abort, ack, gone: each is sent once */
    struct weft_activity activity;
    int64_t heard_ns;
    bool acked, gone;
};

struct endpoint {
    struct weft_comm base; /* first: ops get a pointer to it */
    MPI_Comm data, control;
    bool started_mpi;
    struct slot_slab *blocks; /* owned */
    struct slot *free_slots;
    struct slot_queue
        *waiting; /* owned: (n_ranks, WEFT_N_CHANNELS), each in order of the posts */
    size_t n_waiting;
    int64_t rest_begin_ns;
    int64_t payload_ns,
        spin_until_ns; /* when a long payload began to move; how long it may take */
    /* Control. */
    struct peer *peers;     /* owned: (n_ranks) */
    MPI_Request *listening; /* owned: (n_ranks), NULL requests for this rank itself */
    MPI_Status *heard;      /* owned: (n_ranks) */
    int *heard_from;        /* owned: (n_ranks) */
    int64_t polled_ns, published_ns;
    uint32_t published_peer;
    /* The first error, of the lowest rank among those that failed at the same time. */
    bool failed, gave_up;
    uint32_t failed_rank;
    struct weft_error error;
    struct note closing[N_NOTES]; /* what is sent: it must outlive the sends */
};

/* -- module.c -- */

/* Fills err with what MPI says about `code`. */
enum weft_status wf_mpi_fail(const struct endpoint *e, const char *what, uint32_t peer,
                             int code, struct weft_error *err);

/* Starts the payloads of all receives whose header has come. */
void wf_mpi_advance(struct endpoint *e);

/* Takes back all receives, so that MPI will not write into the caller's memory again; true when
 * that holds.  Some may be half received, and have to be waited for: call it again.  The rest of
 * what comes from a rank that fell silent is not waited for. */
bool wf_mpi_stop_receives(struct endpoint *e, int64_t now);

/* -- control.c -- */

/* All Local.  Only abort, aborted (once there was one) and close wait, and for a limited time. */
enum weft_status wf_mpi_control_open(struct endpoint *e, struct weft_error *err);
void wf_mpi_control_close(struct endpoint *e);
/* Reads all signs that have come, and gets messages on, but at most once a millisecond. */
void wf_mpi_poll(struct endpoint *e, int64_t now);
bool wf_mpi_seems_alive(const struct endpoint *e, uint32_t rank, int64_t now);
void wf_mpi_publish(struct weft_comm *comm, const struct weft_activity *activity, bool now);
void wf_mpi_inspect(struct weft_comm *comm, uint32_t rank, struct weft_activity *activity,
                    int64_t *age_ns);
void wf_mpi_abort(struct weft_comm *comm, const struct weft_error *err);
bool wf_mpi_aborted(struct weft_comm *comm, struct weft_error *err);

#endif
