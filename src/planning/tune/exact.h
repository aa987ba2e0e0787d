/* Small problems to the end: the least makespan, and the proof. */
#ifndef PLANNING_TUNE_EXACT_H
#define PLANNING_TUNE_EXACT_H

#include "planning/tune/instance.h"

enum { WEFT_EXACT_MOST_OPS = 256 };

struct weft_exact {
    int64_t makespan; /* in: what is known to be possible; out: the best found */
    bool found;       /* one shorter than given */
    bool proven;      /* none is shorter than `makespan` */
    uint64_t nodes;   /* looked at */
    uint32_t *order;  /* (n_ops), rank by rank, when found; the caller's */
};

/* Looks at about `nodes` partial schedules at most.  `x` must be exact, possible, and of at most
 * WEFT_EXACT_MOST_OPS actions. */
enum weft_status weft_exact_search(const struct weft_instance *x, uint64_t nodes,
                                   struct weft_exact *out, struct weft_error *err);

#endif
