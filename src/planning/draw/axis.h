/* The common time axis of several traces, and the texts that all formats share. */
#ifndef PLANNING_DRAW_AXIS_H
#define PLANNING_DRAW_AXIS_H

#include "base/text.h"
#include "weft/trace.h"

/* The common axis of several traces: real time if any trace has it, otherwise abstract time. */
struct wf_axis {
    double *factor; /* owned: (traces), axis units per unit of the trace's time */
    double end;     /* the latest end of all traces, greater than 0 */
    double show;    /* printed units per axis unit */
    const char *unit;
};

/* Computes the axis.  Returns WEFT_USAGE if only some traces are in real time and `unit_seconds` is 0. */
enum weft_status wf_axis_init(struct wf_axis *out, const struct weft_trace *traces, size_t n,
                              double unit_seconds, struct weft_error *err);
void wf_axis_release(struct wf_axis *a);

/* Returns the smallest of 1, 2, 5 times a power of ten that is at least `min`. */
double wf_axis_step(double min);

/* Prints a time as the axis shows it, without its unit. */
void wf_axis_print(const struct wf_axis *a, double time, char out[40]);
/* Returns the unit of the axis; "time" if it is abstract. */
const char *wf_axis_unit(const struct wf_axis *a);

/* Appends a heading such as "zb-v: 4 ranks, 8 stages, 8 micros". */
void wf_draw_heading(struct wf_text *out, const struct weft_trace *t);

/* Appends figures such as "makespan 27, bubble 11.1%; span 27, bubble 11.1%". */
enum weft_status wf_draw_metrics(struct wf_text *out, const struct weft_trace *t,
                                 const struct wf_axis *axis, size_t index,
                                 struct weft_error *err);

/* Prints the legend of a kind, such as "F  forward" or "activation sent". */
void wf_draw_kind_label(unsigned kind, char *out, size_t size);

/* Appends untrusted text as valid UTF-8 without control characters; '?' replaces everything else. */
void wf_draw_sanitize(struct wf_text *out, const char *text);

#endif
