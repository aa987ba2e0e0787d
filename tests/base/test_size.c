/* Tests checked sizes, even ranges, and the error record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/size.h"

static struct range_case {
    const char *name;
    size_t total, n, i, begin, end;
} cases[] = {
    {"all in one", 7, 1, 0, 0, 7},
    {"even, the first", 8, 4, 0, 0, 2},
    {"even, the last", 8, 4, 3, 6, 8},
    {"the first gets one more", 7, 3, 0, 0, 3},
    {"the second does not", 7, 3, 1, 3, 5},
    {"neither does the last", 7, 3, 2, 5, 7},
    {"fewer items than parts", 2, 4, 1, 1, 2},
    {"fewer items than parts, an empty range", 2, 4, 3, 2, 2},
    {"nothing", 0, 3, 2, 0, 0},
    {"the largest", SIZE_MAX, 2, 1, SIZE_MAX / 2 + 1, SIZE_MAX},
};

static void check_range(void **state)
{
    const struct range_case *c = *state;
    struct wf_range r = wf_range_part(c->total, c->n, c->i);
    assert_int_equal(r.begin, c->begin);
    assert_int_equal(r.end, c->end);
}

/* Ranges are consecutive, cover everything, never grow, and differ by at most one. */
static void check_tiling(void **state)
{
    (void)state;
    for (size_t total = 0; total < 40; total++)
        for (size_t n = 1; n < 12; n++) {
            size_t end = 0;
            for (size_t i = 0; i < n; i++) {
                struct wf_range r = wf_range_part(total, n, i);
                assert_int_equal(r.begin, end);
                assert_int_equal(r.end - r.begin, total / n + (i < total % n));
                end = r.end;
            }
            assert_int_equal(end, total);
        }
}

static void check_overflow(void **state)
{
    (void)state;
    size_t out = 0;
    assert_true(wf_size_mul(SIZE_MAX / 2, 2, &out));
    assert_int_equal(out, SIZE_MAX - 1);
    assert_false(wf_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_true(wf_size_mul(SIZE_MAX, 0, &out));
    assert_int_equal(out, 0);
    assert_true(wf_size_add(SIZE_MAX - 1, 1, &out));
    assert_int_equal(out, SIZE_MAX);
    assert_false(wf_size_add(SIZE_MAX, 1, &out));
    assert_int_equal(wf_size_min(3, 5), 3);
    assert_int_equal(wf_size_max(3, 5), 5);
}

static void check_error(void **state)
{
    (void)state;
    struct weft_error err = {.msg = ""};
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(WEFT_FAIL(&err, WEFT_DATA, "%d of %s", 3, "four"), WEFT_DATA);
    assert_int_equal(err.status, WEFT_DATA);
    assert_string_equal(err.msg, "3 of four");
    assert_non_null(strstr(err.file, "test_size.c"));
    assert_true(err.line > 0);
    assert_int_equal(WEFT_FAIL(&err, WEFT_IO, "%s", text), WEFT_IO); /* truncated */
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_string_equal(err.msg + sizeof err.msg - 6, "xx...");
    assert_int_equal(WEFT_FAIL(NULL, WEFT_USAGE, "no record"), WEFT_USAGE);
}

/* Checks the documented exit codes. */
static void check_exit_codes(void **state)
{
    (void)state;
    static const struct {
        enum weft_status status;
        int code;
    } codes[] = {
        {WEFT_OK, 0},   {WEFT_USAGE, 2},   {WEFT_DATA, 3},  {WEFT_CKPT, 4}, {WEFT_SCHEDULE, 5},
        {WEFT_PEER, 6}, {WEFT_NUMERIC, 7}, {WEFT_NOMEM, 8}, {WEFT_IO, 8},   {WEFT_INTERNAL, 9},
    };
    for (size_t i = 0; i < WEFT_LEN(codes); i++) {
        assert_int_equal(weft_status_exit_code(codes[i].status), codes[i].code);
        assert_true(strlen(weft_status_text(codes[i].status)) > 0);
    }
    assert_int_equal(weft_status_exit_code((enum weft_status)1000), 9);
    assert_string_equal(weft_status_text((enum weft_status)1000), "unknown status");
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 4];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, check_range, NULL, NULL, &cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_tiling);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_overflow);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_error);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_exit_codes);
    return cmocka_run_group_tests_name("size", tests, NULL, NULL) != 0;
}
