/* Small problems to the end: the least makespan, and the proof. */
#ifndef PLANNING_TUNE_EXACT_H
#define PLANNING_TUNE_EXACT_H

#include "planning/tune/instance.h"

enum { WF_EXACT_MAX_OPS = 256 };

struct wf_exact {
    int64_t makespan; /* in: what is known to be possible; out: the best found */
    bool found;       /* one shorter than given */
    bool proven;      /* none is shorter than `makespan` */
    uint64_t nodes;   /* looked at */
    uint32_t *order;  /* (n_ops), rank by rank, when found; the caller's */
};

/* Looks at about `nodes` partial schedules at most.  `x` must be exact, possible, and of at most
 * WF_EXACT_MAX_OPS actions. */
enum weft_status wf_exact_search(const struct wf_instance *x, uint64_t nodes,
                                 struct wf_exact *out, struct weft_error *err);

#endif
