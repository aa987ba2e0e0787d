/* A picture that no format has touched yet: rectangles, cells and labels at their places.
 *
 * The layout computes it once; SVG, PNG and PDF only paint it.  All lengths are pixels, y goes
 * down.  Painted in the order: areas, cells, labels.
 */
#ifndef PLANNING_DRAW_PICTURE_H
#define PLANNING_DRAW_PICTURE_H

#include "planning/draw/draw.h"
#include "planning/draw/palette.h"

/* What is not an action. */
struct weft_area {
    double x, y, w, h;
    enum weft_ink ink;
};

/* One action, half of an overlapped pair, or the share of a kind where actions are too narrow to
 * be told apart. */
struct weft_cell {
    float x, y, w, h;
    uint8_t kind;  /* enum weft_kind */
    uint8_t shade; /* of the kind's colour: 0 .. WEFT_SHADES - 1 */
    bool banded;   /* bears the marks of its kind, see weft_cell_bands() */
};

enum weft_anchor {
    WEFT_ANCHOR_START,
    WEFT_ANCHOR_MIDDLE,
    WEFT_ANCHOR_END,
};

struct weft_label {
    double x, y;  /* the anchor, on the base line */
    double size;  /* of the font */
    double width; /* at most, see weft_text_width() */
    enum weft_anchor anchor;
    enum weft_ink ink;
    bool bold;
    size_t text; /* where it begins in the picture's texts, NUL-terminated UTF-8 */
};

struct weft_picture {
    double width, height;
    struct weft_area *areas; /* owned */
    size_t n_areas, cap_areas;
    struct weft_cell *cells; /* owned */
    size_t n_cells, cap_cells;
    struct weft_label *labels; /* owned */
    size_t n_labels, cap_labels;
    struct weft_text texts; /* owned: all labels, one after the other */
    size_t title;           /* in texts: what the picture shows, in one line */
    bool failed;            /* no memory: told once, at the end */
};

/* The caller releases *out. */
enum weft_status weft_picture_init(struct weft_picture *out, const struct weft_trace *traces,
                                   size_t n, const struct weft_draw_options *options,
                                   struct weft_error *err);
void weft_picture_release(struct weft_picture *p);

/* -- for those that lay out ------------------------------------------------------------------ */

void weft_picture_area(struct weft_picture *p, double x, double y, double w, double h,
                       enum weft_ink ink);
void weft_picture_cell(struct weft_picture *p, struct weft_cell cell);

/* `text` is cut where it would be wider than `room`. */
void weft_picture_label(struct weft_picture *p, struct weft_label label, const char *text,
                        double room);

/* The width of a text in the widest of the usual fonts. */
double weft_text_width(const char *text, double size, bool bold);

/* -- for those that paint -------------------------------------------------------------------- */

/* The dark bands that mark a cell's kind, apart from its colour: an input gradient has one at the
 * top, a weight gradient one at the bottom, a whole backward, which is both, has both; a forward
 * has none.  Returns how many. */
unsigned weft_cell_bands(const struct weft_cell *c, struct weft_cell out[2]);

/* The left end of a label. */
double weft_label_left(const struct weft_label *l);

void weft_paint_svg(FILE *out, const struct weft_picture *p);

#endif
