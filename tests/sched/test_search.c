/* Checks the schedules that search: at least as good as the published heuristics, within the
 * memory limit, and never better than the proven optimum. */
#include <math.h>

#include "deep.h"
#include "lines.h"
#include "weft/weft.h"

/* Returns n where the sweep tries one line in n.  A search takes ten times longer
 * under a sanitizer. */
static int stride(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 12;
#else
    return test_is_deep() ? 1 : 5;
#endif
}

static void expect_peaks(const struct lines *l, const struct weft_metrics *m)
{
    double peaks[64];
    size_t n = lines_list(l, 12, peaks, 64);
    for (size_t r = 0; r < n; r++) {
        double limit = strcmp(l->fields[10], "-") == 0 ? peaks[r] : lines_number(l, 10);
        if (m->peak_mem[r] > limit + 1e-9)
            fail_line(l, "%s P=%s M=%s: rank %zu peaks at %g, over %g", l->fields[0],
                      l->fields[1], l->fields[2], r, m->peak_mem[r], limit);
    }
}

static void check_search(void **state)
{
    struct lines l;
    int n = 0, looked = 0, better = 0;
    (void)state;

    for (lines_open(&l, "golden_search.txt"); lines_next(&l); n++) {
        if (n % stride() != 0)
            continue;
        double f[16], i[16], w[16], mem[3], limit = lines_number(&l, 10);

        for (int k = 0; k < 3; k++)
            mem[k] = lines_number(&l, 7 + k);
        struct weft_cost cost = {.f = {f, lines_list(&l, 3, f, 16)},
                                 .i = {i, lines_list(&l, 4, i, 16)},
                                 .w = {w, lines_list(&l, 5, w, 16)},
                                 .hop = lines_number(&l, 6)};
        struct weft_memory_cost memory = {
            .f = {&mem[0], 1}, .i = {&mem[1], 1}, .w = {&mem[2], 1}};
        if (strcmp(l.fields[10], "-") != 0)
            memory.limit = (struct weft_values){&limit, 1};

        struct weft_gen_params params = {.ranks = lines_count(&l, 1),
                                         .micros = lines_count(&l, 2),
                                         .cost = &cost,
                                         .memory = &memory};
        struct weft_schedule *s = NULL;
        struct weft_metrics m;
        struct weft_error err;

        if (weft_schedule_generate(l.fields[0], &params, &s, &err) != WEFT_OK)
            fail_line(&l, "%s", err.msg);
        assert_int_equal(weft_metrics_init(&m, s, &cost, &memory, NULL), WEFT_OK);

        if (m.span > lines_number(&l, 11) + 1e-9)
            fail_line(&l, "%s P=%s M=%s: span %g, more than %s", l.fields[0], l.fields[1],
                      l.fields[2], m.span, l.fields[11]);
        better += m.span < lines_number(&l, 11) - 1e-9;
        expect_peaks(&l, &m);
        looked++;

        weft_metrics_release(&m);
        weft_schedule_free(s);
    }

    print_message("%d looked at, %d of them better than published\n", looked, better);
    assert_in_range(looked, 740 / stride(), 100000);
}

/* Returns the makespan of a schedule with a limit of K activations. */
static double reach(const char *schedule, const struct lines *l)
{
    double f = lines_number(l, 2), i = lines_number(l, 3), w = lines_number(l, 4);
    double limit = lines_number(l, 5);
    struct weft_cost cost = {.f = {&f, 1}, .i = {&i, 1}, .w = {&w, 1}};
    struct weft_memory_cost memory = {.limit = {&limit, 1}};
    struct weft_gen_params params = {.ranks = lines_count(l, 0),
                                     .micros = lines_count(l, 1),
                                     .cost = &cost,
                                     .memory = &memory,
                                     .minimize = WEFT_MINIMIZE_MAKESPAN};
    struct weft_schedule *s = NULL;
    struct weft_metrics m;
    assert_int_equal(weft_schedule_generate(schedule, &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, s, &cost, &memory, NULL), WEFT_OK);
    double makespan = m.makespan;
    for (uint32_t r = 0; r < m.n_ranks && strcmp(schedule, "zb-auto") == 0; r++)
        assert_true(m.peak_mem[r] <= limit + 1e-9);
    weft_metrics_release(&m);
    weft_schedule_free(s);
    return makespan;
}

static void check_optimum(void **state)
{
    struct lines l;
    int equal_free = 0, n_free = 0, equal_tight = 0, n_tight = 0, n_fused = 0;
    (void)state;

    for (lines_open(&l, "golden_optimum.txt"); lines_next(&l);) {
        double best = lines_number(&l, 7);
        bool fused = lines_count(&l, 6) != 0, tight = lines_count(&l, 5) < lines_count(&l, 0);
        if (fused) { /* 1F1B is optimal with whole backwards if it fits the limit */
            if (tight && lines_count(&l, 5) < lines_count(&l, 1))
                continue;
            n_fused++;
            if (reach("1f1b", &l) != best)
                fail_line(&l, "1f1b is not the optimum %g", best);
            continue;
        }

        double got = reach("zb-auto", &l);
        if (got < best - 1e-9)
            fail_line(&l, "%g is below the proven optimum %g", got, best);

        *(tight ? &n_tight : &n_free) += 1;
        *(tight ? &equal_tight : &equal_free) += got <= best + 1e-9;
    }

    print_message("optimal: %d of %d with memory for P micros, %d of %d with less; fused %d\n",
                  equal_free, n_free, equal_tight, n_tight, n_fused);
    assert_int_equal(equal_free, n_free);
    assert_in_range(n_free, 80, 100000);
    assert_in_range(n_fused, 60, 100000);
    assert_int_equal(equal_tight, n_tight); /* the published heuristic misses two fifths */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_search),
        cmocka_unit_test(check_optimum),
    };
    return cmocka_run_group_tests_name("search", tests, NULL, NULL) != 0;
}
