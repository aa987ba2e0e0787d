/* Reads the newest trace of a run, and plans its schedule with the measured times. */
#ifndef TRAINING_RUN_RUNDIR_TRACE_H
#define TRAINING_RUN_RUNDIR_TRACE_H

#include "weft/cost.h"
#include "weft/status.h"
#include "weft/trace.h"

/* Stores the path of the newest trace of the first replica, which the caller frees, and its step
 * (`step` may be NULL).  Returns WEFT_DATA if there is none.  Local. */
enum weft_status wf_rundir_find_trace(const char *dir, char **out, unsigned *step,
                                      struct weft_error *err);

/* Reads the trace at `path` into *measured, and fills *planned with the run's schedule timed by the
 * mean measured costs and free messages.  With `memory`, which may be NULL, *planned includes
 * memory.  The caller releases both.  Local. */
enum weft_status wf_rundir_read_traces(const char *dir, const char *path,
                                       const struct weft_memory_cost *memory,
                                       struct weft_trace *planned, struct weft_trace *measured,
                                       struct weft_error *err);

#endif
