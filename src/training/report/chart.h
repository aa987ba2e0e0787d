/* Curves over steps, as SVG in a page.  The page's style sheet has the colours; its script shows the
 * numbers under the pointer. */
#ifndef TRAINING_REPORT_CHART_H
#define TRAINING_REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "training/report/units.h"

enum wf_line_style {
    WF_LINE_STYLE_PLAIN,
    WF_LINE_STYLE_FAINT,  /* behind a smoothed one */
    WF_LINE_STYLE_DASHED, /* a plan */
    WF_LINE_STYLE_DOTS,   /* few points */
};

enum { WF_CHART_COLOURS = 8 };

struct wf_chart_line {
    const char *name; /* borrowed; untrusted */
    unsigned colour;  /* index into the page's colours, below WF_CHART_COLOURS */
    enum wf_line_style style;
    const double *x, *y; /* borrowed: (n), x ascends; y NAN is a gap */
    size_t n;
};

struct wf_chart {
    const char *id, *title; /* borrowed; trusted */
    enum wf_unit unit;
    double width, height;
    bool from_zero;
    bool crop;    /* the first hundredth of many steps may be above the shown range */
    double level; /* a dashed line at that height, if in range; NAN: none */
    const char *level_name;
    const double *marks; /* borrowed: (n_marks) steps with a tick at the bottom */
    size_t n_marks;
    const struct wf_chart_line *lines; /* borrowed */
    size_t n_lines;
    bool legend, untitled; /* untitled: a heading has the title */
};

/* Writes the figure to `page` and a JSON object with its numbers to `data`.  Returns false if memory
 * runs out. */
bool wf_chart_put(FILE *page, FILE *data, const struct wf_chart *c);

/* Selects the points of a line that are drawn on so many pixels: the first, minimum, maximum and last
 * one of each pixel.  Writes their indices to `keep` (n) and returns their number. */
size_t wf_chart_decimate(const struct wf_chart_line *line, double x0, double x1, double pixels,
                         size_t *keep);

#endif
