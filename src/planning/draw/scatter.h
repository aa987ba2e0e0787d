/* Draws points as an SVG scatter plot.  Points on the Pareto front have a label.  All other
 * points show their name on hover. */
#ifndef PLANNING_DRAW_SCATTER_H
#define PLANNING_DRAW_SCATTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct wf_point {
    double x, y;
    const char *name; /* borrowed */
    /* true if the point is on the Pareto front, whose points are connected and labelled */
    bool front;
};

/* Writes the plot.  Returns false if memory allocation fails.  The caller must check the
 * stream for write errors. */
bool wf_draw_scatter(FILE *out, const struct wf_point *points, size_t n, const char *title,
                     const char *x_name, const char *y_name);

#endif
