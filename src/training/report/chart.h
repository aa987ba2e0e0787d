/* Draws curves over steps as SVG in a page.  The style sheet of the page defines the colours;
 * the script of the page shows the numbers under the pointer. */
#ifndef TRAINING_REPORT_CHART_H
#define TRAINING_REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "training/report/units.h"

enum wf_line_style {
    WF_LINE_STYLE_PLAIN,
    WF_LINE_STYLE_FAINT,  /* measured values behind a smoothed curve */
    WF_LINE_STYLE_DASHED, /* planned values */
    WF_LINE_STYLE_DOTS,   /* separate points */
};

enum { WF_CHART_COLOURS = 8 };

struct wf_chart_line {
    const char *name; /* borrowed; untrusted text, which is escaped */
    unsigned colour;  /* index into the page's colours, below WF_CHART_COLOURS */
    enum wf_line_style style;
    const double *x, *y; /* borrowed: (n) each, x ascends; a y of NAN is a gap */
    size_t n;
};

struct wf_chart {
    const char *id, *title; /* borrowed; trusted text, which is not escaped */
    enum wf_unit unit;
    double width, height;
    bool from_zero;
    bool crop;    /* the first 1 % of many steps may lie above the shown range */
    double level; /* height of a dashed line, drawn if it is in the shown range; NAN: none */
    const char *level_name;
    const double *marks; /* borrowed: (n_marks), steps that have a tick at the bottom */
    size_t n_marks;
    const struct wf_chart_line *lines; /* borrowed */
    size_t n_lines;
    bool legend, untitled; /* untitled: the title is not drawn, since a heading shows it */
};

/* Writes the figure to `page` and a JSON object with its numbers to `data`.  Returns false if
 * memory runs out. */
bool wf_chart_put(FILE *page, FILE *data, const struct wf_chart *c);

/* Selects the points of a line that are drawn on `pixels` pixels: the first, minimum,
 * maximum and last point of each pixel.  Writes their indices to `keep` (n) and returns
 * their number. */
size_t wf_chart_decimate(const struct wf_chart_line *line, double x0, double x1, double pixels,
                         size_t *keep);

#endif
