/* The common time axis of several traces, and the texts that all formats share. */
#ifndef PLANNING_DRAW_AXIS_H
#define PLANNING_DRAW_AXIS_H

#include "base/text.h"
#include "weft/trace.h"

/* The common axis of several traces.  It shows real time if at least one trace has real
 * time, and abstract time otherwise. */
struct wf_axis {
    double *factor; /* owned: (traces), axis units per time unit of each trace */
    double end;     /* the latest end of all traces; always greater than 0 */
    double show;    /* printed units per axis unit */
    const char *unit;
};

/* Computes the axis.  Returns WEFT_USAGE if some but not all traces are in real time and
 * `unit_seconds` is 0. */
enum weft_status wf_axis_init(struct wf_axis *out, const struct weft_trace *traces, size_t n,
                              double unit_seconds, struct weft_error *err);
void wf_axis_release(struct wf_axis *a);

/* Returns the smallest value of the form 1, 2 or 5 times a power of ten that is at least
 * `min`. */
double wf_axis_step(double min);

/* Prints a time as the axis shows it, without the unit. */
void wf_axis_print(const struct wf_axis *a, double time, char out[40]);
/* Returns the name of the axis unit; "time" for abstract time. */
const char *wf_axis_unit(const struct wf_axis *a);

/* Appends a heading such as "zb-v: 4 ranks, 8 stages, 8 micros". */
void wf_draw_heading(struct wf_text *out, const struct weft_trace *t);

/* Appends figures such as "makespan 27, bubble 11.1%; span 27, bubble 11.1%". */
enum weft_status wf_draw_metrics(struct wf_text *out, const struct weft_trace *t,
                                 const struct wf_axis *axis, size_t index,
                                 struct weft_error *err);

/* Returns the label of a lane's rows, at most four letters; "" for the compute lane. */
const char *wf_lane_label(enum weft_lane lane);

/* Prints the legend text of a kind, such as "F  forward" or "activation sent". */
void wf_draw_kind_label(unsigned kind, char *out, size_t size);

/* Appends untrusted text as valid UTF-8 without control characters.  Each invalid byte or
 * control character is replaced by '?'. */
void wf_draw_sanitize(struct wf_text *out, const char *text);

#endif
