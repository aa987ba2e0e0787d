/* Tunes published settings: the result is no worse than the published one, and better than
 * every generator if memory is tight. */
#include "checked.h"

static void check_zero_bubble(void **state)
{
    struct lines l;
    int turn = 0, better = 0;

    (void)state;
    for (lines_open(&l, "tune_zero_bubble.txt"); lines_next(&l);)
        for (int i = 0; i < 4; i++) { /* limit of P or 2P; span or makespan */
            double f = lines_number(&l, 2), in = lines_number(&l, 3), w = lines_number(&l, 4);
            double mem = lines_number(&l, 6), dw = -lines_number(&l, 7), di = -mem - dw;
            uint32_t ranks = lines_count(&l, 0), micros = lines_count(&l, 1);
            double limit = (1 + i / 2) * ranks * mem, work = micros * (f + in + w);

            struct weft_cost cost = {
                .f = {&f, 1}, .i = {&in, 1}, .w = {&w, 1}, .hop = lines_number(&l, 5)};
            struct weft_memory_cost memory = {{&mem, 1}, {&di, 1}, {&dw, 1}, {&limit, 1}};
            struct weft_tune_problem p = {.ranks = ranks,
                                          .micros = micros,
                                          .minimize = i % 2 ? WEFT_MINIMIZE_MAKESPAN
                                                            : WEFT_MINIMIZE_SPAN,
                                          .cost = &cost,
                                          .memory = &memory};
            struct weft_tune_result r;

            if (turn++ % stride() != 0 || (SLOW && ranks > 8) ||
                (size_t)(ranks == 32 ? micros * 10 : ranks * micros) > 1100)
                continue;
            tune(&l, &p, 500, &r);

            /* A makespan is not less than the published span.  For 2P it may exceed that span,
             * but it is proven to be optimal. */
            double time = i % 2 ? r.makespan : r.span, bubble = 1 - work / time;
            if (i == 3 ? !r.proven : bubble > lines_number(&l, 8 + i / 2) + 5e-5)
                fail_line(&l, "P=%u M=%u limit %dP: bubble %.5f by %s, gap %g", ranks, micros,
                          1 + i / 2, bubble, i % 2 ? "makespan" : "span", r.gap);

            better += i != 3 && bubble < lines_number(&l, 8 + i / 2) - 5e-5;
            weft_tune_result_release(&r);
        }

    print_message("%d better than published\n", better);
}

static enum weft_placement_kind placement_named(const char *name)
{
    enum weft_placement_kind kind = WEFT_PLACEMENT_LINEAR;
    while (strcmp(weft_placement_name(kind), name) != 0)
        kind++;
    return kind;
}

static void check_tight(void **state)
{
    struct lines l;
    int turn = 0;

    (void)state;
    for (lines_open(&l, "tune_tight.txt"); lines_next(&l);) {
        bool z = l.fields[5][0] == 'z', u = l.fields[5][0] == 'u';
        double f[32], i[32], w[32], di = z ? -0.6336 : 0, dw = -1 - di;
        double limit = lines_number(&l, 6);
        uint32_t stages = lines_count(&l, 0) * lines_count(&l, 3);
        if (turn++ % stride() != 0)
            continue;

        for (uint32_t s = 0; s < stages; s++) {
            double part = u ? 1 + 0.1 * ((int)(s * 7 % 5) - 2) : 1;
            f[s] = part * (z ? 18.522 : 10);
            i[s] = part * (z ? 18.086 : 12);
            w[s] = part * (z ? 9.337 : 8);
        }

        struct weft_cost cost = {
            .f = {f, stages}, .i = {i, stages}, .w = {w, stages}, .hop = z ? 0.601 : 1};
        struct weft_memory_cost memory = {.i = {&di, 1}, .w = {&dw, 1}, .limit = {&limit, 1}};
        struct weft_tune_problem p = {.ranks = lines_count(&l, 0),
                                      .micros = lines_count(&l, 1),
                                      .chunks = lines_count(&l, 3),
                                      .placement = placement_named(l.fields[2]),
                                      .whole = lines_count(&l, 4) != 0,
                                      .minimize = WEFT_MINIMIZE_MAKESPAN,
                                      .cost = &cost,
                                      .memory = &memory};

        struct weft_tune_result r;
        tune(&l, &p, lines_count(&l, 7), &r);

        if (fabs(r.start_makespan - lines_number(&l, 8)) > 1e-6 * r.makespan)
            fail_line(&l, "the best generator is %s with %.10g", r.start, r.start_makespan);
        if (!(r.makespan < r.start_makespan * (1 - 1e-9)) ||
            r.makespan > lines_number(&l, 9) * (1 + 1e-5))
            fail_line(&l, "tuned to %.10g only", r.makespan);

        weft_tune_result_release(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_zero_bubble),
        cmocka_unit_test(check_tight),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL) != 0;
}
