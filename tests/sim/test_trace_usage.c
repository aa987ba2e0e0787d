/* Checks that busy and idle times derived from a trace agree with those of the simulator. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/sim/trace_usage.h"

/* Stages differ in time, so that there is imbalance and waiting. */
static void check_idle_of(const char *name, uint32_t ranks, uint32_t micros, uint32_t chunks,
                          double hop)
{
    struct weft_gen_params params = {.ranks = ranks, .micros = micros, .chunks = chunks};
    struct weft_schedule *s = NULL;
    double f[64], i[64], w[64];

    for (int k = 0; k < 64; k++) {
        f[k] = 1 + k * 5 % 3 * 0.25;
        i[k] = 1 + k * 7 % 4 * 0.25;
        w[k] = 1 + k * 3 % 5 * 0.125;
    }

    assert_int_equal(weft_schedule_generate(name, &params, &s, NULL), WEFT_OK);
    size_t n = weft_schedule_placement(s)->n_stages;
    const struct weft_cost cost = {.f = {f, n}, .i = {i, n}, .w = {w, n}, .hop = hop};
    const struct weft_sim_options options = {.cost = &cost};
    struct weft_sim sim;
    struct weft_metrics m;
    struct weft_trace t;
    struct wf_trace_usage u;

    assert_int_equal(weft_sim_init(&sim, s, &options, NULL), WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, s, &cost, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_trace_init_plan(&t, s, &m, NULL, NULL), WEFT_OK);
    assert_int_equal(wf_trace_usage_init(&u, &t, NULL), WEFT_OK);

    for (uint32_t r = 0; r < ranks; r++) {
        const struct weft_idle_time *a = &u.idle[r], *b = &sim.idle[r];
        double busy = 0;
        assert_true(fabs(a->warm_up - b->warm_up) < 1e-9);
        assert_true(fabs(a->drain - b->drain) < 1e-9);
        assert_true(fabs(a->communication - b->communication) < 1e-9);
        assert_true(fabs(a->imbalance - b->imbalance) < 1e-9);
        assert_true(fabs(a->data - b->data) < 1e-9);

        for (size_t k = 0; k < WEFT_N_ACT_KINDS; k++)
            busy += u.busy[r * WEFT_N_ACT_KINDS + k];
        assert_true(fabs(busy + a->warm_up + a->drain + a->communication + a->imbalance +
                         a->data - t.makespan) < 1e-9);
    }

    wf_trace_usage_release(&u);
    weft_trace_release(&t);
    weft_metrics_release(&m);
    weft_sim_release(&sim);
    weft_schedule_free(s);
}

static void check_idle(void **state)
{
    static const struct {
        const char *name;
        uint32_t chunks;
    } schedules[] = {
        {"gpipe", 0}, {"1f1b", 0}, {"zb-h1", 0}, {"interleaved-1f1b", 2}, {"zb-v", 0}};
    for (size_t k = 0; k < WEFT_LEN(schedules); k++)
        for (uint32_t ranks = 2; ranks <= 8; ranks *= 2)
            for (int hop = 0; hop < 2; hop++)
                check_idle_of(schedules[k].name, ranks, 2 * ranks, schedules[k].chunks,
                              hop * 0.375);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_idle)};
    return cmocka_run_group_tests_name("trace usage", tests, NULL, NULL) != 0;
}
