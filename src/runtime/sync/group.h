/* A vector of which several ranks hold a copy: its gradient is summed over all of them, each
 * updates its share, and the shares go to all.
 *
 *     wf_group_new(&setup, &g, &err);
 *     each step:  wf_group_reduce(g, step, &err);         this rank's gradient is complete
 *                 wf_group_progress(g, &done, &err);      again and again, between other work
 *                 wf_group_finish(g, &err);               own share has the sum over all now
 *                 ... update the values of the own share ...
 *                 wf_group_all_gather(g, step, &err);         all values are there
 *
 * The sum is taken piece by piece: a piece is added as soon as all members' are there, in the
 * order of members, so that fp32 sums do not depend on who was first; exact ones never do. */
#ifndef RUNTIME_SYNC_GROUP_H
#define RUNTIME_SYNC_GROUP_H

#include "compute/kern/pool.h"
#include "weft/comm.h"

/* Sums of several groups run side by side, each on a channel of its own. */
enum { WF_MAX_GROUPS = WEFT_N_CHANNELS - WEFT_GROUP_CHANNEL };

struct wf_group_setup {
    struct weft_comm *comm; /* borrowed, like all that is given here; NULL with one member */
    struct wf_pool *pool;
    const uint32_t *members; /* ascending, this rank among them */
    uint32_t n_members;
    uint32_t id;        /* the same on all, another for each group; below WF_MAX_GROUPS */
    const size_t *cuts; /* (n_members + 1): member h's share is from cuts[h] to cuts[h + 1] */
    int64_t *exact;     /* the gradient of this rank's copy ... */
    float *fast;        /* ... or in fp32; the other is NULL */
    float *value;
};

struct wf_group;

enum weft_status wf_group_new(const struct wf_group_setup *setup, struct wf_group **out,
                              struct weft_error *err);
void wf_group_free(struct wf_group *g); /* NULL is allowed */

/* What a member needs for the pieces of others, where receives need memory, when its share has so
 * many elements. */
size_t wf_group_buffer_bytes(uint32_t n_members, size_t share, size_t element_bytes);

size_t wf_group_bytes(const struct wf_group *g); /* of its buffers */

/* Starts to send.  Local. */
enum weft_status wf_group_reduce(struct wf_group *g, uint64_t step, struct weft_error *err);
/* Adds what has come, and says whether all has and all of this rank's was taken.  Local. */
enum weft_status wf_group_progress(struct wf_group *g, bool *done, struct weft_error *err);
/* Until it is done.  WEFT_NUMERIC when a sum in the own share is beyond its range; the exchange is
 * over all the same.  Collective, over the members. */
enum weft_status wf_group_finish(struct wf_group *g, struct weft_error *err);

/* Gives the own share's values to all and takes theirs.  Collective, over the members. */
enum weft_status wf_group_all_gather(struct wf_group *g, uint64_t step, struct weft_error *err);

#endif
