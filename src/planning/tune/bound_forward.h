/* Lower bounds for forward-only schedules. */
#ifndef PLANNING_TUNE_BOUND_FORWARD_H
#define PLANNING_TUNE_BOUND_FORWARD_H

#include "weft/bound.h"

/* Computes bounds for every order of the forwards on the placement of `s`.  The makespan is at
 * least the time of one micro through the pipe, and for each rank the path to it, all of its
 * work and the path from it.  The span is at least the work of a rank.  `cost` may be NULL. */
enum weft_status wf_bounds_forward(const struct weft_schedule *s, const struct weft_cost *cost,
                                   struct weft_bounds *out, struct weft_error *err);

#endif
