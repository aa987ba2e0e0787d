/* Metrics of a run whose hops and speeds are given in full. */
#ifndef PLANNING_SCHED_TIMING_H
#define PLANNING_SCHED_TIMING_H

#include "planning/sched/clock.h"
#include "weft/timing.h"

/* As weft_metrics_init(). */
enum weft_status weft_metrics_init_clock(struct weft_metrics *out,
                                         const struct weft_clock_input *in,
                                         const struct weft_memory *memory,
                                         struct weft_error *err);

#endif
