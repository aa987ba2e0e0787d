/* Applies a list of layers and stages that recompute their activations to a model. */
#ifndef PLANNING_PART_RECOMPUTE_LAYERS_H
#define PLANNING_PART_RECOMPUTE_LAYERS_H

#include "planning/spec/recompute.h"
#include "weft/part.h"

/* Stores enum weft_recompute of each layer in `out`, (n_layers).  Without a partition (NULL),
 * ranges of stages are ignored.  Returns WEFT_USAGE with the column of a range that does not
 * exist or that overlaps another one.  `what` is the first part of the message. */
enum weft_status wf_recompute_set_layers(const struct wf_recompute_list *list, const char *what,
                                         uint32_t n_layers, const struct weft_partition *p,
                                         uint8_t *out, struct weft_error *err);

/* Returns whether the list has ranges of stages. */
bool wf_recompute_has_stages(const struct wf_recompute_list *list);

#endif
