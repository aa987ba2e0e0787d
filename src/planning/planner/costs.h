/* Reads costs from text and files: time and memory of the stages and items of a model. */
#ifndef PLANNING_PLANNER_COSTS_H
#define PLANNING_PLANNER_COSTS_H

#include "base/input.h"
#include "config/values.h"
#include "weft/cost.h"
#include "weft/spec.h"
#include "weft/status.h"

/* The units of all costs of a problem.  Times with units are converted to units of times.scale
 * seconds.  Amounts of memory with units are in bytes. */
struct wf_cost_units {
    struct wf_units times, amounts;
};

/* Returns units without values. */
struct wf_cost_units wf_cost_units_make(double unit_seconds);

/* Returns true if times have units, so that a time unit is known. */
static inline bool wf_costs_are_timed(const struct wf_cost_units *u)
{
    return u->times.with[0] != '\0';
}

/* In all functions, `what` names the text in error messages.  The caller releases the lists
 * with wf_costs_release(), even after a failure. */

/* Reads costs such as "F=1,I=1,W=1" into *cost.  The keys B, FB and C (a hop) are also
 * allowed. */
enum weft_status wf_cost_parse(const char *text, const char *what, struct wf_cost_units *units,
                               struct weft_cost *cost, struct weft_error *err);

/* Reads the change of memory by each action, such as "F=1,I=0,W=-1", into *memory. */
enum weft_status wf_memory_cost_parse(const char *text, const char *what,
                                      struct wf_cost_units *units,
                                      struct weft_memory_cost *memory, struct weft_error *err);

/* Reads the costs of an item, such as "F=1,I=1,W=1,bytes=..,act=..", into *item.  Times
 * whose keys are missing keep their values; if times have units, a missing I or W is equal to F.
 * Missing bytes become 0.  NULL changes nothing. */
enum weft_status wf_item_parse(const char *text, const char *what, struct wf_cost_units *units,
                               struct weft_item *item, struct weft_error *err);

/* Reads a cost file, see config/costfile.h. */
enum weft_status wf_cost_read(const char *path, struct wf_cost_units *units,
                              struct weft_cost *cost, struct weft_memory_cost *memory,
                              struct weft_error *err);

/* Reads a measured trace, see wf_trace_read_measured(), and stores the mean times of its stages
 * and of a hop.  They are converted if the trace has a time unit.  A trace without waits does
 * not show the time of a hop, which is then 0. */
enum weft_status wf_cost_read_trace(const char *paths, wf_input_fn read,
                                    struct wf_cost_units *units, struct weft_cost *cost,
                                    struct weft_error *err);

/* Checks that all costs agree in having units, after everything was read, and sets the times that
 * are missing: I and W are F, or half of B each.  Returns WEFT_USAGE if a value with a unit meets
 * a default without one: F, or the memory of a forward.  If `items` is true, the items of a model
 * determine the times of stages, and no time is set. */
enum weft_status wf_costs_complete(const struct wf_cost_units *units, bool items,
                                   struct weft_cost *cost,
                                   const struct weft_memory_cost *memory,
                                   struct weft_error *err);

/* Copies all lists of both structs.  The caller owns the copies. */
enum weft_status wf_costs_copy(struct weft_cost *cost, struct weft_memory_cost *memory,
                               const struct weft_cost *from,
                               const struct weft_memory_cost *memory_from,
                               struct weft_error *err);

#endif
