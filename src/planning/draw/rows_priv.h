/* Converts the events of a rank to the cells of its rows. */
#ifndef PLANNING_DRAW_ROWS_PRIV_H
#define PLANNING_DRAW_ROWS_PRIV_H

#include "planning/draw/picture.h"

/* Simultaneous messages are drawn in separate slots: a few in a picture, as many as needed in a
 * Chrome trace. */
enum { WF_PICTURE_SLOTS = 4, WF_MAX_SLOTS = 64 };

struct wf_lane_slots {
    double end[WF_MAX_SLOTS];
    unsigned n;
};

/* Returns the first slot that is free when the event starts, or a new one while there are fewer than
 * `max`, or the one that becomes free first.  Start each lane of each rank with n = 0. */
unsigned wf_lane_slots_find(struct wf_lane_slots *s, const struct weft_trace_event *e,
                            unsigned max);

/* Actions that are narrower than this number of pixels on average are drawn as shares. */
#define WF_DENSE_PIXELS 2.5

/* The text of a cell. */
enum wf_label_detail {
    WF_LABEL_DETAIL_FULL,  /* 2F0 */
    WF_LABEL_DETAIL_KIND,  /* F0 */
    WF_LABEL_DETAIL_MICRO, /* 0 */
    WF_N_LABEL_DETAILS
};

/* All rows of one trace. */
struct wf_panel {
    const struct weft_trace *trace;  /* borrowed */
    double x, width;                 /* of the time axis */
    double scale;                    /* pixels per unit of its time */
    double row;                      /* height of a rank's compute row */
    double lane;                     /* height of a message row; 0: not shown */
    unsigned slots[WEFT_LANE_COUNT]; /* rows of a lane */
    enum wf_label_detail detail;
    double font;
    double typical;        /* mean width of a compute cell */
    bool any_dense;        /* set while the rows are drawn */
    struct wf_span *spans; /* owned: sized for the longest rank */
    double *shares;        /* owned: (columns, kinds) */
    struct wf_tile *tiles; /* owned */
};

/* Allocates the owned arrays and sets detail, font and typical.  All other fields are set already. */
enum weft_status wf_panel_prepare(struct wf_panel *p, struct weft_error *err);
void wf_panel_release(struct wf_panel *p);

/* Computes the number of slots that the lanes of a trace need, at most `max`. */
void wf_lane_slots_count(const struct weft_trace *t, unsigned slots[WEFT_LANE_COUNT],
                         unsigned max);

/* Returns the height of all rows of a rank. */
double wf_panel_rank_height(const struct wf_panel *p);
/* Adds the cells and labels of a rank, starting at y. */
void wf_panel_draw_rank(struct wf_panel *p, uint32_t rank, double y, struct wf_picture *out);

/* Prints the text of a cell and returns out. */
char *wf_cell_print_label(enum wf_label_detail detail, struct weft_action a, char out[40]);

#endif
