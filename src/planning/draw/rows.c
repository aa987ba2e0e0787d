/* Converts the events of a rank to cells, stacked shares and labels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/draw/rows_priv.h"

/* A row is divided into tiles.  If a tile has too many actions, it is drawn as columns, and
 * each column shows the share of time of each kind. */
enum { TILE = 64, COLUMN = 4 };

/* Padding around a label in its cell. */
#define PADDING 2.0

/* The actions that start in one tile. */
struct wf_tile {
    uint32_t count;
    float width; /* total width of these actions in pixels */
};

/* The visible part of an event.  Later events of the same row cover the rest of the event. */
struct wf_span {
    double begin, end;
    const struct weft_trace_event *event; /* borrowed */
};

char *wf_cell_print_label(enum wf_label_detail detail, struct weft_action a, char out[40])
{
    if (detail == WF_LABEL_DETAIL_FULL)
        weft_action_print(a, out);
    else if (!weft_act_has_micro(a.kind))
        snprintf(out, 40, "%.1s", weft_act_name(a.kind));
    else
        snprintf(out, 40, "%s%u", detail == WF_LABEL_DETAIL_KIND ? weft_act_name(a.kind) : "",
                 a.micro);
    return out;
}

/* -- slots --------------------------------------------------------------------------------- */

unsigned wf_lane_slots_find(struct wf_lane_slots *s, const struct weft_trace_event *e,
                            unsigned max)
{
    unsigned best = 0;
    while (best < s->n && s->end[best] > e->start * (1 + 1e-9))
        best++;
    if (best == s->n && s->n < max) {
        s->n++;
    } else if (best == s->n) {
        best = 0;
        for (unsigned i = 1; i < s->n; i++)
            if (s->end[i] < s->end[best])
                best = i;
    }
    s->end[best] = e->start + e->length;
    return best;
}

void wf_lane_slots_count(const struct weft_trace *t, unsigned slots[WEFT_LANE_COUNT],
                         unsigned max)
{
    struct wf_lane_slots open = {.n = 0};
    for (int lane = 0; lane < WEFT_LANE_COUNT; lane++)
        slots[lane] = lane == WEFT_LANE_COMPUTE;
    for (size_t i = 0; i < t->n_events; i++) {
        const struct weft_trace_event *e = &t->events[i];
        if (i == 0 || e->rank != e[-1].rank || e->lane != e[-1].lane)
            open.n = 0;
        if (e->lane == WEFT_LANE_COMPUTE)
            continue;
        wf_lane_slots_find(&open, e, max);
        slots[e->lane] = open.n > slots[e->lane] ? open.n : slots[e->lane];
    }
}

/* -- labels -------------------------------------------------------------------------------- */

static double text_room(const struct wf_panel *p, const struct weft_trace_event *e)
{
    return e->length * p->scale - 1 - 2 * PADDING;
}

/* Chooses the most detailed label in the largest font that fits into nearly all cells. */
static void choose_detail(struct wf_panel *p)
{
    enum { LARGEST = 12, SMALLEST = 7 };
    size_t fits[WF_N_LABEL_DETAILS][LARGEST + 1] = {{0}}, n = 0;
    char text[40];
    double sum = 0;

    /* Counts the labels that fit, for each detail and font size. */
    for (size_t i = 0; i < p->trace->n_events; i++) {
        const struct weft_trace_event *e = &p->trace->events[i];
        double room = text_room(p, e);
        if (e->lane != WEFT_LANE_COMPUTE || e->length <= 0)
            continue;
        n++;
        sum += e->length;

        for (int w = 0; w < WF_N_LABEL_DETAILS && room > 0; w++) {
            double wide = wf_text_width(
                wf_cell_print_label((enum wf_label_detail)w, e->action, text), 1, false);
            if (e->action.paired)
                wide = fmax(wide, wf_text_width(wf_cell_print_label((enum wf_label_detail)w,
                                                                    e->partner, text),
                                                1, false));
            double size = floor(fmin(room / wide, LARGEST));
            for (int s = SMALLEST; s <= size; s++)
                fits[w][s]++;
        }
    }

    p->typical = n > 0 ? sum / (double)n * p->scale : 0;
    int largest = (int)fmin(LARGEST, floor(p->row * 0.75));
    p->detail = WF_LABEL_DETAIL_MICRO;
    p->font = fmin(SMALLEST, largest);

    /* Chooses the most detailed labels that nearly all cells have room for. */
    for (int w = p->trace->n_chunks > 1 ? WF_LABEL_DETAIL_FULL : WF_LABEL_DETAIL_KIND;
         w < WF_N_LABEL_DETAILS; w++)
        for (int s = largest; s >= SMALLEST; s--)
            if ((double)fits[w][s] >= 0.97 * (double)n) {
                p->detail = (enum wf_label_detail)w;
                p->font = s;
                return;
            }
}

enum weft_status wf_panel_prepare(struct wf_panel *p, struct weft_error *err)
{
    size_t max_events = 0, columns = (size_t)ceil(p->width / COLUMN) + 1;
    const struct weft_trace *t = p->trace;
    for (uint32_t r = 0; r < t->n_ranks; r++)
        max_events = wf_size_max(max_events, t->first[r + 1] - t->first[r]);
    p->spans = malloc(sizeof *p->spans * (max_events + 1));
    p->shares = calloc(columns * WEFT_N_ACT_KINDS, sizeof *p->shares);
    p->tiles = calloc((size_t)ceil(p->width / TILE) + 1, sizeof *p->tiles);
    if (p->spans == NULL || p->shares == NULL || p->tiles == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to draw %zu events", t->n_events);
    choose_detail(p);
    return WEFT_OK;
}

void wf_panel_release(struct wf_panel *p)
{
    free(p->spans);
    free(p->shares);
    free(p->tiles);
}

/* -- single cells -------------------------------------------------------------------------- */

static void put_label(const struct wf_panel *p, const struct wf_cell *c, struct weft_action a,
                      struct wf_picture *out)
{
    char text[40];
    double size = fmin(p->font, c->h * 0.8), room = c->w - 2 * PADDING;
    if (size < 6 || p->font < 7)
        return;
    enum wf_label_detail detail = p->detail;
    while (detail < WF_N_LABEL_DETAILS &&
           wf_text_width(wf_cell_print_label(detail, a, text), size, false) > room)
        detail++;
    if (detail == WF_N_LABEL_DETAILS)
        return;
    struct wf_label label = {.x = c->x + c->w / 2,
                             .y = c->y + c->h / 2 + size * 0.36,
                             .size = size,
                             .anchor = WF_ANCHOR_MIDDLE,
                             .ink = WF_INK_CELL};
    wf_picture_add_label(out, label, text, room + 1);
}

static void put_half(const struct wf_panel *p, struct wf_cell c,
                     const struct weft_trace_event *e, struct weft_action a, bool whole,
                     struct wf_picture *out)
{
    c.kind = a.kind;
    c.shade = (uint8_t)wf_chunk_shade(weft_trace_chunk(p->trace, e->rank, a.stage),
                                      p->trace->n_chunks);
    c.banded = c.h >= 6 && c.w >= 1.5f;
    wf_picture_add_cell(out, c);
    if (whole && e->lane == WEFT_LANE_COMPUTE)
        put_label(p, &c, a, out);
}

/* Draws one event from x to x1.  `whole` is true if the event is entirely visible. */
static void put_cell(const struct wf_panel *p, const struct weft_trace_event *e, double x,
                     double x1, double y, double h, bool whole, struct wf_picture *out)
{
    double gap = x1 - x >= 3 ? 0.5 : 0; /* separates neighbouring cells of the same kind */
    struct wf_cell c = {
        .x = (float)(x + gap), .y = (float)y, .w = (float)(x1 - x - 2 * gap), .h = (float)h};
    if (!e->action.paired) {
        put_half(p, c, e, e->action, whole, out);
        return;
    }
    bool swap = e->action.kind != WEFT_ACT_F;
    c.h = (float)(h / 2);
    put_half(p, c, e, swap ? e->partner : e->action, whole, out);
    c.y = (float)(y + h / 2);
    put_half(p, c, e, swap ? e->action : e->partner, whole, out);
}

/* -- shares -------------------------------------------------------------------------------- */

static void add_share(struct wf_panel *p, const struct weft_trace_event *e, size_t column,
                      double part)
{
    double *at = p->shares + column * WEFT_N_ACT_KINDS;
    if (e->action.paired) {
        at[e->action.kind] += part / 2;
        at[e->partner.kind] += part / 2;
    } else {
        at[e->action.kind] += part;
    }
}

/* Adds the part of an event inside one dense tile to the tile's columns. */
static void add_shares(struct wf_panel *p, const struct weft_trace_event *e, double x,
                       double x1)
{
    for (size_t column = (size_t)(x / COLUMN); (double)(column * COLUMN) < x1; column++) {
        double from = fmax(x, (double)(column * COLUMN));
        double to = fmin(x1, (double)((column + 1) * COLUMN));
        if (to > from)
            add_share(p, e, column, (to - from) / COLUMN);
    }
}

/* Draws the stacked shares of a row, from bottom to top: F, B, I, W.  The remaining height
 * is idle time. */
static void put_stacks(struct wf_panel *p, double y, double h, struct wf_picture *out)
{
    enum { STEPS = 24 }; /* heights are rounded, so neighbouring columns are often equal */
    size_t columns = (size_t)ceil(p->width / COLUMN), first = out->n_cells;
    struct wf_cell last[WEFT_N_ACT_KINDS];
    memset(last, 0, sizeof last);

    for (size_t i = 0; i < columns; i++) {
        double *share = p->shares + i * WEFT_N_ACT_KINDS, sum = 0;
        for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++) {
            double from = floor(sum * STEPS + 0.5) / STEPS;
            sum += share[k];
            double to = floor(fmin(sum, 1) * STEPS + 0.5) / STEPS;
            share[k] = 0;
            struct wf_cell c = {.x = (float)(p->x + (double)(i * COLUMN)),
                                .y = (float)(y + h * (1 - to)),
                                .w = (float)fmin(COLUMN, p->width - (double)(i * COLUMN)),
                                .h = (float)(h * (to - from)),
                                .kind = (uint8_t)k,
                                .shade = 1};

            /* Ends the area of this kind if it does not continue in this column. */
            if (last[k].w > 0 && (to <= from || last[k].y != c.y || last[k].h != c.h ||
                                  last[k].x + last[k].w != c.x)) {
                wf_picture_add_cell(out, last[k]);
                last[k].w = 0;
            }
            if (to > from && last[k].w > 0)
                last[k].w += c.w;
            else if (to > from)
                last[k] = c;
        }
    }

    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++)
        if (last[k].w > 0)
            wf_picture_add_cell(out, last[k]);
    p->any_dense = p->any_dense || out->n_cells > first;
}

/* -- rows ---------------------------------------------------------------------------------- */

/* Collects the visible parts of the events in one slot of one lane.  Each part ends when the
 * next event starts. */
static size_t collect_spans(struct wf_panel *p, uint32_t rank, enum weft_lane lane,
                            unsigned slot)
{
    const struct weft_trace *t = p->trace;
    struct wf_lane_slots open = {.n = 0};
    size_t n = 0;
    for (size_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
        const struct weft_trace_event *e = &t->events[i];
        if (e->lane != lane || e->length <= 0 ||
            wf_lane_slots_find(&open, e, p->slots[lane]) != slot)
            continue;
        if (n > 0)
            p->spans[n - 1].end = fmin(p->spans[n - 1].end, e->start);
        p->spans[n++] = (struct wf_span){e->start, e->start + e->length, e};
    }
    return n;
}

static void count_tiles(struct wf_panel *p, size_t n, size_t n_tiles)
{
    memset(p->tiles, 0, sizeof *p->tiles * (n_tiles + 1));
    for (size_t i = 0; i < n; i++) {
        const struct wf_span *s = &p->spans[i];
        struct wf_tile *tile =
            &p->tiles[wf_size_min((size_t)(s->begin * p->scale / TILE), n_tiles)];
        tile->count++;
        tile->width += (float)fmin((s->end - s->begin) * p->scale, TILE);
    }
}

/* Returns true if a tile is drawn as shares.  In a picture that is dense on average, a tile
 * is drawn as single cells only if the tile is clearly less dense.  Otherwise neighbouring
 * tiles near the limit would differ by chance. */
static bool is_dense(const struct wf_panel *p, const struct wf_tile *tile)
{
    bool dense = p->typical < 1.2 * WF_DENSE_PIXELS;
    double limit = dense ? 1.6 * WF_DENSE_PIXELS : WF_DENSE_PIXELS;
    return tile->count >= (dense ? 1 : 4) && tile->width < limit * (double)tile->count;
}

static void put_strip(struct wf_panel *p, size_t n, double y, double h, struct wf_picture *out)
{
    size_t tiles = (size_t)ceil(p->width / TILE);
    count_tiles(p, n, tiles);

    for (size_t i = 0; i < n; i++) {
        const struct wf_span *s = &p->spans[i];
        double x = s->begin * p->scale, end = fmin(s->end * p->scale, p->width);
        double piece = x; /* start of the current part that is drawn as single cells */
        bool cut = false;

        for (size_t tile = (size_t)(x / TILE); tile < tiles && (double)(tile * TILE) < end;
             tile++) {
            double from = fmax(x, (double)(tile * TILE));
            double to = fmin(end, (double)((tile + 1) * TILE));
            if (!is_dense(p, &p->tiles[tile]))
                continue;
            if (from > piece)
                put_cell(p, s->event, p->x + piece, p->x + from, y, h, false, out);
            add_shares(p, s->event, from, to);
            piece = to;
            cut = true;
        }

        if (end > piece)
            put_cell(p, s->event, p->x + piece, p->x + end, y, h, !cut, out);
    }
    put_stacks(p, y, h, out);
}

double wf_panel_rank_height(const struct wf_panel *p)
{
    unsigned n = 0;
    for (int lane = WEFT_LANE_SEND; lane < WEFT_LANE_COUNT; lane++)
        n += p->slots[lane];
    return p->row + p->lane * n;
}

void wf_panel_draw_rank(struct wf_panel *p, uint32_t rank, double y, struct wf_picture *out)
{
    put_strip(p, collect_spans(p, rank, WEFT_LANE_COMPUTE, 0), y, p->row, out);
    y += p->row;
    for (int lane = WEFT_LANE_SEND; p->lane > 0 && lane < WEFT_LANE_COUNT; lane++)
        for (unsigned slot = 0; slot < p->slots[lane]; slot++) {
            size_t n = collect_spans(p, rank, (enum weft_lane)lane, slot);
            put_strip(p, n, y + 1, p->lane - 1, out);
            y += p->lane;
        }
}
