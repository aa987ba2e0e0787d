/* Reads the newest trace of a run, and simulates its schedule with the measured times. */
#ifndef TRAINING_RUN_RUNDIR_TRACE_H
#define TRAINING_RUN_RUNDIR_TRACE_H

#include "weft/cost.h"
#include "weft/status.h"
#include "weft/trace.h"

/* Stores the path of the newest trace of the first replica in *out, which the caller frees, and
 * its step in *step; `step` may be NULL.  Returns WEFT_DATA if there is no trace.  Local. */
enum weft_status wf_rundir_find_trace(const char *dir, char **out, unsigned *step,
                                      struct weft_error *err);

/* Reads the trace at `path` into *measured, and fills *planned with the trace of the schedule
 * of the run, simulated with the mean measured costs and with messages that take no time.  If
 * `memory` is not NULL, *planned includes memory.  The caller releases both traces.  Local. */
enum weft_status wf_rundir_read_traces(const char *dir, const char *path,
                                       const struct weft_memory_cost *memory,
                                       struct weft_trace *planned, struct weft_trace *measured,
                                       struct weft_error *err);

#endif
