/* Computes the position of every part of a picture.
 *
 *     title
  *     name: sizes                    one panel per trace
 *     makespan, bubble, ...
  *     rank 0 |############    |      a row of cells, and optional rows of messages
 *     rank 1 |   ############ |
 *             0      5      10       one axis for all panels
 *     [] forward  [] backward ...    legend
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/draw/axis.h"
#include "planning/draw/rows_priv.h"

enum { MARGIN = 16, TITLE = 17, HEADING = 13, SMALL = 11, TINY = 10, MAX_PIXELS = 32000 };

struct geometry {
    struct wf_picture *out;                  /* borrowed */
    const struct weft_trace *traces;         /* borrowed */
    const struct weft_draw_options *options; /* borrowed */
    struct wf_axis axis;
    struct wf_panel *panels; /* owned */
    size_t n;
    double left, plot; /* x of time 0, and the width of the time axis */
    double gap;        /* vertical distance between the rows of two ranks */
    double y;
};

/* -- sizes --------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the length that three quarters of the compute events reach or exceed, or 0 if
 * there is no event. */
static double typical_length(const struct weft_trace *t)
{
    double *all = malloc(sizeof *all * (t->n_events + 1)), typical = 0;
    size_t n = 0;
    for (size_t i = 0; all != NULL && i < t->n_events; i++)
        if (t->events[i].lane == WEFT_LANE_COMPUTE && t->events[i].length > 0)
            all[n++] = t->events[i].length;
    if (n > 0) {
        qsort(all, n, sizeof *all, compare_doubles);
        typical = all[n / 4];
    }
    free(all);
    return typical;
}

/* Returns a width at which the label of a typical cell fits, clamped to the allowed range. */
static double fitting_width(const struct geometry *l)
{
    double wide = 560;
    for (size_t i = 0; i < l->n; i++) {
        const struct weft_trace *t = &l->traces[i];
        char text[40];
        struct weft_action last = {.micro = t->n_micros - 1,
                                   .stage = (t->n_stages - 1) & (WEFT_MAX_STAGES - 1),
                                   .kind = WEFT_ACT_F};
        wf_cell_print_label(t->n_chunks > 1 ? WF_LABEL_DETAIL_FULL : WF_LABEL_DETAIL_KIND, last,
                            text);
        double typical = typical_length(t) * l->axis.factor[i];
        if (typical > 0)
            wide = fmax(wide, l->axis.end / typical * (wf_text_width(text, SMALL, false) + 7));
    }
    return fmin(floor(wide), 1600);
}

static double fitting_row(double n_ranks)
{
    static const struct {
        double ranks, row;
    } steps[] = {{8, 30}, {16, 26}, {32, 20}, {64, 14}, {128, 10}, {256, 6}, {1024, 3}};
    for (size_t i = 0; i < WEFT_LEN(steps); i++)
        if (n_ranks <= steps[i].ranks)
            return steps[i].row;
    return 2;
}

static double gap_of(double row)
{
    return row >= 14 ? 3 : row >= 6 ? 1 : 0;
}

static double all_ranks(const struct geometry *l)
{
    double n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->traces[i].n_ranks;
    return n;
}

/* Chooses the height of message rows so that the picture stays within its limits. */
static void set_rows(struct geometry *l, double row)
{
    l->gap = gap_of(row);
    for (size_t i = 0; i < l->n; i++) {
        struct wf_panel *p = &l->panels[i];
        p->row = row;
        p->lane = l->options->lanes ? fmax(2, fmin(9, floor(row * 0.35))) : 0;
    }
}

static double rows_height(const struct geometry *l)
{
    double sum = 0;
    for (size_t i = 0; i < l->n; i++)
        sum += (wf_panel_rank_height(&l->panels[i]) + l->gap) * l->traces[i].n_ranks;
    return sum;
}

/* -- parts --------------------------------------------------------------------------------- */

static double put_text(struct geometry *l, double x, double y, double size, enum wf_ink ink,
                       bool bold, enum wf_anchor anchor, const char *text)
{
    struct wf_label label = {
        .x = x, .y = y, .size = size, .anchor = anchor, .ink = ink, .bold = bold};
    double room = anchor == WF_ANCHOR_START ? l->out->width - MARGIN - x : l->out->width;
    wf_picture_add_label(l->out, label, text, room);
    return wf_text_width(text, size, bold);
}

static void put_title(struct geometry *l)
{
    l->y = MARGIN;
    if (l->options->title == NULL || l->options->title[0] == '\0')
        return;
    struct wf_text clean = {0};
    wf_draw_sanitize(&clean, l->options->title);
    if (clean.at != NULL)
        put_text(l, MARGIN, l->y + TITLE * 0.8, TITLE, WF_INK_TEXT, true, WF_ANCHOR_START,
                 clean.at);
    wf_text_release(&clean);
    l->y += TITLE * 1.6;
}

static enum weft_status put_heading(struct geometry *l, size_t i, struct weft_error *err)
{
    struct wf_text line = {0};
    enum weft_status st = WEFT_OK;
    wf_draw_heading(&line, &l->traces[i]);
    put_text(l, MARGIN, l->y + HEADING * 0.8, HEADING, WF_INK_TEXT, true, WF_ANCHOR_START,
             line.failed ? "" : line.at);
    l->y += HEADING * 1.4;
    line.len = 0;
    st = wf_draw_metrics(&line, &l->traces[i], &l->axis, i, err);
    if (st == WEFT_OK && !line.failed)
        put_text(l, MARGIN, l->y + SMALL * 0.8, SMALL, WF_INK_MUTED, false, WF_ANCHOR_START,
                 line.at);
    l->y += SMALL * 1.9;
    l->out->failed = l->out->failed || line.failed;
    wf_text_release(&line);
    return st;
}

/* Adds the idle background of a rank.  Adds its name if there is room for it. */
static void put_rank_frame(struct geometry *l, const struct wf_panel *p, uint32_t rank,
                           double y)
{
    double pitch = wf_panel_rank_height(p) + l->gap;
    uint32_t every = (uint32_t)ceil((TINY + 2) / pitch);
    double shown = p->trace->makespan * p->scale;

    wf_picture_add_area(l->out, l->left, y, shown, p->row, WF_INK_IDLE);
    double top = y + p->row + 1;
    for (int lane = WEFT_LANE_SEND; p->lane > 0 && lane < WEFT_LANE_COUNT; lane++) {
        for (unsigned k = 0; k < p->slots[lane]; k++)
            wf_picture_add_area(l->out, l->left, top + k * p->lane, shown, p->lane - 1,
                                WF_INK_IDLE);
        if (p->slots[lane] > 0 && p->lane >= 8)
            put_text(l, l->left - 6, top + p->lane - 1.5, 8, WF_INK_MUTED, false, WF_ANCHOR_END,
                     wf_lane_label((enum weft_lane)lane));
        top += p->lane * p->slots[lane];
    }

    if (rank % every != 0)
        return;

    char name[32];
    double size = fmin(SMALL, fmax(p->row, 8));
    snprintf(name, sizeof name, "rank %u", rank);
    put_text(l, l->left - 6, y + p->row / 2 + size * 0.36, size, WF_INK_TEXT, false,
             WF_ANCHOR_END, name);
}

static enum weft_status put_panel(struct geometry *l, size_t i, struct weft_error *err)
{
    struct wf_panel *p = &l->panels[i];
    WEFT_TRY(put_heading(l, i, err));
    WEFT_TRY(wf_panel_prepare(p, err));
    for (uint32_t r = 0; r < p->trace->n_ranks; r++) {
        put_rank_frame(l, p, r, l->y);
        wf_panel_draw_rank(p, r, l->y, l->out);
        l->y += wf_panel_rank_height(p) + l->gap;
    }
    l->y += 10;
    return WEFT_OK;
}

/* Adds the ticks under the rows.  The distance between ticks is large enough to keep the
 * numbers apart. */
static void put_axis(struct geometry *l)
{
    char text[40];
    double scale = l->plot / l->axis.end;

    wf_axis_print(&l->axis, l->axis.end, text);
    double apart =
        fmax(60, wf_text_width("8888", TINY, false) + wf_text_width(text, TINY, false) + 14);
    double step = wf_axis_step(apart / scale);
    double last = -1e9;

    l->y -= 6;
    wf_picture_add_area(l->out, l->left, l->y, l->plot, 1, WF_INK_EDGE);
    for (double k = 0; k * step <= l->axis.end * (1 + 1e-9); k++) {
        double x = l->left + k * step * scale;
        wf_axis_print(&l->axis, k * step, text);
        double wide = wf_text_width(text, TINY, false);
        wf_picture_add_area(l->out, x - 0.5, l->y, 1, 5, WF_INK_EDGE);
        if (x - wide / 2 < last + 6)
            continue;
        put_text(l, x, l->y + 8 + TINY, TINY, WF_INK_TEXT, false, WF_ANCHOR_MIDDLE, text);
        last = x + wide / 2;
    }

    put_text(l, l->left - 14, l->y + 8 + TINY, TINY, WF_INK_MUTED, false, WF_ANCHOR_END,
             wf_axis_unit(&l->axis));
    l->y += TINY + 24;
}

/* -- legend -------------------------------------------------------------------------------- */

struct legend {
    struct geometry *l;
    double x;
};

enum { SWATCH = 22, SWATCH_HEIGHT = 14 };

/* Starts a new line of the legend if the next entry does not fit into the current line. */
static void begin_entry(struct legend *g, double swatches, const char *text)
{
    double need = swatches * SWATCH + 6 + wf_text_width(text, SMALL, false);
    if (g->x > MARGIN && g->x + need > g->l->out->width - MARGIN) {
        g->x = MARGIN;
        g->l->y += SWATCH_HEIGHT + 8;
    }
}

static void end_entry(struct legend *g, const char *text)
{
    g->x += 6;
    g->x += put_text(g->l, g->x, g->l->y + SWATCH_HEIGHT - 3, SMALL, WF_INK_TEXT, false,
                     WF_ANCHOR_START, text) +
            18;
}

static void put_swatch(struct legend *g, unsigned kind, unsigned shade, double y, double h)
{
    struct wf_cell c = {.x = (float)g->x,
                        .y = (float)(g->l->y + y),
                        .w = SWATCH - 1,
                        .h = (float)h,
                        .kind = (uint8_t)kind,
                        .shade = (uint8_t)shade,
                        .banded = true};
    wf_picture_add_cell(g->l->out, c);
}

static void put_kinds(struct legend *g, const bool *seen)
{
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++) {
        if (!seen[k])
            continue;
        char text[64];
        wf_draw_kind_label(k, text, sizeof text);
        begin_entry(g, 1, text);
        put_swatch(g, k, 1, 0, SWATCH_HEIGHT);
        g->x += SWATCH;
        end_entry(g, text);
    }
}

static void put_legend(struct geometry *l)
{
    struct legend g = {.l = l, .x = MARGIN};
    bool seen[WEFT_N_ACT_KINDS] = {false}, pairs = false, dense = false;
    uint32_t chunks = 1;

    for (size_t i = 0; i < l->n; i++) {
        const struct weft_trace *t = &l->traces[i];
        chunks = t->n_chunks > chunks ? t->n_chunks : chunks;
        dense = dense || l->panels[i].any_dense;
        for (size_t k = 0; k < t->n_events; k++)
            if (t->events[k].lane == WEFT_LANE_COMPUTE || l->options->lanes) {
                seen[t->events[k].action.kind] = true;
                pairs = pairs || t->events[k].action.paired;
                if (t->events[k].action.paired)
                    seen[t->events[k].partner.kind] = true;
            }
    }

    put_kinds(&g, seen);
    if (pairs) {
        begin_entry(&g, 1, "an overlapped pair");
        put_swatch(&g, WEFT_ACT_F, 1, 0, SWATCH_HEIGHT / 2.0);
        put_swatch(&g, WEFT_ACT_B, 1, SWATCH_HEIGHT / 2.0, SWATCH_HEIGHT / 2.0);
        g.x += SWATCH;
        end_entry(&g, "an overlapped pair");
    }

    begin_entry(&g, 1, "idle");
    wf_picture_add_area(l->out, g.x, l->y, SWATCH - 1, SWATCH_HEIGHT, WF_INK_IDLE);
    g.x += SWATCH;
    end_entry(&g, "idle");

    if (chunks > 1) {
        const char *text = "shades: first to last stage of a rank";
        uint32_t n = chunks < WF_SHADES ? chunks : WF_SHADES;
        begin_entry(&g, n, text);
        for (uint32_t c = 0; c < n; c++, g.x += SWATCH)
            put_swatch(&g, WEFT_ACT_F, wf_chunk_shade(c, n), 0, SWATCH_HEIGHT);
        end_entry(&g, text);
    }

    l->y += SWATCH_HEIGHT + 8;
    if (dense) {
        put_text(l, MARGIN, l->y + SMALL, SMALL, WF_INK_MUTED, false, WF_ANCHOR_START,
                 "Where actions are too narrow to be drawn one by one, heights are shares of "
                 "the time.");
        l->y += SMALL * 2;
    }
}

/* -- the picture --------------------------------------------------------------------------- */

static enum weft_status compute_sizes(struct geometry *l, struct weft_error *err)
{
    const struct weft_draw_options *o = l->options;
    char name[32];
    uint32_t ranks = 0;

    for (size_t i = 0; i < l->n; i++) {
        ranks = l->traces[i].n_ranks > ranks ? l->traces[i].n_ranks : ranks;
        l->panels[i].trace = &l->traces[i];
        wf_lane_slots_count(&l->traces[i], l->panels[i].slots, WF_PICTURE_SLOTS);
        for (int lane = WEFT_LANE_SEND; !o->lanes && lane < WEFT_LANE_COUNT; lane++)
            l->panels[i].slots[lane] = 0;
    }

    snprintf(name, sizeof name, "rank %u", ranks - 1);
    l->left = ceil(MARGIN + wf_text_width(name, SMALL, false) + 8);
    l->plot = o->width != 0 ? o->width - l->left - MARGIN - 4 : fitting_width(l);
    if (l->plot < 100 || l->plot > MAX_PIXELS)
        return WEFT_FAIL(err, WEFT_USAGE, "picture width %u is out of range (200 to %d)",
                         o->width, MAX_PIXELS);

    l->out->width = l->left + l->plot + MARGIN + 4;
    double row = fitting_row(all_ranks(l));
    set_rows(l, row);
    if (o->height != 0) { /* subtract the approximate height of everything except the rows */
        double others = 2 * MARGIN + 110.0 + (o->title != NULL ? 27 : 0) + 50.0 * (double)l->n;
        row = (o->height - others) / fmax(1, rows_height(l)) * (row + l->gap);
        set_rows(l, fmax(2, fmin(floor(row - gap_of(row)), 120)));
    }

    for (size_t i = 0; i < l->n; i++) {
        l->panels[i].x = l->left;
        l->panels[i].width = l->plot;
        l->panels[i].scale = l->plot / l->axis.end * l->axis.factor[i];
    }

    if (rows_height(l) > MAX_PIXELS)
        return WEFT_FAIL(err, WEFT_USAGE, "%.0f ranks are too many for one picture",
                         all_ranks(l));
    return WEFT_OK;
}

static enum weft_status compute_geometry(struct geometry *l, struct weft_error *err)
{
    WEFT_TRY(compute_sizes(l, err));
    put_title(l);
    for (size_t i = 0; i < l->n; i++)
        WEFT_TRY(put_panel(l, i, err));
    put_axis(l);
    put_legend(l);
    l->out->height = fmax(ceil(l->y + MARGIN / 2.0), l->options->height);
    l->out->title = l->out->texts.len;
    for (size_t i = 0; i < l->n; i++) {
        if (i > 0)
            wf_text_adds(&l->out->texts, "; ");
        wf_draw_heading(&l->out->texts, &l->traces[i]);
    }
    wf_text_addc(&l->out->texts, '\0');
    if (l->out->failed || l->out->texts.failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the picture");
    return WEFT_OK;
}

enum weft_status wf_picture_init(struct wf_picture *out, const struct weft_trace *traces,
                                 size_t n, const struct weft_draw_options *options,
                                 struct weft_error *err)
{
    struct wf_picture p = {0};
    struct geometry l = {.out = &p, .traces = traces, .options = options, .n = n};
    l.panels = calloc(n, sizeof *l.panels);
    enum weft_status st = wf_axis_init(&l.axis, traces, n, options->unit_seconds, err);
    if (st == WEFT_OK && l.panels == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the picture");
    if (st == WEFT_OK)
        st = compute_geometry(&l, err);
    for (size_t i = 0; l.panels != NULL && i < n; i++)
        wf_panel_release(&l.panels[i]);
    free(l.panels);
    wf_axis_release(&l.axis);
    if (st == WEFT_OK)
        *out = p;
    else
        wf_picture_release(&p);
    return st;
}
