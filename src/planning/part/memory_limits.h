/* The memory of stages in the form that searches for an order use: the change of memory at each
 * action, and what remains of a rank's limit after the memory that does not change. */
#ifndef PLANNING_PART_MEMORY_LIMITS_H
#define PLANNING_PART_MEMORY_LIMITS_H

#include "weft/part.h"
#include "weft/schedule.h"

struct wf_memory_limits {
    struct weft_memory_cost memory; /* in bytes; borrows `lists` */
    double *lists;                  /* owned: (3 * n_stages + n_ranks) */
};

/* Computes the memory of the stages, and what limits of all bytes of a rank leave to its
 * micro-batches.  There are `replicas` ranks for each rank of the placement; they divide the
 * moments.  `limits` has 1 value or one per rank.  Outputs and received inputs count until W,
 * and stages share memory without gaps, so that wf_planned_bytes_init() decides whether an
 * order fits.  The caller frees out->lists. */
enum weft_status wf_memory_limits_init(struct wf_memory_limits *out,
                                       const struct weft_items *items,
                                       const struct weft_partition *p,
                                       const struct weft_placement *place, uint32_t replicas,
                                       struct weft_values limits, struct weft_error *err);

#endif
