/* From a rank's events to the cells of its row. */
#ifndef PLANNING_DRAW_ROWS_PRIV_H
#define PLANNING_DRAW_ROWS_PRIV_H

#include "planning/draw/picture.h"

/* Messages under way at the same time lie beside each other: in a picture in a few rows, in a
 * Chrome trace in as many as it takes. */
enum { WF_PICTURE_SLOTS = 4, WF_MAX_SLOTS = 64 };

struct wf_lane_slots {
    double end[WF_MAX_SLOTS];
    unsigned n;
};

/* The first slot that is free when the event starts; a new one while there are fewer than `most`;
 * else the one that is free soonest.  Start each lane of each rank with n = 0. */
unsigned wf_lane_slots_find(struct wf_lane_slots *s, const struct weft_trace_event *e,
                            unsigned most);

/* Where actions are on average narrower than that many pixels, they are drawn as shares. */
#define WF_DENSE_PIXELS 2.5

/* What a cell says. */
enum wf_label_detail {
    WF_LABEL_DETAIL_FULL,  /* 2F0 */
    WF_LABEL_DETAIL_KIND,  /* F0 */
    WF_LABEL_DETAIL_MICRO, /* 0 */
    WF_N_LABEL_DETAILS
};

/* All rows of one trace. */
struct wf_panel {
    const struct weft_trace *trace;  /* borrowed */
    double x, width;                 /* of the time shown */
    double scale;                    /* pixels a unit of its time */
    double row;                      /* height of a rank's compute row */
    double lane;                     /* height of a message row; 0: not shown */
    unsigned slots[WEFT_LANE_COUNT]; /* rows of a lane */
    enum wf_label_detail detail;
    double font;
    double typical;        /* mean width of a compute cell */
    bool any_dense;        /* found while the rows were made */
    struct wf_span *spans; /* owned: room for the longest rank */
    double *shares;        /* owned: (columns, kinds) */
    struct wf_tile *tiles; /* owned */
};

/* Needs all of the panel but what is owned, detail, font and typical. */
enum weft_status wf_panel_prepare(struct wf_panel *p, struct weft_error *err);
void wf_panel_release(struct wf_panel *p);

/* How many slots the lanes of a trace need, of `most`. */
void wf_lane_slots_count(const struct weft_trace *t, unsigned slots[WEFT_LANE_COUNT],
                         unsigned most);

/* The height of all of a rank, and the cells and labels of rank `rank` from y on. */
double wf_panel_rank_height(const struct wf_panel *p);
void wf_panel_draw_rank(struct wf_panel *p, uint32_t rank, double y, struct wf_picture *out);

/* Writes what a cell says and returns out. */
char *wf_cell_print_label(enum wf_label_detail detail, struct weft_action a, char out[40]);

#endif
