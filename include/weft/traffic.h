/* Which finished block goes over which hop: the traffic of block attention residuals.
 *
 * With block attention residuals a stage reads, besides the activation from the stage before, all
 * blocks that were finished so far.  One static table, made from the placement and the stages
 * that finish the blocks, says for every transition from a stage to the next which blocks the
 * receiving rank still lacks.  Whoever predicts traffic counts from it, whoever runs a schedule
 * sends by it, so the two agree.
 *
 * Loop placement, 2 ranks, 4 stages, stage j finishes block j; what each transition sends:
 *
 *     cache      0 -> 1    1 -> 2    2 -> 3
 *     off        b0        b0 b1     b0 b1 b2      every finished block
 *     received   b0        b0 b1     b1 b2         not what came to the rank before
 *     full       b0        b1        b2            nor what the rank made itself: the minimum
 *
 * The backward returns the gradients of the same blocks over the same hops, the other way round.
 * A transition between two stages on one rank sends nothing: blocks are handed over.
 *
 *     uint32_t *finished_by = NULL, n = 0;
 *     weft_residual_blocks(&partition, 4, &finished_by, &n, &err);     // a block every 4 layers
 *     struct weft_traffic *t = NULL;
 *     weft_traffic_new(placement, finished_by, n, WEFT_BLOCK_CACHE_FULL, &t, &err);
 *     struct weft_block_span send = weft_traffic_sends(t, 0, stage);
 *     weft_traffic_free(t);
 *     free(finished_by);
 */
#ifndef WEFT_TRAFFIC_H
#define WEFT_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

#include "weft/part.h"
#include "weft/schedule.h"
#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a rank remembers of a micro for its later stages. */
enum weft_block_cache {
    WEFT_BLOCK_CACHE_OFF,
    WEFT_BLOCK_CACHE_RECEIVED, /* what came to it, from another rank or from its stage before */
    WEFT_BLOCK_CACHE_FULL,     /* that, and what it made */
};

/* "off", "received", "full" */
WEFT_API const char *weft_block_cache_name(enum weft_block_cache cache);

/* The stage that finishes each block, when every `layers_per_block` layers make one: block 0 is
 * the embedding, finished by stage 0; the head finishes the last one, which may be shorter.  An
 * open block's sum travels as the ordinary activation.  The caller frees *out. */
WEFT_API enum weft_status weft_residual_blocks(const struct weft_partition *p,
                                               uint32_t layers_per_block, uint32_t **out,
                                               uint32_t *n, struct weft_error *err);

/* -- the table ------------------------------------------------------------------------------ */

struct weft_traffic; /* opaque: built once, then read-only, safe to read from any thread */

/* finished_by[b] is the stage that finishes block b, never less than that of the block before.
 * Nothing is borrowed.  On success the caller owns *out and frees it with weft_traffic_free(). */
WEFT_API enum weft_status weft_traffic_new(const struct weft_placement *placement,
                                           const uint32_t *finished_by, uint32_t n_blocks,
                                           enum weft_block_cache cache,
                                           struct weft_traffic **out, struct weft_error *err);
WEFT_API void weft_traffic_free(struct weft_traffic *t); /* NULL is allowed */

/* The placement that it was made for, with a pipe_of of NULL. */
WEFT_API const struct weft_placement *weft_traffic_placement(const struct weft_traffic *t);
WEFT_API enum weft_block_cache weft_traffic_cache(const struct weft_traffic *t);
WEFT_API uint32_t weft_traffic_n_blocks(const struct weft_traffic *t);

/* Ascending block numbers. */
struct weft_block_span {
    const uint32_t *at; /* borrowed: until the table is freed */
    size_t len;
};

/* The blocks that go along when `stage` of `pipe` sends its output to the next stage: the forward
 * sends them, the backward gets their gradients.  Empty for the last stage. */
WEFT_API struct weft_block_span weft_traffic_sends(const struct weft_traffic *t, uint32_t pipe,
                                                   uint32_t stage);

/* The blocks that come with the input of `stage`: what the stage before sends. */
WEFT_API struct weft_block_span weft_traffic_receives(const struct weft_traffic *t,
                                                      uint32_t pipe, uint32_t stage);

/* The blocks that `stage` finishes. */
WEFT_API struct weft_block_span weft_traffic_finishes(const struct weft_traffic *t,
                                                      uint32_t stage);

#define WEFT_NO_STAGE UINT32_MAX

/* The stage, on the same rank, that brought or made the copy of `block` that `stage` reads (or
 * makes): its backward is the last to need it.  WEFT_NO_STAGE when the block is not finished yet.
 * With the cache full it is the same for all stages of a rank that see the block. */
WEFT_API uint32_t weft_traffic_source(const struct weft_traffic *t, uint32_t pipe,
                                      uint32_t stage, uint32_t block);

/* The first stage on `rank` that brought or made `block`; WEFT_NO_STAGE when none does. */
WEFT_API uint32_t weft_traffic_rank_source(const struct weft_traffic *t, uint32_t pipe,
                                           uint32_t rank, uint32_t block);

/* Plays the table through from the start: every stage has all finished blocks, each from its
 * bringer, and nobody sends what it does not have.  WEFT_INTERNAL otherwise: never, for a table
 * that weft_traffic_new() made. */
WEFT_API enum weft_status weft_traffic_verify(const struct weft_traffic *t,
                                              struct weft_error *err);

/* -- what it adds up to --------------------------------------------------------------------- */

/* For one micro in one pipe, forward; the backward is the same.
 * wanted = sent + handed + hits_received + hits_made. */
struct weft_traffic_count {
    size_t wanted;        /* finished blocks at each transition */
    size_t sent;          /* to another rank */
    size_t handed;        /* to the next stage on the same rank */
    size_t hits_received; /* not sent: the receiver has got it before */
    size_t hits_made;     /* not sent: the receiver made it */
    size_t hops;          /* transitions to another rank: each carries an activation besides */
};

WEFT_API struct weft_traffic_count weft_traffic_count(const struct weft_traffic *t,
                                                      uint32_t pipe);

/* Bytes of one tensor.  A block's gradient is a sum over ranks: as an exact one it takes 8 bytes
 * an element, whatever the payload is. */
struct weft_payload {
    size_t bytes;          /* a block, an activation, or the gradient of an activation */
    size_t gradient_bytes; /* the gradient of a block */
};

/* What goes over one directed pair of ranks in one step, all micros. */
struct weft_traffic_link {
    uint32_t from, to;
    size_t activations, blocks;        /* of forwards */
    size_t gradients, block_gradients; /* of backwards */
    size_t forward_bytes, backward_bytes;
};

/* What goes over all of them; n_links pairs have any traffic, in the order of from, then to. */
struct weft_traffic_step {
    size_t activations, blocks, gradients, block_gradients;
    size_t forward_bytes, backward_bytes;
    struct weft_traffic_link *links; /* owned */
    size_t n_links;
};

/* All micros of the placement, each in its pipe.  WEFT_NUMERIC when a sum does not fit.  The caller
 * releases *out. */
WEFT_API enum weft_status weft_traffic_step_init(struct weft_traffic_step *out,
                                                 const struct weft_traffic *t,
                                                 struct weft_payload payload,
                                                 struct weft_error *err);
WEFT_API void weft_traffic_step_release(struct weft_traffic_step *s);

/* The most copies of blocks that each rank holds at once when it runs its list of `s` in order.  A
 * copy lives from the forward that brings or makes it (in a schedule with messages: from the
 * receive) to the end of that stage's backward (B or I).  With the cache off every stage keeps
 * its own copies until then.  out is (ranks); times the payload it is bytes.  WEFT_USAGE when `s`
 * has another placement. */
WEFT_API enum weft_status weft_traffic_peak_blocks(const struct weft_traffic *t,
                                                   const struct weft_schedule *s, size_t *out,
                                                   struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
