/* Messages between ranks, which are threads of one process, processes under MPI, or what a
 * transport of the program connects (weft/transport.h).
 * A rank has one `struct weft_comm` and uses it from one thread.  Messages between two ranks
 * use numbered channels.  On each channel and in each direction, messages arrive in the order
 * in which they were sent.  Every message has a header; the receiver states the header that it
 * expects, and a different header is an error that names both headers.
 *     struct weft_message out = {.peer = 1, .channel = 0, .data = x, .bytes = n};
 *     weft_comm_send(comm, &out, &err);                  returns at once
 *     struct weft_message in = {.peer = 1, .channel = 0, .data = buffer, .bytes = n};
 *     weft_comm_post(comm, &in, &err);                   returns at once
 *     weft_comm_wait(comm, &in, &err);                   until the message has arrived
 *     use(in.data);                                      this may be the sender's memory
 *     weft_comm_release(comm, &in);                      the sender may reuse its memory
 *     weft_comm_wait(comm, &out, &err);                  until the receiver has released it
 *
 * Every wait ends.  A peer that sends no heartbeat for the time-out is reported by its number,
 * and all ranks that wait for it, directly or through others, fail with the same error.  All
 * ranks report the first error: weft_comm_abort() sends it to them.
 * A message lends memory to other ranks: its record, its data and the buffer of its receive,
 * from the send or post until `done` is set or this rank has noticed an abort.  A function here
 * that fails, other than with WEFT_USAGE, has aborted all ranks, and the caller may free its
 * messages.  A rank that fails for another reason while its messages are in flight calls
 * weft_comm_abort() before it frees them.
 * Each function is Local (called by one rank) or Collective (called by all ranks in the same
 * order).
 * Unstable: struct weft_message has fields of the transports, so its size may change.
 * Functions that start, test or wait for a message return WEFT_USAGE if the communicator or the
 * message is NULL.  The other functions need a communicator, unless their comments state
 * otherwise. */
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

/* Programs use channels WEFT_USER_CHANNEL .. WEFT_GROUP_CHANNEL - 1.  weft uses the other
 * channels. */
enum { WEFT_USER_CHANNEL = 8, WEFT_GROUP_CHANNEL = 16, WEFT_N_CHANNELS = 256 };

/* Maximum length of the description of a message's data, with the zero at its end. */
enum { WEFT_SHAPE_TEXT = 96 };

/* The identity of a message.  The caller chooses the first six fields, and both endpoints must
 * give the same values. */
struct weft_message_header {
    uint32_t kind;
    uint32_t stage, micro, part;
    uint64_t step;
    /* Describes the data, such as "f32[4,128] u8[4]"; empty: no description.  See
     * weft_tensors_print(). */
    char shape[WEFT_SHAPE_TEXT];
    uint64_t bytes;
    /* Set and checked by weft. */
    uint64_t run;      /* identifies the run; messages of another run are rejected */
    uint64_t sequence; /* number of the message on its channel */
    uint32_t from, to;
    uint32_t channel, magic;
};

/* One transfer.  The record must not be moved from the send or post until `done` is set. */
struct weft_message {
    /* Set by the caller: kind, stage, micro, part, step, shape. */
    struct weft_message_header head;
    uint32_t peer, channel;
    size_t bytes;
    /* Send: the data.  Receive: a buffer of `bytes` bytes; once `done` is set, the address
     * of the data, which may be outside that buffer. */
    void *data;
    /* Receive: `bytes` is a maximum; head.bytes is set to the actual number of bytes. */
    bool up_to;
    bool done;
    /* Used by the transport; see weft/transport.h. */
    struct weft_message *sender;
    struct weft_message *next;
    uint64_t request[2];
    struct weft_message_header received;
    uint32_t released; /* atomic */
    bool posted, checked;
};

/* -- messages ------------------------------------------------------------------------------ */

/* Returns the number of this rank.  Local. */
WEFT_API uint32_t weft_comm_rank(const struct weft_comm *comm);

/* Returns the number of ranks.  Local. */
WEFT_API uint32_t weft_comm_size(const struct weft_comm *comm);

/* Returns the name of the transport: "inproc", "mpi" or that of weft_comm_open().  Local. */
WEFT_API const char *weft_comm_name(const struct weft_comm *comm);

/* Starts a send.  Never waits.  Local. */
WEFT_API enum weft_status weft_comm_send(struct weft_comm *comm, struct weft_message *m,
                                         struct weft_error *err);

/* Posts a receive.  Never waits.  Several receives may be posted on a channel; they complete in
 * the order in which they were posted.  Local. */
WEFT_API enum weft_status weft_comm_post(struct weft_comm *comm, struct weft_message *m,
                                         struct weft_error *err);

/* Sets m->done if a receive has its data, or if the memory of a send may be reused.  The memory
 * may be reused once the receiver has released it (by reference) or the transport has copied
 * the data.  Never waits.  Checks a received message against m->head.  Returns WEFT_PEER if a
 * peer is lost or another rank aborted.  Local. */
WEFT_API enum weft_status weft_comm_test(struct weft_comm *comm, struct weft_message *m,
                                         struct weft_error *err);

/* Waits until weft_comm_test() sets m->done or fails, or until a peer is lost.  Local. */
WEFT_API enum weft_status weft_comm_wait(struct weft_comm *comm, struct weft_message *m,
                                         struct weft_error *err);

/* Releases the data of a received message.  Local. */
WEFT_API void weft_comm_release(struct weft_comm *comm, struct weft_message *m);

/* Returns true if a receive returns the sender's memory, which both ranks then share.
 * Local. */
WEFT_API bool weft_comm_by_reference(const struct weft_comm *comm);

/* -- heartbeats ---------------------------------------------------------------------------- */

/* The current activity of a rank.  The error messages of other ranks contain it. */
struct weft_activity {
    uint64_t step, doing; /* doing: an activity code that the caller defines */
    uint32_t waits_for;   /* a rank, or UINT32_MAX */
    /* Changes with every message; a rank is stuck if this value stays the same. */
    uint32_t moved;
};

/* Records the activity that this rank starts, and sends a heartbeat.  The call is cheap enough
 * for every action.  Local. */
WEFT_API void weft_comm_publish(struct weft_comm *comm, uint64_t step, uint64_t doing);

/* Sends a heartbeat without a new activity.  Call it during work that may take longer than the
 * time-out.  The call is cheap.  Local. */
WEFT_API void weft_comm_heartbeat(struct weft_comm *comm);

/* Writes the text of the activity `doing` of `rank`, such as "at 2F5", to `out`. */
typedef void weft_describe_fn(void *arg, uint32_t rank, uint64_t doing, char *out, size_t size);

/* Sets the function that error messages use for activities.  Both pointers are borrowed until
 * comm is closed.  Local. */
WEFT_API void weft_comm_describe(struct weft_comm *comm, weft_describe_fn *describe, void *arg);

/* Advances background work.  The function may send, post and test, but must not wait. */
typedef enum weft_status weft_progress_fn(void *arg, struct weft_error *err);

/* Sets the progress function and replaces the previous one.  The function is called repeatedly
 * while this rank waits, and by weft_comm_progress().  Local. */
WEFT_API void weft_comm_on_progress(struct weft_comm *comm, weft_progress_fn *progress,
                                    void *arg);

/* Calls the progress function once.  Local. */
WEFT_API enum weft_status weft_comm_progress(struct weft_comm *comm, struct weft_error *err);

/* Sets *yes when the awaited condition is true. */
typedef enum weft_status weft_ready_fn(void *arg, bool *yes, struct weft_error *err);

/* Waits until ready() sets *yes.  `peer` is the rank that this rank waits for, or UINT32_MAX
 * for local work.  Local work has no time-out, and this rank keeps sending heartbeats.
 * Local. */
WEFT_API enum weft_status weft_comm_wait_until(struct weft_comm *comm, uint32_t peer,
                                               weft_ready_fn *ready, void *arg,
                                               struct weft_error *err);

/* Starts to record the activity of this rank in a small file.  The file remains even if the
 * process crashes; weft_flight_read() reads it.  Local. */
WEFT_API enum weft_status weft_comm_record(struct weft_comm *comm, const char *path,
                                           struct weft_error *err);

enum weft_flight_state {
    WEFT_FLIGHT_RUNNING, /* the process runs, or it ended without updating the file */
    WEFT_FLIGHT_DONE,
    WEFT_FLIGHT_FAILED, /* `error` has the reason */
};

struct weft_flight {
    uint32_t rank, n_ranks;
    uint32_t state;     /* enum weft_flight_state */
    uint32_t waits_for; /* a rank, or UINT32_MAX */
    uint64_t step;      /* step number that the program passed; training counts from 1 */
    int64_t time_ns;    /* start of the last activity, in ns since 1970 */
    /* Last time at which the process was alive, in ns since 1970, accurate to a few
     * milliseconds. */
    int64_t alive_ns;
    int64_t pid;
    char host[64], doing[96], error[256];
    /* Longest recent interval between two updates of alive_ns (about 0.1 s are considered).
     * The process may have been alive for this long after alive_ns. */
    int64_t interval_ns;
};

/* Reads the file of weft_comm_record().  Local. */
WEFT_API enum weft_status weft_flight_read(const char *path, struct weft_flight *out,
                                           struct weft_error *err);

/* Sets the seconds without a heartbeat after which a rank counts as lost.  The default is 60.
 * Local. */
WEFT_API void weft_comm_set_timeout(struct weft_comm *comm, double seconds);

/* Ends all waits of all ranks with this error, unless an earlier error has already ended them.
 * Local. */
WEFT_API void weft_comm_abort(struct weft_comm *comm, const struct weft_error *err);

/* Handles a rank that hangs.  The function should end the process. */
typedef void weft_hang_fn(void *arg, const struct weft_error *err);

/* Sets the function for hangs.  Ranks that are threads share memory, so after an abort each
 * rank waits until all other ranks have noticed the abort.  If a rank is stuck in a stage for
 * longer than the time-out, the waiting ranks call this function.  Local. */
WEFT_API void weft_comm_on_hang(struct weft_comm *comm, weft_hang_fn *on_hang, void *arg);

/* -- all ranks ----------------------------------------------------------------------------- */

/* Gathers the data of all ranks on rank 0: at[r] has size[r] bytes for the data of rank r,
 * including rank 0.  `at` and `size` are read on rank 0 only and may be NULL if no rank sends
 * anything.  size[r] must equal the bytes that rank r sends.  Collective. */
WEFT_API enum weft_status weft_comm_gather(struct weft_comm *comm, const void *data,
                                           size_t bytes, void *const *at, const size_t *size,
                                           struct weft_error *err);

/* Gathers the same number of bytes from every rank, in the order of ranks, in `all` on rank 0.
 * A NULL `comm` means a single rank.  Collective. */
WEFT_API enum weft_status weft_comm_gather_equal(struct weft_comm *comm, const void *data,
                                                 size_t bytes, void *all,
                                                 struct weft_error *err);

/* Copies the data of rank 0 to all ranks.  Collective. */
WEFT_API enum weft_status weft_comm_broadcast(struct weft_comm *comm, void *data, size_t bytes,
                                              struct weft_error *err);

/* Returns when all ranks have called it.  Collective. */
WEFT_API enum weft_status weft_comm_barrier(struct weft_comm *comm, struct weft_error *err);

/* -- start --------------------------------------------------------------------------------- */

/* The whole program of a rank.  A return value other than WEFT_OK aborts the other ranks. */
typedef enum weft_status weft_rank_fn(struct weft_comm *comm, void *arg,
                                      struct weft_error *err);

/* Runs fn on n ranks, one thread per rank (rank 0 in the calling thread), and returns when all
 * ranks have returned.  With at least n cores, the cores are divided among the ranks, and
 * threads that a rank starts stay on its cores.  Returns the first error of any rank. */
WEFT_API enum weft_status weft_comm_run_threads(uint32_t n, weft_rank_fn *fn, void *arg,
                                                struct weft_error *err);

/* Detects from the environment which launcher started this process: "openmpi", "mpich" or NULL
 * for none. */
WEFT_API const char *weft_comm_launcher(void);

/* Runs fn as the rank of this process under MPI.  Returns WEFT_USAGE if no launcher started the
 * process or if weft's module for that MPI is not installed.
 *
 * After a failure of any rank the process must end with exit().  A handler that this function
 * registers with on_exit() then waits briefly for the other ranks and ends the process with
 * _exit(), so that exit handlers of the MPI library do not run: these handlers could wait for
 * lost ranks.  Under MPICH one rank also calls MPI_Abort() if a rank does not respond, because
 * MPICH's launcher would not end that rank. */
WEFT_API enum weft_status weft_comm_run_mpi(weft_rank_fn *fn, void *arg,
                                            struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
