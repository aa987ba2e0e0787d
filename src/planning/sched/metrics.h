/* Metrics of a run whose hops and speeds are given in full. */
#ifndef PLANNING_SCHED_METRICS_H
#define PLANNING_SCHED_METRICS_H

#include "planning/sched/start_times.h"
#include "weft/timing.h"

/* As weft_metrics_init(). */
enum weft_status wf_metrics_init_full(struct weft_metrics *out,
                                      const struct wf_start_times_input *in,
                                      const struct weft_memory_cost *memory,
                                      struct weft_error *err);

#endif
