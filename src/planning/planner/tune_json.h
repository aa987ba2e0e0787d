/* Writes the results of the search for orders and layouts as JSON. */
#ifndef PLANNING_PLANNER_TUNE_JSON_H
#define PLANNING_PLANNER_TUNE_JSON_H

#include "base/json.h"
#include "weft/tune.h"

/* Writes the best order, its metrics and its bounds as one JSON object. */
void wf_tune_write_json(struct wf_json *j, const struct weft_tune_result *r,
                        enum weft_minimize minimize);

/* Writes the best layouts as one JSON object. */
void wf_layouts_write_json(struct wf_json *j, const struct weft_layouts *l);

#endif
