/* Figures of plans as text: times and amounts of memory with their units. */
#ifndef PLANNING_PLANNER_PLAN_TEXT_H
#define PLANNING_PLANNER_PLAN_TEXT_H

#include "base/text.h"
#include "base/units.h"
#include "planning/planner/plan.h"

/* Writes a time with its unit, "40.5 ms"; without a known unit, the number. */
const char *wf_plan_time(char out[WF_NUMBER_CHARS], double time, struct wf_time_unit unit);

/* Returns the name of a time unit in at most 9 columns, for axes and columns of tables. */
const char *wf_plan_axis(struct wf_time_unit unit);

/* Appends "1f1b: 4 ranks, 4 stages (linear), 8 micros" and an empty line.  `file` is the name of a
 * schedule that has no name. */
void wf_plan_write_title(struct wf_text *out, const struct wf_plan *p, const char *file);

/* Appends the figures of a plan, one line each.  Rows of figures are shortened to `width`
 * columns. */
void wf_plan_write_figures(struct wf_text *out, const struct wf_plan *p, unsigned width);

/* Appends the line with the peak memory of every rank. */
void wf_plan_write_memory(struct wf_text *out, const struct wf_plan *p, unsigned width);

/* Appends the line with the layers of every stage. */
void wf_plan_write_layers(struct wf_text *out, const struct weft_partition *p, unsigned width);

#endif
