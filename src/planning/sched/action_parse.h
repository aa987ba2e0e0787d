/* One cell of the text form, for other formats that name actions in the same way. */
#ifndef PLANNING_SCHED_ACTION_PARSE_H
#define PLANNING_SCHED_ACTION_PARSE_H

#include "weft/schedule.h"

/* A place in a text: where the reader stands, and what an error calls it. */
struct wf_cursor {
    const char *source;     /* borrowed */
    const char *at, *end;   /* borrowed */
    const char *line_start; /* borrowed */
    size_t line;            /* from 1 */
};

/* Reads "2F0" or "(0F7;7B3)OVERLAP_F_B" and moves c->at behind it.  A pair has out[0].paired set
 * and its other half in out[1].  WEFT_SCHEDULE with line and column when it is neither. */
enum weft_status wf_action_parse(struct wf_cursor *c, struct weft_action out[2],
                                 struct weft_error *err);

#endif
