/* What all ranks of a run have together: speed and memory. */
#ifndef TRAINING_TRAINER_RANK_TOTALS_H
#define TRAINING_TRAINER_RANK_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/cores.h"
#include "training/trainer/trainer.h"

/* What each rank tells. */
struct wf_rank_resources {
    double
        peak; /* flops a second of its threads, if each had a core to itself: compute/kern/peak.h */
    uint32_t threads;
    struct wf_cores cores; /* that it may use */
    struct wf_rank_bytes bytes;
    char host[64];
};

struct wf_rank_totals {
    double peak;               /* no more than the cores that there are allow */
    struct wf_rank_bytes most; /* of the rank that has the most */
    uint32_t most_rank;
    size_t all_bytes;
};

struct wf_rank_totals wf_rank_totals(const struct wf_rank_resources *cards, uint32_t n);

#endif
