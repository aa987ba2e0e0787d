#include "draw/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { MOST_ROWS = 64, GUTTER = 10 };

struct canvas {
    struct weft_text *out; /* borrowed */
    struct weft_text_style style;
    const struct weft_schedule *s; /* borrowed */
    const struct weft_metrics *m;  /* borrowed */
    double scale;                  /* columns a unit of time */
    size_t columns;
    bool with_stage; /* ranks hold several stages: say which */
    bool dense;      /* every cell says its micro, so that they can stand side by side */
    char *marks;     /* owned: (columns), what stands in each; ' ' between cells, 0 for idle */
    uint8_t *kinds;  /* owned: (columns), for colours */
};

/* A pair is one cell with a kind of its own. */
enum { PAIR = WEFT_N_KINDS, NOTHING };

/* Background colours of a 256-colour terminal, dark enough for white text on them. */
static const uint8_t colours[] = {
    [WEFT_ACT_F] = 25, [WEFT_ACT_B] = 28, [WEFT_ACT_I] = 30, [WEFT_ACT_W] = 94, [PAIR] = 54};

/* What a cell says: all of it, or as much as fits into `room` columns. */
static size_t label_of(const struct canvas *c, const struct weft_action *a, size_t room,
                       char out[64])
{
    size_t n;
    if (a->paired) {
        const struct weft_action *f = a->kind == WEFT_ACT_F ? a : a + 1;
        const struct weft_action *g = a->kind == WEFT_ACT_F ? a + 1 : a;
        n = (size_t)snprintf(out, 64, "F%u&%s%u", f->micro, weft_kind_name(g->kind), g->micro);
        return n <= room ? n : (size_t)snprintf(out, 64, "X");
    }
    n = weft_action_print(*a, out);
    if (c->with_stage && n <= room)
        return n;
    n = (size_t)snprintf(out, 64, "%s%u", weft_kind_name(a->kind), a->micro);
    return n <= room ? n : (size_t)snprintf(out, 64, "%s", weft_kind_name(a->kind));
}

/* The columns a unit of time that all labels need, with the stage and a blank behind it or
 * without both; and the shortest action. */
static void measure(struct canvas *c, double *wide, double *narrow, double *shortest)
{
    char label[64];
    *wide = *narrow = *shortest = 0;
    for (uint32_t r = 0; r < c->m->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(c->s, r);
        const double *length = c->m->length + weft_schedule_offset(c->s, r);
        for (size_t i = 0; i < row.len; i++) {
            if (!weft_kind_is_compute(row.at[i].kind) || length[i] <= 0)
                continue;
            size_t n = label_of(c, &row.at[i], SIZE_MAX, label);
            size_t stage = c->with_stage && !row.at[i].paired
                               ? (size_t)snprintf(label, sizeof label, "%u", row.at[i].stage)
                               : 0;
            *wide = fmax(*wide, (double)(n + 1) / length[i]);
            *narrow = fmax(*narrow, (double)(n - stage) / length[i]);
            *shortest = *shortest == 0 ? length[i] : fmin(*shortest, length[i]);
        }
    }
}

/* At best every label fits with a blank behind it.  Else the shortest action still gets a whole
 * number of columns, so that equal actions look equal; and if not even one, then the whole just
 * fits. */
static double choose_scale(struct canvas *c, size_t room)
{
    double wide, narrow, shortest;
    measure(c, &wide, &narrow, &shortest);
    if (shortest <= 0 || c->m->makespan <= 0)
        return 0;
    double scale = ceil(wide * shortest - 1e-9) / shortest;
    c->dense = true;
    if (scale * c->m->makespan <= (double)room)
        return scale;
    c->with_stage = false; /* all cells without, or some would be misread */
    double whole = floor((double)room / c->m->makespan * shortest);
    scale = whole >= 1 ? whole / shortest : (double)room / c->m->makespan;
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
    if (end <= begin) { /* less than a column: only if it covers the column's middle */
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
    struct weft_action_span row = weft_schedule_rank(c->s, rank);
    size_t base = weft_schedule_offset(c->s, rank);
    memset(c->marks, 0, c->columns);
    memset(c->kinds, NOTHING, c->columns);
    for (size_t i = 0; i < row.len; i++) {
        if (weft_kind_is_compute(row.at[i].kind) && c->m->length[base + i] > 0)
            paint_action(c, &row.at[i], c->m->start[base + i], c->m->length[base + i]);
        i += row.at[i].paired;
    }
}

static void put_mark(struct canvas *c, char mark, uint8_t *colour, uint8_t kind)
{
    if (c->style.colour && *colour != kind) {
        if (kind == NOTHING)
            weft_text_adds(c->out, "\033[0;2m");
        else
            weft_text_addf(c->out, "\033[0;97;48;5;%dm", colours[kind]);
        *colour = kind;
    }
    if (mark == 0)
        weft_text_adds(c->out, c->style.utf8 ? "·" : ".");
    else if (mark == '-')
        weft_text_adds(c->out, c->style.utf8 ? "─" : "-");
    else
        weft_text_addc(c->out, mark);
}

static void put_rank(struct canvas *c, uint32_t rank)
{
    char name[24];
    snprintf(name, sizeof name, "rank %u", rank);
    weft_text_addf(c->out, "%-*s", GUTTER - 1, name);
    weft_text_adds(c->out, c->style.utf8 ? "│" : "|");
    paint_rank(c, rank);
    uint8_t colour = PAIR + 9;
    for (size_t i = 0; i < c->columns; i++)
        put_mark(c, c->marks[i], &colour, c->kinds[i]);
    if (c->style.colour)
        weft_text_adds(c->out, "\033[0m");
    weft_text_adds(c->out, c->style.utf8 ? "│\n" : "|\n");
}

/* Numbers under the rows: multiples of 1, 2 or 5 times a power of ten, at least 12 columns apart. */
static void put_axis(struct canvas *c)
{
    double step = pow(10, floor(log10(12 / c->scale)));
    while (step * c->scale < 12)
        step *= step * 2 * c->scale >= 12 ? 2 : step * 5 * c->scale >= 12 ? 5 : 10;
    size_t at = 0;
    weft_text_addf(c->out, "%-*s ", GUTTER - 1, "time");
    for (double t = 0; column_of(c, t) + 4 < c->columns; t += step) {
        char number[32];
        for (; at < column_of(c, t); at++)
            weft_text_addc(c->out, ' ');
        at += (size_t)snprintf(number, sizeof number, "%.9g", t);
        weft_text_adds(c->out, number);
    }
    weft_text_addc(c->out, '\n');
}

/* Says what the drawing leaves out, and at which width it would not, if anyone would want that. */
static void put_note(struct canvas *c)
{
    enum { WIDEST = 1000000 };
    char advice[48] = "";
    double wide, narrow, shortest;
    bool several = weft_schedule_n_chunks(c->s) > 1, dropped = several && !c->with_stage;
    c->with_stage = several;
    measure(c, &wide, &narrow, &shortest);
    double all = GUTTER + 1 + ceil(ceil(wide * shortest - 1e-9) / shortest * c->m->makespan);
    bool below = c->scale * shortest < 1 - 1e-9;
    if (all <= WIDEST)
        snprintf(advice, sizeof advice, "%s --width %.0f shows all", below ? ";" : ":", all);
    if (below)
        weft_text_addf(c->out,
                       "          (a column is %.3g of time, more than the shortest action: "
                       "what is below is left out%s)\n",
                       1 / c->scale, advice);
    else if (!c->dense || dropped)
        weft_text_addf(c->out, "          (cells without their %s%s)\n",
                       c->dense  ? "stage"
                       : dropped ? "stage or micro"
                                 : "micro",
                       advice);
}

void weft_draw_timeline(struct weft_text *out, const struct weft_schedule *s,
                        const struct weft_metrics *m, struct weft_text_style style)
{
    size_t room = style.width > GUTTER + 12 ? style.width - GUTTER - 1 : 12;
    struct canvas c = {.out = out, .style = style, .s = s, .m = m};
    c.with_stage = weft_schedule_n_chunks(s) > 1;
    c.scale = choose_scale(&c, room);
    if (c.scale <= 0 || !isfinite(c.scale)) {
        weft_text_adds(out, "(nothing takes any time)\n");
        return;
    }
    c.columns = weft_size_min(room, (size_t)ceil(m->makespan * c.scale - 1e-9));
    c.marks = malloc(c.columns + 1);
    c.kinds = malloc(c.columns + 1);
    if (c.marks != NULL && c.kinds != NULL) {
        for (uint32_t r = 0; r < m->n_ranks; r++) {
            if (m->n_ranks > MOST_ROWS && r == MOST_ROWS / 2) {
                weft_text_addf(out, "   ... %u more ranks ...\n", m->n_ranks - MOST_ROWS);
                r = m->n_ranks - MOST_ROWS / 2;
            }
            put_rank(&c, r);
        }
        put_axis(&c);
        put_note(&c);
    } else {
        out->failed = true;
    }
    free(c.marks);
    free(c.kinds);
}
