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
struct wf_area {
    double x, y, w, h;
    enum wf_ink ink;
};

/* One action, half of an overlapped pair, or the share of a kind where actions are too narrow to
 * be told apart. */
struct wf_cell {
    float x, y, w, h;
    uint8_t kind;  /* enum weft_act_kind */
    uint8_t shade; /* of the kind's colour: 0 .. WF_SHADES - 1 */
    bool banded;   /* bears the marks of its kind, see wf_cell_bands() */
};

enum wf_anchor {
    WF_ANCHOR_START,
    WF_ANCHOR_MIDDLE,
    WF_ANCHOR_END,
};

struct wf_label {
    double x, y;  /* the anchor, on the base line */
    double size;  /* of the font */
    double width; /* at most, see wf_text_width() */
    enum wf_anchor anchor;
    enum wf_ink ink;
    bool bold;
    size_t text; /* where it begins in the picture's texts, NUL-terminated UTF-8 */
};

struct wf_picture {
    double width, height;
    struct wf_area *areas; /* owned */
    size_t n_areas, cap_areas;
    struct wf_cell *cells; /* owned */
    size_t n_cells, cap_cells;
    struct wf_label *labels; /* owned */
    size_t n_labels, cap_labels;
    struct wf_text texts; /* owned: all labels, one after the other */
    size_t title;         /* in texts: what the picture shows, in one line */
    bool failed;          /* no memory: told once, at the end */
};

/* The caller releases *out. */
enum weft_status wf_picture_init(struct wf_picture *out, const struct weft_trace *traces,
                                 size_t n, const struct wf_draw_options *options,
                                 struct weft_error *err);
void wf_picture_release(struct wf_picture *p);

/* -- for those that lay out ------------------------------------------------------------------ */

void wf_picture_add_area(struct wf_picture *p, double x, double y, double w, double h,
                         enum wf_ink ink);
void wf_picture_add_cell(struct wf_picture *p, struct wf_cell cell);

/* `text` is cut where it would be wider than `room`. */
void wf_picture_add_label(struct wf_picture *p, struct wf_label label, const char *text,
                          double room);

/* The width of a text in the widest of the usual fonts. */
double wf_text_width(const char *text, double size, bool bold);

/* -- for those that paint -------------------------------------------------------------------- */

/* The dark bands that mark a cell's kind, apart from its colour: an input gradient has one at the
 * top, a weight gradient one at the bottom, a whole backward, which is both, has both; a forward
 * has none.  Returns how many. */
unsigned wf_cell_bands(const struct wf_cell *c, struct wf_cell out[2]);

/* The left end of a label. */
double wf_label_left(const struct wf_label *l);

void wf_paint_svg(FILE *out, const struct wf_picture *p);

#endif
