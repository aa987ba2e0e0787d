/* Draws the rows of a schedule around given positions, such as verification findings. */
#ifndef PLANNING_DRAW_FINDINGS_H
#define PLANNING_DRAW_FINDINGS_H

#include "planning/draw/timeline.h"

/* A position in a schedule and the text to print at this position. */
struct wf_annotation {
    uint32_t rank;
    size_t position;
    const char *text; /* borrowed */
};

/* Appends the rows that contain the positions.  Each row is cut to a few cells around its
 * positions and has a marker under every position. */
void wf_draw_annotations(struct wf_text *out, const struct weft_schedule *s,
                         const struct wf_annotation *annotations, size_t n,
                         struct weft_text_style style);

#endif
