/* Ranks that exchange messages: threads of one process, or processes under MPI.
 *
 * A rank has one `struct weft_comm` and uses it from one thread.  Messages between two ranks go
 * through numbered channels; on each channel, in each direction, they arrive in the order they
 * were sent, and every one says what it is: the receiver states what it expects, and anything
 * else is an error that names both.
 *
 *     struct weft_message out = {.peer = 1, .channel = 0, .data = x, .bytes = n};
 *     weft_comm_send(comm, &out, &err);                  returns at once
 *     struct weft_message in = {.peer = 1, .channel = 0, .data = room, .bytes = n};
 *     weft_comm_post(comm, &in, &err);                   returns at once
 *     weft_comm_wait(comm, &in, &err);                   until it is there
 *     use(in.data);                                      which may be the sender's own memory
 *     weft_comm_release(comm, &in);                      the sender may use it again
 *     weft_comm_wait(comm, &out, &err);                  until it was released
 *
 * No wait is for ever: a peer that gives no heartbeat for the timeout is named, and every rank
 * that waits for it, directly or through others, ends with the same error.  The first error wins:
 * weft_comm_abort() reaches all ranks.
 *
 * Every function says Local (one rank calls it) or Collective (all ranks do, in the same order).
 */
#ifndef WEFT_COMM_H
#define WEFT_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_comm;

/* A program has channels WEFT_USER_CHANNEL .. WEFT_GROUP_CHANNEL - 1; the others are weft's own. */
enum { WEFT_USER_CHANNEL = 8, WEFT_GROUP_CHANNEL = 16, WEFT_N_CHANNELS = 256 };

/* What a message is.  The first four are the caller's to choose; both ends must say the same. */
struct weft_message_header {
    uint32_t kind;
    uint32_t stage, micro, part;
    uint64_t step;
    uint64_t bytes;
    /* Filled in and checked by weft. */
    uint64_t run;      /* of this run: nothing from another one is taken */
    uint64_t sequence; /* on its channel */
    uint32_t from, to;
    uint32_t channel, magic;
};

/* One transfer, from its send or post until it is done.  It must stay where it is until then. */
struct weft_message {
    struct weft_message_header head; /* kind, stage, micro, part, step: what it is */
    uint32_t peer, channel;
    size_t bytes;
    void *data; /* a send: what goes.  A receive: room for `bytes`, and when it is done where
                   they lie, which need not be there. */
    bool
        up_to; /* a receive: `bytes` is the most that may come; head.bytes then says how many */
    bool done;
    /* The transport's own. */
    struct weft_message *sender;
    struct weft_message *next;
    uint64_t request[2];
    struct weft_message_header received;
    uint32_t released; /* atomic */
    bool posted, checked;
};

/* -- messages ------------------------------------------------------------------------------- */

WEFT_API uint32_t weft_comm_rank(const struct weft_comm *comm);
WEFT_API uint32_t weft_comm_size(const struct weft_comm *comm);
WEFT_API const char *weft_comm_name(const struct weft_comm *comm); /* "inproc", "mpi" */

/* Starts a send or a receive.  Local; never waits.  Several receives may be posted on a channel:
 * they are filled in the order of their posts. */
WEFT_API enum weft_status weft_comm_send(struct weft_comm *comm, struct weft_message *m,
                                         struct weft_error *err);
WEFT_API enum weft_status weft_comm_post(struct weft_comm *comm, struct weft_message *m,
                                         struct weft_error *err);

/* Sets m->done when a receive has its data, or when a send's memory may be used again: the
 * receiver has released it (inproc) or it is on its way (MPI).  Local; never waits; what came is
 * checked against m->head.  WEFT_PEER also when another rank gave up. */
WEFT_API enum weft_status weft_comm_test(struct weft_comm *comm, struct weft_message *m,
                                         struct weft_error *err);

/* The same, until it is done or a peer is lost.  Local. */
WEFT_API enum weft_status weft_comm_wait(struct weft_comm *comm, struct weft_message *m,
                                         struct weft_error *err);

/* The receiver has read what came.  Local. */
WEFT_API void weft_comm_release(struct weft_comm *comm, struct weft_message *m);

/* True when a receive gives the sender's memory, which both ranks then share. */
WEFT_API bool weft_comm_by_reference(const struct weft_comm *comm);

/* -- heartbeats -------------------------------------------------------------------------- */

/* What a rank is at, for the messages of others; `doing` is the caller's code. */
struct weft_activity {
    uint64_t step, doing;
    uint32_t waits_for; /* a rank, or UINT32_MAX */
    uint32_t moved;     /* grows with every message: what does not is stuck */
};

/* Says what this rank begins now.  Cheap; call it for every piece of work.  Local. */
WEFT_API void weft_comm_publish(struct weft_comm *comm, uint64_t step, uint64_t doing);

/* Says that this rank is still at what it began: from inside of work that may take longer than
 * others wait for a heartbeat.  Cheap.  Local. */
WEFT_API void weft_comm_heartbeat(struct weft_comm *comm);

/* How `doing` is written in messages: "at 2F5".  Both pointers are borrowed while comm lives. */
typedef void weft_describe_fn(void *arg, uint32_t rank, uint64_t doing, char *out, size_t room);
WEFT_API void weft_comm_describe(struct weft_comm *comm, weft_describe_fn *describe, void *arg);

/* Called again and again while this rank waits, and by weft_comm_progress(); at most one.  It may
 * send, post and test, but not wait. */
typedef enum weft_status weft_progress_fn(void *arg, struct weft_error *err);
WEFT_API void weft_comm_on_progress(struct weft_comm *comm, weft_progress_fn *progress,
                                    void *arg);
WEFT_API enum weft_status weft_comm_progress(struct weft_comm *comm, struct weft_error *err);

/* Waits until ready(arg, &yes, err) says yes; `peer` is the rank that it waits for, or UINT32_MAX:
 * something of its own, for as long as that takes, while the others hear that it lives.  Local. */
typedef enum weft_status weft_ready_fn(void *arg, bool *yes, struct weft_error *err);
WEFT_API enum weft_status weft_comm_wait_until(struct weft_comm *comm, uint32_t peer,
                                               weft_ready_fn *ready, void *arg,
                                               struct weft_error *err);

/* Keeps what this rank is at in a small file, from now on: it outlives the process, whatever ends
 * it, and weft_flight_read() reads it.  Local. */
WEFT_API enum weft_status weft_comm_record(struct weft_comm *comm, const char *path,
                                           struct weft_error *err);

enum weft_flight_state {
    WEFT_FLIGHT_RUNNING, /* or gone without a word */
    WEFT_FLIGHT_DONE,
    WEFT_FLIGHT_FAILED, /* it said why */
};

struct weft_flight {
    uint32_t rank, n_ranks;
    uint32_t state;     /* enum weft_flight_state */
    uint32_t waits_for; /* a rank, or UINT32_MAX */
    uint64_t step;      /* as the program told it: training counts from 1 */
    int64_t time_ns;    /* when it began what it was last at, since 1970 */
    int64_t alive_ns;   /* when it was last alive: a process's own, to some milliseconds */
    int64_t pid;
    char host[64], doing[96], error[256];
};
WEFT_API enum weft_status weft_flight_read(const char *path, struct weft_flight *out,
                                           struct weft_error *err);

/* Seconds without a heartbeat after which a rank counts as lost; 60 at first. */
WEFT_API void weft_comm_set_timeout(struct weft_comm *comm, double seconds);

/* Ends all waits of all ranks with this error, unless one was first.  Local. */
WEFT_API void weft_comm_abort(struct weft_comm *comm, const struct weft_error *err);

/* Ranks that are threads share memory, so after an abort each waits until all have noticed it.
 * When one does not within the timeout, since it is stuck in a stage, this is called by those that
 * wait: it should end the process, for nothing else can.  Local. */
typedef void weft_hang_fn(void *arg, const struct weft_error *err);
WEFT_API void weft_comm_on_hang(struct weft_comm *comm, weft_hang_fn *on_hang, void *arg);

/* -- all ranks ------------------------------------------------------------------------------ */

/* Everyone's `bytes` go to rank 0: at[r] of it has room for size[r] of rank r, its own included.
 * `at` and `size` are only read on rank 0, and may be NULL when nobody sends anything; sizes are
 * what the ranks send.  Collective. */
WEFT_API enum weft_status weft_comm_gather(struct weft_comm *comm, const void *data,
                                           size_t bytes, void *const *at, const size_t *size,
                                           struct weft_error *err);

/* The same for as many bytes of everyone: rank 0 has them one after the other in `all`.  Comm may
 * be NULL: a rank that is alone.  Collective. */
WEFT_API enum weft_status weft_comm_gather_equal(struct weft_comm *comm, const void *data,
                                                 size_t bytes, void *all,
                                                 struct weft_error *err);

/* Rank 0's bytes go to everyone.  Collective. */
WEFT_API enum weft_status weft_comm_broadcast(struct weft_comm *comm, void *data, size_t bytes,
                                              struct weft_error *err);

/* Returns when all ranks have called it.  Collective. */
WEFT_API enum weft_status weft_comm_barrier(struct weft_comm *comm, struct weft_error *err);

/* -- opening -------------------------------------------------------------------------------- */

/* A rank's whole program.  What it returns other than WEFT_OK aborts the others. */
typedef enum weft_status weft_rank_fn(struct weft_comm *comm, void *arg,
                                      struct weft_error *err);

/* Runs fn as n ranks, each a thread, rank 0 in the caller's; returns when all have.  With at
 * least n cores each rank keeps to its own share of them, and so do the threads that it starts.
 * The first error of any rank is returned. */
WEFT_API enum weft_status weft_comm_run_threads(uint32_t n, weft_rank_fn *fn, void *arg,
                                                struct weft_error *err);

/* Which launcher started this process, by its environment: "openmpi", "mpich", or NULL. */
WEFT_API const char *weft_comm_launcher(void);

/* Runs fn as this process's rank under MPI.  WEFT_USAGE when no launcher started it or weft's
 * module for that MPI is not installed. */
WEFT_API enum weft_status weft_comm_run_mpi(weft_rank_fn *fn, void *arg,
                                            struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
