/* The exact search: finds the minimum makespan of a small problem and proves it. */
#ifndef PLANNING_TUNE_EXACT_H
#define PLANNING_TUNE_EXACT_H

#include "planning/tune/instance.h"

enum { WF_EXACT_MAX_OPS = 256, WF_EXACT_MAX_ROWS = 64 };

struct wf_exact {
    int64_t makespan; /* in: makespan of a known schedule; out: the minimum found */
    bool found;       /* true if a schedule shorter than the known one was found */
    bool proven;      /* true if no schedule is shorter than `makespan` */
    uint64_t nodes;   /* number of partial schedules visited */
    /* borrowed: (n_ops), the lists of all ranks in sequence; written if `found` */
    uint32_t *order;
};

/* Searches for a shorter schedule and visits at most about `nodes` partial schedules.  `x`
 * must be exact and must not be impossible.  It must have at most WF_EXACT_MAX_OPS actions,
 * and at most WF_EXACT_MAX_ROWS rows per rank. */
enum weft_status wf_exact_search(const struct wf_instance *x, uint64_t nodes,
                                 struct wf_exact *out, struct weft_error *err);

#endif
