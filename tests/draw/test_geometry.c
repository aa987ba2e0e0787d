/* Checks positions in a picture: labels touch neither each other nor the edge, cells of a row
 * do not overlap, and the area of each kind of action matches its time. */
#include "draw/drawing.h"

#include <math.h>

#include "planning/draw/picture.h"

static struct layout_case {
    const char *name;
    uint32_t ranks, micros, chunks;
} cases[] = {
    {"1f1b", 1, 1, 0},      {"1f1b", 4, 8, 0},
    {"gpipe", 3, 200, 0},   {"zb-h1", 8, 24, 0},
    {"zb-v", 4, 8, 0},      {"zb-v", 16, 64, 0},
    {"dualpipe", 8, 20, 0}, {"dualpipe-v", 4, 12, 0},
    {"chimera", 8, 16, 0},  {"interleaved-1f1b", 8, 32, 4},
    {"1f1b", 64, 512, 0},   {"zb-h1", 130, 140, 0},
    {"1f1b", 300, 12, 0},   {"1f1b", 1500, 3, 0},
};

/* -- labels -------------------------------------------------------------------------------- */

static int by_base_line(const void *a, const void *b)
{
    const struct wf_label *x = a, *y = b;
    return x->y < y->y ? -1 : x->y > y->y;
}

/* Returns the x coordinate of the left edge of a label. */
static double left_of(const struct wf_label *l)
{
    return l->anchor == WF_ANCHOR_START ? l->x
           : l->anchor == WF_ANCHOR_END ? l->x - l->width
                                        : l->x - l->width / 2;
}

/* Letters extend from 0.75 of the size above the base line to 0.2 below it. */
static void check_labels(const struct wf_picture *p, const char *what)
{
    enum { LARGEST = 20 };
    qsort(p->labels, p->n_labels, sizeof *p->labels, by_base_line);
    for (size_t i = 0; i < p->n_labels; i++) {
        const struct wf_label *a = &p->labels[i];
        double left = left_of(a), right = left + a->width;
        double below = a->y + 0.2 * a->size;
        if (left < 0 || right > p->width || a->y - a->size < 0 || a->y > p->height)
            fail_msg("%s: '%s' leaves the picture", what, p->texts.at + a->text);
        for (size_t k = i + 1; k < p->n_labels && p->labels[k].y - 0.75 * LARGEST < below;
             k++) {
            const struct wf_label *b = &p->labels[k];
            if (b->y - 0.75 * b->size < below && left_of(b) < right &&
                left_of(b) + b->width > left)
                fail_msg("%s: '%s' and '%s' overlap", what, p->texts.at + a->text,
                         p->texts.at + b->text);
        }
    }
}

/* A label in the middle of a cell is not larger than the cell. */
static void check_inside(const struct wf_picture *p, const char *what)
{
    for (size_t i = 0; i < p->n_labels; i++) {
        const struct wf_label *l = &p->labels[i];
        for (size_t k = 0; l->anchor == WF_ANCHOR_MIDDLE && k < p->n_cells; k++) {
            const struct wf_cell *c = &p->cells[k];
            if (fabs(c->x + c->w / 2 - l->x) < 0.01 && l->y > c->y && l->y < c->y + c->h &&
                (l->width > c->w || l->size > c->h))
                fail_msg("%s: '%s' is larger than its cell", what, p->texts.at + l->text);
        }
    }
}

/* -- cells --------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct wf_cell *x = a, *y = b;
    if (x->y != y->y)
        return x->y < y->y ? -1 : 1;
    return x->x < y->x ? -1 : x->x > y->x;
}

static void check_cells(const struct wf_picture *p, const char *what)
{
    struct wf_cell *cells = malloc(sizeof *cells * (p->n_cells + 1));
    assert_non_null(cells);
    memcpy(cells, p->cells, sizeof *cells * p->n_cells);
    qsort(cells, p->n_cells, sizeof *cells, by_place);
    for (size_t i = 0; i < p->n_cells; i++) {
        const struct wf_cell *c = &cells[i];
        if (!(c->w > 0) || !(c->h > 0) || c->x < 0 || c->x + c->w > p->width + 0.01 ||
            c->y < 0 || c->y + c->h > p->height)
            fail_msg("%s: a cell at %g,%g of %g x %g", what, c->x, c->y, c->w, c->h);
        if (i > 0 && cells[i - 1].y == c->y && cells[i - 1].x + cells[i - 1].w > c->x + 0.01)
            fail_msg("%s: two cells at %g,%g", what, c->x, c->y);
    }
    free(cells);
}

/* The area of each kind is proportional to its time, except for gaps between cells and rounded
 * heights. */
static void check_amounts(const struct wf_picture *p, const struct weft_trace *t,
                          const char *what)
{
    double want[WEFT_N_ACT_KINDS] = {0}, got[WEFT_N_ACT_KINDS] = {0},
           gaps[WEFT_N_ACT_KINDS] = {0};
    double row = p->areas[0].h, scale = p->areas[0].w / t->makespan, bottom = 0;

    for (size_t i = 0; i < p->n_areas; i++) /* the legend's swatch is narrower */
        if (p->areas[i].ink == WF_INK_IDLE && p->areas[i].w == p->areas[0].w)
            bottom = fmax(bottom, p->areas[i].y + p->areas[i].h);

    for (size_t i = 0; i < t->n_events; i++) {
        const struct weft_trace_event *e = &t->events[i];
        double area = e->length * scale * row / (e->action.paired ? 2 : 1);
        want[e->action.kind] += area;
        gaps[e->action.kind] += row;
        if (e->action.paired) {
            want[e->partner.kind] += area;
            gaps[e->partner.kind] += row;
        }
    }

    for (size_t i = 0; i < p->n_cells; i++)
        if (p->cells[i].y + p->cells[i].h <= bottom + 0.01)
            got[p->cells[i].kind] += (double)p->cells[i].w * p->cells[i].h;

    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++)
        if (got[k] > want[k] * 1.06 + 0.1 * gaps[k] + 1 ||
            got[k] < fmin(want[k] * 0.94, want[k] - gaps[k]) - 1)
            fail_msg("%s: %s takes %g of the picture, not %g", what, weft_act_name(k), got[k],
                     want[k]);
}

/* -- all ----------------------------------------------------------------------------------- */

static void check_layout(void **state)
{
    const struct layout_case *c = *state;
    static const uint32_t widths[] = {0, 250, 700, 3000}, heights[] = {0, 300, 2000};
    struct weft_trace t = planned(c->name, c->ranks, c->micros, c->chunks);

    for (size_t i = 0; i < WEFT_LEN(widths) * WEFT_LEN(heights); i++) {
        struct weft_draw_options options = {.width = widths[i % WEFT_LEN(widths)],
                                            .height = heights[i / WEFT_LEN(widths)],
                                            .title = "A title",
                                            .lanes = i % 2 == 1};
        struct wf_picture p;
        struct weft_error err = {0};
        char what[128];

        snprintf(what, sizeof what, "%s %u x %u in %u x %u", c->name, c->ranks, c->micros,
                 options.width, options.height);
        if (wf_picture_init(&p, &t, 1, &options, &err) != WEFT_OK)
            fail_msg("%s: %s", what, err.msg);

        assert_true(options.width == 0 || p.width == options.width);
        assert_true(p.height >= options.height && p.areas[0].ink == WF_INK_IDLE);
        check_amounts(&p, &t, what);
        check_cells(&p, what);
        if (p.n_labels * p.n_cells < 50000000)
            check_inside(&p, what);
        check_labels(&p, what);

        wf_picture_release(&p);
    }
    weft_trace_release(&t);
}

/* Without a width limit every cell is labelled with its micro-batch. */
static void small_pictures_label_all_cells(void **state)
{
    static const struct layout_case small[] = {
        {"1f1b", 4, 8, 0}, {"zb-h1", 4, 8, 0}, {"zb-v", 4, 8, 0}, {"dualpipe", 8, 20, 0}};
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(small); i++) {
        struct weft_trace t = planned(small[i].name, small[i].ranks, small[i].micros, 0);
        const struct weft_draw_options options = {0};
        struct wf_picture p;
        size_t cells = 0, labels = 0;

        assert_int_equal(wf_picture_init(&p, &t, 1, &options, NULL), WEFT_OK);
        for (size_t k = 0; k < t.n_events; k++)
            cells += t.events[k].action.paired ? 2 : 1;

        double axis = 0; /* the only wide area that is not idle time */
        for (size_t k = 0; k < p.n_areas; k++)
            if (p.areas[k].ink == WF_INK_EDGE && p.areas[k].w > 100)
                axis = p.areas[k].y;
        for (size_t k = 0; k < p.n_labels; k++)
            labels += p.labels[k].anchor == WF_ANCHOR_MIDDLE && p.labels[k].y < axis;

        if (labels != cells)
            fail_msg("%s: %zu labels in %zu cells", small[i].name, labels, cells);

        wf_picture_release(&p);
        weft_trace_release(&t);
    }
}

static void panels_share_the_axis(void **state)
{
    struct weft_trace t[2] = {planned("1f1b", 4, 8, 0), stored("trace_measured.trace")};
    struct weft_draw_options options = {.lanes = true};
    struct wf_picture p;
    struct weft_error err = {0};
    (void)state;

    assert_int_equal(wf_picture_init(&p, t, 2, &options, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "abstract unit"));
    options.unit_seconds = 0.01;
    assert_int_equal(wf_picture_init(&p, t, 2, &options, &err), WEFT_OK);
    check_labels(&p, "two traces");
    check_cells(&p, "two traces");

    double widest = 0;
    for (size_t i = 0; i < p.n_areas; i++)
        if (p.areas[i].ink == WF_INK_IDLE)
            widest = fmax(widest, p.areas[i].w);
    double want = t[0].makespan * 0.01 / (t[1].makespan * t[1].unit_seconds);
    assert_true(fabs(p.areas[0].w / widest - want) < 1e-9);

    wf_picture_release(&p);
    weft_trace_release(&t[0]);
    weft_trace_release(&t[1]);
}

static void kinds_look_different(void **state)
{
    (void)state;
    for (unsigned a = WEFT_ACT_F; a <= WEFT_ACT_W; a++)
        for (unsigned b = WEFT_ACT_F; b < a; b++) {
            struct wf_cell x = {.w = 10, .h = 14, .kind = (uint8_t)a, .banded = true}, y = x;
            struct wf_cell of_x[2] = {{0}}, of_y[2] = {{0}};
            y.kind = (uint8_t)b;
            unsigned n = wf_cell_bands(&x, of_x), m = wf_cell_bands(&y, of_y);
            assert_true(n != m || of_x[0].y != of_y[0].y);
            assert_true(wf_kind_colour(a, 0) != wf_kind_colour(b, 0));
        }
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 3];
    size_t n = 0;
    for (; n < WEFT_LEN(cases); n++)
        tests[n] = (struct CMUnitTest){cases[n].name, check_layout, NULL, NULL, &cases[n]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(small_pictures_label_all_cells);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(panels_share_the_axis);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(kinds_look_different);
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL) != 0;
}
