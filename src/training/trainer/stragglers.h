/* Finds ranks that are slower than planned, over windows of several steps. */
#ifndef TRAINING_TRAINER_STRAGGLERS_H
#define TRAINING_TRAINER_STRAGGLERS_H

#include <stdint.h>

#include "training/trainer/summary.h"

struct wf_stragglers {
    double
        factor; /* a rank that takes this many times the pace of the fastest is slow; 0: off */
    double *planned_work; /* owned: (n_ranks), by the model's costs */
    double *compute_ns;   /* owned: (n_ranks), in the current window */
    uint32_t steps;       /* in the current window */
    int64_t begin_ns;
};

struct wf_straggler {
    uint32_t window_steps; /* steps of the window that ended now; 0: none ended */
    uint32_t rank;         /* UINT32_MAX: no rank is slow */
    double factor;         /* pace of the slowest rank over that of the fastest */
};

/* Computes the planned work of all ranks.  The caller releases *s also if this fails.  Local. */
enum weft_status wf_stragglers_init(struct wf_stragglers *s, const struct wf_topology *topology,
                                    uint32_t n_ranks, double factor, struct weft_error *err);
void wf_stragglers_release(struct wf_stragglers *s);

/* Adds a step.  A window has at least 3 steps and 2 seconds, since other load on a machine
 * disturbs shorter measurements.  On rank 0.  Local. */
struct wf_straggler wf_stragglers_check(struct wf_stragglers *s,
                                        const struct wf_summaries *summaries);

#endif
