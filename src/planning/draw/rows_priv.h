/* From a rank's events to the cells of its row. */
#ifndef PLANNING_DRAW_ROWS_PRIV_H
#define PLANNING_DRAW_ROWS_PRIV_H

#include "planning/draw/picture.h"

/* Messages under way at the same time lie beside each other: in a picture in a few rows, in a
 * Chrome trace in as many as it takes. */
enum { WEFT_PICTURE_SLOTS = 4, WEFT_MAX_SLOTS = 64 };

struct weft_slots {
    double end[WEFT_MAX_SLOTS];
    unsigned n;
};

/* The first slot that is free when the event starts; a new one while there are fewer than `most`;
 * else the one that is free soonest.  Start each lane of each rank with n = 0. */
unsigned weft_slot_find(struct weft_slots *s, const struct weft_trace_event *e, unsigned most);

/* Where actions are on average narrower than that many pixels, they are drawn as shares. */
#define WEFT_DENSE_PIXELS 2.5

/* What a cell says. */
enum weft_wording {
    WEFT_SAY_ALL,   /* 2F0 */
    WEFT_SAY_KIND,  /* F0 */
    WEFT_SAY_MICRO, /* 0 */
    WEFT_N_WORDINGS
};

/* All rows of one trace. */
struct weft_panel {
    const struct weft_trace *trace; /* borrowed */
    double x, width;                /* of the time shown */
    double scale;                   /* pixels a unit of its time */
    double row;                     /* height of a rank's compute row */
    double lane;                    /* height of a message row; 0: not shown */
    unsigned slots[WEFT_N_LANES];   /* rows of a lane */
    enum weft_wording wording;
    double font;
    double usual;            /* mean width of a compute cell */
    bool any_dense;          /* found while the rows were made */
    struct weft_span *spans; /* owned: room for the longest rank */
    double *shares;          /* owned: (columns, kinds) */
    struct weft_tile *tiles; /* owned */
};

/* Needs all of the panel but what is owned, wording, font and usual. */
enum weft_status weft_panel_prepare(struct weft_panel *p, struct weft_error *err);
void weft_panel_release(struct weft_panel *p);

/* How many slots the lanes of a trace need, of `most`. */
void weft_count_slots(const struct weft_trace *t, unsigned slots[WEFT_N_LANES], unsigned most);

/* The height of all of a rank, and the cells and labels of rank `rank` from y on. */
double weft_panel_rank_height(const struct weft_panel *p);
void weft_panel_draw_rank(struct weft_panel *p, uint32_t rank, double y,
                          struct weft_picture *out);

/* Writes what a cell says and returns out. */
char *weft_cell_wording(enum weft_wording wording, struct weft_action a, char out[40]);

#endif
