/* Reads traces that are named by a path: a trace file, a profile of PyTorch, a schedule, or the
 * directory of a run. */
#ifndef TRAINING_RUN_TRACE_LIST_H
#define TRAINING_RUN_TRACE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "planning/planner/costs.h"
#include "planning/planner/trace_source.h"

struct wf_trace_list {
    struct wf_trace_set set;
    bool mixed_units; /* some traces are in real time, others in abstract units */
};

/* Reads all paths.  A file gives one trace; all profiles of PyTorch are the ranks of one trace.
 * A schedule is proven and timed with `cost` and `memory`.  The directory of a run gives two
 * traces: its schedule with the measured times, and its newest trace.  `read` reads a file.
 * Returns WEFT_DATA or WEFT_SCHEDULE if a file is not valid or a run has no trace.  The caller
 * releases *out.  Local. */
enum weft_status wf_trace_list_init(struct wf_trace_list *out, const char *const *paths,
                                    size_t n, wf_input_fn read, const struct weft_cost *cost,
                                    const struct weft_memory_cost *memory,
                                    struct weft_error *err);
void wf_trace_list_release(struct wf_trace_list *l); /* a zeroed list is allowed */

/* Stores the mean measured times of the stages of a trace: a file, profiles separated by commas,
 * or the newest trace in the directory of a run.  The caller releases the lists of *cost, even
 * after a failure.  Local. */
enum weft_status wf_cost_read_measured(const char *path, wf_input_fn read,
                                       struct wf_cost_units *units, struct weft_cost *cost,
                                       struct weft_error *err);

#endif
