/* Curves over steps, as SVG in a page; its colours are the page's style, and what a pointer shows
 * is the page's script from numbers beside it. */
#ifndef TRAINING_REPORT_CHART_H
#define TRAINING_REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "training/report/units.h"

enum wf_line_style {
    WF_LINE_STYLE_PLAIN,
    WF_LINE_STYLE_FAINT,  /* behind a smooth one */
    WF_LINE_STYLE_DASHED, /* a plan */
    WF_LINE_STYLE_DOTS,   /* few and far between */
};

enum { WF_CHART_COLOURS = 8 };

struct wf_chart_line {
    const char *name; /* borrowed; from anywhere */
    unsigned colour;  /* of the page's, 0 .. WF_CHART_COLOURS - 1 */
    enum wf_line_style style;
    const double *x, *y; /* borrowed: (n), x ascends; y that is no number is a hole */
    size_t n;
};

struct wf_chart {
    const char *id, *title; /* borrowed; title from us */
    enum wf_unit unit;
    double width, height;
    bool from_zero;
    bool crop;    /* the first hundredth of many steps may lie above what is shown */
    double level; /* a dashed line at that height, when it is seen; NAN: none */
    const char *level_name;
    const double *marks; /* borrowed: (n_marks) steps with a tick at the bottom */
    size_t n_marks;
    const struct wf_chart_line *lines; /* borrowed */
    size_t n_lines;
    bool legend, untitled; /* untitled: a heading says it already */
};

/* Puts the figure on `page`, and an object with its numbers on `data`, which is JSON for a script
 * element.  False without memory. */
bool wf_chart_put(FILE *page, FILE *data, const struct wf_chart *c);

/* Numbers of the points that are drawn of a line that has so many pixels: of every pixel's the
 * first, the least, the greatest and the last.  `keep` has room for n; gives how many. */
size_t wf_chart_decimate(const struct wf_chart_line *line, double x0, double x1, double pixels,
                         size_t *keep);

#endif
