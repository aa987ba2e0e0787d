/* Converts the events of a rank to the cells of its rows. */
#ifndef PLANNING_DRAW_ROWS_PRIV_H
#define PLANNING_DRAW_ROWS_PRIV_H

#include "planning/draw/picture.h"

/* Simultaneous messages are drawn in separate slots.  A picture has at most WF_PICTURE_SLOTS
 * slots per lane, and a Chrome trace has at most WF_MAX_SLOTS. */
enum { WF_PICTURE_SLOTS = 4, WF_MAX_SLOTS = 64 };

struct wf_lane_slots {
    double end[WF_MAX_SLOTS];
    unsigned n;
};

/* Returns the slot for an event: the first slot that is free when the event starts.  If no
 * slot is free, returns a new slot, or, if there are already `max` slots, the slot that
 * becomes free first.  For each lane of each rank, the caller must start with n = 0. */
unsigned wf_lane_slots_find(struct wf_lane_slots *s, const struct weft_trace_event *e,
                            unsigned max);

/* If the average width of actions is less than this number of pixels, actions are drawn as
 * shares. */
#define WF_DENSE_PIXELS 2.5

/* The level of detail of a cell's label, with an example. */
enum wf_label_detail {
    WF_LABEL_DETAIL_FULL,  /* 2F0 */
    WF_LABEL_DETAIL_KIND,  /* F0 */
    WF_LABEL_DETAIL_MICRO, /* 0 */
    WF_N_LABEL_DETAILS
};

/* All rows of one trace. */
struct wf_panel {
    const struct weft_trace *trace; /* borrowed */
    double x, width;                /* position and width of the time axis, in pixels */
    double scale;                   /* pixels per time unit of the trace */
    double row;                     /* height of a rank's compute row, in pixels */
    double lane; /* height of a message row, in pixels; 0 if messages are not shown */
    unsigned slots[WEFT_LANE_COUNT]; /* number of rows per lane */
    enum wf_label_detail detail;
    double font;
    double typical;        /* mean width of a compute cell, in pixels */
    bool any_dense;        /* true if a tile was drawn as shares */
    struct wf_span *spans; /* owned: space for all events of the rank with the most events */
    double *shares;        /* owned: (columns, kinds) */
    struct wf_tile *tiles; /* owned */
};

/* Allocates the owned arrays and sets `detail`, `font` and `typical`.  The caller must have
 * set all other fields. */
enum weft_status wf_panel_prepare(struct wf_panel *p, struct weft_error *err);
void wf_panel_release(struct wf_panel *p);

/* Computes the number of slots that the lanes of a trace need, at most `max`. */
void wf_lane_slots_count(const struct weft_trace *t, unsigned slots[WEFT_LANE_COUNT],
                         unsigned max);

/* Returns the total height in pixels of all rows of a rank. */
double wf_panel_rank_height(const struct wf_panel *p);
/* Adds the cells and labels of a rank.  The first row starts at y. */
void wf_panel_draw_rank(struct wf_panel *p, uint32_t rank, double y, struct wf_picture *out);

/* Prints the label of a cell to `out` and returns `out`. */
char *wf_cell_print_label(enum wf_label_detail detail, struct weft_action a, char out[40]);

#endif
