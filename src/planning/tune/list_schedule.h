/* List scheduling for any number of chunks per rank. */
#ifndef PLANNING_TUNE_LIST_SCHEDULE_H
#define PLANNING_TUNE_LIST_SCHEDULE_H

#include "planning/sched/gen/search.h"

/* Parameters that control the choice among ready actions. */
struct wf_list_rule {
    double in_flight;       /* maximum number of micros in flight on the last rank */
    double in_flight_slope; /* additional micros in flight per rank before the last rank */
    double w_slack; /* maximum delay of a known arrival by a W, in units of the time of the W */
    bool forward_first; /* true to prefer forwards to gradients */
    /* true to prefer the forward of the older micro to that of the deeper chunk */
    bool oldest_first;
};

/* Builds an order by a rule in s->order and tries this order in WF_FAMILY_LIST. */
enum weft_status wf_list_try(struct wf_search *s, const struct wf_list_rule *rule,
                             struct wf_score *out, struct weft_error *err);

#endif
