/* Tests the JSON writer: another library parses its output. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/json.h"

struct page {
    char *text; /* owned */
    size_t len;
    struct wf_json j;
};

static void page_open(struct page *p)
{
    p->text = NULL;
    p->j = (struct wf_json){.out = open_memstream(&p->text, &p->len)};
    assert_non_null(p->j.out);
}

static void page_close(struct page *p)
{
    assert_int_equal(fclose(p->j.out), 0);
}

static struct number_case {
    const char *name;
    double value;
    const char *want;
} cases[] = {
    {"zero", 0, "0"},
    {"a whole number", 42, "42"},
    {"a fraction", 0.1, "0.1"},
    {"a third", 1.0 / 3, "0.3333333333333333"},
    {"a sum that is not 0.3", 0.1 + 0.2, "0.30000000000000004"},
    {"a negative number", -1.5, "-1.5"},
    {"large", 1e300, "1e+300"},
    {"the largest", DBL_MAX, "1.7976931348623157e+308"},
    {"the smallest", 4.9406564584124654e-324, NULL},
    {"2^53 + 2", 9007199254740994.0, "9007199254740994"},
    {"infinity", INFINITY, "null"},
    {"NaN", NAN, "null"},
};

static void check_number(void **state)
{
    const struct number_case *c = *state;
    struct page p;
    page_open(&p);
    wf_json_number(&p.j, NULL, c->value);
    page_close(&p);
    if (c->want != NULL)
        assert_string_equal(p.text, c->want);
    if (isfinite(c->value))
        assert_true(strtod(p.text, NULL) == c->value);
    free(p.text);
}

/* Checks commas, nesting, keys, and strings with all characters. */
static void check_structure(void **state)
{
    (void)state;
    struct page p;
    char every[128];

    for (int i = 1; i < 128; i++)
        every[i - 1] = (char)i;
    every[127] = '\0';
    page_open(&p);
    wf_json_begin(&p.j, NULL, '{');
    wf_json_string(&p.j, "every", every);
    wf_json_string(&p.j, "a \"key\"\n", "gr\xc3\xbc\xc3\x9f");
    wf_json_begin(&p.j, "empty", '[');
    wf_json_end(&p.j, ']');
    wf_json_begin(&p.j, "list", '[');
    wf_json_uint(&p.j, NULL, UINT64_C(9223372036854775807));
    wf_json_begin(&p.j, NULL, '{');
    wf_json_end(&p.j, '}');
    wf_json_bool(&p.j, NULL, true);
    wf_json_end(&p.j, ']');
    wf_json_bool(&p.j, "no", false);
    wf_json_end(&p.j, '}');
    page_close(&p);
    json_error_t error;

    json_t *j = json_loads(p.text, JSON_REJECT_DUPLICATES, &error);
    if (j == NULL)
        fail_msg("%s: %s", error.text, p.text);
    assert_int_equal(json_object_size(j), 5);
    assert_string_equal(json_string_value(json_object_get(j, "every")), every);
    assert_string_equal(json_string_value(json_object_get(j, "a \"key\"\n")),
                        "gr\xc3\xbc\xc3\x9f");
    assert_int_equal(json_array_size(json_object_get(j, "empty")), 0);
    json_t *list = json_object_get(j, "list");
    assert_int_equal(json_array_size(list), 3);
    assert_true(json_integer_value(json_array_get(list, 0)) == INT64_MAX);
    assert_true(json_is_object(json_array_get(list, 1)));
    assert_true(json_is_true(json_array_get(list, 2)));
    assert_true(json_is_false(json_object_get(j, "no")));
    json_decref(j);
    free(p.text);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 1];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, check_number, NULL, NULL, &cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_structure);
    return cmocka_run_group_tests_name("json", tests, NULL, NULL) != 0;
}
