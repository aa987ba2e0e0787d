/* Draws points as an SVG scatter plot.  Points on the Pareto front are labelled, others on hover. */
#ifndef PLANNING_DRAW_SCATTER_H
#define PLANNING_DRAW_SCATTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct wf_point {
    double x, y;
    const char *name; /* borrowed */
    bool front;       /* on the Pareto front: connected and labelled */
};

/* Writes the plot.  Returns false without memory; write errors stay in the stream. */
bool wf_draw_scatter(FILE *out, const struct wf_point *points, size_t n, const char *title,
                     const char *x_name, const char *y_name);

#endif
