/* List scheduling for any number of chunks a rank. */
#ifndef PLANNING_TUNE_LIST_SCHEDULE_H
#define PLANNING_TUNE_LIST_SCHEDULE_H

#include "planning/sched/gen/search.h"

/* How to choose when a rank has a choice. */
struct wf_list_rule {
    double ahead;       /* micros in flight on a rank at most */
    double ahead_slope; /* and how many more on each rank before the last */
    double patience;    /* a W may delay what is known to come by this much of its own time */
    bool forward_first; /* a forward goes before a gradient */
    bool oldest_first;  /* of two forwards that of the older micro, not of the deeper chunk */
};

/* Makes an order by this rule in s->order and tries it as one of WF_FAMILY_LIST. */
enum weft_status wf_list_try(struct wf_search *s, const struct wf_list_rule *rule,
                             struct wf_score *out, struct weft_error *err);

#endif
