/* The function table that every transport implements, on which weft/comm.h is built.
 *
 * comm.c contains the functions that all transports share: message headers and their check,
 * sequence numbers, deadlines, detection of lost ranks, collectives.  A transport moves bytes,
 * publishes the activity of ranks, and forwards an abort.  The MPI transports are modules that
 * are loaded at run time; they use only this header of weft. */
#ifndef RUNTIME_COMM_TRANSPORT_H
#define RUNTIME_COMM_TRANSPORT_H

#include "weft/comm.h"

/* Version of this header; a module must be built with the same version. */
enum { WF_TRANSPORT_VERSION = 2 };

#define WF_NO_PEER UINT32_MAX

struct wf_comm_ops {
    const char *name;
    bool by_reference;

    /* All functions are Local.  The caller sets peer, channel, bytes and data of `m`, and for a
     * send also m->head. */
    enum weft_status (*send)(struct weft_comm *comm, struct weft_message *m,
                             struct weft_error *err);
    enum weft_status (*post)(struct weft_comm *comm, struct weft_message *m,
                             struct weft_error *err);
    /* Makes progress and sets m->done if the message is complete.  A completed receive has set
     * m->received and m->data. */
    enum weft_status (*test)(struct weft_comm *comm, struct weft_message *m,
                             struct weft_error *err);
    void (*release)(struct weft_comm *comm, struct weft_message *m);
    /* Waits for at most `ns` until something may have changed.  `round` counts the calls of one
     * wait: the first calls should not sleep. */
    void (*rest)(struct weft_comm *comm, uint64_t round, int64_t ns);
    /* publish() sends the heartbeat of this rank; a transport may delay it unless `now` is
     * set.  inspect() reads the latest heartbeat of another rank and the time in ns since it
     * arrived. */
    void (*publish)(struct weft_comm *comm, const struct weft_activity *activity, bool now);
    void (*inspect)(struct weft_comm *comm, uint32_t rank, struct weft_activity *activity,
                    int64_t *age_ns);
    /* All ranks report the error of the first abort.  aborted() is called often and must be
     * cheap. */
    void (*abort)(struct weft_comm *comm, const struct weft_error *err);
    bool (*aborted)(struct weft_comm *comm, struct weft_error *err);
    /* Sends `bytes` bytes to a peer and back with the transport's own blocking calls, as a
     * baseline for benchmarks.  NULL if the transport has no such calls. */
    void (*plain_round)(struct weft_comm *comm, uint32_t peer, void *data, size_t bytes);
    /* Closes the endpoint and frees comm.  All ranks must close their endpoints.  After an
     * abort, close() does not wait for other ranks. */
    void (*close)(struct weft_comm *comm);
};

/* The part of an endpoint that comm.c manages; a transport's own struct starts with it. */
struct weft_comm {
    const struct wf_comm_ops *ops;
    uint32_t rank, n_ranks;
    uint64_t run;
    int64_t timeout_ns;
    struct weft_activity activity;
    int64_t heartbeat_ns; /* time of the last weft_comm_heartbeat() that was published */
    /* (n_ranks, WEFT_N_CHANNELS): number of messages sent and received so far */
    uint64_t *sent, *received; /* owned by comm.c */
    /* Owned by comm.c: (n_ranks), allocated once so that a step allocates nothing. */
    struct weft_message *gathered;
    weft_describe_fn *describe;
    void *describe_arg;
    weft_progress_fn *progress;
    void *progress_arg;
    bool in_progress;
    weft_hang_fn *on_hang;
    void *hang_arg;
    struct wf_flight_file *flight; /* owned by comm.c; NULL: this rank has no flight record */
};

/* The symbol `wf_transport_module` that a module exports. */
struct wf_transport_module {
    uint32_t version; /* WF_TRANSPORT_VERSION */
    /* Sizes of struct weft_comm and struct weft_message, which weft and the module share. */
    uint32_t comm_bytes, message_bytes;
    /* Name and version of the MPI library, such as "Open MPI v4.1.4, ...". */
    const char *library;
    /* Starts MPI and creates the endpoint of this process, with ops, rank, n_ranks and run set
     * (run: a random number that rank 0 broadcasts).  Collective. */
    enum weft_status (*open)(struct weft_comm **out, struct weft_error *err);
};

#define WF_TRANSPORT_SYMBOL "wf_transport_module"

/* Initializes the fields that comm.c manages, for an endpoint whose ops, rank, n_ranks and run
 * are set. */
enum weft_status wf_comm_base_init(struct weft_comm *comm, struct weft_error *err);
/* Frees the fields that comm.c manages. */
void wf_comm_base_release(struct weft_comm *comm);

#endif
