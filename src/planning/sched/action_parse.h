/* Parses one cell of the schedule text form.  Other file formats that contain actions in this
 * form use this parser as well. */
#ifndef PLANNING_SCHED_ACTION_PARSE_H
#define PLANNING_SCHED_ACTION_PARSE_H

#include "weft/schedule.h"

/* A read position in a text. */
struct wf_cursor {
    const char *source;     /* borrowed: the name of the text in error messages */
    const char *at, *end;   /* borrowed: the memory of the text */
    const char *line_start; /* borrowed: the memory of the text */
    size_t line;            /* line number, starting at 1 */
};

/* Parses "2F0" or "(0F7;7B3)OVERLAP_F_B" and moves c->at past the parsed text.  For a pair,
 * sets out[0].paired and stores the second action in out[1].  Returns WEFT_SCHEDULE, with line
 * and column in the message, if the text is neither an action nor a pair. */
enum weft_status wf_action_parse(struct wf_cursor *c, struct weft_action out[2],
                                 struct weft_error *err);

#endif
