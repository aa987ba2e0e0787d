/* Checks that bounds hold for proven optima, for every order of tiny problems, and for all
 * generators. */
#include <math.h>

#include "base/random.h"
#include "brute.h"
#include "sched/lines.h"
#include "weft/bound.h"
#include "weft/timing.h"

#ifdef __SANITIZE_ADDRESS__
enum { EVERY = 61, N_RANDOM = 150 };
#else
enum { EVERY = 5, N_RANDOM = 4000 };
#endif

/* -- proven optima ------------------------------------------------------------------------- */

static void check_optimum(void **state)
{
    struct lines l;
    int n = 0, equal = 0;
    (void)state;

    for (lines_open(&l, "golden_optimum.txt"); lines_next(&l); n++) {
        uint32_t ranks = lines_count(&l, 0), rank_of[16];
        double f = lines_number(&l, 2), i = lines_number(&l, 3), w = lines_number(&l, 4);
        double limit = lines_number(&l, 5), best = lines_number(&l, 7);
        for (uint32_t r = 0; r < ranks; r++)
            rank_of[r] = r;

        struct weft_placement place = {ranks, ranks, lines_count(&l, 1), 1, rank_of, NULL};
        struct weft_cost cost = {.f = {&f, 1}, .i = {&i, 1}, .w = {&w, 1}};
        struct weft_memory_cost memory = {.limit = {&limit, 1}};
        struct weft_bound_input in = {.placement = &place, .cost = &cost, .memory = &memory};
        struct weft_bounds b;

        in.backwards = lines_count(&l, 6) ? WEFT_BACKWARD_WHOLE : WEFT_BACKWARD_SPLIT;
        assert_int_equal(weft_bounds_compute(&in, &b, NULL), WEFT_OK);
        if (b.makespan > best * (1 + 1e-9) || b.span > b.makespan * (1 + 1e-9))
            fail_line(&l, "bound %g (%s), span %g, but %g is possible", b.makespan,
                      weft_bound_name(b.makespan_by), b.span, best);

        equal += b.makespan >= best * (1 - 1e-9);
    }

    print_message("%d of %d bounds are the optimum\n", equal, n);
    assert_in_range(n, 360, 10000);
    assert_in_range(equal, 98 * n / 100, n);
}

/* -- every order of tiny problems ---------------------------------------------------------- */

static int draw(uint64_t *at, int n)
{
    return (int)wf_random_below(11, 1, (*at)++, (uint32_t)n);
}

/* Sets equal hops in half of the problems and different hops in the others. */
static void set_hops(struct brute *b, int hop, uint64_t seed)
{
    bool equal = wf_random_below(12, seed, 0, 2) == 0;
    for (uint32_t i = 0; i < 2 * BRUTE_STAGES; i++)
        b->hop[i % 2][i / 2] = equal ? hop : (int)wf_random_below(12, seed, i + 1, 5);
}

/* Makes a random problem of one to three ranks: linear, loop or V, with any memory deltas, also
 * positive ones of I. */
static void make_problem(struct brute *b, uint64_t *at)
{
    static const int shapes[][3] = {/* ranks, chunks, maximum micros */
                                    {2, 1, 3}, {3, 1, 2}, {2, 2, 1}, {1, 2, 2},
                                    {1, 1, 3}, {3, 1, 3}, {2, 2, 2}, {3, 2, 1}};
    const int *shape = shapes[draw(at, 8)];

    *b = (struct brute){.ranks = shape[0], .stages = shape[0] * shape[1]};
    b->micros = 1 + draw(at, shape[2]);
    b->passes = 2 + draw(at, 2);
    b->any_order = b->micros == 2 && shape[1] == 1 && draw(at, 2) == 0;
    set_hops(b, draw(at, 3), *at);

    bool loop = draw(at, 2) == 0, alike = draw(at, 2) == 0;
    int kind = draw(at, 4);
    for (int s = 0; s < b->stages; s++) {
        b->rank_of[s] = s < b->ranks ? s : loop ? s - b->ranks : 2 * b->ranks - 1 - s;
        for (int p = 0; p < b->passes; p++)
            b->time[p][s] = alike && s > 0 ? b->time[p][0] : draw(at, 5) + (p < 2);

        int f = kind == 0 ? 2 : 1 + draw(at, 4), i = kind < 2 ? 0 : draw(at, 5) - 2;
        b->delta[0][s] = alike && s > 0 ? b->delta[0][0] : f;
        b->delta[1][s] = alike && s > 0 ? b->delta[1][0] : i;
        b->delta[2][s] = -b->delta[0][s] - b->delta[1][s] + (kind == 3 && draw(at, 6) == 0);
        if (b->passes == 2)
            b->delta[1][s] += b->delta[2][s];
    }

    for (int r = 0; r < b->ranks; r++)
        b->limit[r] = draw(at, 4) == 0 ? 1000 : 2 + draw(at, 12);
}

/* A problem in weft's structs. */
struct mirror {
    uint32_t rank_of[BRUTE_STAGES];
    double f[BRUTE_STAGES], i[BRUTE_STAGES], w[BRUTE_STAGES], df[BRUTE_STAGES];
    double di[BRUTE_STAGES], dw[BRUTE_STAGES], limit[BRUTE_RANKS], hop[2][BRUTE_STAGES];
    struct weft_placement place;
    struct weft_cost cost;
    struct weft_memory_cost memory;
};

static void mirror(const struct brute *b, struct mirror *m)
{
    size_t n = (size_t)b->stages, ranks = (size_t)b->ranks;
    for (int s = 0; s < b->stages; s++) {
        m->rank_of[s] = (uint32_t)b->rank_of[s];
        m->f[s] = b->time[0][s];
        m->i[s] = b->time[1][s];
        m->w[s] = b->passes == 3 ? b->time[2][s] : 0;
        m->df[s] = b->delta[0][s];
        m->di[s] = b->delta[1][s];
        m->dw[s] = b->passes == 3 ? b->delta[2][s] : 0;
        m->hop[0][s] = b->hop[0][s];
        m->hop[1][s] = b->hop[1][s];
    }

    for (int r = 0; r < b->ranks; r++)
        m->limit[r] = b->limit[r];

    m->place = (struct weft_placement){
        (uint32_t)b->ranks, (uint32_t)b->stages, (uint32_t)b->micros, 1, m->rank_of, NULL};
    m->cost = (struct weft_cost){.f = {m->f, n},
                                 .i = {m->i, n},
                                 .w = {m->w, n},
                                 .forward_hop = {m->hop[0], n - 1},
                                 .backward_hop = {m->hop[1], n - 1}};
    m->memory =
        (struct weft_memory_cost){{m->df, n}, {m->di, n}, {m->dw, n}, {m->limit, ranks}};
}

static void check_random(void **state)
{
    uint64_t at = 0;
    int looked = 0, impossible = 0, tight = 0, tight_span = 0, shown = 0;

    (void)state;
    for (int i = 0; i < N_RANDOM; i++) {
        struct brute b;
        struct mirror m;
        struct weft_bounds bounds;

        make_problem(&b, &at);
        if (!brute_solve(&b, 6000))
            continue;
        mirror(&b, &m);

        struct weft_bound_input in = {.placement = &m.place,
                                      .cost = &m.cost,
                                      .memory = &m.memory,
                                      .backwards = b.passes == 2 ? WEFT_BACKWARD_WHOLE
                                                                 : WEFT_BACKWARD_SPLIT};
        assert_int_equal(weft_bounds_compute(&in, &bounds, NULL), WEFT_OK);

        looked++;
        if (b.makespan < 0) {
            impossible++;
            continue;
        }

        assert_false(bounds.impossible);
        bool wrong =
            bounds.makespan > b.makespan * (1 + 1e-9) || bounds.span > b.span * (1 + 1e-9);
        for (int k = 0; wrong && k < WEFT_N_BOUNDS && shown < 50; k++, shown++)
            print_error(
                "problem %d (%d ranks, %d stages, %d micros, %d passes): %s gives %g and "
                "%g, possible are %d and %d\n",
                i, b.ranks, b.stages, b.micros, b.passes,
                weft_bound_name((enum weft_bound_kind)k), bounds.each_makespan[k],
                bounds.each_span[k], b.makespan, b.span);

        assert_false(wrong);
        tight += bounds.makespan >= b.makespan * (1 - 1e-9);
        tight_span += bounds.span >= b.span * (1 - 1e-9);
    }

    print_message("%d problems, %d of them impossible; the bound is the optimum in %d, by span "
                  "in %d\n",
                  looked, impossible, tight, tight_span);
    assert_in_range(looked, N_RANDOM / 2, N_RANDOM);
    assert_in_range(tight, 9 * (looked - impossible) / 10, looked);
}

/* -- all generators ------------------------------------------------------------------------ */

static void check_generator(const struct weft_generator *g,
                            const struct weft_gen_params *params, int *n)
{
    struct weft_schedule *s = NULL;
    struct weft_metrics m;
    struct weft_bounds b;
    if (weft_schedule_generate(g->name, params, &s, NULL) != WEFT_OK)
        return;
    assert_int_equal(weft_metrics_init(&m, s, params->cost, params->memory, NULL), WEFT_OK);
    assert_int_equal(weft_bounds_of(s, params->cost, params->memory, 0.1, &b, NULL), WEFT_OK);
    if (b.impossible || b.makespan > m.makespan * (1 + 1e-9) || b.span > m.span * (1 + 1e-9)) {
        print_error("%s P=%u M=%u V=%u: bounds %g (%s), %g (%s), but it takes %g, %g\n",
                    g->name, params->ranks, params->micros, params->chunks, b.makespan,
                    weft_bound_name(b.makespan_by), b.span, weft_bound_name(b.span_by),
                    m.makespan, m.span);
        fail();
    }
    ++*n;
    weft_metrics_release(&m);
    weft_schedule_free(s);
}

static void check_generated(void **state)
{
    static const struct {
        double f, i, w, b, fb, hop, mem_i;
    } costs[] = {
        {1, 1, 1, 0, 0, 0, 0},
        {18.522, 18.086, 9.337, 0, 0, 0.601, -0.6},
        {3, 5, 4, 8, 9, 1, 0.25},
        {3.14159265358979, 4, 1.0 / 3, 4, 0, 0.7, -0.3},
    };
    size_t n_generators;
    const struct weft_generator *all = weft_generator_list(&n_generators);
    int n = 0, turn = 0;

    (void)state;
    for (size_t g = 0; g < n_generators; g++)
        for (uint32_t ranks = 1; ranks <= 8; ranks += ranks < 4 ? 1 : 2)
            for (uint32_t micros = 1; micros <= 16; micros += micros < 4 ? 1 : 4)
                for (size_t c = 0; c < sizeof costs / sizeof *costs; c++) {
                    if (turn++ % EVERY != 0)
                        continue;

                    double w = -1 - costs[c].mem_i;
                    struct weft_cost cost = {.f = {&costs[c].f, 1},
                                             .i = {&costs[c].i, 1},
                                             .w = {&costs[c].w, 1},
                                             .b = {&costs[c].b, costs[c].b > 0},
                                             .fb = {&costs[c].fb, costs[c].fb > 0},
                                             .hop = costs[c].hop};
                    struct weft_memory_cost memory = {.i = {&costs[c].mem_i, 1}, .w = {&w, 1}};

                    struct weft_gen_params params = {
                        .ranks = ranks, .micros = micros, .cost = &cost, .memory = &memory};
                    check_generator(&all[g], &params, &n);
                    params.chunks = 3;
                    if (all[g].flags & WEFT_GEN_USES_CHUNKS)
                        check_generator(&all[g], &params, &n);
                }

    print_message("%d schedules keep their bounds\n", n);
    assert_in_range(n, 4000 / EVERY, 100000);
}

/* -- rejected input ------------------------------------------------------------------------ */

static void check_refused(void **state)
{
    static const uint32_t rank_of[] = {0, 1};
    struct weft_placement place = {2, 2, 2, 1, rank_of, NULL};
    double bad[] = {-1, NAN, INFINITY}, few[] = {1, 2, 3}, small = 0.5;
    struct weft_bounds b;
    struct weft_error err;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct weft_cost cost = {.f = {&bad[i], 1}}, hops = {.hop = bad[i]};
        struct weft_memory_cost memory = {.limit = {&bad[i], 1}};
        struct weft_bound_input in = {.placement = &place, .cost = &cost};
        assert_int_equal(weft_bounds_compute(&in, &b, &err), WEFT_USAGE);
        in.cost = &hops;
        assert_int_equal(weft_bounds_compute(&in, &b, &err), WEFT_USAGE);
        in.cost = NULL;
        in.memory = &memory;
        assert_int_equal(weft_bounds_compute(&in, &b, &err), WEFT_USAGE);
    }

    struct weft_cost three = {.i = {few, 3}};
    struct weft_memory_cost tight = {.limit = {&small, 1}};
    struct weft_bound_input in = {.placement = &place, .cost = &three};
    assert_int_equal(weft_bounds_compute(&in, &b, &err), WEFT_USAGE);

    in.cost = NULL;
    in.memory = &tight;
    assert_int_equal(weft_bounds_compute(&in, &b, &err), WEFT_OK);
    assert_true(b.impossible);

    place.n_micros = 0;
    assert_int_equal(weft_bounds_compute(&in, &b, &err), WEFT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_optimum),
        cmocka_unit_test(check_random),
        cmocka_unit_test(check_generated),
        cmocka_unit_test(check_refused),
    };
    return cmocka_run_group_tests_name("bound", tests, NULL, NULL) != 0;
}
