/* Partitions for a given schedule: the memory that the ranks of the schedule need, and the
 * balanced partition that keeps the ranks within their limits.  The schedule determines the
 * number of micro-batches in flight. */
#ifndef PLANNING_PART_FOR_SCHEDULE_H
#define PLANNING_PART_FOR_SCHEDULE_H

#include "weft/part.h"

/* The bytes of every rank.  Both arrays are (n_ranks) and owned. */
struct wf_planned_bytes {
    uint32_t n_ranks;
    size_t *state; /* weights, gradients and optimizer state */
    size_t *total; /* the state plus the activations of the micros in flight */
};

/* Computes the bytes of every rank that executes the schedule `s`.  The caller releases
 * *out. */
enum weft_status wf_planned_bytes_init(struct wf_planned_bytes *out,
                                       const struct weft_schedule *s,
                                       const struct weft_partition *p,
                                       const struct weft_items *items, struct weft_error *err);

/* Frees both arrays.  The struct may be all zeros. */
void wf_planned_bytes_release(struct wf_planned_bytes *b);

/* Returns the largest of `n` byte counts. */
size_t wf_planned_bytes_max(const size_t *bytes, uint32_t n);

/* Balances the stages of `s` under memory limits of its ranks.  n_limits is 0 for no limits, 1
 * for the same limit on all ranks, or the number of ranks.  See
 * weft_partition_init_balanced(). */
enum weft_status wf_partition_init_limited(struct weft_partition *out,
                                           const struct weft_items *items,
                                           const struct weft_schedule *s,
                                           const size_t *limit_bytes, size_t n_limits,
                                           struct weft_error *err);

#endif
