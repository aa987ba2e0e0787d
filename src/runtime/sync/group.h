/* A vector of which several ranks hold a copy: its gradient is summed over all of them, each
 * updates its share, and the shares go to all.
 *
 *     weft_group_new(&setup, &g, &err);
 *     each step:  weft_group_reduce(g, step, &err);         this rank's gradient is complete
 *                 weft_group_progress(g, &done, &err);      again and again, between other work
 *                 weft_group_finish(g, &err);               own share has the sum over all now
 *                 ... update the values of the own share ...
 *                 weft_group_spread(g, step, &err);         all values are there
 *
 * The sum is taken piece by piece: a piece is added as soon as all holders' are there, in the
 * order of holders, so that fp32 sums do not depend on who was first; exact ones never do. */
#ifndef RUNTIME_SYNC_GROUP_H
#define RUNTIME_SYNC_GROUP_H

#include "compute/kern/pool.h"
#include "weft/comm.h"

/* Sums of several groups run side by side, each on a channel of its own. */
enum { WEFT_MAX_GROUPS = WEFT_N_CHANNELS - WEFT_GROUP_CHANNEL };

struct weft_group_setup {
    struct weft_comm *comm; /* borrowed, like all that is given here; NULL with one holder */
    struct weft_pool *pool;
    const uint32_t *holders; /* ascending, this rank among them */
    uint32_t n_holders;
    uint32_t id;        /* the same on all, another for each group; below WEFT_MAX_GROUPS */
    const size_t *cuts; /* (n_holders + 1): holder h's share is from cuts[h] to cuts[h + 1] */
    int64_t *exact;     /* the gradient of this rank's copy ... */
    float *fast;        /* ... or in fp32; the other is NULL */
    float *value;
};

struct weft_group;

enum weft_status weft_group_new(const struct weft_group_setup *setup, struct weft_group **out,
                                struct weft_error *err);
void weft_group_free(struct weft_group *g); /* NULL is allowed */

/* What a holder needs for the pieces of others, where receives need memory, when its share has so
 * many elements. */
size_t weft_group_room(uint32_t n_holders, size_t share, size_t element_bytes);

size_t weft_group_bytes(const struct weft_group *g); /* of its buffers */

/* Starts to send.  Local. */
enum weft_status weft_group_reduce(struct weft_group *g, uint64_t step, struct weft_error *err);
/* Adds what has come, and says whether all has and all of this rank's was taken.  Local. */
enum weft_status weft_group_progress(struct weft_group *g, bool *done, struct weft_error *err);
/* Until it is done.  WEFT_NUMERIC when a sum in the own share is beyond its range; the exchange is
 * over all the same.  Collective, over the holders. */
enum weft_status weft_group_finish(struct weft_group *g, struct weft_error *err);

/* Gives the own share's values to all and takes theirs.  Collective, over the holders. */
enum weft_status weft_group_spread(struct weft_group *g, uint64_t step, struct weft_error *err);

#endif
