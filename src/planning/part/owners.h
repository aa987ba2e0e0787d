/* The inverse of a placement: the ranks of each stage. */
#ifndef PLANNING_PART_OWNERS_H
#define PLANNING_PART_OWNERS_H

#include "weft/part.h"

struct wf_owner {
    uint32_t rank;
    uint64_t in_flight; /* micro-batches with stored activations at one time, over all pipes */
};

struct wf_owners {
    uint32_t n_stages, n_ranks;
    size_t *start;       /* owned: stage s has the owners start[s] .. start[s + 1] - 1 */
    struct wf_owner *at; /* owned: a rank occurs at most once per stage */
};

/* Checks `rank_limits` (may be NULL) against the number of stages and lists the owners of each
 * stage.  The caller releases *owners. */
enum weft_status wf_owners_init(struct wf_owners *owners,
                                const struct weft_rank_limits *rank_limits, uint32_t n_stages,
                                struct weft_error *err);

/* Frees the lists. */
void wf_owners_release(struct wf_owners *owners);

/* Returns true if a rank owns the first and the last stage. */
bool wf_owners_first_and_last(const struct wf_owners *owners, uint32_t rank);

#endif
