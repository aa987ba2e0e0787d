/* The traffic of block attention residuals: the finished blocks that are sent over each hop.
 *
 * With block attention residuals a stage reads the activation from the previous stage and all
 * blocks that were finished so far.  One static table, built from the placement and the stages
 * that finish the blocks, lists for every transition between two stages the blocks that the
 * receiving rank does not have yet.  The simulator counts traffic with this table, and the
 * executor sends the blocks that the table lists, so predicted and measured traffic agree.
 *
 * Loop placement, 2 ranks, 4 stages, stage j finishes block j; the blocks each transition
 * sends:
 *
 *     cache      0 -> 1    1 -> 2    2 -> 3
 *     off        b0        b0 b1     b0 b1 b2      every finished block
 *     received   b0        b0 b1     b1 b2         except blocks that the rank received before
 *     full       b0        b1        b2            also except blocks that it computed
 *
 * The backward returns the gradients of the same blocks over the same hops in reverse.  A
 * transition between two stages on one rank sends nothing: blocks are passed within the rank.
 *
 *     uint32_t *finished_by = NULL, n = 0;
 *     weft_residual_blocks(&partition, 4, &finished_by, &n, &err);    // a block every 4 layers
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

/* The blocks of a micro-batch that a rank keeps for its later stages. */
enum weft_block_cache {
    WEFT_BLOCK_CACHE_OFF,
    /* Blocks received from another rank or from the previous stage on the same rank. */
    WEFT_BLOCK_CACHE_RECEIVED,
    WEFT_BLOCK_CACHE_FULL, /* received blocks and the blocks that the rank finished */
};

/* Returns the name of a cache mode: "off", "received" or "full". */
WEFT_API const char *weft_block_cache_name(enum weft_block_cache cache);

/* Computes the stage that finishes each block, with `layers_per_block` layers per block.  Block
 * 0 is the output of the embedding; stage 0 finishes it.  The head finishes the last block,
 * which may be shorter.  The sum of an unfinished block is sent as the ordinary activation.
 * The caller frees *out. */
WEFT_API enum weft_status weft_residual_blocks(const struct weft_partition *p,
                                               uint32_t layers_per_block, uint32_t **out,
                                               uint32_t *n, struct weft_error *err);

/* -- the table ----------------------------------------------------------------------------- */

struct weft_traffic; /* opaque: built once, then read-only, safe to read from any thread */

/* Builds the table.  finished_by[b] is the stage that finishes block b; finished_by[b] must not
 * decrease with b.  The table copies its inputs.  The caller owns *out and frees it with
 * weft_traffic_free(). */
WEFT_API enum weft_status weft_traffic_new(const struct weft_placement *placement,
                                           const uint32_t *finished_by, uint32_t n_blocks,
                                           enum weft_block_cache cache,
                                           struct weft_traffic **out, struct weft_error *err);

/* Frees a table.  NULL is allowed. */
WEFT_API void weft_traffic_free(struct weft_traffic *t);

/* Returns the placement of the table, with pipe_of set to NULL.  The pointer is borrowed. */
WEFT_API const struct weft_placement *weft_traffic_placement(const struct weft_traffic *t);

/* Returns the cache mode of the table. */
WEFT_API enum weft_block_cache weft_traffic_cache(const struct weft_traffic *t);

/* Returns the number of blocks. */
WEFT_API uint32_t weft_traffic_n_blocks(const struct weft_traffic *t);

/* Block numbers in ascending order. */
struct weft_block_span {
    const uint32_t *at; /* borrowed: until the table is freed */
    size_t len;
};

/* Returns the blocks that `stage` of `pipe` sends with its output to the next stage.  The
 * forward sends the blocks, the backward receives their gradients.  The result is empty for the
 * last stage. */
WEFT_API struct weft_block_span weft_traffic_sends(const struct weft_traffic *t, uint32_t pipe,
                                                   uint32_t stage);

/* Returns the blocks that `stage` receives with its input: the blocks that the previous stage
 * sends. */
WEFT_API struct weft_block_span weft_traffic_receives(const struct weft_traffic *t,
                                                      uint32_t pipe, uint32_t stage);

/* Returns the blocks that `stage` finishes. */
WEFT_API struct weft_block_span weft_traffic_finishes(const struct weft_traffic *t,
                                                      uint32_t stage);

#define WEFT_NO_STAGE UINT32_MAX

/* Returns the stage on the same rank that received or finished the copy of `block` that `stage`
 * uses.  The backward of the returned stage is the last one that needs the copy.  Returns
 * WEFT_NO_STAGE if the block is not finished yet.  With a full cache the result is the same for
 * all stages of a rank that use the block. */
WEFT_API uint32_t weft_traffic_source(const struct weft_traffic *t, uint32_t pipe,
                                      uint32_t stage, uint32_t block);

/* Returns the first stage on `rank` that receives or finishes `block`, or WEFT_NO_STAGE. */
WEFT_API uint32_t weft_traffic_rank_source(const struct weft_traffic *t, uint32_t pipe,
                                           uint32_t rank, uint32_t block);

/* Replays the table and checks that every stage has all finished blocks, each from its source,
 * and that no stage sends a block that it does not have.  Returns WEFT_INTERNAL if a check
 * fails; this cannot happen for a table from weft_traffic_new(). */
WEFT_API enum weft_status weft_traffic_verify(const struct weft_traffic *t,
                                              struct weft_error *err);

/* -- totals -------------------------------------------------------------------------------- */

/* Numbers of blocks in the forward of one micro-batch in one pipe.  The backward has the same
 * numbers.  It always holds that wanted = sent + handed + hits_received + hits_made. */
struct weft_traffic_count {
    size_t wanted;        /* finished blocks, summed over all transitions */
    size_t sent;          /* sent to another rank */
    size_t handed;        /* passed to the next stage on the same rank */
    size_t hits_received; /* not sent: the receiver received the block before */
    size_t hits_made;     /* not sent: the receiver finished the block */
    size_t hops;          /* transitions to another rank; each also sends an activation */
};

/* Counts the blocks of one micro-batch in `pipe`. */
WEFT_API struct weft_traffic_count weft_traffic_count(const struct weft_traffic *t,
                                                      uint32_t pipe);

/* Bytes of one tensor.  The gradient of a block is an exact sum over ranks, which takes 8 bytes
 * per element, independent of the type of the activations. */
struct weft_payload {
    size_t bytes;          /* a block, an activation, or the gradient of an activation */
    size_t gradient_bytes; /* the gradient of a block */
};

/* Traffic of one directed pair of ranks in one step, summed over all micro-batches. */
struct weft_traffic_link {
    uint32_t from, to;
    size_t activations, blocks;        /* numbers of tensors in forward messages */
    size_t gradients, block_gradients; /* numbers of tensors in backward messages */
    size_t forward_bytes, backward_bytes;
};

/* Traffic of one step.  `links` has the pairs with traffic, sorted by `from`, then by `to`. */
struct weft_traffic_step {
    size_t activations, blocks, gradients, block_gradients;
    size_t forward_bytes, backward_bytes;
    struct weft_traffic_link *links; /* owned */
    size_t n_links;
};

/* Sums the traffic of all micro-batches of the placement, each in its pipe.  Returns
 * WEFT_NUMERIC if a sum overflows.  The caller releases *out. */
WEFT_API enum weft_status weft_traffic_step_init(struct weft_traffic_step *out,
                                                 const struct weft_traffic *t,
                                                 struct weft_payload payload,
                                                 struct weft_error *err);

/* Frees the links of a step.  A zeroed step is allowed. */
WEFT_API void weft_traffic_step_release(struct weft_traffic_step *s);

/* Computes the maximum number of block copies that each rank stores at one time when it runs
 * its list of `s` in order.  A copy lives from the forward that receives or finishes it (in a
 * lowered schedule: from the receive) to the end of that stage's backward (B or I).  With the
 * cache off, every stage keeps its own copies until the end of its backward.  In a
 * forward-only schedule a rank drops all copies of a micro after its last forward of it.  out
 * is (ranks).
 * Returns WEFT_USAGE if the placement of `s` differs from the placement of the table. */
WEFT_API enum weft_status weft_traffic_peak_blocks(const struct weft_traffic *t,
                                                   const struct weft_schedule *s, size_t *out,
                                                   struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
