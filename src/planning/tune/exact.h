/* The exact search: finds the minimum makespan of a small problem and proves it. */
#ifndef PLANNING_TUNE_EXACT_H
#define PLANNING_TUNE_EXACT_H

#include "planning/tune/instance.h"

enum { WF_EXACT_MAX_OPS = 256, WF_EXACT_MAX_ROWS = 64 };

struct wf_exact {
    int64_t makespan; /* in: of a known schedule; out: the minimum found */
    bool found;       /* a shorter schedule than the known one was found */
    bool proven;      /* no schedule is shorter than `makespan` */
    uint64_t nodes;   /* number of partial schedules visited */
    uint32_t *order;  /* borrowed: (n_ops), rank by rank; written if found */
};

/* Searches for a shorter schedule, visiting about `nodes` partial schedules at most.  `x` must be
 * exact and possible, with at most WF_EXACT_MAX_OPS actions and WF_EXACT_MAX_ROWS rows per rank. */
enum weft_status wf_exact_search(const struct wf_instance *x, uint64_t nodes,
                                 struct wf_exact *out, struct weft_error *err);

#endif
