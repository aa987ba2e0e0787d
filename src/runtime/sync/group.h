/* A group is a vector that is replicated on several ranks.  The gradient of the vector is
 * reduce-scattered over these ranks, each rank updates its shard, and the shards are
 * all-gathered.
 *
 *     wf_group_new(&setup, &g, &err);
 *     each step:  wf_group_reduce(g, step, &err);         this rank's gradient is complete
 *                 wf_group_progress(g, &done, &err);      repeatedly, between other work
 *                 wf_group_finish(g, &err);               the own shard has the sums
 *                 ... update the values of the own shard ...
 *                 wf_group_all_gather(g, step, &err);     all values are complete
 *
 * The vector is summed in pieces.  A piece is added when it has arrived from all members, in
 * the order of members, so fp32 sums do not depend on the order of arrival.  Exact sums never
 * depend on it. */
#ifndef RUNTIME_SYNC_GROUP_H
#define RUNTIME_SYNC_GROUP_H

#include "compute/kern/pool.h"
#include "weft/comm.h"

/* Several groups are reduced concurrently, each on its own channel. */
enum { WF_MAX_GROUPS = WEFT_N_CHANNELS - WEFT_GROUP_CHANNEL };

struct wf_group_setup {
    /* NULL if the group has one member; all pointers in this struct are borrowed. */
    struct weft_comm *comm;
    struct wf_pool *pool;
    const uint32_t *members; /* ranks in ascending order, including this rank */
    uint32_t n_members;
    uint32_t id; /* number of the group, equal on all members, unique, below WF_MAX_GROUPS */
    const size_t
        *cuts;      /* (n_members + 1): the shard of member h is cuts[h] .. cuts[h + 1] - 1 */
    int64_t *exact; /* the gradient of this rank as exact sums; NULL if `fast` is used */
    float *fast;    /* the gradient of this rank in fp32; NULL if `exact` is used */
    float *value;
};

struct wf_group;

/* Allocates a group.  wf_group_free() frees it.  Local. */
enum weft_status wf_group_new(const struct wf_group_setup *setup, struct wf_group **out,
                              struct weft_error *err);
void wf_group_free(struct wf_group *g); /* NULL is allowed */

/* Returns the bytes that a member with a shard of `share` elements needs for received pieces,
 * on transports that copy. */
size_t wf_group_buffer_bytes(uint32_t n_members, size_t share, size_t element_bytes);

/* Returns the bytes of the group's buffers. */
size_t wf_group_bytes(const struct wf_group *g);

/* Starts the reduction of this step.  Local. */
enum weft_status wf_group_reduce(struct wf_group *g, uint64_t step, struct weft_error *err);
/* Adds the pieces that have arrived.  Sets *done if all pieces have arrived and all pieces of
 * this rank were received.  Local. */
enum weft_status wf_group_progress(struct wf_group *g, bool *done, struct weft_error *err);
/* Waits until the reduction is done.  Returns WEFT_NUMERIC if a sum in the own shard is out of
 * range; the exchange is complete even in that case.  Collective over the members. */
enum weft_status wf_group_finish(struct wf_group *g, struct weft_error *err);

/* Sends the values of the own shard to all members and receives the values of their shards.
 * Collective over the members. */
enum weft_status wf_group_all_gather(struct wf_group *g, uint64_t step, struct weft_error *err);

#endif
