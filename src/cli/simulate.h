/* The text output of weft simulate. */
#ifndef CLI_SIMULATE_H
#define CLI_SIMULATE_H

#include "base/text.h"
#include "cli/plan.h"
#include "planning/planner/simulation.h"
#include "weft/cache.h"

/* Prints a plan with the times and figures of its simulation.  `file` has the same meaning as
 * in wf_plan_print_text(). */
void wf_simulation_print_text(struct wf_text *out, const struct wf_simulation *s,
                              const struct wf_plan *plan, const char *file,
                              struct weft_text_style style);

/* Prints the counts of the reference system's cache model. */
void wf_ref_traffic_print_text(struct wf_text *out, const struct weft_ref_traffic *c);

#endif
