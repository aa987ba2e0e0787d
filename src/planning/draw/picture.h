/* A picture that is independent of the output format: rectangles, cells and labels with
 * their positions.
 *
 * geometry.c computes the picture once.  The writers of SVG, PNG and PDF only paint it, in
 * the order areas, cells, labels.  All lengths are in pixels, and y increases downwards. */
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

/* A rectangle that shows one action or one half of an overlapped pair.  Where actions are
 * too narrow to be distinguished, it shows the share of time of one kind. */
struct wf_cell {
    float x, y, w, h;
    uint8_t kind;  /* enum weft_act_kind */
    uint8_t shade; /* shade of the kind's colour: 0 ..  WF_SHADES - 1 */
    bool banded;   /* true if the cell has the bands of its kind, see wf_cell_bands() */
};

enum wf_anchor {
    WF_ANCHOR_START,
    WF_ANCHOR_MIDDLE,
    WF_ANCHOR_END,
};

struct wf_label {
    double x, y;  /* position of the anchor on the base line */
    double size;  /* font size */
    double width; /* upper limit of the text width, see wf_text_width() */
    enum wf_anchor anchor;
    enum wf_ink ink;
    bool bold;
    size_t text; /* offset of the NUL-terminated UTF-8 text in the picture's texts */
};

struct wf_picture {
    double width, height;
    struct wf_area *areas; /* owned */
    size_t n_areas, cap_areas;
    struct wf_cell *cells; /* owned */
    size_t n_cells, cap_cells;
    struct wf_label *labels; /* owned */
    size_t n_labels, cap_labels;
    struct wf_text texts; /* owned: the texts of all labels, one after the other */
    size_t title;         /* offset in `texts` of a line that describes the picture */
    bool failed;          /* memory allocation failed; reported once, at the end */
};

/* Computes the picture of `n` traces.  The caller releases *out. */
enum weft_status wf_picture_init(struct wf_picture *out, const struct weft_trace *traces,
                                 size_t n, const struct weft_draw_options *options,
                                 struct weft_error *err);
void wf_picture_release(struct wf_picture *p);

/* -- building ------------------------------------------------------------------------------ */

/* Adds a rectangle. */
void wf_picture_add_area(struct wf_picture *p, double x, double y, double w, double h,
                         enum wf_ink ink);
/* Adds the cell of an action. */
void wf_picture_add_cell(struct wf_picture *p, struct wf_cell cell);

/* Adds a label.  The text is truncated if it is wider than `room` pixels. */
void wf_picture_add_label(struct wf_picture *p, struct wf_label label, const char *text,
                          double room);

/* Returns the width of a text in pixels, for the widest of the requested fonts. */
double wf_text_width(const char *text, double size, bool bold);

/* -- painting ------------------------------------------------------------------------------ */

/* Computes the dark bands that mark a cell's kind in addition to its colour.  Returns the
 * number of bands.  An input gradient has a band at the top, a weight gradient has a band at
 * the bottom, a whole backward has both bands, and a forward has none. */
unsigned wf_cell_bands(const struct wf_cell *c, struct wf_cell out[2]);

/* Writes the picture as SVG.  The caller must check the stream for write errors. */
void wf_paint_svg(FILE *out, const struct wf_picture *p);

#endif
