/* What is wrong with a schedule, shown in its rows. */
#ifndef PLANNING_DRAW_FINDINGS_H
#define PLANNING_DRAW_FINDINGS_H

#include "planning/draw/timeline.h"

/* Places in a schedule to point at, and what to say there. */
struct wf_annotation {
    uint32_t rank;
    size_t position;
    const char *text; /* borrowed */
};

/* Rows around the places, each cut to a few cells, with an arrow under every place. */
void wf_draw_annotations(struct wf_text *out, const struct weft_schedule *s,
                         const struct wf_annotation *annotations, size_t n,
                         struct wf_text_style style);

#endif
