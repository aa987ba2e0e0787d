/* Draws a timed schedule, or the events of a trace, as rows of text. */
#include "planning/draw/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/draw/axis.h"

enum { MAX_ROWS = 64, GUTTER = 10 };

struct canvas {
    struct wf_text *out; /* borrowed */
    struct weft_text_style style;
    const struct weft_schedule *s; /* borrowed; NULL to draw the trace `t` */
    const struct weft_metrics *m;  /* borrowed; metrics of the schedule */
    const struct weft_trace *t;    /* borrowed; NULL to draw the schedule `s` */
    enum weft_lane lane;           /* the lane of the trace that next_cell() reads */
    unsigned lanes;                /* lanes with rows of their own, one bit per lane */
    uint32_t n_ranks;
    /* end of the axis, in axis units; axis units per time unit of the trace */
    double makespan, factor;
    double scale;     /* columns per axis unit */
    const char *unit; /* name of the axis unit, in ASCII */
    size_t columns;
    bool several;    /* true if a rank can have several stages */
    bool with_stage; /* true if labels include the stage */
    /* true if every cell shows its micro-batch, so no blank is needed between cells */
    bool dense;
    /* owned: (columns), the character to print; ' ' between cells, 0 for idle time */
    char *marks;
    uint8_t *kinds; /* owned: (columns), kind of action, which selects the colour */
};

/* PAIR is the kind of an overlapped pair, which is drawn as one cell. */
enum { PAIR = WEFT_N_ACT_KINDS, NOTHING };

/* One cell of a row: an action or an overlapped pair. */
struct timeline_cell {
    struct weft_action a[2];
    double start, length;
};

/* Returns true if an event belongs to the rows of a lane.  The compute row contains only F, B,
 * I and W. */
static bool is_in_lane(const struct weft_trace_event *e, enum weft_lane lane)
{
    return e->lane == lane &&
           (lane != WEFT_LANE_COMPUTE || weft_act_is_compute(e->action.kind));
}

/* Finds the next cell in a schedule. */
static bool next_action(const struct canvas *c, uint32_t rank, size_t *at,
                        struct timeline_cell *out)
{
    struct weft_action_span row = weft_schedule_rank(c->s, rank);
    size_t base = weft_schedule_offset(c->s, rank);
    while (*at < row.len) {
        size_t i = *at;
        *at += row.at[i].paired ? 2 : 1;
        if (!weft_act_is_compute(row.at[i].kind) || c->m->length[base + i] <= 0)
            continue;
        *out =
            (struct timeline_cell){{row.at[i]}, c->m->start[base + i], c->m->length[base + i]};
        if (row.at[i].paired)
            out->a[1] = row.at[i + 1];
        return true;
    }
    return false;
}

/* Finds the next cell in a trace. */
static bool next_event(const struct canvas *c, uint32_t rank, size_t *at,
                       struct timeline_cell *out)
{
    while (c->t->first[rank] + *at < c->t->first[rank + 1]) {
        const struct weft_trace_event *e = &c->t->events[c->t->first[rank] + (*at)++];
        if (!is_in_lane(e, c->lane) || e->length <= 0)
            continue;
        *out = (struct timeline_cell){
            {e->action, e->partner}, e->start * c->factor, e->length * c->factor};
        return true;
    }
    return false;
}

/* Finds the next compute action of a rank, or the next event of the current lane, with a
 * positive duration, starting at position *at. */
static bool next_cell(const struct canvas *c, uint32_t rank, size_t *at,
                      struct timeline_cell *out)
{
    return c->s != NULL ? next_action(c, rank, at, out) : next_event(c, rank, at, out);
}

/* Returns the background colour of a kind on a 256-colour terminal.  White text is readable on
 * all of them. */
static int colour_of(unsigned kind)
{
    static const uint8_t colours[] = {
        [WEFT_ACT_F] = 25, [WEFT_ACT_B] = 28, [WEFT_ACT_I] = 30, [WEFT_ACT_W] = 94};
    return kind < WEFT_LEN(colours) ? colours[kind] : kind == PAIR ? 54 : 59;
}

/* Prints the most detailed label of a cell that fits into `room` columns, or its letter. */
static size_t label_of(const struct canvas *c, const struct weft_action *a, size_t room,
                       char out[64])
{
    size_t n;
    if (a->paired) {
        const struct weft_action *f = a->kind == WEFT_ACT_F ? a : a + 1;
        const struct weft_action *g = a->kind == WEFT_ACT_F ? a + 1 : a;
        n = (size_t)snprintf(out, 64, "F%u&%s%u", f->micro, weft_act_name(g->kind), g->micro);
        return n <= room ? n : (size_t)snprintf(out, 64, "X");
    }
    n = weft_action_print(*a, out);
    if (c->with_stage && n <= room)
        return n;
    if (weft_act_has_micro(a->kind))
        n = (size_t)snprintf(out, 64, "%s%u", weft_act_name(a->kind), a->micro);
    return n <= room ? n : (size_t)snprintf(out, 64, "%s", weft_act_name(a->kind));
}

/* Computes the number of columns per unit of time that all labels need.  *wide includes the
 * stage and a blank, and *narrow includes neither.  Also computes the length of the shortest
 * action. */
static void measure(struct canvas *c, double *wide, double *narrow, double *shortest)
{
    char label[64];
    *wide = *narrow = *shortest = 0;
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        struct timeline_cell cell;
        for (size_t i = 0; next_cell(c, r, &i, &cell);) {
            const struct weft_action *a = cell.a;
            size_t n = label_of(c, a, SIZE_MAX, label);
            size_t stage = c->with_stage && !a->paired
                               ? (size_t)snprintf(label, sizeof label, "%u", a->stage)
                               : 0;
            *wide = fmax(*wide, (double)(n + 1) / cell.length);
            *narrow = fmax(*narrow, (double)(n - stage) / cell.length);
            *shortest = *shortest == 0 ? cell.length : fmin(*shortest, cell.length);
        }
    }
}

/* Chooses the scale.  If possible, every label fits with a blank after it.  Otherwise the
 * shortest action gets a whole number of columns, so equal actions have equal widths.  If
 * this is also not possible, the drawing fills the available width. */
static double choose_scale(struct canvas *c, size_t room)
{
    double wide, narrow, shortest;
    measure(c, &wide, &narrow, &shortest);
    if (shortest <= 0 || c->makespan <= 0)
        return 0;
    double scale = ceil(wide * shortest - 1e-9) / shortest;
    c->dense = true;
    if (scale * c->makespan <= (double)room)
        return scale;
    c->with_stage = false; /* no cell shows the stage, because a mixture would be misleading */
    double whole = floor((double)room / c->makespan * shortest);
    scale = whole >= 1 ? whole / shortest : (double)room / c->makespan;
    c->dense = scale >= narrow * (1 - 1e-9);
    return scale;
}

static size_t column_of(const struct canvas *c, double t)
{
    double at = floor(t * c->scale + 0.5);
    return at < (double)c->columns ? (size_t)at : c->columns;
}

static void paint_action(struct canvas *c, const struct weft_action *a, double start,
                         double length)
{
    size_t begin = column_of(c, start), end = column_of(c, start + length);
    /* shorter than a column: drawn only if it covers the middle of the column */
    if (end <= begin) {
        double middle = floor(start * c->scale) + 0.5;
        if (start * c->scale > middle || (start + length) * c->scale < middle)
            return;
        begin = (size_t)(start * c->scale);
        end = begin + 1;
        if (begin >= c->columns)
            return;
    }
    char label[64];
    size_t n = label_of(c, a, c->dense ? end - begin : end - begin - 1, label);
    for (size_t i = begin; i < end; i++) {
        c->marks[i] = i - begin < n ? label[i - begin] : i + 1 < end ? '-' : ' ';
        c->kinds[i] = a->paired ? PAIR : (uint8_t)a->kind;
    }
}

static void paint_rank(struct canvas *c, uint32_t rank)
{
    struct timeline_cell cell;
    memset(c->marks, 0, c->columns);
    memset(c->kinds, NOTHING, c->columns);
    for (size_t i = 0; next_cell(c, rank, &i, &cell);)
        paint_action(c, cell.a, cell.start, cell.length);
}

static void put_mark(struct canvas *c, char mark, uint8_t *colour, uint8_t kind)
{
    if (c->style.colour && *colour != kind) {
        if (kind == NOTHING)
            wf_text_adds(c->out, "\033[0;2m");
        else
            wf_text_addf(c->out, "\033[0;97;48;5;%dm", colour_of(kind));
        *colour = kind;
    }
    if (mark == 0)
        wf_text_adds(c->out, c->style.utf8 ? "·" : ".");
    else if (mark == '-')
        wf_text_adds(c->out, c->style.utf8 ? "─" : "-");
    else
        wf_text_addc(c->out, mark);
}

static void put_row(struct canvas *c, uint32_t rank)
{
    char name[24];
    if (c->lane == WEFT_LANE_COMPUTE)
        snprintf(name, sizeof name, "rank %u", rank);
    else
        snprintf(name, sizeof name, "  %s", wf_lane_label(c->lane));
    wf_text_addf(c->out, "%-*s", GUTTER - 1, name);
    wf_text_adds(c->out, c->style.utf8 ? "│" : "|");
    paint_rank(c, rank);
    uint8_t colour = PAIR + 9;
    for (size_t i = 0; i < c->columns; i++)
        put_mark(c, c->marks[i], &colour, c->kinds[i]);
    if (c->style.colour)
        wf_text_adds(c->out, "\033[0m");
    wf_text_adds(c->out, c->style.utf8 ? "│\n" : "|\n");
}

/* Appends the compute row of a rank and, on request, a row for each other lane that the trace
 * uses. */
static void put_rank(struct canvas *c, uint32_t rank)
{
    put_row(c, rank);
    for (int lane = WEFT_LANE_SEND; c->lanes != 0 && lane < WEFT_LANE_COUNT; lane++) {
        c->lane = (enum weft_lane)lane;
        if (c->lanes >> lane & 1)
            put_row(c, rank);
    }
    c->lane = WEFT_LANE_COMPUTE;
}

/* Appends the numbers of the axis.  They are multiples of 1, 2 or 5 times a power of ten,
 * and at least 12 columns apart. */
static void put_axis(struct canvas *c)
{
    double step = pow(10, floor(log10(12 / c->scale)));
    while (step * c->scale < 12)
        step *= step * 2 * c->scale >= 12 ? 2 : step * 5 * c->scale >= 12 ? 5 : 10;
    size_t at = 0;
    wf_text_addf(c->out, "%-*s ", GUTTER - 1, c->unit);
    for (double t = 0; column_of(c, t) + 4 < c->columns; t += step) {
        char number[32];
        for (; at < column_of(c, t); at++)
            wf_text_addc(c->out, ' ');
        at += (size_t)snprintf(number, sizeof number, "%.9g", t);
        wf_text_adds(c->out, number);
    }
    wf_text_addc(c->out, '\n');
}

/* Appends a note with the width that shows all actions, if the drawing omits short actions. */
static void put_note(struct canvas *c)
{
    enum { WIDEST = 1000000 };
    char advice[48] = "";
    double wide, narrow, shortest;

    bool dropped = c->several && !c->with_stage;
    c->with_stage = c->several;
    measure(c, &wide, &narrow, &shortest);
    double all = GUTTER + 1 + ceil(ceil(wide * shortest - 1e-9) / shortest * c->makespan);
    bool below = c->scale * shortest < 1 - 1e-9;

    if (all <= WIDEST)
        snprintf(advice, sizeof advice, "%s a width of %.0f shows all", below ? ";" : ":", all);

    if (below)
        wf_text_addf(c->out,
                     "          (a column is %.3g of time, more than the shortest action; "
                     "shorter actions are omitted%s)\n",
                     1 / c->scale, advice);
    else if (!c->dense || dropped)
        wf_text_addf(c->out, "          (cells without their %s%s)\n",
                     c->dense  ? "stage"
                     : dropped ? "stage or micro"
                               : "micro",
                     advice);
}

/* Draws all rows and the axis.  If the scale is 0, chooses a scale that suits the labels. */
static void put_all(struct canvas *c)
{
    size_t room = c->style.width > GUTTER + 12 ? c->style.width - GUTTER - 1 : 12;
    c->with_stage = c->several;
    double scale = choose_scale(c, room);
    if (c->scale <= 0)
        c->scale = scale;

    if (c->scale <= 0 || !isfinite(c->scale)) {
        wf_text_adds(c->out, "(nothing takes any time)\n");
        return;
    }

    c->columns = wf_size_min(room, (size_t)ceil(c->makespan * c->scale - 1e-9));
    c->marks = malloc(c->columns + 1);
    c->kinds = malloc(c->columns + 1);

    if (c->marks != NULL && c->kinds != NULL) {
        for (uint32_t r = 0; r < c->n_ranks; r++) {
            if (c->n_ranks > MAX_ROWS && r == MAX_ROWS / 2) {
                wf_text_addf(c->out, "   ... %u more ranks ...\n", c->n_ranks - MAX_ROWS);
                r = c->n_ranks - MAX_ROWS / 2;
            }
            put_rank(c, r);
        }
        put_axis(c);
        put_note(c);
    } else {
        c->out->failed = true;
    }

    free(c->marks);
    free(c->kinds);
}

void wf_draw_timeline(struct wf_text *out, const struct weft_schedule *s,
                      const struct weft_metrics *m, const char *unit,
                      struct weft_text_style style)
{
    struct canvas c = {.out = out,
                       .style = style,
                       .s = s,
                       .m = m,
                       .n_ranks = m->n_ranks,
                       .makespan = m->makespan,
                       .unit = unit,
                       .several = weft_schedule_n_chunks(s) > 1};
    put_all(&c);
}

void wf_draw_trace_timeline(struct wf_text *out, const struct weft_trace *t,
                            const struct wf_text_axis *axis, struct weft_text_style style)
{
    struct canvas c = {.out = out,
                       .style = style,
                       .t = t,
                       .factor = axis->factor,
                       .n_ranks = t->n_ranks,
                       .makespan = axis->end,
                       .unit = axis->unit,
                       .several = t->n_chunks > 1};
    for (size_t i = 0; axis->lanes && i < t->n_events; i++)
        c.lanes |= t->events[i].lane == WEFT_LANE_COMPUTE ? 0 : 1u << t->events[i].lane;
    if (axis->shared && style.width > GUTTER + 12)
        c.scale = (style.width - GUTTER - 1) / axis->end;
    put_all(&c);
}
