/* A picture independent of the format: rectangles, cells and labels with their positions.
 *
 * geometry.c computes it once; SVG, PNG and PDF only paint it, in the order areas, cells, labels.  All
 * lengths are pixels, and y increases downwards.
 */
#ifndef PLANNING_DRAW_PICTURE_H
#define PLANNING_DRAW_PICTURE_H

#include "base/text.h"
#include "planning/draw/palette.h"
#include "weft/draw.h"

/* A rectangle that is not an action. */
struct wf_area {
    double x, y, w, h;
    enum wf_ink ink;
};

/* One action, half of an overlapped pair, or, where actions are too narrow to be distinguished, the
 * share of one kind. */
struct wf_cell {
    float x, y, w, h;
    uint8_t kind;  /* enum weft_act_kind */
    uint8_t shade; /* of the kind's colour: 0 .. WF_SHADES - 1 */
    bool banded;   /* is painted with the bands of its kind, see wf_cell_bands() */
};

enum wf_anchor {
    WF_ANCHOR_START,
    WF_ANCHOR_MIDDLE,
    WF_ANCHOR_END,
};

struct wf_label {
    double x, y;  /* of the anchor, on the base line */
    double size;  /* font size */
    double width; /* upper limit, see wf_text_width() */
    enum wf_anchor anchor;
    enum wf_ink ink;
    bool bold;
    size_t text; /* offset in the picture's texts: NUL-terminated UTF-8 */
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
    size_t title;         /* offset in texts: one line that describes the picture */
    bool failed;          /* out of memory: reported once, at the end */
};

/* Computes the picture of `n` traces.  The caller releases *out. */
enum weft_status wf_picture_init(struct wf_picture *out, const struct weft_trace *traces,
                                 size_t n, const struct weft_draw_options *options,
                                 struct weft_error *err);
void wf_picture_release(struct wf_picture *p);

/* -- building ------------------------------------------------------------------ */

void wf_picture_add_area(struct wf_picture *p, double x, double y, double w, double h,
                         enum wf_ink ink);
void wf_picture_add_cell(struct wf_picture *p, struct wf_cell cell);

/* Adds a label.  `text` is cut if it is wider than `room`. */
void wf_picture_add_label(struct wf_picture *p, struct wf_label label, const char *text,
                          double room);

/* Returns the width of a text in the widest of the requested fonts. */
double wf_text_width(const char *text, double size, bool bold);

/* -- painting -------------------------------------------------------------------- */

/* Computes the dark bands that mark a cell's kind in addition to its colour, and returns their
 * number.  An input gradient has a band at the top, a weight gradient at the bottom, a whole
 * backward has both, and a forward has none. */
unsigned wf_cell_bands(const struct wf_cell *c, struct wf_cell out[2]);

/* Returns the left edge of a label. */
double wf_label_left(const struct wf_label *l);

/* Writes the picture as SVG.  Write errors stay in the stream. */
void wf_paint_svg(FILE *out, const struct wf_picture *p);

#endif
