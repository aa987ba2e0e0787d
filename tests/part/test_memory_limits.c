/* Compares the memory that a search counts with the planned bytes of the same schedule. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/part/memory_limits.h"
#include "planning/part/planned_bytes.h"
#include "weft/timing.h"

static const double LIMIT = 1e12;

static struct limits_case {
    const char *name, *schedule, *model;
    uint32_t ranks, replicas;
} cases[] = {
    {"one rank", "1f1b", "gpt2-124m", 1, 1},
    {"a tied weight on two ranks", "1f1b", "gpt2-124m", 4, 1},
    {"replicas divide the moments", "1f1b", "gpt2-124m", 4, 2},
    {"separate weights", "gpipe", "llama3-8b", 4, 3},
};

/* With whole backwards and one stage per rank, messages and activations of a micro-batch have the
 * same life.  The search then counts exactly what a rank needs. */
static void check_exact(void **state)
{
    const struct limits_case *c = *state;
    const struct weft_gen_params params = {.ranks = c->ranks, .micros = 6};
    struct weft_model model;
    struct weft_items items;
    struct weft_partition p;
    struct weft_schedule *s = NULL;
    struct wf_memory_limits l;
    struct wf_planned_bytes bytes;
    struct weft_metrics m;
    assert_int_equal(weft_model_find(c->model, &model, NULL), WEFT_OK);
    assert_int_equal(weft_items_init_model(&items, &model, 2, 256, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&p, model.layers, c->ranks, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_generate(c->schedule, &params, &s, NULL), WEFT_OK);
    assert_int_equal(wf_planned_bytes_init(&bytes, s, &p, &items, c->replicas, NULL), WEFT_OK);

    assert_int_equal(wf_memory_limits_init(&l, &items, &p, weft_schedule_placement(s),
                                           c->replicas, (struct weft_values){&LIMIT, 1}, NULL),
                     WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, s, NULL, &l.memory, NULL), WEFT_OK);
    for (uint32_t r = 0; r < c->ranks; r++) {
        double counted = LIMIT - l.memory.limit.at[r] + m.peak_mem[r];
        if (fabs(counted - (double)bytes.total[r]) > 1)
            fail_msg("rank %u: the search counts %.0f bytes of %zu", r, counted,
                     bytes.total[r]);
    }

    weft_metrics_release(&m);
    free(l.lists);
    wf_planned_bytes_release(&bytes);
    weft_schedule_free(s);
    weft_partition_release(&p);
    weft_items_release(&items);
}

/* Limits are one for all ranks or one per rank, and what remains is never negative. */
static void check_remaining(void **state)
{
    (void)state;
    static const double limits[] = {50, 150, 250};
    static const uint32_t rank_of[] = {0, 1, 2};
    const struct weft_placement place = {3, 3, 4, 1, rank_of, NULL};
    const struct weft_item layer = {.f = 1, .state_bytes = 100, .act_bytes = 7};
    const struct weft_item none = {0};
    struct weft_items items;
    struct weft_partition p;
    struct wf_memory_limits l;
    struct weft_error err = {0};
    assert_int_equal(weft_items_init_uniform(&items, 3, layer, none, none, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&p, 3, 3, NULL), WEFT_OK);
    assert_int_equal(
        wf_memory_limits_init(&l, &items, &p, &place, 1, (struct weft_values){limits, 3}, NULL),
        WEFT_OK);
    assert_true(l.memory.limit.n == 3 && l.memory.limit.at[0] == 0);
    assert_true(l.memory.limit.at[1] == 50 && l.memory.limit.at[2] == 150);
    assert_true(l.memory.f.at[0] == 7 && l.memory.i.at[0] == 0 && l.memory.w.at[0] == -7);
    free(l.lists);

    assert_int_equal(
        wf_memory_limits_init(&l, &items, &p, &place, 1, (struct weft_values){limits, 2}, &err),
        WEFT_USAGE);
    assert_string_equal(err.msg, "memory limit: 2 values for 3 ranks (expected 1 or 3)");
    weft_partition_release(&p);
    weft_items_release(&items);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 1];
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[i] = (struct CMUnitTest){cases[i].name, check_exact, NULL, NULL, &cases[i]};
    tests[WEFT_LEN(cases)] = (struct CMUnitTest)cmocka_unit_test(check_remaining);
    return cmocka_run_group_tests_name("memory limits", tests, NULL, NULL) != 0;
}
