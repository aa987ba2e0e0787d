/* Channels.  There is one channel per ordered pair (sender, receiver) of ranks and per
 * direction of data (forward or backward). */
#ifndef PLANNING_SCHED_CHANNEL_H
#define PLANNING_SCHED_CHANNEL_H

#include "weft/schedule.h"

struct wf_channel {
    uint32_t from, to; /* sending rank and receiving rank */
    /* true: carries gradients (backward); false: carries activations (forward) */
    bool gradient;
};

struct wf_channels {
    size_t n;
    struct wf_channel *at; /* owned */
    /* owned: (pipes, stages - 1), entry s is the channel between stages s and s + 1, or
     * WF_CHANNEL_NONE if both stages are on the same rank */
    uint32_t *forward, *backward;
    uint32_t n_stages;
};

#define WF_CHANNEL_NONE UINT32_MAX

/* Numbers the channels of a placement.  With `by_pair`, forward and backward data from one rank
 * to another share one channel.  This models a transport without message tags. */
enum weft_status wf_channels_init(struct wf_channels *c, const struct weft_placement *place,
                                  bool by_pair, struct weft_error *err);

/* Frees the tables and resets *c to empty. */
void wf_channels_release(struct wf_channels *c);

/* Returns the channel that a send or receive action uses. */
static inline uint32_t wf_channel_of(const struct wf_channels *c,
                                     const struct weft_placement *place, struct weft_action a)
{
    size_t pipe = (size_t)weft_placement_pipe(place, a.micro) * (c->n_stages - 1);
    switch (a.kind) {
    case WEFT_ACT_SEND_F:
        return c->forward[pipe + a.stage];
    case WEFT_ACT_RECV_F:
        return c->forward[pipe + a.stage - 1];
    case WEFT_ACT_SEND_B:
        return c->backward[pipe + a.stage - 1];
    case WEFT_ACT_RECV_B:
        return c->backward[pipe + a.stage];
    }
    return WF_CHANNEL_NONE;
}

#endif
