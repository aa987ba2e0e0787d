/* Draws a schedule or a trace over time as text: one row per rank, within a given width. */
#ifndef PLANNING_DRAW_TIMELINE_H
#define PLANNING_DRAW_TIMELINE_H

#include "base/text.h"
#include "weft/draw.h"

/* Appends the rows and the axis of a timed schedule.  The letters F, B, I and W mark
 * actions, and dots mark idle time.  If there is room, a cell shows the micro-batch, and
 * also the stage if ranks have several stages.  Otherwise the cell shows only its letter.
 * If an action is narrower than a column, the column shows the action that covers its
 * middle.  `unit` is the name of the time unit in ASCII, such as "time" or "ms", for the
 * axis. */
void wf_draw_timeline(struct wf_text *out, const struct weft_schedule *s,
                      const struct weft_metrics *m, const char *unit,
                      struct weft_text_style style);

/* The axis under a trace. */
struct wf_text_axis {
    double factor;    /* axis units per time unit of the trace */
    double end;       /* end of the axis, in axis units */
    bool shared;      /* true if several traces share the axis, which then has the full width */
    bool lanes;       /* true if every lane of the trace has a row */
    const char *unit; /* borrowed: name of the axis unit in ASCII, such as "time" or "ms" */
};

/* Appends the events of a trace in the form of wf_draw_timeline().  Events of other lanes than
 * compute are omitted unless `axis->lanes` is true. */
void wf_draw_trace_timeline(struct wf_text *out, const struct weft_trace *t,
                            const struct wf_text_axis *axis, struct weft_text_style style);

#endif
