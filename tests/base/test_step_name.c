/* The names of steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/step_name.h"

static struct name_case {
    const char *text;
    int digits;
    bool valid;
    uint64_t step;
    const char *rest;
} cases[] = {
    {"step-00000120", 8, true, 120, ""},
    {"step-123456789", 8, true, 123456789, ""},
    {"step-000003.trace", 6, true, 3, ".trace"},
    {"step-000003-replica-0.trace", 6, true, 3, "-replica-0.trace"},
    {"step-9999999999999999999", 8, true, 9999999999999999999U, ""},
    {"step-120", 8, false, 0, ""},
    {"step-0000120", 6, false, 0, ""}, /* another spelling of step-000120 */
    {"step-0", 6, false, 0, ""},
    {"step-", 6, false, 0, ""},
    {"step--00001", 6, false, 0, ""},
    {"step- 000001", 6, false, 0, ""},
    {"Step-000001", 6, false, 0, ""},
    {"step-18446744073709551616", 8, false, 0, ""},
};

static void check_name(void **state)
{
    const struct name_case *c = *state;
    uint64_t step = 7;
    const char *rest = NULL;
    assert_int_equal(wf_step_name_parse(c->text, c->digits, &step, &rest), c->valid);
    if (!c->valid) {
        assert_true(step == 7 && rest == NULL);
        return;
    }
    char name[WF_STEP_NAME_SIZE];
    assert_true(step == c->step);
    assert_string_equal(rest, c->rest);
    wf_step_name_print(step, c->digits, name);
    assert_memory_equal(name, c->text, strlen(name));
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases)];
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[i] = (struct CMUnitTest){cases[i].text, check_name, NULL, NULL, &cases[i]};
    return cmocka_run_group_tests_name("step_name", tests, NULL, NULL) != 0;
}
