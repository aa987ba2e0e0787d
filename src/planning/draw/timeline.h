/* A schedule in time, as text: one row a rank, as wide as there is room. */
#ifndef PLANNING_DRAW_TIMELINE_H
#define PLANNING_DRAW_TIMELINE_H

#include "base/text.h"
#include "weft/trace.h"

struct wf_text_style {
    unsigned width; /* columns */
    bool colour;    /* escape sequences of a terminal */
    bool utf8;      /* else ASCII only */
};

/* F, B, I and W are told apart by their letter, with and without colour; idle time is dotted.
 * Where there is room a cell says which micro (and stage, when ranks hold several); where there is
 * not, its letter; where there is less than a column an action, the letter of the action in the
 * middle of each column. */
void wf_draw_timeline(struct wf_text *out, const struct weft_schedule *s,
                      const struct weft_metrics *m, struct wf_text_style style);

/* What the axis under a trace shows. */
struct wf_text_axis {
    double factor;    /* of its units for one of the trace's time */
    double end;       /* where it ends */
    bool shared;      /* with other traces: it is as wide as there is room */
    const char *unit; /* borrowed: "time", "ms"; ASCII */
};

/* The compute events of a trace, in the same way. */
void wf_draw_trace_timeline(struct wf_text *out, const struct weft_trace *t,
                            const struct wf_text_axis *axis, struct wf_text_style style);

#endif
