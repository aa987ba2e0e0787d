/* Adds up the speed and the memory of all ranks of a run. */
#ifndef TRAINING_TRAINER_RANK_TOTALS_H
#define TRAINING_TRAINER_RANK_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/cores.h"
#include "training/trainer/trainer.h"

/* The resources of one rank. */
struct wf_rank_resources {
    /* flop/s of the threads of the rank if each has its own core: compute/kern/peak.h */
    double peak;
    uint32_t threads;
    struct wf_cores cores; /* cores that the rank may use */
    struct wf_rank_bytes bytes;
    char host[64];
};

struct wf_rank_totals {
    double peak;                  /* flop/s of all ranks, limited by the cores of each host */
    struct wf_rank_bytes largest; /* bytes of the rank with the maximum total */
    uint32_t largest_rank;
    size_t all_bytes;
};

/* Returns the totals of `n` ranks.  Local. */
struct wf_rank_totals wf_rank_totals(const struct wf_rank_resources *ranks, uint32_t n);

#endif
