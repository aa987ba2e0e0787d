/* The endpoint behind weft/comm.h, and the modules that contain transports.
 *
 * comm.c contains the functions that all transports share: message headers and their check,
 * sequence numbers, deadlines, detection of lost ranks, collectives.  A transport
 * (weft/transport.h) moves bytes, publishes the activity of ranks, and forwards an abort.  The
 * MPI transports are modules that are loaded at run time; they use only this header of weft. */
#ifndef RUNTIME_COMM_TRANSPORT_H
#define RUNTIME_COMM_TRANSPORT_H

#include "weft/transport.h"

/* The endpoint of a rank, which comm.c manages. */
struct weft_comm {
    struct weft_transport ops; /* a copy of the caller's table */
    void *self;                /* owned by the transport: its first argument */
    uint32_t rank, n_ranks;
    uint64_t run;
    int64_t timeout_ns;
    struct weft_activity activity;
    int64_t heartbeat_ns; /* time of the last weft_comm_heartbeat() that was published */
    /* Owned: (n_ranks, WEFT_N_CHANNELS), number of messages sent and received so far. */
    uint64_t *sent, *received;
    /* Owned: (n_ranks), allocated once so that a step allocates nothing. */
    struct weft_message *gathered;
    weft_describe_fn *describe;
    void *describe_arg;
    weft_progress_fn *progress;
    void *progress_arg;
    bool in_progress;
    struct wf_flight_file *flight; /* owned; NULL: this rank has no flight record */
    size_t n_loans;                /* see runtime/comm/ownership.h */
    struct wf_disposal *disposals; /* owned: the list of objects that are freed at the end */
};

/* The arguments of weft_comm_open(). */
struct wf_endpoint {
    const struct weft_transport *transport; /* borrowed */
    void *self;                             /* owned until it is passed on */
    uint32_t rank, n_ranks;
    uint64_t run;
};

/* The symbol `wf_transport_module` that a module exports. */
struct wf_transport_module {
    struct weft_transport_abi abi;
    /* Name and version of the MPI library, such as "Open MPI v4.1.4, ...". */
    const char *library;
    /* Starts MPI and creates the endpoint of this process (run: a random number that rank 0
     * broadcasts).  Collective. */
    enum weft_status (*open)(struct wf_endpoint *out, struct weft_error *err);
};

#define WF_TRANSPORT_SYMBOL "wf_transport_module"

#endif
