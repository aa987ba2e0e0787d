/* Balanced partitions for a given schedule, which determines the number of micro-batches in
 * flight. */
#ifndef PLANNING_PART_FOR_SCHEDULE_H
#define PLANNING_PART_FOR_SCHEDULE_H

#include "weft/part.h"

/* Balances the stages of `s` under memory limits of its ranks, see wf_planned_bytes_init().
 * n_limits is 0 for no limits, 1 for the same limit on all ranks, or the number of ranks.  If
 * the partition without limits does not fit, each stage counts as if its layers recomputed as
 * much as any layer, and the chunks of a rank count as if they reached their peaks together.
 * See weft_partition_init_balanced() for the result. */
enum weft_status wf_partition_init_limited(struct weft_partition *out,
                                           const struct weft_items *items,
                                           const struct weft_schedule *s, uint32_t replicas,
                                           const size_t *limit_bytes, size_t n_limits,
                                           struct weft_error *err);

#endif
