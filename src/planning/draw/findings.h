/* Draws the rows of a schedule around given positions, such as verification findings. */
#ifndef PLANNING_DRAW_FINDINGS_H
#define PLANNING_DRAW_FINDINGS_H

#include "planning/draw/timeline.h"

/* A position in a schedule and the text to print there. */
struct wf_annotation {
    uint32_t rank;
    size_t position;
    const char *text; /* borrowed */
};

/* Appends the rows around the positions, each cut to a few cells, with a marker under every position. */
void wf_draw_annotations(struct wf_text *out, const struct weft_schedule *s,
                         const struct wf_annotation *annotations, size_t n,
                         struct weft_text_style style);

#endif
