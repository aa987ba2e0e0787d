/* Reads costs from text and files: time and memory of the stages and items of a model. */
#ifndef PLANNING_PLANNER_COSTS_H
#define PLANNING_PLANNER_COSTS_H

#include "weft/cost.h"
#include "weft/spec.h"
#include "weft/status.h"

/* In all functions `what` names the text in errors, and lists are released with
 * wf_costs_release(), also after a failure. */

/* Reads "F=1,I=1,W=1", also with B, FB and C (a hop), into *cost. */
enum weft_status wf_cost_parse(const char *text, const char *what, struct weft_cost *cost,
                               struct weft_error *err);

/* Reads "F=1,I=0,W=-1", the change of memory at each action, into *memory. */
enum weft_status wf_memory_cost_parse(const char *text, const char *what,
                                      struct weft_memory_cost *memory, struct weft_error *err);

/* Reads "F=1,I=1,W=1,bytes=..,act=.." into *item.  Keys that are not given keep their times;
 * bytes become 0.  NULL changes nothing. */
enum weft_status wf_item_parse(const char *text, const char *what, struct weft_item *item,
                               struct weft_error *err);

/* Reads a file of costs, see config/costfile.h. */
enum weft_status wf_cost_read(const char *path, struct weft_cost *cost,
                              struct weft_memory_cost *memory, struct weft_error *err);

/* Reads a trace and stores the mean times of its stages, in the unit of the trace. */
enum weft_status wf_cost_read_trace(const char *path, struct weft_cost *cost,
                                    struct weft_error *err);

/* Copies a list; the copy is owned by the caller. */
enum weft_status wf_values_copy(struct weft_values *to, struct weft_values from,
                                struct weft_error *err);

/* Copies all lists of both; the copies are owned by the caller. */
enum weft_status wf_costs_copy(struct weft_cost *cost, struct weft_memory_cost *memory,
                               const struct weft_cost *from,
                               const struct weft_memory_cost *memory_from,
                               struct weft_error *err);

#endif
