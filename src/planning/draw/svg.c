/* Writes SVG.  All cells of the same colour are one path, because a picture may have 100,000
 * cells. */
#include <math.h>
#include <string.h>

#include "base/escape.h"
#include "planning/draw/picture.h"

/* Prints a number with at most two decimals and no trailing zeros. */
static void put_number(FILE *out, double value)
{
    long long hundredths = llround(value * 100);
    if (hundredths < 0) {
        fputc('-', out);
        hundredths = -hundredths;
    }
    fprintf(out, "%lld", hundredths / 100);
    int rest = (int)(hundredths % 100);
    if (rest % 10 != 0)
        fprintf(out, ".%02d", rest);
    else if (rest != 0)
        fprintf(out, ".%d", rest / 10);
}

static void put_attribute(FILE *out, const char *name, double value)
{
    fprintf(out, " %s=\"", name);
    put_number(out, value);
    fputc('"', out);
}

/* Writes one rectangle of a path.  Rounds the right edge instead of the width, so
 * neighbouring rectangles touch. */
static void put_box(FILE *out, const struct wf_cell *c)
{
    double x = round(c->x * 100.0) / 100, y = round(c->y * 100.0) / 100;
    double w = round((c->x + c->w) * 100.0) / 100 - x,
           h = round((c->y + c->h) * 100.0) / 100 - y;
    fputc('M', out);
    put_number(out, x);
    fputc(' ', out);
    put_number(out, y);
    fputc('h', out);
    put_number(out, w);
    fputc('v', out);
    put_number(out, h);
    fputc('h', out);
    put_number(out, -w);
    fputc('z', out);
}

struct path {
    FILE *out;
    size_t n;
};

static void add_to_path(struct path *p, const struct wf_cell *c, uint32_t colour)
{
    if (p->n == 0)
        fprintf(p->out, "<path fill=\"#%06x\" d=\"", (unsigned)colour);
    else if (p->n % 16 == 0)
        fputc('\n', p->out);
    put_box(p->out, c);
    p->n++;
}

static void end_path(struct path *p)
{
    if (p->n > 0)
        fputs("\"/>\n", p->out);
    p->n = 0;
}

static void put_cells(FILE *out, const struct wf_picture *p)
{
    struct path path = {.out = out};
    bool seen[WEFT_N_ACT_KINDS][WF_SHADES] = {{false}};
    struct wf_cell bands[2];
    for (size_t i = 0; i < p->n_cells; i++)
        seen[p->cells[i].kind][p->cells[i].shade] = true;
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++) {
        for (unsigned s = 0; s < WF_SHADES; s++) {
            for (size_t i = 0; seen[k][s] && i < p->n_cells; i++)
                if (p->cells[i].kind == k && p->cells[i].shade == s)
                    add_to_path(&path, &p->cells[i], wf_kind_colour(k, s));
            end_path(&path);
        }
        for (size_t i = 0; i < p->n_cells; i++)
            if (p->cells[i].kind == k)
                for (unsigned b = 0, n = wf_cell_bands(&p->cells[i], bands); b < n; b++)
                    add_to_path(&path, &bands[b], wf_band_colour(k));
        end_path(&path);
    }
}

static bool same_style(const struct wf_label *a, const struct wf_label *b)
{
    return a->size == b->size && a->ink == b->ink && a->bold == b->bold &&
           a->anchor == b->anchor;
}

static void put_labels(FILE *out, const struct wf_picture *p)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    for (size_t i = 0; i < p->n_labels; i++) {
        const struct wf_label *l = &p->labels[i];
        if (i == 0 || !same_style(l, l - 1)) {
            fputs(i == 0 ? "<g" : "</g>\n<g", out);
            put_attribute(out, "font-size", l->size);
            fprintf(out, " fill=\"#%06x\" text-anchor=\"%s\"%s>\n",
                    (unsigned)wf_ink_colour(l->ink), anchors[l->anchor],
                    l->bold ? " font-weight=\"bold\"" : "");
        }
        fputs("<text", out);
        put_attribute(out, "x", l->x);
        put_attribute(out, "y", l->y);
        fputc('>', out);
        wf_escape_markup(out, p->texts.at + l->text);
        fputs("</text>\n", out);
    }
    if (p->n_labels > 0)
        fputs("</g>\n", out);
}

void wf_paint_svg(FILE *out, const struct wf_picture *p)
{
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"", out);
    put_attribute(out, "width", p->width);
    put_attribute(out, "height", p->height);
    fputs(" viewBox=\"0 0 ", out);
    put_number(out, p->width);
    fputc(' ', out);
    put_number(out, p->height);
    fputs("\" font-family=\"DejaVu Sans,Verdana,Helvetica,Arial,sans-serif\">\n<title>", out);
    wf_escape_markup(out, p->texts.at + p->title);

    fprintf(out, "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#%06x\"/>\n",
            (unsigned)wf_ink_colour(WF_INK_BACKGROUND));

    for (size_t i = 0; i < p->n_areas; i++) {
        const struct wf_area *a = &p->areas[i];
        fputs("<rect", out);
        put_attribute(out, "x", a->x);
        put_attribute(out, "y", a->y);
        put_attribute(out, "width", a->w);
        put_attribute(out, "height", a->h);
        fprintf(out, " fill=\"#%06x\"/>\n", (unsigned)wf_ink_colour(a->ink));
    }

    put_cells(out, p);
    put_labels(out, p);
    fputs("</svg>\n", out);
}
