/* Tuning with checks of the properties that every result must have. */
#ifndef TESTS_TUNE_CHECKED_H
#define TESTS_TUNE_CHECKED_H

#include <math.h>

#include "deep.h"
#include "sched/lines.h"
#include "weft/timing.h"
#include "weft/tune.h"
#include "weft/verify.h"

#ifdef __SANITIZE_ADDRESS__
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif

/* Returns n where a sweep tries one case in n.  Tuning takes ten times longer
 * under a sanitizer. */
static inline int stride(void)
{
    if (SLOW)
        return 10;
    return test_is_deep() ? 1 : 5;
}

/* Tunes a problem and checks the result. */
static inline void tune(const struct lines *l, const struct weft_tune_problem *p,
                        uint64_t iterations, struct weft_tune_result *r)
{
    struct weft_tune_options options = {.iterations = iterations};
    struct weft_metrics m;
    struct weft_verify_result report;
    struct weft_error err;
    if (weft_tune(p, &options, r, &err) != WEFT_OK)
        fail_line(l, "%s", err.msg);
    assert_int_equal(weft_verify(r->schedule, NULL, &report, NULL), WEFT_OK);
    assert_int_equal(report.n_findings, 0);
    weft_verify_result_release(&report);
    assert_int_equal(weft_metrics_init(&m, r->schedule, p->cost, p->memory, NULL), WEFT_OK);
    assert_true(m.makespan == r->makespan && m.span == r->span);
    for (uint32_t i = 0; i < m.n_ranks && p->memory != NULL; i++)
        if (m.peak_mem[i] > weft_values_get(p->memory->limit, i, HUGE_VAL) * (1 + 1e-9))
            fail_line(l, "rank %u peaks at %g", i, m.peak_mem[i]);
    if (r->makespan < r->bounds.makespan * (1 - 1e-9) || r->span < r->bounds.span * (1 - 1e-9))
        fail_line(l, "%g and %g, below the bounds %g and %g", r->makespan, r->span,
                  r->bounds.makespan, r->bounds.span);
    assert_true(r->proven == (r->gap == 0));
    weft_metrics_release(&m);
}

#endif
