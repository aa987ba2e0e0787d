/* The steps of PyTorch's lowering that precede and follow the addition of messages. */
#ifndef PLANNING_SCHED_LOWER_PRIV_H
#define PLANNING_SCHED_LOWER_PRIV_H

#include "weft/schedule.h"

/* The differences between releases of PyTorch. */
struct wf_torch_dialect {
    bool waits; /* 2.15: adds the waits, and frees parameters in the order of their use */
};

/* Copies a schedule without messages and adds UNSHARD, RESHARD and REDUCE_GRAD, and with
 * `waits` also WAIT_REDUCE_GRAD.  Every stage must be on one rank.  The caller owns *out. */
enum weft_status wf_torch_add_sharding(const struct weft_schedule *s,
                                       struct wf_torch_dialect dialect,
                                       struct weft_schedule **out, struct weft_error *err);

/* Copies a lowered schedule and adds a wait for every send.  The caller owns *out. */
enum weft_status wf_torch_add_send_waits(const struct weft_schedule *s,
                                         struct weft_schedule **out, struct weft_error *err);

#endif
