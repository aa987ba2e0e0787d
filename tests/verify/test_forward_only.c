/* Checks the forward-only form of every generator's schedules: it is proven, keeps the order of
 * the forwards, and has exactly the forward messages.  Also checks its metrics and bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "same.h"
#include "weft/bound.h"
#include "weft/timing.h"
#include "weft/traffic.h"
#include "weft/verify.h"

static void require(bool holds, const char *what, const struct weft_gen_params *p)
{
    if (!holds)
        fail_msg("%s: P=%u V=%u M=%u", what, p->ranks, p->chunks, p->micros);
}

/* Counts the pairs (stage, micro) whose next stage is on another rank. */
static size_t count_boundaries(const struct weft_schedule *s)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    size_t n = 0;
    for (uint32_t m = 0; m < p->n_micros; m++)
        for (uint32_t i = 0; i + 1 < p->n_stages; i++)
            n += weft_placement_rank(p, i, m) != weft_placement_rank(p, i + 1, m);
    return n;
}

static size_t count_kind(const struct weft_schedule *s, unsigned kind)
{
    size_t n = 0;
    for (uint32_t r = 0; r < weft_schedule_placement(s)->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        for (size_t i = 0; i < row.len; i++)
            n += row.at[i].kind == kind;
    }
    return n;
}

/* Checks that every rank has the forwards of `s`, in the same order, each alone. */
static void check_order(const struct weft_schedule *s, const struct weft_schedule *forward,
                        const struct weft_gen_params *p)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        struct weft_action_span all = weft_schedule_rank(s, r);
        struct weft_action_span row = weft_schedule_rank(forward, r);
        size_t n = 0;
        for (size_t i = 0; i < all.len; i++) {
            if (all.at[i].kind != WEFT_ACT_F)
                continue;
            require(n < row.len && row.at[n].kind == WEFT_ACT_F && !row.at[n].paired &&
                        row.at[n].stage == all.at[i].stage &&
                        row.at[n].micro == all.at[i].micro,
                    "changes the order of forwards", p);
            n++;
        }
        require(n == row.len, "has other actions", p);
    }
}

static void check_lowered(const struct weft_schedule *lowered, const struct weft_gen_params *p)
{
    const struct weft_placement *place = weft_schedule_placement(lowered);
    size_t n = count_boundaries(lowered), f = (size_t)place->n_stages * place->n_micros;
    struct weft_verify_result r;
    assert_int_equal(weft_verify(lowered, NULL, &r, NULL), WEFT_OK);
    require(r.n_findings == 0, r.n_findings == 0 ? "" : r.findings[0].text, p);
    require(r.n_compute == f && r.n_messages == n, "wrong number of messages", p);
    for (uint32_t i = 0; i < p->ranks; i++)
        require(r.peak_activations[i] <= 1, "keeps activations", p);
    weft_verify_result_release(&r);
    require(count_kind(lowered, WEFT_ACT_F) == f, "wrong number of forwards", p);
    require(count_kind(lowered, WEFT_ACT_SEND_F) == n &&
                count_kind(lowered, WEFT_ACT_RECV_F) == n,
            "wrong number of forward messages", p);
    require(weft_schedule_n_actions(lowered) == f + 2 * n, "has other actions", p);
    require(weft_schedule_is_lowered(lowered) == (n > 0), "is not lowered", p);
    require(weft_schedule_is_forward_only(lowered), "is not forward-only", p);
    require(roundtrips_text(lowered), "differs after printing and parsing", p);
}

/* Computes the end of every forward by repeated relaxation, and compares it with the clock. */
static void check_makespan(const struct weft_schedule *s, const struct weft_metrics *m,
                           double f, double hop, const struct weft_gen_params *p)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    size_t n = (size_t)place->n_stages * place->n_micros;
    double *end = calloc(n, sizeof *end), last = 0;
    assert_non_null(end);

    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t r = 0; r < place->n_ranks; r++) {
            struct weft_action_span row = weft_schedule_rank(s, r);
            double now = 0;
            for (size_t i = 0; i < row.len; i++) {
                uint32_t stage = row.at[i].stage, micro = row.at[i].micro;
                if (stage > 0) {
                    bool remote = weft_placement_rank(place, stage - 1, micro) != r;
                    double in = end[(size_t)(stage - 1) * place->n_micros + micro];
                    now = fmax(now, in + (remote ? hop : 0));
                }

                now += f;
                double *at = &end[(size_t)stage * place->n_micros + micro];
                changed = changed || now != *at;
                *at = now;
            }
        }
    }

    for (size_t i = 0; i < n; i++)
        last = fmax(last, end[i]);
    free(end);
    require(m->makespan == last, "wrong makespan", p);
}

static void check_times(const struct weft_schedule *forward, const struct weft_gen_params *p)
{
    const double f = 3;
    const struct weft_cost cost = {.f = {&f, 1}, .hop = 2};
    struct weft_metrics m;
    struct weft_bounds b;
    size_t n = count_boundaries(forward);
    assert_int_equal(weft_metrics_init(&m, forward, &cost, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bounds_of(forward, &cost, NULL, 1, &b, NULL), WEFT_OK);
    require(m.n_messages == n, "counts other messages", p);
    check_makespan(forward, &m, f, cost.hop, p);
    require(b.makespan > 0 && b.makespan <= m.makespan && b.span <= m.span,
            "is faster than its bound", p);
    for (uint32_t r = 0; r < p->ranks; r++)
        require(m.peak_activations[r] <= 1 && m.peak_mem[r] <= 1, "keeps memory", p);
    weft_metrics_release(&m);
}

static size_t check_size(const struct weft_generator *g, const struct weft_gen_params *p)
{
    struct weft_schedule *s = NULL, *forward = NULL, *lowered = NULL, *again = NULL;
    if (weft_schedule_generate(g->name, p, &s, NULL) != WEFT_OK)
        return 0;
    assert_false(weft_schedule_is_forward_only(s));
    assert_int_equal(weft_schedule_forward_only(s, &forward, NULL), WEFT_OK);
    require(strcmp(weft_schedule_name(forward), g->name) == 0, "has another name", p);
    check_order(s, forward, p);
    require(roundtrips_text(forward), "differs after printing and parsing", p);
    check_times(forward, p);
    assert_int_equal(weft_schedule_lower(forward, WEFT_LOWERING_WEFT, &lowered, NULL), WEFT_OK);
    check_lowered(lowered, p);
    weft_schedule_free(lowered);

    /* The forwards of a schedule with messages keep their messages. */
    assert_int_equal(weft_schedule_lower(s, WEFT_LOWERING_WEFT, &lowered, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_forward_only(lowered, &again, NULL), WEFT_OK);
    check_lowered(again, p);
    weft_schedule_free(again);
    weft_schedule_free(lowered);
    weft_schedule_free(forward);
    weft_schedule_free(s);
    return 1;
}

static void check_generator(void **state)
{
    const struct weft_generator *g = *state;
    bool search = g->flags & WEFT_GEN_USES_COST;
    size_t n = 0;
    struct weft_gen_params p = {0};
    for (p.ranks = 1; p.ranks <= (search ? 3 : 5); p.ranks++)
        for (p.chunks = 1; p.chunks <= 4; p.chunks++)
            for (p.micros = 1; p.micros <= (search ? 5 : 9); p.micros++)
                n += check_size(g, &p);
    assert_true(n > 0);
}

/* GPipe's order on a pipeline is optimal: P - 1 hops and M + P - 1 forwards. */
static void gpipe_meets_the_bound(void **state)
{
    const struct weft_gen_params p = {.ranks = 4, .micros = 7};
    const double f = 5;
    const struct weft_cost cost = {.f = {&f, 1}, .hop = 2};
    struct weft_schedule *s = NULL, *forward = NULL;
    struct weft_metrics m;
    struct weft_bounds b;
    (void)state;
    assert_int_equal(weft_schedule_generate("gpipe", &p, &s, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_forward_only(s, &forward, NULL), WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, forward, &cost, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bounds_of(forward, &cost, NULL, 1, &b, NULL), WEFT_OK);
    assert_true(m.makespan == 10 * 5 + 3 * 2 && b.makespan == m.makespan);
    assert_true(m.span == 7 * 5 && b.span == m.span);
    assert_int_equal(b.makespan_by, WEFT_BOUND_WORK);
    weft_metrics_release(&m);
    weft_schedule_free(forward);
    weft_schedule_free(s);
}

/* A rank drops the residual blocks of a micro after its last forward of that micro. */
static void blocks_are_dropped(void **state)
{
    static const char text[] = "0F0,2F0,0F1,2F1\n1F0,3F0,1F1,3F1";
    static const uint32_t finished_by[] = {0, 1, 2};
    struct weft_schedule *s = NULL;
    struct weft_traffic *t = NULL;
    size_t peak[2];
    (void)state;
    assert_int_equal(weft_schedule_parse(text, sizeof text - 1, "t", &s, NULL), WEFT_OK);
    assert_int_equal(weft_traffic_new(weft_schedule_placement(s), finished_by, 3,
                                      WEFT_BLOCK_CACHE_FULL, &t, NULL),
                     WEFT_OK);
    assert_int_equal(weft_traffic_peak_blocks(t, s, peak, NULL), WEFT_OK);
    /* Rank 0 computes blocks 0 and 2 and receives block 1; rank 1 receives 0 and 2. */
    assert_int_equal(peak[0], 3);
    assert_int_equal(peak[1], 3);
    weft_traffic_free(t);
    weft_schedule_free(s);
}

int main(void)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    struct CMUnitTest *tests = calloc(n + 2, sizeof *tests);
    if (tests == NULL)
        return 1;
    for (size_t i = 0; i < n; i++)
        tests[i] =
            (struct CMUnitTest){all[i].name, check_generator, NULL, NULL, (void *)&all[i]};
    tests[n] = (struct CMUnitTest)cmocka_unit_test(gpipe_meets_the_bound);
    tests[n + 1] = (struct CMUnitTest)cmocka_unit_test(blocks_are_dropped);
    int failed = _cmocka_run_group_tests("forward-only", tests, n + 2, NULL, NULL);
    free(tests);
    return failed != 0;
}
