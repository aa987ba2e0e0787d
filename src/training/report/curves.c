/* Writes charts of loss, rates and times over steps; several runs share a chart. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "training/report/chart.h"
#include "training/report/page_priv.h"

enum { WIDE = 1080, HALF = 530, HIGH = 300, LOW = 190, SMOOTH_FROM = 200 };

struct curve_lines {
    struct wf_chart_line *at; /* owned; the numbers that the lines point to are owned, too */
    size_t n;
};

static void lines_release(struct curve_lines *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free((void *)l->at[i].x);
        free((void *)l->at[i].y);
    }
    free(l->at);
}

/* Replaces each value by the mean of the values around it: up to 0.5 % of the run on either
 * side.  Near the ends fewer values are used, always the same number on both sides.  Returns
 * false if memory runs out. */
static bool smooth(double *y, size_t n)
{
    size_t reach = n / 200 > 8 ? n / 200 : 8;
    double *sum = calloc(n + 1, sizeof *sum), *count = calloc(n + 1, sizeof *count);
    bool ok = sum != NULL && count != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        sum[i + 1] = sum[i] + (isnan(y[i]) ? 0 : y[i]);
        count[i + 1] = count[i] + (isnan(y[i]) ? 0 : 1);
    }
    for (size_t i = 0; ok && i < n; i++) {
        size_t side = i < n - 1 - i ? i : n - 1 - i;
        side = side < reach ? side : reach;
        if (!isnan(y[i]))
            y[i] =
                (sum[i + side + 1] - sum[i - side]) / (count[i + side + 1] - count[i - side]);
    }
    free(sum);
    free(count);
    return ok;
}

/* Returns true if all runs are long enough to be smoothed, since all runs of a page are drawn
 * alike. */
static bool are_long(const struct wf_page *p)
{
    for (size_t r = 0; r < p->n; r++)
        if (p->runs[r].n_points < SMOOTH_FROM)
            return false;
    return true;
}

struct curve {
    size_t column;
    const char *name; /* name of the line; NULL: the name of the run */
    unsigned colour;
    enum wf_line_style style;
    bool smooth;
};

/* Adds a column of a run as a line, unless the column is empty. */
static void add_line(struct wf_page *p, struct curve_lines *l, const struct wf_run *run,
                     const struct curve *c)
{
    size_t n = 0;
    double *x = malloc(sizeof *x * (run->n_points + 1));
    double *y = malloc(sizeof *y * (run->n_points + 1));
    p->failed = p->failed || x == NULL || y == NULL;
    bool gaps = c->style != WF_LINE_STYLE_DOTS, any = false;

    for (size_t i = 0; !p->failed && i < run->n_points; i++) {
        double value = wf_run_value(&run->points[i], c->column);
        if (!gaps && isnan(value))
            continue;
        x[n] = run->points[i].step;
        y[n++] = value;
        any = any || !isnan(value);
    }

    if (p->failed || !any) {
        free(x);
        free(y);
        return;
    }

    if (c->smooth)
        p->failed = !smooth(y, n) || p->failed;
    l->at[l->n++] = (struct wf_chart_line){.name = c->name != NULL ? c->name : run->name,
                                           .colour = c->colour,
                                           .style = c->style,
                                           .x = x,
                                           .y = y,
                                           .n = n};
}

static bool lines_init(struct wf_page *p, struct curve_lines *l)
{
    *l = (struct curve_lines){.at = calloc(p->n * 3 + 1, sizeof *l->at)};
    p->failed = p->failed || l->at == NULL;
    return l->at != NULL;
}

static void put_chart(struct wf_page *p, struct wf_chart *c, const struct curve_lines *l)
{
    c->lines = l->at;
    c->n_lines = l->n;
    if (l->n == 0)
        return;
    if (p->n_charts++ > 0)
        fputs(",\n", p->charts);
    p->failed = !wf_chart_put(p->out, p->charts, c) || p->failed;
}

/* Writes a chart of one column of all runs.  For a single run, `planned` is a second column to
 * draw (0: none).  A long run is drawn faintly behind its smoothed curve. */
static void put_columns(struct wf_page *p, struct wf_chart *c, size_t column, const char *name,
                        size_t planned)
{
    struct curve_lines l;
    if (!lines_init(p, &l))
        return;

    for (size_t r = 0; r < p->n; r++) {
        bool smoothed = are_long(p) && column != WF_RUN_COLUMN(lr);
        struct curve raw = {column, p->n == 1 ? name : NULL, (unsigned)r,
                            smoothed ? WF_LINE_STYLE_FAINT : WF_LINE_STYLE_PLAIN, false};
        struct curve mean = {column, p->n == 1 ? "smoothed" : NULL, (unsigned)r,
                             WF_LINE_STYLE_PLAIN, true};
        if (p->n == 1 || !smoothed)
            add_line(p, &l, &p->runs[r], &raw);
        if (smoothed)
            add_line(p, &l, &p->runs[r], &mean);
    }

    if (planned != 0 && p->n == 1) {
        struct curve curve = {planned, "planned", 1, WF_LINE_STYLE_DASHED, false};
        add_line(p, &l, &p->runs[0], &curve);
        c->legend = true;
    }

    put_chart(p, c, &l);
    lines_release(&l);
}

static void put_loss(struct wf_page *p)
{
    struct curve_lines l;
    double *marks = NULL;
    if (!lines_init(p, &l))
        return;
    for (size_t r = 0; r < p->n; r++) {
        const struct wf_run *run = &p->runs[r];
        bool is_long = are_long(p);
        unsigned own = (unsigned)r;
        struct curve raw = {WF_RUN_COLUMN(loss), p->n == 1 ? "loss" : NULL, own,
                            is_long ? WF_LINE_STYLE_FAINT : WF_LINE_STYLE_PLAIN, false};
        struct curve mean = {WF_RUN_COLUMN(loss), p->n == 1 ? "smoothed" : NULL, own,
                             WF_LINE_STYLE_PLAIN, true};
        struct curve val = {WF_RUN_COLUMN(val_loss), "validation", p->n == 1 ? 1 : own,
                            WF_LINE_STYLE_DOTS, false};
        if (p->n == 1 || !is_long)
            add_line(p, &l, run, &raw);
        if (is_long)
            add_line(p, &l, run, &mean);
        add_line(p, &l, run, &val);
    }

    struct wf_chart c = {.id = "loss",
                         .title = "Loss",
                         .unit = WF_UNIT_LOSS,
                         .width = WIDE,
                         .height = HIGH,
                         .crop = true,
                         .level = NAN,
                         .legend = l.n > 1,
                         .untitled = true};

    /* Ticks mark the checkpoints. */
    const struct wf_run *first = &p->runs[0];
    if (p->n == 1 && first->n_checkpoints > 0) {
        marks = malloc(sizeof *marks * first->n_checkpoints);
        p->failed = p->failed || marks == NULL;
        for (size_t i = 0; marks != NULL && i < first->n_checkpoints; i++)
            marks[i] = (double)first->checkpoints[i].step;
        c.marks = marks;
        c.n_marks = marks == NULL ? 0 : first->n_checkpoints;
    }
    put_chart(p, &c, &l);
    lines_release(&l);
    free(marks);
}

/* A small chart of one column. */
struct panel {
    const char *id, *title, *name; /* name: name of the curve */
    enum wf_unit unit;
    size_t column, planned;
};

static void put_panel(struct wf_page *p, const struct panel *panel, double level)
{
    struct wf_chart c = {.id = panel->id,
                         .title = panel->title,
                         .unit = panel->unit,
                         .width = HALF,
                         .height = LOW,
                         .from_zero = true,
                         .level = level,
                         .level_name = "clipped above"};
    put_columns(p, &c, panel->column, panel->name, panel->planned);
}

void wf_page_curves(struct wf_page *p)
{
    static const struct panel norm = {"norm",       "Gradient norm",          "norm",
                                      WF_UNIT_NORM, WF_RUN_COLUMN(grad_norm), 0};
    static const struct panel lr = {"lr",       "Learning rate",   "lr",
                                    WF_UNIT_LR, WF_RUN_COLUMN(lr), 0};
    static const struct panel throughput[] = {
        {"rate", "Tokens per second", "tokens per second", WF_UNIT_COUNT, WF_RUN_COLUMN(tok_s),
         0},
        {"time", "Time per step", "time", WF_UNIT_MS, WF_RUN_COLUMN(ms), 0},
        {"mfu", "Utilization (MFU)", "utilization", WF_UNIT_PERCENT, WF_RUN_COLUMN(mfu), 0},
        {"bubble", "Bubble", "measured", WF_UNIT_PERCENT, WF_RUN_COLUMN(bubble),
         WF_RUN_COLUMN(bubble_plan)},
    };
    bool pipeline = false;
    double clip = NAN;
    for (size_t r = 0; r < p->n; r++)
        pipeline = pipeline || wf_run_sum(&p->runs[r], WF_RUN_COLUMN(bubble)) > 0;
    if (p->n == 1 && p->runs[0].has_settings && p->runs[0].settings.optim.clip > 0)
        clip = p->runs[0].settings.optim.clip;

    wf_page_section(p, "Loss");
    put_loss(p);
    fputs("<div class=\"pair\">", p->out);
    put_panel(p, &norm, clip);
    put_panel(p, &lr, NAN);
    fputs("</div>\n", p->out);
    wf_page_section_end(p);

    wf_page_section(p, "Throughput");
    fputs("<div class=\"pair\">", p->out);
    for (size_t i = 0; i < WEFT_LEN(throughput); i++)
        if (pipeline || throughput[i].column != WF_RUN_COLUMN(bubble))
            put_panel(p, &throughput[i], NAN);
    fputs("</div>\n", p->out);
    wf_page_section_end(p);
}
