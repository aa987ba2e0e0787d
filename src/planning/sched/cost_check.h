/* Checks lists of values.  Used for all inputs that are either one value or one value per
 * stage, rank or hop. */
#ifndef PLANNING_SCHED_COST_CHECK_H
#define PLANNING_SCHED_COST_CHECK_H

#include "weft/cost.h"

/* Defines a valid list: it has 0, 1 or n values, and each value is between min and max
 * (inclusive). */
struct wf_values_rule {
    const char *what; /* borrowed: the name of the list in error messages */
    size_t n;
    const char *of; /* borrowed: the singular noun for the n items, for example "stage" */
    double min, max;
};

/* Returns WEFT_USAGE if a list violates its rule. */
enum weft_status wf_values_check(struct weft_values v, const struct wf_values_rule *rule,
                                 struct weft_error *err);

#endif
