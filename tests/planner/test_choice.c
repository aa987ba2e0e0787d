/* Checks schedules by name or file, and the choice of a partition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/planner/choice.h"

static void check_names(void **state)
{
    (void)state;
    assert_false(wf_schedule_is_file("1f1b"));
    assert_false(wf_schedule_is_file("no-such-schedule"));
    assert_true(wf_schedule_is_file("./plan"));
    assert_true(wf_schedule_is_file("plan.csv"));
    assert_true(wf_schedule_searches("zb-auto"));
    assert_false(wf_schedule_searches("1f1b"));
    assert_false(wf_schedule_searches("plan.csv"));
}

static struct choice_case {
    const char *text;
    enum wf_partition_kind kind;
    uint32_t layers; /* of four stages; 0: not checked */
    uint32_t ends[4];
} cases[] = {
    {NULL, WF_PARTITION_EVEN, 0, {3, 6, 8, 10}},
    {"even", WF_PARTITION_EVEN, 0, {3, 6, 8, 10}},
    {"balanced", WF_PARTITION_BALANCED, 0, {3, 6, 9, 10}}, /* the head costs two layers */
    {"4,3,2,1", WF_PARTITION_COUNTS, 10, {4, 7, 9, 10}},
    {"Et*4|(tt|)*2t*2L", WF_PARTITION_PATTERN, 10, {4, 6, 8, 10}},
};

static void check_choices(void **state)
{
    const struct weft_item layer = {.f = 1, .i = 1, .w = 1}, none = {0};
    const struct weft_item head = {.f = 2, .i = 2, .w = 2};
    struct weft_items items;
    (void)state;

    assert_int_equal(weft_items_init_uniform(&items, 10, layer, none, head, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        const struct choice_case *c = &cases[i];
        struct weft_partition p;
        uint32_t layers = 99;
        struct wf_partition_choice choice =
            wf_partition_choice_parse(c->text, WF_PARTITION_EVEN);

        assert_int_equal(choice.kind, c->kind);
        assert_int_equal(wf_partition_choice_layers(choice, 4, &layers, NULL), WEFT_OK);
        assert_int_equal(layers, c->layers);

        assert_int_equal(wf_partition_choose(&p, choice, &items, 4, NULL, NULL), WEFT_OK);
        for (uint32_t s = 0; s < 4; s++)
            assert_int_equal(p.at[s].end_layer, c->ends[s]);
        weft_partition_release(&p);
    }

    weft_items_release(&items);
}

static void check_errors(void **state)
{
    static const char *const invalid[] = {"abc", "4,3,2", "4,3,2,2", "Et*4|t*6L", "Ex|L", ""};
    const struct weft_item layer = {.f = 1, .i = 1, .w = 1}, none = {0};
    struct weft_items items;
    struct weft_partition p;
    (void)state;
    assert_int_equal(weft_items_init_uniform(&items, 10, layer, none, none, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(invalid); i++)
        assert_int_equal(
            wf_partition_choose(&p, wf_partition_choice_parse(invalid[i], WF_PARTITION_EVEN),
                                &items, 4, NULL, NULL),
            WEFT_USAGE);
    assert_int_equal(wf_partition_choose(&p, wf_partition_choice_parse(NULL, WF_PARTITION_EVEN),
                                         &items, 11, NULL, NULL),
                     WEFT_USAGE);
    weft_items_release(&items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_names),
        cmocka_unit_test(check_choices),
        cmocka_unit_test(check_errors),
    };
    return cmocka_run_group_tests_name("choice", tests, NULL, NULL) != 0;
}
