/* What was measured of a run: the newest trace in its directory, and its schedule with the same
 * times. */
#ifndef TRAINING_RUN_RUNDIR_TRACE_H
#define TRAINING_RUN_RUNDIR_TRACE_H

#include "weft/cost.h"
#include "weft/status.h"
#include "weft/trace.h"

/* The path of the trace of the last step that was recorded, of the first replica; the caller frees
 * *out.  `step` may be NULL.  WEFT_DATA when there is none.  Local. */
enum weft_status wf_rundir_find_trace(const char *dir, char **out, unsigned *step,
                                      struct weft_error *err);

/* Reads that trace, and makes the trace of the run's schedule as it would be with the mean times
 * measured and messages that take no time; with `memory`, which may be NULL, it has what a rank
 * holds, too.  They are called "planned" and "measured"; the caller
 * releases both.  Local. */
enum weft_status wf_rundir_read_traces(const char *dir, const char *path,
                                       const struct weft_memory_cost *memory,
                                       struct weft_trace *planned, struct weft_trace *measured,
                                       struct weft_error *err);

#endif
