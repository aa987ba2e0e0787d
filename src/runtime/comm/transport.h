/* What a transport implements: the table behind weft/comm.h.
 *
 * comm.c has what is the same for all: headers and their check, sequences, deadlines, verdicts,
 * gathering.  A transport moves bytes, tells what ranks are at, and passes on an abort.  The MPI
 * transports are modules that are loaded at run time; they see this header and nothing else of
 * weft. */
#ifndef RUNTIME_COMM_TRANSPORT_H
#define RUNTIME_COMM_TRANSPORT_H

#include "weft/comm.h"

enum { WF_TRANSPORT_VERSION = 2 }; /* of this header: a module must have the same */

#define WF_NO_PEER UINT32_MAX

struct wf_comm_ops {
    const char *name;
    bool by_reference;

    /* All Local.  m->peer, channel, bytes, data are set, and for a send m->head, complete. */
    enum weft_status (*send)(struct weft_comm *comm, struct weft_message *m,
                             struct weft_error *err);
    enum weft_status (*post)(struct weft_comm *comm, struct weft_message *m,
                             struct weft_error *err);
    /* Makes progress and sets m->done.  A receive that is done has m->received and m->data. */
    enum weft_status (*test)(struct weft_comm *comm, struct weft_message *m,
                             struct weft_error *err);
    void (*release)(struct weft_comm *comm, struct weft_message *m);
    /* Lets time pass, for at most ns, until something may have changed.  `round` counts the
     * calls of one wait: the first should not sleep. */
    void (*rest)(struct weft_comm *comm, uint64_t round, int64_t ns);
    /* Heartbeats: own ones go out (a transport may hold them back for a while unless `now`),
     * others' are looked at.  age_ns: since the last sign that got here. */
    void (*publish)(struct weft_comm *comm, const struct weft_activity *activity, bool now);
    void (*inspect)(struct weft_comm *comm, uint32_t rank, struct weft_activity *activity,
                    int64_t *age_ns);
    /* The first abort wins.  aborted() is called often and must be cheap. */
    void (*abort)(struct weft_comm *comm, const struct weft_error *err);
    bool (*aborted)(struct weft_comm *comm, struct weft_error *err);
    /* One exchange of `bytes` between two ranks by the transport's own blocking calls, there and
     * back: what a benchmark compares with.  NULL: there is nothing plainer. */
    void (*plain_round)(struct weft_comm *comm, uint32_t peer, void *data, size_t bytes);
    /* All ranks close; after an abort without waiting for anyone.  Frees comm. */
    void (*close)(struct weft_comm *comm);
};

/* The part of a rank's end that comm.c keeps; a transport's own struct begins with it. */
struct weft_comm {
    const struct wf_comm_ops *ops;
    uint32_t rank, n_ranks;
    uint64_t run;
    int64_t timeout_ns;
    struct weft_activity activity;
    int64_t heartbeat_ns; /* when weft_comm_heartbeat() last said so */
    /* (n_ranks, WEFT_N_CHANNELS): messages so far */
    uint64_t *sent, *received; /* owned by comm.c */
    struct weft_message
        *gathered; /* owned by comm.c: (n_ranks), so that a step allocates nothing */
    weft_describe_fn *describe;
    void *describe_arg;
    weft_progress_fn *progress;
    void *progress_arg;
    bool in_progress;
    weft_hang_fn *on_hang;
    void *hang_arg;
    struct wf_flight_file *flight; /* owned by comm.c; NULL: nothing is recorded */
};

/* What a module exports as `wf_transport_module`. */
struct wf_transport_module {
    uint32_t version;                   /* WF_TRANSPORT_VERSION */
    uint32_t comm_bytes, message_bytes; /* sizeof what both sides must agree on */
    const char *library;                /* "Open MPI v4.1.4, ..." */
    /* Starts MPI and makes this process's end, with ops, rank, n_ranks and run set (run: one
     * random number that rank 0 gives to all).  Collective. */
    enum weft_status (*open)(struct weft_comm **out, struct weft_error *err);
};

#define WF_TRANSPORT_SYMBOL "wf_transport_module"

/* Fills in what comm.c keeps, for an end with ops, rank, n_ranks and run; release frees it. */
enum weft_status wf_comm_base_init(struct weft_comm *comm, struct weft_error *err);
void wf_comm_base_release(struct weft_comm *comm);

#endif
