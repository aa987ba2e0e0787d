/* Compares times and peaks with closed formulas from the literature.  All use one hop C and
 * stages with costs F, I and W. */
#include <math.h>

#include "lines.h"
#include "weft/weft.h"

struct shape {
    uint32_t P, V, M, r;
};

static struct costs {
    double F, I, W, C;
} all_costs[] = {{1, 1, 1, 0}, {10, 12, 8, 0}, {10, 12, 8, 1}, {3, 4, 2, 0}};

static double whole(const struct costs *c)
{
    return c->F + c->I + c->W;
}

/* GPipe with one chunk: (M+P-1)(F+B) + 2(P-1)C. */
static double time_gpipe(const struct shape *s, const struct costs *c)
{
    if (s->V > 1)
        return -1;
    return (s->M + s->P - 1) * whole(c) + 2 * (s->P - 1) * c->C;
}

/* 1F1B (P divides M): (M+P-1)T + (2(P-1)M/P + 2P-4)C. */
static double time_1f1b(const struct shape *s, const struct costs *c)
{
    if (c->C > 0 && (s->M % s->P != 0 || s->P == 1))
        return -1;
    double hops = c->C > 0 ? 2.0 * (s->P - 1) * s->M / s->P + 2.0 * s->P - 4 : 0;
    return (s->M + s->P - 1) * whole(c) + hops * c->C;
}

/* Eager 1F1B: (M+P-1)T + 2(P-1)C for any M. */
static double time_eager(const struct shape *s, const struct costs *c)
{
    return (s->M + s->P - 1) * whole(c) + 2 * (s->P - 1) * c->C;
}

/* Interleaved, M >= P, by the rule for any M: M*T + (P-1)T/V, with T of a whole rank
 * and no hops. */
static double time_interleaved(const struct shape *s, const struct costs *c)
{
    if (c->C > 0 || s->M < s->P)
        return -1;
    return (double)s->M * s->V * whole(c) + (s->P - 1) * whole(c);
}

/* ZB-H1, M >= 2P: M*T + (P-1)(F+I-W) + 4(P-1)C. */
static double time_zb_h1(const struct shape *s, const struct costs *c)
{
    if (s->M < 2 * s->P)
        return -1;
    return s->M * whole(c) + (s->P - 1) * (c->F + c->I - c->W) + 4 * (s->P - 1) * c->C;
}

/* ZB-H2 by span, M >= 2P: M*T + (P-1)(F+I-2W) + 2(P-1)C, if that is not less than the work. */
static double span_zb_h2(const struct shape *s, const struct costs *c)
{
    double bubble = c->F + c->I - 2 * c->W;
    if (s->M < 2 * s->P || bubble < 0)
        return -1;
    return s->M * whole(c) + (s->P - 1) * bubble + 2 * (s->P - 1) * c->C;
}

/* Looped BFS, M >= P: idle (P-1)T. */
static double time_bfs(const struct shape *s, const struct costs *c)
{
    if (c->C > 0 || s->M < s->P || c->F != 1)
        return -1;
    return (double)s->M * s->V * whole(c) + (s->P - 1) * whole(c);
}

/* Interleaved ZB, M >= P and unit costs: P-1 idle. */
static double time_interleaved_zb(const struct shape *s, const struct costs *c)
{
    if (c->F != 1 || s->M < s->P || s->M % s->P != 0)
        return -1;
    return 3.0 * s->M * s->V + s->P - 1;
}

/* ZB-V by span, M >= 2P-1 and unit costs: no bubble. */
static double span_zb_v(const struct shape *s, const struct costs *c)
{
    return c->F == 1 && s->M >= 2 * s->P - 1 ? 6.0 * s->M : -1;
}

/* DualPipe and DualPipeV: busy + (PP/2-1)(FB + B - 3W), PP stages, no hops, M >= 2P. */
static double time_dualpipe(const struct shape *s, const struct costs *c)
{
    if (c->C > 0 || c->F != 1)
        return -1;
    return s->M * whole(c) + (s->P / 2.0 - 1) * (whole(c) + c->I + c->W - 3 * c->W);
}

static double time_dualpipe_v(const struct shape *s, const struct costs *c)
{
    if (c->C > 0 || c->F != 1)
        return -1;
    return 2.0 * s->M * whole(c) + (s->P - 1) * (whole(c) + c->I + c->W - 3 * c->W);
}

static double min_of(double a, double b)
{
    return a < b ? a : b;
}

static double peak_all(const struct shape *s)
{
    return (double)s->M * s->V;
}

static double peak_1f1b(const struct shape *s)
{
    return min_of(s->P - s->r, s->M);
}

static double peak_eager(const struct shape *s)
{
    return min_of(2.0 * (s->P - s->r) - 1, s->M);
}

/* Returns the largest group: M over max(1, M div P), rounded up. */
static double group(const struct shape *s)
{
    uint32_t n = s->M / s->P > 0 ? s->M / s->P : 1;
    return (s->M + n - 1) / n;
}

static double peak_interleaved(const struct shape *s)
{
    return min_of(peak_all(s), (s->V - 1) * group(s) + 2.0 * (s->P - 1 - s->r) + 1);
}

static double peak_interleaved_zb(const struct shape *s)
{
    return s->M % s->P == 0 ? min_of(peak_all(s), (s->V - 1) * group(s) + s->P) : -1;
}

static double peak_zb_h1(const struct shape *s)
{
    return min_of(s->P, s->M);
}

static double peak_zb_v(const struct shape *s)
{
    return s->M >= 2 * s->P - 1 ? 2.0 * s->P : -1;
}

static double peak_dualpipe(const struct shape *s)
{
    return s->P + 1;
}

static double peak_dualpipe_v(const struct shape *s)
{
    return 2 * s->P + 1;
}

static struct form {
    const char *schedule;
    double (*makespan)(const struct shape *, const struct costs *); /* negative: no formula */
    double (*span)(const struct shape *, const struct costs *);
    double (*peak)(const struct shape *);
    int at_least; /* minimum number of comparisons */
} forms[] = {
    {"gpipe", time_gpipe, NULL, peak_all, 500},
    {"1f1b", time_1f1b, NULL, peak_1f1b, 400},
    {"1f1b-split", NULL, NULL, peak_1f1b, 100},
    {"eager-1f1b", time_eager, NULL, peak_eager, 500},
    {"interleaved-1f1b", time_interleaved, NULL, peak_interleaved, 1000},
    {"looped-bfs", time_bfs, NULL, peak_all, 400},
    {"zb-h1", time_zb_h1, NULL, peak_zb_h1, 300},
    {"zb-h2", NULL, span_zb_h2, NULL, 200},
    {"interleaved-zb", time_interleaved_zb, NULL, peak_interleaved_zb, 100},
    {"zb-v", NULL, span_zb_v, peak_zb_v, 80},
    {"dualpipe", time_dualpipe, NULL, peak_dualpipe, 20},
    {"dualpipe-v", time_dualpipe_v, NULL, peak_dualpipe_v, 50},
};

static void expect_close(const struct form *f, const struct shape *s, const char *what,
                         double got, double want)
{
    if (fabs(got - want) > 1e-9) {
        print_error("%s P=%u V=%u M=%u rank %u: %s %g, formula %g\n", f->schedule, s->P, s->V,
                    s->M, s->r, what, got, want);
        fail();
    }
}

/* Compares one schedule of one shape with all its formulas.  Returns the
 * number of comparisons. */
static int check_shape(const struct form *f, struct shape shape, const struct costs *c)
{
    struct weft_gen_params params = {.ranks = shape.P, .micros = shape.M};
    const struct weft_generator *g = weft_generator_find(f->schedule);

    if (g->flags & WEFT_GEN_USES_CHUNKS)
        params.chunks = shape.V;
    else if (shape.V != g->default_chunks && shape.V != 1)
        return 0;
    shape.V = params.chunks ? params.chunks : g->default_chunks;

    struct weft_cost cost = {.f = {&c->F, 1}, .i = {&c->I, 1}, .w = {&c->W, 1}, .hop = c->C};
    struct weft_schedule *s = NULL;
    struct weft_metrics m;

    if (weft_schedule_generate(f->schedule, &params, &s, NULL) != WEFT_OK)
        return 0;
    assert_int_equal(weft_metrics_init(&m, s, &cost, NULL, NULL), WEFT_OK);

    double makespan = f->makespan != NULL ? f->makespan(&shape, c) : -1;
    double span = f->span != NULL ? f->span(&shape, c) : -1;
    int n_compared = (makespan >= 0) + (span >= 0);

    if (makespan >= 0)
        expect_close(f, &shape, "makespan", m.makespan, makespan);
    if (span >= 0)
        expect_close(f, &shape, "span", m.span, span);

    for (shape.r = 0; f->peak != NULL && shape.r < shape.P; shape.r++) {
        double peak = f->peak(&shape);
        if (peak < 0)
            continue;
        expect_close(f, &shape, "peak", (double)m.peak_activations[shape.r], peak);
        n_compared += shape.r == 0;
    }

    weft_metrics_release(&m);
    weft_schedule_free(s);
    return n_compared;
}

static void check_form(void **state)
{
    const struct form *f = *state;
    int n_compared = 0;
    for (uint32_t P = 1; P <= 8; P++)
        for (uint32_t V = 1; V <= 4; V++)
            for (uint32_t M = 1; M <= 24; M++)
                for (size_t c = 0; c < sizeof all_costs / sizeof all_costs[0]; c++)
                    n_compared += check_shape(f, (struct shape){P, V, M, 0}, &all_costs[c]);
    if (n_compared < f->at_least) {
        print_error("%s: only %d shapes had a formula\n", f->schedule, n_compared);
        fail();
    }
}

int main(void)
{
    enum { N = sizeof forms / sizeof forms[0] };
    struct CMUnitTest tests[N];
    for (size_t i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){forms[i].schedule, check_form, NULL, NULL, &forms[i]};
    return cmocka_run_group_tests_name("closed forms", tests, NULL, NULL) != 0;
}
