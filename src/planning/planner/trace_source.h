/* Reads traces from files.  A file contains either a measured trace or a schedule, which is
 * then proven and timed. */
#ifndef PLANNING_PLANNER_TRACE_SOURCE_H
#define PLANNING_PLANNER_TRACE_SOURCE_H

#include "weft/cost.h"
#include "weft/trace.h"

/* Reads a trace, or reads a schedule and then proves and times it with the given costs.  The
 * path "-" means standard input.  The caller releases *out.  Returns WEFT_SCHEDULE or
 * WEFT_DATA if the file is not valid. */
enum weft_status wf_trace_read(const char *path, const struct weft_cost *cost,
                               const struct weft_memory_cost *memory, struct weft_trace *out,
                               struct weft_error *err);

#endif
