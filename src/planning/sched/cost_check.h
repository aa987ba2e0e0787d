/* The check of a list of values, for all inputs given as one value or one per stage, rank or hop. */
#ifndef PLANNING_SCHED_COST_CHECK_H
#define PLANNING_SCHED_COST_CHECK_H

#include "weft/cost.h"

/* The valid lists: 0, 1 or n values, all from min to max. */
struct wf_values_rule {
    const char *what; /* borrowed: the name of the list in messages */
    size_t n;
    const char *of; /* borrowed: what there are n of, in the singular */
    double min, max;
};

/* Returns WEFT_USAGE if a list violates its rule. */
enum weft_status wf_values_check(struct weft_values v, const struct wf_values_rule *rule,
                                 struct weft_error *err);

#endif
