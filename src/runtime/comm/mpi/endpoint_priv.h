/* The endpoint of a process under MPI, shared by the two halves of the module: module.c moves
 * messages, control.c moves heartbeats and aborts. */
#ifndef RUNTIME_COMM_MPI_ENDPOINT_PRIV_H
#define RUNTIME_COMM_MPI_ENDPOINT_PRIV_H

#include <mpi.h>

#include "runtime/comm/transport.h"

/* A message in flight.  The slot contains all data that MPI and this module need, because the
 * caller's struct may no longer exist when a failed rank cancels its receives. */
struct slot {
    MPI_Request request[2]; /* requests of the header and of the payload */
    struct weft_message_header head;
    void *data;
    size_t bytes; /* capacity of the receive */
    uint32_t peer, channel;
    int rc;            /* MPI's return code for the start of the payload's receive */
    struct slot *next; /* next free slot, or next receive without a header */
    bool used, receives, cancelled;
    bool waits; /* the header has not arrived */
};

struct slot_queue {
    struct slot *first, *last;
};

enum { SLOTS_PER_SLAB = 64 };

struct slot_slab {
    struct slot_slab *next; /* owned */
    struct slot at[SLOTS_PER_SLAB];
};

/* A note on the control communicator. */
enum note_kind { NOTE_HEARTBEAT, NOTE_ABORT, NOTE_ACK, NOTE_GONE, N_NOTES };

struct note {
    uint32_t kind;
    uint32_t waits_for;
    uint64_t step, doing;
    uint64_t moved; /* weft_activity.moved, in the low 32 bits */
    /* The remaining fields are used by an abort only. */
    int32_t status, line;
    char msg[sizeof((struct weft_error *)0)->msg];
};

struct peer {
    struct note in, out;
    MPI_Request sent; /* request of the send of `out` */
    /* Requests of the notes abort, ack and gone, each of which is sent once. */
    MPI_Request closing[N_NOTES];
    struct weft_activity activity;
    int64_t heard_ns;
    bool acked, gone;
};

struct endpoint {
    uint32_t rank, n_ranks;
    uint64_t run;
    int64_t timeout_ns;
    MPI_Comm data, control;
    bool started_mpi;
    struct slot_slab *blocks; /* owned */
    struct slot *free_slots;
    /* Owned: (n_ranks, WEFT_N_CHANNELS), queues of receives in the order in which they
     * were posted. */
    struct slot_queue *waiting;
    size_t n_waiting;
    int64_t rest_begin_ns;
    int64_t payload_ns,
        spin_until_ns; /* when a long payload started, and until when a wait spins for it */
    /* Control. */
    struct peer *peers;     /* owned: (n_ranks) */
    MPI_Request *listening; /* owned: (n_ranks), NULL requests for this rank itself */
    MPI_Status *heard;      /* owned: (n_ranks) */
    int *heard_from;        /* owned: (n_ranks) */
    int64_t polled_ns, published_ns;
    uint32_t published_peer;
    /* The first error.  If several ranks fail at the same time, the error of the lowest rank
     * counts. */
    bool failed, gave_up;
    uint32_t failed_rank;
    struct weft_error error;
    /* abort, ack and gone notes, which must stay valid until their sends are complete. */
    struct note closing[N_NOTES];
};

/* -- module.c -- */

/* Fills err with MPI's description of `code`. */
enum weft_status wf_mpi_fail(const struct endpoint *e, const char *what, uint32_t peer,
                             int code, struct weft_error *err);

/* Starts the receive of the payload for all receives whose header has arrived. */
void wf_mpi_advance(struct endpoint *e);

/* Cancels all receives, so that MPI no longer writes to the caller's memory; returns true once
 * all receives are cancelled or complete.  If it returns false, some receives are partly
 * complete, and the caller must call it again.  It does not wait for the rest of a message from
 * a silent rank. */
bool wf_mpi_stop_receives(struct endpoint *e, int64_t now);

/* -- control.c -- */

/* All functions are Local.  Only abort, aborted (after an abort) and close wait, with a time
 * limit.  The functions with `self` implement those of weft/transport.h. */

/* Allocates the records of the peers and posts the receives of their notes. */
enum weft_status wf_mpi_control_open(struct endpoint *e, struct weft_error *err);
/* Announces the exit of this rank, cancels the receives of notes, and frees the records. */
void wf_mpi_control_close(struct endpoint *e);
/* Reads all pending notes and, unless a rank has failed, makes progress with messages, at most
 * once per millisecond. */
void wf_mpi_poll(struct endpoint *e, int64_t now);
/* Returns true if a rank has sent a note within half of the time-out. */
bool wf_mpi_seems_alive(const struct endpoint *e, uint32_t rank, int64_t now);
void wf_mpi_publish(void *self, const struct weft_activity *activity);
void wf_mpi_inspect(void *self, uint32_t rank, struct weft_activity *activity, int64_t *age_ns);
void wf_mpi_abort(void *self, const struct weft_error *err);
bool wf_mpi_aborted(void *self, struct weft_error *err);

#endif
