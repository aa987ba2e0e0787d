/* A schedule in time, as text: one row a rank, as wide as there is room. */
#ifndef DRAW_TIMELINE_H
#define DRAW_TIMELINE_H

#include "base/text.h"
#include "weft/timing.h"

struct weft_text_style {
    unsigned width; /* columns */
    bool colour;    /* escape sequences of a terminal */
    bool utf8;      /* else ASCII only */
};

/* F, B, I and W are told apart by their letter, with and without colour; idle time is dotted.
 * Where there is room a cell says which micro (and stage, when ranks hold several); where there is
 * not, its letter; where there is less than a column an action, the letter of the action in the
 * middle of each column. */
void weft_draw_timeline(struct weft_text *out, const struct weft_schedule *s,
                        const struct weft_metrics *m, struct weft_text_style style);

#endif
