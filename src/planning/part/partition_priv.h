/* Functions that all kinds of partitions share. */
#ifndef PLANNING_PART_PARTITION_PRIV_H
#define PLANNING_PART_PARTITION_PRIV_H

#include "weft/part.h"

/* Creates a partition from the ends of its stages, in ascending order.  The last end is the
 * number of layers.  Verifies the result. */
enum weft_status wf_partition_init_ends(struct weft_partition *p, const uint32_t *ends,
                                        uint32_t n_stages, struct weft_error *err);

/* Checks that both sizes are at least 1 and at most their maximum.  More stages than layers are
 * allowed. */
enum weft_status wf_partition_check_sizes(uint32_t n_layers, uint32_t n_stages,
                                          struct weft_error *err);

#endif
