/* Checks tuning: known optima, all placements, errors, layouts. */
#include "base/random.h"
#include "checked.h"
#include "weft/sim.h"

static void check_optimum(void **state)
{
    struct lines l;
    int n = 0, turn = 0, equal = 0, proven = 0;

    (void)state;
    for (lines_open(&l, "golden_optimum.txt"); lines_next(&l);) {
        double f = lines_number(&l, 2), i = lines_number(&l, 3), w = lines_number(&l, 4);
        double limit = lines_number(&l, 5), best = lines_number(&l, 7);
        struct weft_cost cost = {.f = {&f, 1}, .i = {&i, 1}, .w = {&w, 1}};
        struct weft_memory_cost memory = {.limit = {&limit, 1}};
        struct weft_tune_problem p = {.ranks = lines_count(&l, 0),
                                      .micros = lines_count(&l, 1),
                                      .whole = lines_count(&l, 6) != 0,
                                      .minimize = WEFT_MINIMIZE_MAKESPAN,
                                      .cost = &cost,
                                      .memory = &memory};

        struct weft_tune_result r;
        if (turn++ % stride() != 0)
            continue;

        tune(&l, &p, 20000, &r);
        if (r.makespan < best - 1e-9 || r.makespan > 1.03 * best)
            fail_line(&l, "%g, but %g is the optimum", r.makespan, best);
        if (r.proven && r.makespan > best + 1e-9)
            fail_line(&l, "%g is said to be proven, but %g is possible", r.makespan, best);

        n++;
        equal += r.makespan <= best + 1e-9;
        proven += r.proven;
        weft_tune_result_release(&r);
    }

    print_message("optimal %d of %d, proven %d\n", equal, n, proven);
    assert_in_range(n, 360 / stride(), 10000);
    assert_in_range(equal, (98 * n + 99) / 100, n);
    assert_in_range(proven, 98 * n / 100, n);
}

/* -- reproducibility, all placements ------------------------------------------------------- */

static bool count_calls(const struct weft_tune_progress *p, void *user)
{
    int *calls = user;
    return p->makespan >= p->span && ++*calls < 1000;
}

static bool stop_at_once(const struct weft_tune_progress *p, void *user)
{
    (void)p;
    (void)user;
    return false;
}

static void check_placements(void **state)
{
    static const struct {
        enum weft_placement_kind kind;
        uint32_t ranks, micros, chunks;
        bool whole;
        enum weft_minimize minimize;
        double limit;
    } cases[] = {
        {WEFT_PLACEMENT_LINEAR, 1, 1, 0, false, WEFT_MINIMIZE_SPAN, 1},
        {WEFT_PLACEMENT_LINEAR, 3, 5, 1, true, WEFT_MINIMIZE_SPAN, 2},
        {WEFT_PLACEMENT_LINEAR, 4, 9, 0, false, WEFT_MINIMIZE_SPAN, 1e9},
        {WEFT_PLACEMENT_LOOP, 1, 3, 3, false, WEFT_MINIMIZE_MAKESPAN, 3},
        {WEFT_PLACEMENT_LOOP, 3, 4, 1, false, WEFT_MINIMIZE_MAKESPAN, 2},
        {WEFT_PLACEMENT_LOOP, 3, 5, 2, true, WEFT_MINIMIZE_MAKESPAN, 3},
        {WEFT_PLACEMENT_LOOP, 2, 6, 5, false, WEFT_MINIMIZE_SPAN, 7},
        {WEFT_PLACEMENT_V, 3, 4, 0, false, WEFT_MINIMIZE_MAKESPAN, 2},
        {WEFT_PLACEMENT_V, 4, 8, 2, true, WEFT_MINIMIZE_SPAN, 6},
        {WEFT_PLACEMENT_WAVE, 2, 4, 3, false, WEFT_MINIMIZE_MAKESPAN, 4},
        {WEFT_PLACEMENT_WAVE, 3, 5, 4, true, WEFT_MINIMIZE_SPAN, 1e9},
    };

    static const struct lines nowhere;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double limit = cases[i].limit;
        struct weft_cost cost = {.hop = 0.25};
        struct weft_memory_cost memory = {.limit = {&limit, 1}};
        struct weft_tune_problem p = {.ranks = cases[i].ranks,
                                      .micros = cases[i].micros,
                                      .chunks = cases[i].chunks,
                                      .placement = cases[i].kind,
                                      .whole = cases[i].whole,
                                      .minimize = cases[i].minimize,
                                      .cost = &cost,
                                      .memory = &memory};

        struct weft_tune_result a, b;
        char *first = NULL, *second = NULL;
        tune(&nowhere, &p, 3000, &a);
        tune(&nowhere, &p, 3000, &b);

        weft_schedule_print(a.schedule, WEFT_TEXT_FORMAT_CSV, &first, NULL, NULL);
        weft_schedule_print(b.schedule, WEFT_TEXT_FORMAT_CSV, &second, NULL, NULL);
        assert_string_equal(first, second);
        assert_int_equal(a.evaluations, b.evaluations);

        free(first);
        free(second);
        weft_tune_result_release(&a);
        weft_tune_result_release(&b);

        int calls = 0;
        struct weft_tune_options watched = {
            .iterations = 2000, .progress = count_calls, .user = &calls};
        assert_int_equal(weft_tune(&p, &watched, &a, NULL), WEFT_OK);
        assert_true(calls > 0);
        weft_tune_result_release(&a);

        watched.progress = stop_at_once;
        assert_int_equal(weft_tune(&p, &watched, &a, NULL), WEFT_OK);
        weft_tune_result_release(&a);
    }
}

static uint32_t draw(uint64_t *at, uint32_t n)
{
    return wf_random_below(5, 2, (*at)++, n);
}

/* Tunes random problems that are too large to try every order; tune() compares the result with
 * the bounds, by makespan and by span. */
static void check_random(void **state)
{
    static const struct lines nowhere;
    uint64_t at = 0;
    int proven = 0, n = 0;

    (void)state;
    for (int turn = 0; turn < 250 / stride(); turn++) {
        uint32_t ranks = 2 + draw(&at, 4), chunks = 1 + draw(&at, 3), stages = ranks * chunks;
        double f[16], i[16], w[16], df[16], di[16], dw[16], limit[8];
        bool alike = draw(&at, 2) == 0;

        for (uint32_t s = 0; s < stages; s++) {
            bool same = alike && s > 0;
            f[s] = same ? f[0] : 1 + draw(&at, 9);
            i[s] = same ? i[0] : 1 + draw(&at, 9);
            w[s] = same ? w[0] : draw(&at, 9);
            df[s] = same ? df[0] : 4 + draw(&at, 5);
            di[s] = same ? di[0] : (double)draw(&at, 6) - 4;
            dw[s] = -df[s] - di[s];
        }

        for (uint32_t r = 0; r < ranks; r++)
            limit[r] = r > 0 && alike ? limit[0] : chunks * (9 + draw(&at, 30));

        struct weft_cost cost = {
            .f = {f, stages}, .i = {i, stages}, .w = {w, stages}, .hop = draw(&at, 2) * 0.5};
        struct weft_memory_cost memory = {
            {df, stages}, {di, stages}, {dw, stages}, {limit, ranks}};
        struct weft_tune_problem p = {.ranks = ranks,
                                      .micros = 2 + draw(&at, 7),
                                      .chunks = chunks,
                                      .placement = chunks == 1         ? WEFT_PLACEMENT_LINEAR
                                                   : draw(&at, 2) == 0 ? WEFT_PLACEMENT_LOOP
                                                                       : WEFT_PLACEMENT_WAVE,
                                      .whole = draw(&at, 3) == 0,
                                      .minimize = draw(&at, 2) == 0 ? WEFT_MINIMIZE_SPAN
                                                                    : WEFT_MINIMIZE_MAKESPAN,
                                      .cost = &cost,
                                      .memory = &memory};

        struct weft_tune_result r;
        tune(&nowhere, &p, 600, &r);
        proven += r.proven;
        n++;
        weft_tune_result_release(&r);
    }

    print_message("%d random problems, %d proven\n", n, proven);
}

static void check_refused(void **state)
{
    double bad = -1, nan = NAN, small = 0.5;
    struct weft_cost costs[] = {{.f = {&bad, 1}}, {.i = {&nan, 1}}, {.hop = -1}};
    struct weft_memory_cost tight = {.limit = {&small, 1}}, none = {.limit = {&nan, 1}};
    const struct weft_tune_problem all[] = {
        {.ranks = 0, .micros = 1},
        {.ranks = 1, .micros = 0},
        {.ranks = 2, .micros = 2, .chunks = 2},
        {.ranks = 2, .micros = 2, .chunks = 3, .placement = WEFT_PLACEMENT_V},
        {.ranks = 2, .micros = 2, .placement = WEFT_PLACEMENT_BIDIRECTIONAL},
        {.ranks = 1 << 24, .micros = 1, .chunks = 4, .placement = WEFT_PLACEMENT_LOOP},
        {.ranks = 2, .micros = 2, .cost = &costs[0]},
        {.ranks = 2, .micros = 2, .cost = &costs[1]},
        {.ranks = 2, .micros = 2, .cost = &costs[2]},
        {.ranks = 2, .micros = 2, .memory = &tight},
        {.ranks = 2, .micros = 2, .memory = &none},
    };

    const struct weft_tune_options options = {.iterations = 10};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct weft_tune_result r;
        struct weft_error err = {0};
        assert_int_equal(weft_tune(&all[i], &options, &r, &err), WEFT_USAGE);
        assert_true(err.msg[0] != '\0' && strchr(err.msg, '\n') == NULL);
    }
}

/* -- layouts ------------------------------------------------------------------------------- */

static void check_layouts(void **state)
{
    struct weft_cluster cluster;
    struct weft_layout_problem p = {.layers = 8,
                                    .layer = {1, 1, 1, 100, 10},
                                    .head = {.f = 2, .i = 2, .w = 2},
                                    .global_batch = 8,
                                    .ranks = 4,
                                    .hop = 0.1,
                                    .minimize = WEFT_MINIMIZE_MAKESPAN,
                                    .iterations = 2000};
    struct weft_layouts all, few;

    (void)state;
    assert_int_equal(weft_tune_layouts(&p, 5, &all, NULL), WEFT_OK);
    assert_int_equal(all.n, 5);

    for (size_t i = 0; i < all.n; i++) {
        const struct weft_layout *l = &all.at[i];
        assert_true(i == 0 || all.at[i - 1].time <= l->time);
        assert_true(l->bound > 0 && l->bound <= l->time * (1 + 1e-9));
        assert_int_equal(l->micros * l->rows, 8);
    }

    /* With less memory the best layout is not faster, and no rank exceeds the limit. */
    p.bytes_limit = all.at[0].peak_bytes - 1;
    assert_int_equal(weft_tune_layouts(&p, 5, &few, NULL), WEFT_OK);
    assert_true(few.n > 0 && few.at[0].time >= all.at[0].time * (1 - 1e-9));
    for (size_t i = 0; i < few.n; i++)
        assert_true(few.at[i].peak_bytes <= p.bytes_limit);

    weft_layouts_release(&few);
    weft_layouts_release(&all);
    p.bytes_limit = 50;
    assert_int_equal(weft_tune_layouts(&p, 5, &few, NULL), WEFT_USAGE);

    /* On a cluster, all layouts use all of its ranks. */
    p.bytes_limit = 0;
    p.ranks = 0;
    p.boundary_bytes = 1e6;
    assert_int_equal(
        weft_cluster_parse("node:2 rank:4 intra:200GB/s,2us inter:25GB/s,8us", &cluster, NULL),
        WEFT_OK);

    p.cluster = &cluster;
    assert_int_equal(weft_tune_layouts(&p, 20, &all, NULL), WEFT_OK);
    for (size_t i = 0; i < all.n; i++)
        assert_int_equal(all.at[i].ranks * all.at[i].replicas, 8);
    weft_layouts_release(&all);
}

/* Lists of the wrong length are refused, not read beyond their end. */
static void check_short_lists(void **state)
{
    static const double two[] = {1, 2};
    const struct weft_memory_cost limits = {.limit = {two, 2}};
    const struct weft_cost cost = {.f = {two, 2}};
    const struct weft_tune_options options = {.iterations = 10};
    struct weft_tune_problem problem = {.ranks = 4, .micros = 8, .memory = &limits};
    struct weft_tune_result r;
    (void)state;
    assert_int_equal(weft_tune(&problem, &options, &r, NULL), WEFT_USAGE);
    problem.memory = NULL;
    problem.cost = &cost;
    assert_int_equal(weft_tune(&problem, &options, &r, NULL), WEFT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_short_lists), cmocka_unit_test(check_optimum),
        cmocka_unit_test(check_placements),  cmocka_unit_test(check_random),
        cmocka_unit_test(check_refused),     cmocka_unit_test(check_layouts),
    };
    return cmocka_run_group_tests_name("tune", tests, NULL, NULL) != 0;
}
