/* Tests the syntax of train.recompute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/spec/recompute.h"

#define A WEFT_RECOMPUTE_ATTENTION
#define F WEFT_RECOMPUTE_FULL
#define N WEFT_RECOMPUTE_NONE
#define ALL WF_RECOMPUTE_ALL
#define LAYERS WF_RECOMPUTE_LAYERS
#define STAGES WF_RECOMPUTE_STAGES

static struct list_case {
    const char *text;
    bool automatic;
    size_t n;
    struct wf_recompute_range want[4];
} lists[] = {
    {"none", false, 1, {{N, ALL, 0, 0, 1}}},
    {"attention", false, 1, {{A, ALL, 0, 0, 1}}},
    {"full", false, 1, {{F, ALL, 0, 0, 1}}},
    {"auto", true, 0, {{0}}},
    {"full:3", false, 1, {{F, LAYERS, 3, 3, 6}}},
    {"full:0-5", false, 1, {{F, LAYERS, 0, 5, 6}}},
    {"full:0-5,9", false, 2, {{F, LAYERS, 0, 5, 6}, {F, LAYERS, 9, 9, 10}}},
    {"full:s0,attention:s1-2, 12",
     false,
     3,
     {{F, STAGES, 0, 0, 6}, {A, STAGES, 1, 2, 19}, {A, LAYERS, 12, 12, 25}}},
    {" attention:7 , full:8 ", false, 2, {{A, LAYERS, 7, 7, 12}, {F, LAYERS, 8, 8, 21}}},
};

static void check_list(void **state)
{
    const struct list_case *c = *state;
    struct wf_recompute_list list;
    struct weft_error err = {0};
    if (wf_recompute_parse(c->text, "train.recompute", &list, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(list.automatic, c->automatic);
    assert_int_equal(list.n, c->n);
    for (size_t i = 0; i < c->n; i++) {
        assert_int_equal(list.at[i].kind, c->want[i].kind);
        assert_int_equal(list.at[i].unit, c->want[i].unit);
        assert_int_equal(list.at[i].first, c->want[i].first);
        assert_int_equal(list.at[i].last, c->want[i].last);
        assert_int_equal(list.at[i].column, c->want[i].column);
    }
    wf_recompute_list_release(&list);
    assert_null(list.at);
}

static struct error_case {
    const char *text, *want;
} errors[] = {
    {"", "column 1: the text ends; expected none, attention, full, auto, or a list"},
    {"some", "column 1: unexpected 'some'; expected none, attention, full, auto, or a list"},
    {"0-3", "column 1: unexpected '0-3'; expected none, attention"},
    {"none:3", "column 1: unexpected 'none:3'"},
    {"fully", "column 5: unexpected 'y'; expected ':' and layers"},
    {"full:", "column 6: the text ends; expected a layer (3), layers (0-5) or stages"},
    {"full:x", "column 6: unexpected 'x'; expected a layer (3), layers (0-5) or stages"},
    {"full:s", "column 7: the text ends; expected the number of a stage"},
    {"full:2-", "column 8: the text ends; expected the last number of the range"},
    {"full:5-2", "column 6: the range 5-2 is empty; expected the smaller number first"},
    {"full:0 1", "column 8: unexpected '1'; expected ',' or the end"},
    {"full:0,", "column 8: the text ends; expected a layer"},
    {"full:0,attention", "column 17: the text ends; expected ':'"},
    {"full:99999999999", "column 6: the number is too large (maximum 1048576)"},
};

static void check_error(void **state)
{
    const struct error_case *c = *state;
    struct wf_recompute_list list = {.n = 77};
    struct weft_error err = {0};
    assert_int_equal(wf_recompute_parse(c->text, "train.recompute", &list, &err), WEFT_USAGE);
    if (strstr(err.msg, "train.recompute: ") != err.msg || strstr(err.msg, c->want) == NULL)
        fail_msg("'%s': %s", c->text, err.msg);
    assert_int_equal(list.n, 77); /* outputs are written on success only */
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(lists) + WEFT_LEN(errors)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        tests[n++] = (struct CMUnitTest){lists[i].text, check_list, NULL, NULL, &lists[i]};
    for (size_t i = 0; i < WEFT_LEN(errors); i++)
        tests[n++] = (struct CMUnitTest){errors[i].want, check_error, NULL, NULL, &errors[i]};
    return cmocka_run_group_tests_name("recompute", tests, NULL, NULL) != 0;
}
