/* Writes a scatter plot with its Pareto front as SVG. */
#include "planning/draw/scatter.h"

#include <math.h>
#include <stdlib.h>

#include "base/escape.h"

enum { WIDTH = 900, HEIGHT = 560, LEFT = 80, RIGHT = 190, TOP = 60, BOTTOM = 60 };

struct axes {
    double x_step, y_step, x_most, y_least, y_most;
};

/* Returns a step of the form 1, 2 or 5 times a power of ten that divides the axis into about
 * eight parts. */
static double step_for(double max)
{
    double step = pow(10, floor(log10(max / 8)));
    return max / step > 40 ? 5 * step : max / step > 16 ? 2 * step : step;
}

static double to_x(const struct axes *a, double x)
{
    return LEFT + x / a->x_most * (WIDTH - LEFT - RIGHT);
}

static double to_y(const struct axes *a, double y)
{
    return HEIGHT - BOTTOM -
           (y - a->y_least) / (a->y_most - a->y_least) * (HEIGHT - TOP - BOTTOM);
}

static void put_axes(FILE *out, const struct axes *a, const char *x_name, const char *y_name)
{
    for (double x = 0; x <= a->x_most * (1 + 1e-9); x += a->x_step)
        fprintf(out,
                "<path d='M%.1f %dV%d' class='g'/><text x='%.1f' y='%d' class='m'>%g</text>\n",
                to_x(a, x), TOP, HEIGHT - BOTTOM, to_x(a, x), HEIGHT - BOTTOM + 18, x);
    for (double y = a->y_least; y <= a->y_most * (1 + 1e-9); y += a->y_step)
        fprintf(out,
                "<path d='M%d %.1fH%d' class='g'/><text x='%d' y='%.1f' class='e'>%g</text>\n",
                LEFT, to_y(a, y), WIDTH - RIGHT, LEFT - 8, to_y(a, y) + 4, y);
    fprintf(out, "<text x='%d' y='%d' class='m'>", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18);
    wf_escape_markup(out, x_name);
    fprintf(out, "</text>\n<text x='%d' y='%d'>", LEFT - 60, TOP - 14);
    wf_escape_markup(out, y_name);
    fputs("</text>\n", out);
}

static int by_height(const void *pa, const void *pb)
{
    const struct wf_point *a = *(const struct wf_point *const *)pa;
    const struct wf_point *b = *(const struct wf_point *const *)pb;
    return a->y != b->y ? (a->y < b->y ? 1 : -1) : (a->x > b->x) - (a->x < b->x);
}

/* Draws the Pareto front from the slowest to the fastest point.  The labels are in a column
 * at the right, with a minimum distance.  A thin line connects each label with its point. */
static void put_front(FILE *out, const struct axes *a, const struct wf_point *const *front,
                      size_t n)
{
    double last = TOP - 20;
    for (size_t i = 1; i < n; i++)
        fprintf(out, "<path d='M%.1f %.1fL%.1f %.1f' class='f'/>\n", to_x(a, front[i - 1]->x),
                to_y(a, front[i - 1]->y), to_x(a, front[i]->x), to_y(a, front[i]->y));
    for (size_t i = 0; i < n; i++) {
        double x = to_x(a, front[i]->x), y = to_y(a, front[i]->y);
        last = y > last + 18 ? y : last + 18;
        fprintf(out, "<path d='M%.1f %.1fL%d %.1f' class='l'/><text x='%d' y='%.1f'>", x, y,
                WIDTH - RIGHT + 14, last, WIDTH - RIGHT + 18, last + 4);
        wf_escape_markup(out, front[i]->name);
        fputs("</text>\n", out);
    }
}

/* Chooses the range of y.  The range starts slightly below the minimum and ends at the top
 * of the front, or at 1.5 times the minimum if that is larger.  So a few much worse points
 * do not compress all other points. */
static struct axes choose_axes(const struct wf_point *points, size_t n)
{
    struct axes a = {.x_most = 1e-300, .y_least = HUGE_VAL, .y_most = 1e-300};
    double highest = 0;
    for (size_t i = 0; i < n; i++) {
        a.x_most = fmax(a.x_most, points[i].x);
        a.y_least = fmin(a.y_least, points[i].y);
        highest = fmax(highest, points[i].y);
        if (points[i].front)
            a.y_most = fmax(a.y_most, points[i].y);
    }
    if (n == 0 || highest <= 0)
        a.y_least = 0;
    a.y_most = fmin(highest, fmax(a.y_most, 1.5 * a.y_least));
    a.y_most = a.y_most > 0 ? a.y_most : 1;
    a.x_step = step_for(a.x_most);
    a.y_step = step_for(a.y_most - 0.9 * a.y_least);
    a.y_least = floor(0.95 * a.y_least / a.y_step) * a.y_step;
    a.x_most = ceil(a.x_most / a.x_step) * a.x_step;
    a.y_most = ceil(a.y_most / a.y_step) * a.y_step;
    return a;
}

bool wf_draw_scatter(FILE *out, const struct wf_point *points, size_t n, const char *title,
                     const char *x_name, const char *y_name)
{
    const struct wf_point **front = malloc(sizeof *front * (n + 1));
    size_t n_front = 0, n_beyond = 0;
    if (front == NULL)
        return false;

    for (size_t i = 0; i < n; i++)
        if (points[i].front)
            front[n_front++] = &points[i];
    struct axes a = choose_axes(points, n);
    qsort(front, n_front, sizeof(const struct wf_point *), by_height);

    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' "
            "height='%d' font-family='sans-serif' font-size='13'>\n<style>.g{stroke:#ddd}"
            ".f{stroke:#0072b2;stroke-width:2;fill:none}.l{stroke:#999;stroke-width:.6}"
            ".m{text-anchor:middle}.e{text-anchor:end}</style>\n"
            "<rect width='100%%' height='100%%' fill='#fff'/>\n"
            "<text x='%d' y='24' font-size='16' font-weight='bold'>",
            WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT - 60);
    wf_escape_markup(out, title);
    fputs("</text>\n", out);

    put_axes(out, &a, x_name, y_name);
    put_front(out, &a, front, n_front);

    for (size_t i = 0; i < n; i++) {
        if (points[i].y > a.y_most) {
            n_beyond++;
            continue;
        }
        fprintf(out, "<circle cx='%.1f' cy='%.1f' r='5' fill='%s' stroke='#333'><title>",
                to_x(&a, points[i].x), to_y(&a, points[i].y),
                points[i].front ? "#0072b2" : "#ddd");
        wf_escape_markup(out, points[i].name);
        fputs("</title></circle>\n", out);
    }

    if (n_beyond > 0)
        fprintf(out, "<text x='%d' y='%d' class='e'>%zu more above</text>\n", WIDTH - RIGHT,
                TOP - 14, n_beyond);
    fputs("</svg>\n", out);
    free(front);
    return true;
}
