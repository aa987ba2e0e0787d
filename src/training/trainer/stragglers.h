/* Finds ranks that are slower than planned, over windows of several steps. */
#ifndef TRAINING_TRAINER_STRAGGLERS_H
#define TRAINING_TRAINER_STRAGGLERS_H

#include <stdint.h>

#include "training/trainer/summary.h"

struct wf_stragglers {
    /* a rank is slow if its time per planned work is this many times that of the fastest rank;
     * 0: off */
    double factor;
    double *planned_work; /* owned: (n_ranks), computed from the costs of the model */
    double *compute_ns;   /* owned: (n_ranks), computing time in the current window */
    uint32_t steps;       /* number of steps in the current window */
    int64_t begin_ns;
};

struct wf_straggler {
    /* number of steps of the window that ended with this step; 0: no window ended */
    uint32_t window_steps;
    uint32_t rank; /* the slow rank; UINT32_MAX: no rank is slow */
    /* time per planned work of the slowest rank divided by that of the fastest rank */
    double factor;
};

/* Computes the planned work of all ranks.  The caller releases *s even if this function fails.
 * Local. */
enum weft_status wf_stragglers_init(struct wf_stragglers *s, const struct wf_topology *topology,
                                    uint32_t n_ranks, double factor, struct weft_error *err);
void wf_stragglers_release(struct wf_stragglers *s);

/* Adds a step and reports a slow rank at the end of a window.  A window has at least 3 steps
 * and 2 seconds, since other load on a machine disturbs shorter measurements.  Called on rank
 * 0.  Local. */
struct wf_straggler wf_stragglers_check(struct wf_stragglers *s,
                                        const struct wf_summaries *summaries);

#endif
