/* What all ranks of a run have together: speed and memory. */
#ifndef TRAINING_TRAINER_RANKSUM_H
#define TRAINING_TRAINER_RANKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/cores.h"
#include "training/trainer/trainer.h"

/* What each rank tells. */
struct weft_rank_card {
    double
        peak; /* flops a second of its threads, if each had a core to itself: compute/kern/peak.h */
    uint32_t threads;
    struct weft_cores cores; /* that it may use */
    struct weft_rank_bytes bytes;
    char host[64];
};

struct weft_rank_sum {
    double peak;                 /* no more than the cores that there are allow */
    struct weft_rank_bytes most; /* of the rank that has the most */
    uint32_t most_rank;
    size_t all_bytes;
};

struct weft_rank_sum weft_rank_sum(const struct weft_rank_card *cards, uint32_t n);

#endif
