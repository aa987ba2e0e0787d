/* Gradient sync for embedders (weft/sync.h), inside.
 *
 * A parameter is cut into pieces.  Each piece has an owner among the ranks that registered the
 * parameter, so that whoever owns also waits:
 *
 *     register   every rank sends its set to every peer
 *     open       when a rank knows all sets of a step it knows all owners
 *     PART       its pieces go to their owners, as fp32
 *     RESULT     the owner adds them up and sends the result to all that registered it
 *
 * All that goes from one rank to another is one ordered stream of records, put together in
 * messages.  A record is handled when it arrives, whatever it is: nothing waits in a queue behind
 * something else, so no order of calls can lock two ranks up.  A rank can be sent a PART only for
 * what it registered, but perhaps before it knows all sets: the piece is then added and counted,
 * and the count compared after the opening. */
#ifndef RUNTIME_SYNC_REDUCER_PRIV_H
#define RUNTIME_SYNC_REDUCER_PRIV_H

#include "compute/kern/ops.h"
#include "weft/sync.h"

enum {
    SYNC_PIECE = 32768, /* elements */
    SYNC_TILE = 2048,   /* elements that are made integers in one go, in the cache */
    SYNC_BUCKET_BYTES = 1 << 20,
    SYNC_MAX_IN_FLIGHT =
        4, /* messages of PARTs to one peer; the rest stays where it was pushed */
    SYNC_POOL_CLASSES = 48,
};

/* -- memory: blocks that are used again, each a power of two --------------------------------- */

struct sync_buffer;

struct sync_pool {
    struct sync_buffer *all; /* owned */
    struct sync_buffer *unused[SYNC_POOL_CLASSES];
    uint64_t bytes;
};

void *wf_sync_pool_alloc(struct sync_pool *pool, size_t bytes); /* NULL: no memory */
void wf_sync_pool_free(struct sync_pool *pool, void *at);       /* NULL is allowed */
void wf_sync_pool_release(struct sync_pool *pool);              /* those in use included */

/* -- what goes between ranks ------------------------------------------------------------------ */

enum sync_kind {
    SYNC_KIND_SET,    /* id: the operation.  piece: 1 when more of the same set follows */
    SYNC_KIND_PART,   /* n floats of a piece */
    SYNC_KIND_RESULT, /* the same, summed */
    SYNC_KIND_LEAVE,  /* no sets follow */
    SYNC_KIND_BYE,    /* nothing follows */
};

struct sync_record {
    uint32_t kind, id;
    uint64_t step;
    uint32_t piece, n;
};

/* A SET has n of these behind it. */
struct sync_entry {
    uint32_t id, zero;
    uint64_t size;
};

/* A peer's set, or a part of it, for a step that this rank has not registered yet. */
struct sync_stored {
    struct sync_stored *next;
    uint64_t step;
    size_t n;
    struct sync_entry at[];
};

/* -- steps ------------------------------------------------------------------------------------ */

struct sync_step;

struct sync_piece {
    struct sync_step *step;
    struct sync_piece *next; /* that goes to the same owner */
    int64_t *sum;            /* from the pool; only the owner's */
    int64_t *high;           /* from the pool: see widen() */
    uint32_t param, index;
    uint32_t got; /* contributions in the sum */
};

struct sync_param {
    float *grad; /* borrowed from push to wait; NULL: not pushed */
    uint64_t size;
    size_t first; /* of its pieces */
    uint32_t id, n_pieces;
    uint32_t left;    /* pieces that are not reduced */
    uint32_t n_ranks; /* that registered it, as far as is known */
    bool pushed;
};

/* A step that this rank registered and has not waited for. */
struct sync_step {
    struct sync_step *next;
    uint64_t number;
    size_t n;                  /* parameters; the arrays below are from the pool */
    struct sync_param *params; /* (n) */
    struct sync_piece *pieces;
    uint32_t *table; /* (mask + 1): 1 + the index of a parameter, by a hash of its id */
    size_t mask;
    uint64_t *rank_bits;              /* (n, words): a bit for each rank that registered it */
    int64_t *due_parts, *due_results; /* (ranks): pieces that each peer has still to send */
    uint32_t unknown;                 /* peers whose set is not known */
    size_t unpushed, left;            /* parameters */
    bool open;
};

struct sync_bucket;

struct sync_peer {
    uint64_t next_step; /* 1 + the last step whose set came; 0: none */
    bool left, bye_in, bye_out;
    struct weft_message in;
    bool posted;
    void *room; /* from the pool, for transports that copy */
    struct sync_stored *stored, **stored_end;
    struct sync_piece *pending, **pending_end; /* PARTs that are not in a message yet */
    struct sync_bucket *filling;               /* the message that is being put together */
    struct sync_bucket *in_flight, **in_flight_end;
    uint32_t n_in_flight;
    bool urgent; /* what is in `filling` must not be held back */
};

struct weft_sync {
    struct weft_comm *comm; /* borrowed */
    const struct wf_ops *ops;
    enum weft_sync_op op;
    uint32_t rank, n_ranks;
    size_t words;       /* of 64 ranks */
    uint64_t next_step; /* 1 + the last step that was registered */
    bool left;
    bool waits;              /* nothing is held back */
    struct sync_step *steps; /* ascending */
    size_t n_unfinished;     /* of them, whose results are not all there */
    struct sync_peer *peers; /* owned: (ranks); the own one is unused */
    struct sync_pool pool;
    int64_t *scratch;         /* from the pool: (SYNC_TILE) */
    struct weft_error broken; /* status other than WEFT_OK: everyone's end */
    struct weft_error misuse; /* the first, to tell others should this rank give up */
    struct weft_sync_counts counts;
};

/* server_link.c: messages.  All Local. */

/* Begins to listen to a peer. */
enum weft_status wf_sync_link_open(struct weft_sync *s, uint32_t peer, struct weft_error *err);
/* Puts a record into the peer's next message, and gives the place for its n bytes. */
enum weft_status wf_sync_link_put(struct weft_sync *s, uint32_t peer, struct sync_record record,
                                  size_t bytes, void **at, struct weft_error *err);
/* Receives, sends, says goodbye: what weft_comm calls while anyone waits. */
enum weft_status wf_sync_progress(void *arg, struct weft_error *err);
bool wf_sync_link_is_closed(const struct weft_sync *s, uint32_t peer);

/* server_step.c: bookkeeping. */

/* WEFT_USAGE when an id comes twice. */
enum weft_status wf_sync_step_new(struct weft_sync *s, uint64_t number, const uint32_t *ids,
                                  const size_t *sizes, size_t n, struct sync_step **out,
                                  struct weft_error *err);
void wf_sync_step_free(struct weft_sync *s, struct sync_step *step);
struct sync_step *wf_sync_step_find(const struct weft_sync *s, uint64_t number);
struct sync_param *wf_sync_param_find(struct weft_sync *s, const struct sync_step *step,
                                      uint32_t id);
/* A set of a peer for a step of this rank. */
enum weft_status wf_sync_step_match(struct weft_sync *s, struct sync_step *step, uint32_t peer,
                                    const struct sync_entry *at, size_t n,
                                    struct weft_error *err);
/* All sets are known. */
enum weft_status wf_sync_step_open(struct weft_sync *s, struct sync_step *step,
                                   struct weft_error *err);

/* server_sum.c: pieces. */
static inline size_t sync_piece_begin(const struct sync_piece *p)
{
    return (size_t)p->index * SYNC_PIECE;
}
size_t wf_sync_piece_size(const struct sync_piece *p);
/* The i-th rank that registered the parameter. */
uint32_t wf_sync_piece_owner(const struct weft_sync *s, const struct sync_piece *p);
/* Sends a pushed parameter of an open step on its way. */
enum weft_status wf_sync_contribute(struct weft_sync *s, struct sync_step *step,
                                    struct sync_param *param, struct weft_error *err);
enum weft_status wf_sync_piece_add(struct weft_sync *s, struct sync_piece *p, uint32_t from,
                                   const float *x, struct weft_error *err);
enum weft_status wf_sync_piece_set(struct weft_sync *s, struct sync_piece *p, const float *x,
                                   struct weft_error *err);

#endif
