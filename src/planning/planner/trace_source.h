/* Reads traces from files.  A file contains a measured trace, a schedule, which is then proven
 * and timed, or the profile that PyTorch wrote for one rank.
 *
 *     struct wf_trace_set set = {.read = wf_input_read_as};
 *     wf_trace_set_add_file(&set, "plan.csv", &costs, &err);
 *     wf_trace_set_add_file(&set, "rank0.json", NULL, &err); ...
 *     wf_trace_set_finish(&set, &err);
 *     use(set.at, set.n);
 *     wf_trace_set_release(&set);
 */
#ifndef PLANNING_PLANNER_TRACE_SOURCE_H
#define PLANNING_PLANNER_TRACE_SOURCE_H

#include "base/input.h"
#include "weft/cost.h"
#include "weft/trace.h"

/* Several traces, in the order in which they were added.  All profiles of PyTorch are the ranks
 * of one trace, at the place of the first profile. */
struct wf_trace_set {
    wf_input_fn read; /* reads a file; a program may use a function that also decompresses */
    struct weft_trace *at; /* owned */
    size_t n, cap;
    struct weft_kineto *profiles; /* owned; NULL without profiles */
    size_t profiles_at;           /* the place of their trace, which is empty until the end */
};

/* The costs with which schedules are timed.  Borrowed. */
struct wf_trace_costs {
    const struct weft_cost *cost;
    const struct weft_memory_cost *memory;
};

/* Reads a file and adds its trace.  The path "-" means standard input.  If `costs` is NULL, the
 * file must be a measured trace or a profile.  Returns WEFT_SCHEDULE or WEFT_DATA if the file is
 * not valid. */
enum weft_status wf_trace_set_add_file(struct wf_trace_set *s, const char *path,
                                       const struct wf_trace_costs *costs,
                                       struct weft_error *err);

/* Adds a trace, which the set owns afterwards.  After a failure the caller still owns it. */
enum weft_status wf_trace_set_take(struct wf_trace_set *s, struct weft_trace *trace,
                                   struct weft_error *err);

/* Makes the trace of the profiles.  Call it once, after the last file. */
enum weft_status wf_trace_set_finish(struct wf_trace_set *s, struct weft_error *err);
void wf_trace_set_release(struct wf_trace_set *s);

/* Reads one measured trace.  `paths` is a path, or the paths of several profiles separated by
 * commas.  The caller releases *out. */
enum weft_status wf_trace_read_measured(const char *paths, wf_input_fn read,
                                        struct weft_trace *out, struct weft_error *err);

#endif
