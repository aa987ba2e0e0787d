/* Points of two figures as an SVG picture: what is on the front is named, the rest on hover. */
#ifndef PLANNING_DRAW_SCATTER_H
#define PLANNING_DRAW_SCATTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct wf_point {
    double x, y;
    const char *name; /* borrowed */
    bool front;       /* joined by a line, and named */
};

/* False when there is no memory. */
bool wf_draw_scatter(FILE *out, const struct wf_point *points, size_t n, const char *title,
                     const char *x_name, const char *y_name);

#endif
