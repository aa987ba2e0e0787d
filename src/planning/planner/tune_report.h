/* Writes the results of the search for orders and layouts as JSON and as text. */
#ifndef PLANNING_PLANNER_TUNE_REPORT_H
#define PLANNING_PLANNER_TUNE_REPORT_H

#include "base/text.h"
#include "planning/planner/plan.h"
#include "weft/tune.h"

/* What the result of a search is printed with. */
struct wf_tune_about {
    enum weft_minimize minimize;
    struct wf_time_unit time;
    const char *memory_unit; /* borrowed */
    bool stopped;            /* true if an interrupt ended the search */
    const char *command;     /* borrowed: the command that reproduces the result; may be NULL */
};

/* Writes the best order, its metrics and its bounds as one JSON object. */
void wf_tune_write_json(struct wf_json *j, const struct weft_tune_result *r,
                        const struct wf_tune_about *about);

/* Writes the best layouts as one JSON object. */
void wf_layouts_write_json(struct wf_json *j, const struct weft_layouts *l,
                           const struct wf_tune_about *about);

/* Appends the figures of the best order: how far it is from the optimum, memory, effort.  `plan`
 * has its schedule and metrics. */
void wf_tune_write_text(struct wf_text *out, const struct weft_tune_result *r,
                        const struct wf_plan *plan, const struct wf_tune_about *about);

/* Appends the best layouts as a table, and the partition of the best one. */
void wf_layouts_write_text(struct wf_text *out, const struct weft_layouts *l,
                           const struct wf_tune_about *about);

#endif
