/* Prints measured costs and their spread. */
#ifndef PLANNING_PLANNER_COST_REPORT_H
#define PLANNING_PLANNER_COST_REPORT_H

#include "base/json.h"
#include "base/text.h"
#include "weft/sim.h"

/* Appends a table with one row per stage and kind of action, and one for hops.  Times are in
 * milliseconds if `unit_seconds`, the unit of the trace, is not 0. */
void wf_cost_spread_print(struct wf_text *out, const struct weft_cost_spread *s,
                          double unit_seconds);

/* Writes the member "costs": an array with one object per stage, whose members are the measured
 * kinds, and the member "hop".  Times are in the unit of the trace. */
void wf_cost_spread_write_json(struct wf_json *j, const struct weft_cost_spread *s);

#endif
