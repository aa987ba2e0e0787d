/* Functions that all kinds of partitions share. */
#ifndef PLANNING_PART_PARTITION_PRIV_H
#define PLANNING_PART_PARTITION_PRIV_H

#include "weft/part.h"

/* Creates a partition from the end of each stage, in ascending order; the last one is the number of
 * layers.  Verifies the result. */
enum weft_status wf_partition_init_ends(struct weft_partition *p, const uint32_t *ends,
                                        uint32_t n_stages, struct weft_error *err);

/* Checks sizes against 0 and their maximum.  More stages than layers are allowed. */
enum weft_status wf_partition_check_sizes(uint32_t n_layers, uint32_t n_stages,
                                          struct weft_error *err);

#endif
