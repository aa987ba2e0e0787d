/* Checks the comparison of all schedules for one size: rows, order, the Pareto front,
 * and omitted schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/planner/comparison.h"

static const struct weft_cost no_cost = {0};
static const struct weft_memory_cost no_memory = {0};

static struct wf_comparison_input input(void)
{
    return (struct wf_comparison_input){
        .plan.params = {.ranks = 4, .micros = 8, .cost = &no_cost, .memory = &no_memory}};
}

static const struct wf_comparison_row *find(const struct wf_comparison *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->at[i].generator->name, name) == 0)
            return &c->at[i];
    return NULL;
}

/* The makespan of 1F1B is (M + P - 1) * 3, Chimera has two pipes, and the bytes are those of
 * all messages. */
static void check_rows(void **state)
{
    struct wf_comparison_input in = input();
    struct wf_comparison c;
    (void)state;
    static const double bytes = 10;
    const struct weft_sim_options machine = {.bytes = {&bytes, 1}};
    in.plan.machine = &machine;
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    const struct wf_comparison_row *row = find(&c, "1f1b");
    assert_non_null(row);
    assert_true(row->makespan == 33 && row->peak == 4 && row->copies == 1);
    assert_int_equal(row->messages, 2 * 3 * 8);
    assert_true(row->bytes == 480);
    assert_int_equal(find(&c, "chimera")->copies, 2);
    for (size_t i = 1; i < c.n; i++)
        assert_true(c.at[i - 1].makespan <= c.at[i].makespan);
    wf_comparison_release(&c);
}

/* Exactly the rows that no other row dominates are marked. */
static void check_pareto(void **state)
{
    struct wf_comparison_input in = input();
    struct wf_comparison c;
    (void)state;
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    for (size_t i = 0; i < c.n; i++) {
        const struct wf_comparison_row *a = &c.at[i];
        bool dominated = false;
        for (size_t k = 0; k < c.n; k++) {
            const struct wf_comparison_row *b = &c.at[k];
            if (b->makespan <= a->makespan && b->peak <= a->peak && b->copies <= a->copies &&
                (b->makespan < a->makespan - 1e-9 || b->peak < a->peak - 1e-9 ||
                 b->copies < a->copies))
                dominated = true;
        }
        assert_int_equal(a->is_pareto, !dominated);
    }
    wf_comparison_release(&c);
}

static void check_order_and_limit(void **state)
{
    static const double three = 3;
    const struct weft_memory_cost memory = {.limit = {&three, 1}};
    struct wf_comparison_input in = input();
    struct wf_comparison c;
    (void)state;
    in.order = WF_COMPARISON_BY_MEMORY;
    in.plan.params.memory = &memory;
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    assert_null(find(&c, "gpipe")); /* GPipe keeps all eight micros */
    for (size_t i = 0; i < c.n; i++)
        assert_true(c.at[i].peak <= 3 + 1e-6 && (i == 0 || c.at[i - 1].peak <= c.at[i].peak));
    wf_comparison_release(&c);
    in.order = WF_COMPARISON_BY_NAME;
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    for (size_t i = 1; i < c.n; i++)
        assert_true(strcmp(c.at[i - 1].generator->name, c.at[i].generator->name) <= 0);
    wf_comparison_release(&c);
}

/* A list of 4 times applies unchanged to schedules with 4 stages.  With 1F1B, rank 3 is the
 * slowest: it works for 8 x 12.  Before that, one micro passes the other stages forward; after
 * it, the last gradient passes them backward.  On a cluster the time of a row is that of the
 * simulator.  Schedules with other numbers of stages are omitted with a reason. */
static void check_lists(void **state)
{
    static const double f[] = {1, 1, 1, 4};
    const struct weft_cost cost = {.f = {f, 4}, .i = {f, 4}, .w = {f, 4}};
    struct wf_comparison_input in = input();
    struct wf_comparison c;
    bool reason = false;
    (void)state;
    in.plan.params.cost = &cost;
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    assert_true(find(&c, "1f1b")->makespan == 3 * 1 + 8 * 12 + 3 * 2);
    assert_null(find(&c, "zb-v"));
    for (size_t i = 0; i < c.n; i++)
        assert_int_equal(c.at[i].stages, 4);
    for (size_t i = 0; i < c.n_omitted; i++)
        if (strcmp(c.omitted[i].generator->name, "zb-v") == 0) {
            assert_non_null(strstr(c.omitted[i].reason, "4 values for 8 stages"));
            reason = true;
        }
    assert_true(reason);
    wf_comparison_release(&c);
}

/* A model is partitioned for each schedule, and memory is in bytes. */
static void check_model(void **state)
{
    struct wf_comparison_input in = input();
    struct wf_comparison c;
    (void)state;
    in.plan.model = "gpt2-124m";
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    assert_true(c.in_bytes);
    assert_int_equal(find(&c, "1f1b")->stages, 4);
    assert_int_equal(find(&c, "zb-v")->stages, 8);
    assert_true(find(&c, "gpipe")->peak > find(&c, "1f1b")->peak);
    wf_comparison_release(&c);
}

static void check_errors(void **state)
{
    static const double zero = 0, tiny = 0.1;
    const struct weft_memory_cost tight = {.limit = {&tiny, 1}};
    struct wf_comparison_input in = input();
    struct wf_comparison c;
    struct weft_error err;
    (void)state;
    in.chunks = (struct weft_values){&zero, 1};
    assert_int_equal(wf_comparison_init(&c, &in, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "chunks: 0"));
    in = input();
    in.plan.params.memory = &tight;
    assert_int_equal(wf_comparison_init(&c, &in, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "memory limit"));
    in = input();
    in.plan.params.micros = WF_COMPARISON_MAX_CELLS;
    assert_int_equal(wf_comparison_init(&c, &in, &err), WEFT_USAGE);
}

/* Returns false at the generator of the given name. */
static bool stop_at(double share, const char *name, void *user)
{
    assert_true(share >= 0 && share < 1);
    return user == NULL || strcmp(name, user) != 0;
}

/* A comparison that is stopped has the rows until then, sorted. */
static void check_stop(void **state)
{
    static char name[] = "zb-h1", first[32];
    size_t n;
    struct wf_comparison_input in = input();
    struct wf_comparison c;
    (void)state;
    in.progress = stop_at;
    in.user = name;
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    assert_true(c.stopped && c.n > 0);
    assert_non_null(find(&c, "1f1b"));
    assert_null(find(&c, "zb-h1"));
    for (size_t i = 1; i < c.n; i++)
        assert_true(c.at[i - 1].makespan <= c.at[i].makespan);
    wf_comparison_release(&c);

    strncpy(first, weft_generator_list(&n)[0].name, sizeof first - 1);
    in.user = first;
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    assert_true(c.stopped && c.n == 0);
    wf_comparison_release(&c);
    in.user = NULL;
    assert_int_equal(wf_comparison_init(&c, &in, NULL), WEFT_OK);
    assert_false(c.stopped);
    wf_comparison_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_rows),
        cmocka_unit_test(check_pareto),
        cmocka_unit_test(check_order_and_limit),
        cmocka_unit_test(check_lists),
        cmocka_unit_test(check_model),
        cmocka_unit_test(check_errors),
        cmocka_unit_test(check_stop),
    };
    return cmocka_run_group_tests_name("comparison", tests, NULL, NULL) != 0;
}
