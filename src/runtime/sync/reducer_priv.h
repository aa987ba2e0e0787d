/* Internals of the gradient reducer for other programs (weft/sync.h).
 *
 * A parameter is divided into pieces.  Each piece has an owner among the ranks that registered
 * the parameter, so an owner also waits for the result:
 *
 *     register   every rank sends its set of parameters to every peer
 *     open       a rank that has received all sets of a step can compute all owners
 *     PART       a rank sends its pieces to their owners, once for each of its gradients
 *     RESULT     the owner sums the PARTs and sends the result to the ranks of the parameter
 *
 * Everything from one rank to another is one ordered stream of records, which are packed into
 * messages.  A record of any kind is handled when it arrives.  No record waits for another
 * record, so no order of calls can deadlock two ranks.  A rank receives a PART only for
 * parameters that it registered, but the PART may arrive before all sets.  The piece is then
 * added and counted, and the count is checked when the step opens. */
#ifndef RUNTIME_SYNC_REDUCER_PRIV_H
#define RUNTIME_SYNC_REDUCER_PRIV_H

#include "compute/kern/sums.h"
#include "weft/sync.h"

enum {
    SYNC_PIECE = 32768, /* elements per piece */
    /* Elements that are added at a time, so that their rounding errors fit into the CPU
     * cache. */
    SYNC_TILE = 1024,
    /* Maximum number of gradients of a parameter over all ranks. */
    SYNC_MAX_GRADS = 1 << 30,
    SYNC_BUCKET_BYTES = 1 << 20,
    /* Maximum number of messages with PARTs in flight per peer; other pieces wait in the
     * caller's memory. */
    SYNC_MAX_IN_FLIGHT = 4,
    SYNC_POOL_CLASSES = 48,
};

/* -- memory: buffers of power-of-two sizes, which are reused ------------------------------- */

struct sync_buffer;

struct sync_pool {
    struct sync_buffer *all; /* owned */
    struct sync_buffer *unused[SYNC_POOL_CLASSES];
    uint64_t bytes;
};

/* Returns a buffer of at least `bytes` bytes, or NULL if memory runs out. */
void *wf_sync_pool_alloc(struct sync_pool *pool, size_t bytes);
void wf_sync_pool_free(struct sync_pool *pool, void *at); /* NULL is allowed */
void wf_sync_pool_release(struct sync_pool *pool);        /* also frees buffers in use */

/* -- records between ranks ----------------------------------------------------------------- */

enum sync_kind {
    /* A set of parameters; id: the operation; piece: 1 if another SET record of the set
     * follows. */
    SYNC_KIND_SET,
    SYNC_KIND_PART,   /* n elements: a gradient of one rank for a piece */
    SYNC_KIND_RESULT, /* n elements: the result of a piece */
    SYNC_KIND_LEAVE,  /* no more sets follow */
    SYNC_KIND_BYE,    /* no more records follow */
};

struct sync_record {
    uint8_t kind;
    uint8_t type; /* PART, RESULT: enum weft_sync_type */
    uint8_t last; /* PART: 1 if this is the rank's last gradient for the piece */
    uint8_t zero;
    uint32_t id;
    uint64_t step;
    uint32_t piece, n;
};

/* A parameter of a set.  n entries follow a SET record. */
struct sync_entry {
    uint32_t id, n_grads;
    uint64_t size;
    uint32_t type, zero;
};

/* A peer's set, or a part of it, for a step that this rank has not registered yet. */
struct sync_stored {
    struct sync_stored *next;
    uint64_t step;
    size_t n;
    struct sync_entry at[];
};

/* -- steps --------------------------------------------------------------------------------- */

struct sync_step;

/* The sum of a piece is sum + rest + wide; see reducer_sum.c. */
struct sync_piece {
    struct sync_step *step;
    struct sync_piece *next; /* next piece for the same owner */
    /* From the pool; owner only. */
    double *sum, *rest;     /* rest: NULL if it is zero */
    struct sync_wide *wide; /* NULL if it is zero */
    uint32_t param, index;
    uint32_t got;  /* number of gradients in the sum */
    uint32_t sent; /* number of gradients of this rank that were sent to the owner */
};

struct sync_param {
    /* (n_grads): part of the step's array; a gradient is borrowed from its push until the
     * parameter is complete. */
    void **grads;
    uint64_t size;
    size_t first; /* index of the parameter's first piece */
    enum weft_sync_type type;
    uint32_t id, n_pieces;
    uint32_t left;      /* number of pieces without a result */
    uint32_t n_ranks;   /* number of ranks known to have registered the parameter */
    uint32_t n_grads;   /* number of gradients of this rank */
    uint32_t all_grads; /* number of gradients of these ranks */
    uint32_t n_pushed;
    uint32_t next_done; /* 1 + index of the next parameter in the step's list, or 0 */
};

/* A step that this rank registered and has not waited for. */
struct sync_step {
    struct sync_step *next;
    uint64_t number;
    size_t n;                  /* number of parameters; the arrays below are from the pool */
    struct sync_param *params; /* (n) */
    struct sync_piece *pieces;
    void **grads; /* of all parameters */
    /* (mask + 1): hash table by id; an entry is 1 + the index of a parameter, or 0. */
    uint32_t *table;
    size_t mask;
    /* (n, words): for each parameter, one bit per rank that registered it. */
    uint64_t *rank_bits;
    /* (ranks): number of pieces that each peer still has to send. */
    int64_t *due_parts, *due_results;
    uint32_t unknown; /* number of peers whose set has not arrived */
    /* Number of parameters with missing pushes; number of parameters without a result. */
    size_t unpushed, left;
    /* The complete parameters whose callback has not been called: 1 + index, or 0. */
    uint32_t first_done, last_done;
    bool open;
    bool reported; /* the callback for the whole step has been called */
    bool waited;   /* weft_sync_wait() has been called */
};

struct sync_bucket;

struct sync_peer {
    uint64_t next_step; /* 1 + the last step whose set arrived; 0: none */
    bool left, bye_in, bye_out;
    struct weft_message in;
    bool posted;
    void *room; /* receive buffer from the pool, for transports that copy */
    struct sync_stored *stored, **stored_end;
    struct sync_piece *pending, **pending_end; /* PARTs that are not in a message yet */
    struct sync_bucket *filling;               /* the message that is being packed */
    struct sync_bucket *in_flight, **in_flight_end;
    uint32_t n_in_flight;
    bool urgent; /* `filling` must be sent at once */
};

struct weft_sync {
    struct weft_comm *comm; /* borrowed */
    const struct wf_sum_ops *ops;
    enum weft_sync_op op;
    weft_sync_param_fn *on_param; /* NULL: none */
    weft_sync_step_fn *on_step;   /* NULL: none */
    void *callback_arg;           /* borrowed */
    uint32_t rank, n_ranks;
    size_t words;       /* 64-bit words for one bit per rank */
    uint64_t next_step; /* 1 + the last step that was registered */
    bool left;
    bool waits; /* the caller waits: messages are sent at once */
    bool in_callback;
    size_t n_reports; /* number of complete parameters and steps without a callback yet */
    struct sync_step *steps; /* ascending */
    size_t n_unfinished;     /* steps with missing results */
    struct sync_peer *peers; /* owned: (ranks); the entry of this rank is unused */
    struct sync_pool pool;
    double *lost, *lost_rest; /* from the pool: (SYNC_TILE) each; rounding errors */
    /* Fatal error, which ends all ranks, if its status is not WEFT_OK. */
    struct weft_error broken;
    /* The first misuse; sent to the other ranks if this rank aborts. */
    struct weft_error misuse;
    struct weft_sync_counts counts;
};

/* reducer_link.c: messages.  All Local. */

/* Posts the first receive from a peer. */
enum weft_status wf_sync_link_open(struct weft_sync *s, uint32_t peer, struct weft_error *err);
/* Appends a record to the peer's next message.  *at is the memory to which the caller writes
 * the data of the record. */
enum weft_status wf_sync_link_put(struct weft_sync *s, uint32_t peer, struct sync_record record,
                                  size_t bytes, void **at, struct weft_error *err);
/* Receives and sends records.  weft_comm calls this function during every wait. */
enum weft_status wf_sync_progress(void *arg, struct weft_error *err);
/* Returns true if both streams of the peer have ended and no message is in flight. */
bool wf_sync_link_is_closed(const struct weft_sync *s, uint32_t peer);

/* reducer_step.c: bookkeeping. */

/* Creates a step.  Returns WEFT_USAGE if the parameters are invalid. */
enum weft_status wf_sync_step_new(struct weft_sync *s, uint64_t number,
                                  const struct weft_sync_param *params, size_t n,
                                  struct sync_step **out, struct weft_error *err);
void wf_sync_step_free(struct weft_sync *s, struct sync_step *step);
/* Removes a finished step from the list and frees it. */
void wf_sync_step_end(struct weft_sync *s, struct sync_step *step);
/* Returns the step with this number, or NULL if there is none. */
struct sync_step *wf_sync_step_find(const struct weft_sync *s, uint64_t number);
/* Returns the parameter of a step, or NULL if it is not registered. */
struct sync_param *wf_sync_param_find(struct weft_sync *s, const struct sync_step *step,
                                      uint32_t id);
/* Processes the set of a peer for a step that this rank registered. */
enum weft_status wf_sync_step_match(struct weft_sync *s, struct sync_step *step, uint32_t peer,
                                    const struct sync_entry *at, size_t n,
                                    struct weft_error *err);
/* Opens a step after the sets of all ranks have arrived. */
enum weft_status wf_sync_step_open(struct weft_sync *s, struct sync_step *step,
                                   struct weft_error *err);
/* Records that a parameter is complete. */
void wf_sync_param_done(struct weft_sync *s, struct sync_step *step, struct sync_param *param);
/* Calls the callbacks of complete parameters and steps.  Sets *called to true if there were
 * any. */
enum weft_status wf_sync_report(struct weft_sync *s, bool *called, struct weft_error *err);

/* reducer_sum.c: pieces. */

/* Returns the index of the first element of a piece. */
static inline size_t sync_piece_begin(const struct sync_piece *p)
{
    return (size_t)p->index * SYNC_PIECE;
}
/* Returns the number of elements of a piece. */
size_t wf_sync_piece_size(const struct sync_piece *p);
/* Returns the owner of a piece, one of the ranks that registered the parameter. */
uint32_t wf_sync_piece_owner(const struct weft_sync *s, const struct sync_piece *p);
/* Returns the address of a piece in gradient `grad` of its parameter. */
void *wf_sync_piece_at(const struct sync_piece *p, uint32_t grad);
/* Adds or queues the pieces of gradient `grad` of a parameter of an open step. */
enum weft_status wf_sync_contribute(struct weft_sync *s, struct sync_step *step,
                                    struct sync_param *param, uint32_t grad,
                                    struct weft_error *err);
/* Adds a gradient of rank `from`. */
enum weft_status wf_sync_piece_add(struct weft_sync *s, struct sync_piece *p, uint32_t from,
                                   const void *x, struct weft_error *err);
/* Copies the result from the owner to all gradients of this rank. */
void wf_sync_piece_set(struct weft_sync *s, struct sync_piece *p, const void *x);

/* Returns "fp32", "bf16" or "fp64". */
const char *wf_sync_type_name(enum weft_sync_type type);

/* Returns the bytes of an element. */
static inline size_t sync_type_size(enum weft_sync_type type)
{
    return wf_sum_type_size((enum wf_sum_type)type);
}

#endif
