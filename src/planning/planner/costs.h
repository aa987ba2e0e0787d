/* Reads costs from text and files: time and memory of the stages and items of a model. */
#ifndef PLANNING_PLANNER_COSTS_H
#define PLANNING_PLANNER_COSTS_H

#include "weft/cost.h"
#include "weft/spec.h"
#include "weft/status.h"

/* In all functions, `what` names the text in error messages.  The caller releases the lists
 * with wf_costs_release(), even after a failure. */

/* Reads costs such as "F=1,I=1,W=1" into *cost.  The keys B, FB and C (a hop) are also
 * allowed. */
enum weft_status wf_cost_parse(const char *text, const char *what, struct weft_cost *cost,
                               struct weft_error *err);

/* Reads the change of memory by each action, such as "F=1,I=0,W=-1", into *memory. */
enum weft_status wf_memory_cost_parse(const char *text, const char *what,
                                      struct weft_memory_cost *memory, struct weft_error *err);

/* Reads the costs of an item, such as "F=1,I=1,W=1,bytes=..,act=..", into *item.  Times
 * whose keys are missing keep their values, and missing bytes become 0.  NULL changes
 * nothing. */
enum weft_status wf_item_parse(const char *text, const char *what, struct weft_item *item,
                               struct weft_error *err);

/* Reads a cost file, see config/costfile.h. */
enum weft_status wf_cost_read(const char *path, struct weft_cost *cost,
                              struct weft_memory_cost *memory, struct weft_error *err);

/* Reads a trace and stores the mean times of its stages, in the time unit of the trace. */
enum weft_status wf_cost_read_trace(const char *path, struct weft_cost *cost,
                                    struct weft_error *err);

/* Copies a list.  The caller owns the copy. */
enum weft_status wf_values_copy(struct weft_values *to, struct weft_values from,
                                struct weft_error *err);

/* Copies all lists of both structs.  The caller owns the copies. */
enum weft_status wf_costs_copy(struct weft_cost *cost, struct weft_memory_cost *memory,
                               const struct weft_cost *from,
                               const struct weft_memory_cost *memory_from,
                               struct weft_error *err);

#endif
