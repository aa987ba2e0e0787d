/* Time and words that all forms of a picture share. */
#ifndef PLANNING_DRAW_AXIS_H
#define PLANNING_DRAW_AXIS_H

#include "base/text.h"
#include "weft/trace.h"

/* The common axis of some traces: real time when they have any, else abstract. */
struct wf_axis {
    double *factor; /* owned: (traces), axis units a unit of the trace's time */
    double end;     /* the last end of all, more than 0 */
    double show;    /* what is printed for one axis unit */
    const char *unit;
};

/* WEFT_USAGE when some traces are in real time, some are not, and `unit_seconds` is 0. */
enum weft_status wf_axis_init(struct wf_axis *out, const struct weft_trace *traces, size_t n,
                              double unit_seconds, struct weft_error *err);
void wf_axis_release(struct wf_axis *a);

/* The least of 1, 2, 5, 10, 20, ... times a power of ten that is at least `least`, in axis units
 * but round as printed. */
double wf_axis_step(double least);

/* A time as the axis shows it, without and with its unit. */
void wf_axis_print(const struct wf_axis *a, double time, char out[40]);
const char *wf_axis_unit(const struct wf_axis *a); /* "time" when abstract */

/* "zb-v: 4 ranks, 8 stages, 8 micros" */
void wf_draw_heading(struct wf_text *out, const struct weft_trace *t);

/* "makespan 27, bubble 11.1%, span 27, bubble 11.1%" */
enum weft_status wf_draw_metrics(struct wf_text *out, const struct weft_trace *t,
                                 const struct wf_axis *axis, size_t index,
                                 struct weft_error *err);

/* "F  forward", "send of an activation" */
void wf_draw_kind_label(unsigned kind, char *out, size_t size);

/* Text from outside as valid UTF-8 without control characters: '?' stands for what is not. */
void wf_draw_sanitize(struct wf_text *out, const char *text);

#endif
