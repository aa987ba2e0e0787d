/* Times of the items of a model on a rank with a given speed. */
#ifndef PLANNING_SPEC_ITEM_TIMES_H
#define PLANNING_SPEC_ITEM_TIMES_H

#include "weft/spec.h"

/* Converts operation counts to times: divides the costs of all items by `flops` operations per
 * second, in units of `unit_seconds` (0: 1e-3).  If `flops` is 0, nothing changes. */
void wf_items_set_speed(struct weft_items *items, double flops, double unit_seconds);

#endif
