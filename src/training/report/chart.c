/* Draws curves over steps as SVG, and writes the numbers of the curves for the script. */
#include "training/report/chart.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/escape.h"
#include "planning/draw/axis.h"

enum { MANY = 200 };
enum { LEFT = 58, RIGHT = 14, TOP = 12, BOTTOM = 26 };

struct frame {
    double x0, x1, y0, y1, y_step; /* the shown range */
    double left, top, width, height;
};

/* -- thinning ------------------------------------------------------------------------------ */

/* Selects up to four of the points begin .. end - 1, which share a pixel. */
static size_t decimate_bucket(const struct wf_chart_line *line, size_t begin, size_t end,
                              size_t *keep)
{
    size_t min = begin, max = begin, n = 0;
    for (size_t i = begin; i < end; i++) {
        if (line->y[i] < line->y[min] || isnan(line->y[min]))
            min = i;
        if (line->y[i] > line->y[max] || isnan(line->y[max]))
            max = i;
    }
    size_t low = min < max ? min : max, high = min < max ? max : min;
    const size_t four[] = {begin, low, high, end - 1};
    for (size_t k = 0; k < WEFT_LEN(four); k++)
        if (n == 0 || four[k] > keep[n - 1])
            keep[n++] = four[k];
    return n;
}

size_t wf_chart_decimate(const struct wf_chart_line *line, double x0, double x1, double pixels,
                         size_t *keep)
{
    size_t n = 0;
    double scale = x1 > x0 ? pixels / (x1 - x0) : 0;
    for (size_t begin = 0, end; begin < line->n; begin = end) {
        double pixel = floor((line->x[begin] - x0) * scale);
        for (end = begin + 1; end < line->n; end++)
            if (floor((line->x[end] - x0) * scale) != pixel)
                break;
        n += decimate_bucket(line, begin, end, keep + n);
    }
    return n;
}

/* -- the shown range ----------------------------------------------------------------------- */

/* Returns true if point i may lie above the shown range.  A loss falls so far at the start that
 * the rest of its curve would look flat otherwise. */
static bool is_cropped(const struct wf_chart *c, const struct wf_chart_line *line, size_t i)
{
    return c->crop && line->n >= MANY && i < line->n / 100;
}

static struct frame choose_frame(const struct wf_chart *c)
{
    struct frame f = {.x0 = HUGE_VAL, .x1 = -HUGE_VAL, .left = LEFT, .top = TOP};
    double low = c->from_zero ? 0 : HUGE_VAL, high = -HUGE_VAL;

    for (size_t k = 0; k < c->n_lines; k++)
        for (size_t i = 0; i < c->lines[k].n; i++) {
            f.x0 = fmin(f.x0, c->lines[k].x[i]);
            f.x1 = fmax(f.x1, c->lines[k].x[i]);
            low = fmin(low, c->lines[k].y[i]);
            if (!is_cropped(c, &c->lines[k], i))
                high = fmax(high, c->lines[k].y[i]);
        }

    /* Avoids empty ranges. */
    if (!(f.x1 >= f.x0))
        f.x0 = f.x1 = 0;
    if (f.x1 == f.x0)
        f.x1 = f.x0 + 1;
    if (!(high >= low) || !isfinite(low))
        low = 0, high = 1;
    if (high - low < 1e-9 * fabs(high) + 1e-300) { /* all values are equal */
        double around = high == 0 ? 1 : fabs(high) * 0.1;
        low = c->from_zero ? 0 : low - around;
        high += around;
    }

    f.width = c->width - LEFT - RIGHT;
    f.height = c->height - TOP - BOTTOM;
    f.y_step = wf_axis_step((high - low) / (f.height > 150 ? 5 : 4));
    f.y0 = c->from_zero && low >= 0 ? 0 : floor(low / f.y_step) * f.y_step;
    f.y1 = ceil(high / f.y_step - 1e-9) * f.y_step;
    return f;
}

static double to_x(const struct frame *f, double x)
{
    return f->left + (x - f->x0) / (f->x1 - f->x0) * f->width;
}

static double to_y(const struct frame *f, double y)
{
    return f->top + (f->y1 - y) / (f->y1 - f->y0) * f->height;
}

/* -- SVG ----------------------------------------------------------------------------------- */

static void put_axes(FILE *out, const struct wf_chart *c, const struct frame *f)
{
    char text[WF_FORMAT_LEN];
    double bottom = f->top + f->height;

    fputs("<path class=\"grid\" d=\"", out);
    for (int i = 0; f->y0 + i * f->y_step <= f->y1 + 0.5 * f->y_step; i++)
        fprintf(out, "M%g %.1fh%g", f->left, to_y(f, f->y0 + i * f->y_step), f->width);

    fputs("\"/>\n<g class=\"tick y\">", out);
    for (int i = 0; f->y0 + i * f->y_step <= f->y1 + 0.5 * f->y_step; i++) {
        double y = f->y0 + i * f->y_step;
        fprintf(out, "<text x=\"%g\" y=\"%.1f\">%s</text>", f->left - 8, to_y(f, y) + 3.5,
                wf_unit_format_tick(text, c->unit, y, f->y_step));
    }

    double step = fmax(1, wf_axis_step((f->x1 - f->x0) / (f->width / 90)));
    fprintf(out, "<text x=\"%g\" y=\"%.1f\">step</text></g>\n<g class=\"tick x\">", f->left - 8,
            bottom + 17);
    for (double x = ceil(f->x0 / step) * step; x <= f->x1; x += step)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", to_x(f, x), bottom + 17,
                wf_unit_format_tick(text, WF_UNIT_COUNT, x, step));
    fputs("</g>\n", out);

    if (c->n_marks > 0) {
        fputs("<path class=\"marks\" d=\"", out);
        for (size_t i = 0; i < c->n_marks; i++)
            if (c->marks[i] >= f->x0 && c->marks[i] <= f->x1)
                fprintf(out, "M%.1f %.1fv-7", to_x(f, c->marks[i]), bottom);
        fputs("\"/>\n", out);
    }

    if (!isnan(c->level) && c->level >= f->y0 && c->level <= f->y1)
        fprintf(out,
                "<path class=\"level\" d=\"M%g %.1fh%g\"/><text class=\"level\" x=\"%g\" "
                "y=\"%.1f\">%s</text>\n",
                f->left, to_y(f, c->level), f->width, f->left + f->width - 4,
                to_y(f, c->level) + 12, c->level_name);
}

static void put_line(FILE *out, const struct wf_chart_line *line, const struct frame *f,
                     const size_t *keep, size_t n)
{
    static const char *const styles[] = {"plain", "faint", "dashed", "dots"};
    bool down = false;
    size_t run = 0; /* number of points since the last gap; a single point is drawn as a dot */
    fprintf(out, "<path class=\"line %s c%u\" d=\"", styles[line->style],
            line->colour % WF_CHART_COLOURS);

    for (size_t k = 0; k <= n; k++) {
        double y = k < n ? line->y[keep[k]] : NAN;
        if (isnan(y)) {
            if (run == 1)
                fputs("h0", out);
            down = false;
            run = 0;
            continue;
        }

        bool dot = line->style == WF_LINE_STYLE_DOTS;
        fprintf(out, "%c%.1f %.1f%s", down && !dot ? 'L' : 'M', to_x(f, line->x[keep[k]]),
                to_y(f, y), dot ? "h0" : "");
        down = true;
        run += !dot;
    }

    fputs("\"/>\n", out);
}

/* Returns true if line k consists of dots and belongs to a run whose line is already in the
 * legend. */
static bool is_same_run(const struct wf_chart *c, size_t k)
{
    bool same = false;
    for (size_t i = 0; i < k; i++)
        same = same || c->lines[i].colour == c->lines[k].colour;
    return same && c->lines[k].style == WF_LINE_STYLE_DOTS;
}

/* Returns false if memory runs out. */
static bool put_legend(FILE *out, const struct wf_chart *c)
{
    bool ok = true;
    fputs("<ul class=\"legend\">", out);
    for (size_t k = 0; k < c->n_lines; k++)
        if (c->lines[k].style != WF_LINE_STYLE_FAINT && !is_same_run(c, k)) {
            fprintf(out, "<li><i class=\"c%u%s\"></i>", c->lines[k].colour % WF_CHART_COLOURS,
                    c->lines[k].style == WF_LINE_STYLE_DASHED ? " dashed"
                    : c->lines[k].style == WF_LINE_STYLE_DOTS ? " dots"
                                                              : "");
            ok = wf_html_put_text(out, c->lines[k].name) && ok;
            fputs("</li>", out);
        }
    fputs("</ul>", out);
    return ok;
}

/* -- numbers for the script ---------------------------------------------------------------- */

static void put_value(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, "%.7g", value);
    else
        fputs("null", out);
}

static void put_numbers(FILE *data, const struct wf_chart_line *line, const size_t *keep,
                        size_t n)
{
    fputs("{\"name\":", data);
    wf_escape_script(data, line->name);
    fprintf(data, ",\"colour\":%u,\"x\":[", line->colour % WF_CHART_COLOURS);
    for (size_t k = 0; k < n; k++)
        fprintf(data, "%s%.0f", k > 0 ? "," : "", line->x[keep[k]]);
    fputs("],\"y\":[", data);
    for (size_t k = 0; k < n; k++) {
        fputs(k > 0 ? "," : "", data);
        put_value(data, line->y[keep[k]]);
    }
    fputs("]}", data);
}

/* Returns false if memory runs out. */
static bool begin_figure(FILE *page, const struct wf_chart *c)
{
    bool ok = true;
    fprintf(page, "<figure class=\"chart\" id=\"%s\" tabindex=\"0\"><figcaption>", c->id);
    if (!c->untitled)
        wf_escape_markup(page, c->title);
    if (c->legend)
        ok = put_legend(page, c);
    fprintf(page, "</figcaption>\n<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"",
            c->width, c->height);
    wf_escape_markup(page, c->title);
    fputs("\">\n", page);
    return ok;
}

bool wf_chart_put(FILE *page, FILE *data, const struct wf_chart *c)
{
    struct frame f = choose_frame(c);
    /* With many lines, fewer points of each line are kept, to limit the size of the page. */
    double pixels = f.width * (c->n_lines > 3 ? 3.0 / (double)c->n_lines : 1);

    bool ok = begin_figure(page, c);
    put_axes(page, c, &f);
    fprintf(page,
            "<clipPath id=\"%s-clip\"><rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\"/>"
            "</clipPath><g clip-path=\"url(#%s-clip)\">\n",
            c->id, f.left - 5, f.top - 5, f.width + 10, f.height + 10, c->id);

    fprintf(data,
            "{\"id\":\"%s\",\"unit\":\"%s\",\"box\":[%g,%g,%g,%g],\"range\":[%.10g,%.10g,%.10g,"
            "%.10g],\"size\":[%g,%g],\"lines\":[",
            c->id, wf_unit_name(c->unit), f.left, f.top, f.width, f.height, f.x0, f.x1, f.y0,
            f.y1, c->width, c->height);

    bool comma = false;
    for (size_t k = 0; k < c->n_lines && ok; k++) {
        size_t *keep = malloc(sizeof *keep * (c->lines[k].n + 1));
        ok = keep != NULL;
        if (!ok)
            break;
        size_t n = wf_chart_decimate(&c->lines[k], f.x0, f.x1, pixels, keep);
        put_line(page, &c->lines[k], &f, keep, n);
        fputs(comma ? ",\n" : "", data);
        put_numbers(data, &c->lines[k], keep, n);
        comma = true;
        free(keep);
    }

    fputs("</g></svg></figure>\n", page);
    fputs("]}", data);
    return ok;
}
