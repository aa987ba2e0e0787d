/* Computes the metrics of a schedule with given hop times and rank speeds. */
#ifndef PLANNING_SCHED_METRICS_H
#define PLANNING_SCHED_METRICS_H

#include "planning/sched/start_times.h"
#include "weft/timing.h"

/* Computes the same metrics as weft_metrics_init(), but accepts all inputs of the clock (see
 * start_times.h). */
enum weft_status wf_metrics_init_full(struct weft_metrics *out,
                                      const struct wf_start_times_input *in,
                                      const struct weft_memory_cost *memory,
                                      struct weft_error *err);

#endif
