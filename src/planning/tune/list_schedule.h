/* List scheduling for any number of chunks per rank. */
#ifndef PLANNING_TUNE_LIST_SCHEDULE_H
#define PLANNING_TUNE_LIST_SCHEDULE_H

#include "planning/sched/gen/search.h"

/* Parameters of the choice among ready actions. */
struct wf_list_rule {
    double in_flight;       /* maximum micros in flight on the last rank */
    double in_flight_slope; /* additional ones per rank before it */
    double w_slack; /* delay that a W may cause to a known arrival, in units of its own time */
    bool forward_first; /* prefer forwards to gradients */
    bool oldest_first;  /* prefer the older micro's forward, not the deeper chunk's */
};

/* Makes an order by a rule in s->order and tries it in WF_FAMILY_LIST. */
enum weft_status wf_list_try(struct wf_search *s, const struct wf_list_rule *rule,
                             struct wf_score *out, struct weft_error *err);

#endif
