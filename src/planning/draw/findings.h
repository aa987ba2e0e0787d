/* What is wrong with a schedule, shown in its rows. */
#ifndef PLANNING_DRAW_FINDINGS_H
#define PLANNING_DRAW_FINDINGS_H

#include "planning/draw/timeline.h"

/* Places in a schedule to point at, and what to say there. */
struct weft_pointer {
    uint32_t rank;
    size_t position;
    const char *text; /* borrowed */
};

/* Rows around the places, each cut to a few cells, with an arrow under every place. */
void weft_draw_pointers(struct weft_text *out, const struct weft_schedule *s,
                        const struct weft_pointer *pointers, size_t n,
                        struct weft_text_style style);

#endif
