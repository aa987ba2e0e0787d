/* Checks that a failed allocation while JSON is parsed is reported as such: the text is never
 * called invalid, and no value is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/json_input.h"

/* Names longer than the first buffer of jansson, so that it has to grow its buffer. */
static const char text[] =
    "{\"transformer.h.0.attn.c_attn.weight\": {\"dtype\": \"F32\", \"shape\": [48, 144],\n"
    " \"data_offsets\": [123456789012345, 123456789039993]},\n"
    " \"numbers\": [1.25e-300, 123456789012345678, -7, true, null],\n"
    " \"text\": \"a text of more than sixteen bytes with \\u00e4\\ud83d\\ude00 in it\"}";

static long n_allocations, failing; /* `failing` is -1 for none */
static bool fails_on;               /* all later allocations fail, too */

static void *test_allocate(size_t n)
{
    long i = n_allocations++;
    return failing >= 0 && (fails_on ? i >= failing : i == failing) ? NULL : malloc(n);
}

static enum weft_status parse(const char *source, long fail_at, json_t **out, json_error_t *why,
                              struct weft_error *err)
{
    n_allocations = 0;
    failing = fail_at;
    enum weft_status st =
        wf_json_load(source, strlen(source), JSON_REJECT_DUPLICATES, "m.json", out, why, err);
    failing = -1;
    return st;
}

static void check_failures(const char *source, bool all_later)
{
    json_error_t why;
    struct weft_error err;
    json_t *whole = NULL;
    assert_int_equal(parse(source, -1, &whole, &why, &err), WEFT_OK);
    assert_non_null(whole);
    long n = n_allocations;
    assert_true(n > 5);

    fails_on = all_later;
    for (long i = 0; i < n; i++) {
        json_t *root = NULL;
        memset(&why, 0x5a, sizeof why);
        err = (struct weft_error){0};
        assert_int_equal(parse(source, i, &root, &why, &err), WEFT_NOMEM);
        assert_null(root);
        assert_int_equal(err.status, WEFT_NOMEM);
        assert_non_null(strstr(err.msg, "m.json: no memory"));
    }

    /* One more allocation than there are: nothing fails. */
    json_t *again = NULL;
    assert_int_equal(parse(source, n, &again, &why, &err), WEFT_OK);
    assert_true(json_equal(whole, again));
    json_decref(again);
    json_decref(whole);
}

static void test_one_failure(void **state)
{
    (void)state;
    check_failures(text, false);
}

static void test_no_memory_left(void **state)
{
    (void)state;
    check_failures(text, true);
}

/* Without memory for its digits, jansson ends the program with an assertion. */
static void test_long_numbers(void **state)
{
    static const char numbers[] =
        "[4.870934963226318359375, 12345678901234567, 1.000000000000000000000000000000000001]";
    (void)state;
    check_failures(numbers, false);
    check_failures(numbers, true);
}

static void test_invalid_text_is_not_a_lack_of_memory(void **state)
{
    json_error_t why;
    struct weft_error err = {0};
    json_t *root = NULL;
    (void)state;
    assert_int_equal(parse("{\"a\": 1,\n \"b\": }", -1, &root, &why, &err), WEFT_OK);
    assert_null(root);
    assert_int_equal(why.line, 2);
    assert_true(why.text[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_failure),
        cmocka_unit_test(test_no_memory_left),
        cmocka_unit_test(test_long_numbers),
        cmocka_unit_test(test_invalid_text_is_not_a_lack_of_memory),
    };
    failing = -1;
    json_set_alloc_funcs(test_allocate, free); /* before the first use of the module */
    return cmocka_run_group_tests_name("json_input", tests, NULL, NULL) != 0;
}
