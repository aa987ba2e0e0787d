/* What the ways of making a partition share. */
#ifndef PLANNING_PART_PARTITION_PRIV_H
#define PLANNING_PART_PARTITION_PRIV_H

#include "weft/part.h"

/* Stage s gets the layers up to ends[s], which ascend; the last is the number of layers.  Ends
 * with weft_partition_verify(). */
enum weft_status wf_partition_init_ends(struct weft_partition *p, const uint32_t *ends,
                                        uint32_t n_stages, struct weft_error *err);

/* Zero sizes and more than the limits, but not more stages than layers. */
enum weft_status wf_partition_check_sizes(uint32_t n_layers, uint32_t n_stages,
                                          struct weft_error *err);

#endif
