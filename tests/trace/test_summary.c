/* Checks that the metrics of a trace equal those of its plan, and tests the comparison of two
 * traces. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "weft/trace.h"

static struct plan_case {
    const char *name;
    uint32_t ranks, micros;
} plans[] = {
    {"1f1b", 4, 8}, {"gpipe", 3, 5}, {"zb-h1", 4, 8}, {"zb-v", 4, 8}, {"dualpipe", 4, 10},
};

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * (1 + fabs(a));
}

static void same_as_metrics(void **state)
{
    const struct plan_case *c = *state;
    static const double f[] = {1.25};
    const struct weft_cost cost = {.f = {f, 1}, .hop = 0.5};
    struct weft_gen_params params = {.ranks = c->ranks, .micros = c->micros};
    struct weft_schedule *s = NULL;
    struct weft_metrics m;
    struct weft_trace t;
    struct weft_trace_summary sum;

    assert_int_equal(weft_schedule_generate(c->name, &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, s, &cost, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_trace_init_plan(&t, s, &m, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_trace_summary_init(&sum, &t, NULL), WEFT_OK);
    assert_true(near(sum.makespan, m.makespan) && near(sum.span, m.span));
    assert_true(near(sum.bubble, m.bubble) && near(sum.bubble_span, m.bubble_span));

    for (uint32_t r = 0; r < m.n_ranks; r++)
        assert_true(near(sum.busy[r], m.busy[r]) && near(sum.idle[r], m.idle[r]) &&
                    near(sum.rank_span[r], m.rank_span[r]));
    assert_int_equal(t.n_memory, 0);
    weft_trace_summary_release(&sum);
    weft_trace_release(&t);
    weft_metrics_release(&m);
    weft_schedule_free(s);
}

static struct weft_trace parsed(const char *text)
{
    struct weft_trace t;
    struct weft_error err = {0};
    if (weft_trace_parse(text, strlen(text), "t", &t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return t;
}

static void messages_and_overlaps(void **state)
{
    struct weft_trace t = parsed("# weft trace 1\n# weft ranks 2 stages 2 micros 1\n"
                                 "0 compute 0F0 1 2\n0 compute 0B0 2.5 1.5\n"
                                 "0 send 0SEND_F0 3 1 100 1\n1 receive 1RECV_F0 3 1 100 0\n"
                                 "1 compute 1F0 4 1\n1 send 1SEND_B0 5 3 7\n");
    struct weft_trace_summary s;
    (void)state;
    assert_int_equal(weft_trace_summary_init(&s, &t, NULL), WEFT_OK);
    assert_true(s.makespan == 8 && s.span == 3);
    assert_true(s.busy[0] == 3 && s.idle[0] == 5 && s.busy[1] == 1); /* 1..4, once */
    assert_true(near(s.bubble, 1 - 4.0 / 16) && near(s.bubble_span, 1 - 4.0 / 6));
    assert_int_equal(s.n_compute, 3);
    assert_int_equal(s.n_messages, 2);
    assert_int_equal(s.bytes, 107);
    weft_trace_summary_release(&s);
    weft_trace_release(&t);
}

static void compared(void **state)
{
    struct weft_trace p = parsed("# weft trace 1\n# weft ranks 1 stages 1 micros 2\n"
                                 "# weft unit 1\n0 compute 0F0 0 1\n0 compute 0F0 1 1\n"
                                 "0 compute (0F1;0B0)OVERLAP_F_B 2 3\n0 compute 0B1 5 2\n");
    struct weft_trace q = parsed("# weft trace 1\n# weft ranks 1 stages 1 micros 2\n"
                                 "# weft unit 0.001\n0 compute 0F0 0 1500\n"
                                 "0 compute 0F0 1500 1000\n"
                                 "0 compute (0B0;0F1)OVERLAP_F_B 2500 2000\n"
                                 "0 compute 0W1 5000 1000\n");

    struct weft_trace_comparison c;
    (void)state;

    assert_int_equal(weft_trace_comparison_init(&c, &p, &q, NULL), WEFT_OK);
    assert_true(c.planned == 7 && near(c.measured, 6));
    assert_int_equal(c.total.n_matched, 3);
    assert_int_equal(c.total.n_planned_only, 1);
    assert_int_equal(c.total.n_measured_only, 1);
    assert_int_equal(c.at[WEFT_ACT_F].n_matched, 3);
    assert_int_equal(c.at[WEFT_ACT_B].n_planned_only, 1);
    assert_int_equal(c.at[WEFT_ACT_W].n_measured_only, 1);
    assert_true(near(c.total.start, 0.5 + 0.5) && near(c.total.max_start_diff, 0.5));
    assert_true(near(c.total.planned, 5) && near(c.total.measured, 4.5));
    assert_true(near(c.total.max_length_diff, -1));
    assert_true(c.match[0] == 0 && c.match[1] == 1 && c.match[2] == 2 &&
                c.match[3] == SIZE_MAX);
    weft_trace_comparison_release(&c);
    weft_trace_release(&p);
    weft_trace_release(&q);
}

/* A plan has no waits: a measured wait is neither a match for the action that waits nor an
 * additional event, and it is not busy time. */
static void waits_and_collectives(void **state)
{
    struct weft_trace p = parsed("# weft trace 1\n# weft ranks 1 stages 1 micros 1\n"
                                 "0 compute 0F0 0 1\n0 compute 0B0 1 2\n");
    struct weft_trace q = parsed("# weft trace 1\n# weft ranks 1 stages 1 micros 1\n"
                                 "0 collective 0UNSHARD 0 1\n0 wait 0F0 1 4\n"
                                 "0 compute 0F0 5 1\n0 wait 0SEND_F0 6 1\n"
                                 "0 wait (0F0;0B0)OVERLAP_F_B 7 1\n0 compute 0B0 8 2\n"
                                 "0 collective 0REDUCE_GRAD 10 1\n");
    struct weft_trace_comparison c;
    struct weft_trace_summary s;
    (void)state;
    assert_int_equal(weft_trace_comparison_init(&c, &p, &q, NULL), WEFT_OK);
    assert_int_equal(c.total.n_matched, 2);
    assert_int_equal(c.total.n_measured_only, 2); /* UNSHARD and REDUCE_GRAD */
    assert_int_equal(c.total.n_planned_only, 0);
    assert_true(c.total.start == 5 + 7 && c.total.measured == 3);
    weft_trace_comparison_release(&c);
    assert_int_equal(weft_trace_summary_init(&s, &q, NULL), WEFT_OK);
    assert_int_equal(s.n_compute, 2);
    assert_int_equal(s.n_messages, 0);
    assert_true(s.busy[0] == 3 && s.makespan == 11);
    weft_trace_summary_release(&s);
    weft_trace_release(&p);
    weft_trace_release(&q);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(plans) + 3];
    size_t n = 0;
    for (; n < WEFT_LEN(plans); n++)
        tests[n] =
            (struct CMUnitTest){plans[n].name, same_as_metrics, NULL, NULL, (void *)&plans[n]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(messages_and_overlaps);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(compared);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(waits_and_collectives);
    return cmocka_run_group_tests_name("trace summary", tests, NULL, NULL) != 0;
}
