/* Tests numbers as text: shortest decimals, groups of digits and byte
 * counts.  Tests medians. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/numbers.h"

static void check_decimals(void **state)
{
    char text[WF_NUMBER_CHARS];
    (void)state;
    wf_number_print(0.1, text);
    assert_string_equal(text, "0.1");
    wf_number_print(0.1 + 0.2, text);
    assert_string_equal(text, "0.30000000000000004");
    wf_number_print(500000, text);
    assert_string_equal(text, "500000");
    wf_number_print_short(500000, text);
    assert_string_equal(text, "5e+05");
    wf_number_print_float(1e-5F, text);
    assert_string_equal(text, "1e-05");
    wf_number_print_float(16777216, text);
    assert_string_equal(text, "16777216");
}

/* A float has its own shortest text, not that of the double. */
static void check_floats(void **state)
{
    char text[WF_NUMBER_CHARS];
    (void)state;
    wf_number_print_float(1.0F / 3, text);
    assert_string_equal(text, "0.33333334");
    for (uint32_t i = 1; i < 200000; i++) {
        float f = (float)i / 200000.0F;
        wf_number_print_float(f, text);
        assert_true(strtof(text, NULL) == f);
    }
}

static void check_groups(void **state)
{
    char text[WF_NUMBER_CHARS];
    (void)state;
    assert_string_equal(wf_grouped(text, 0), "0");
    assert_string_equal(wf_grouped(text, 999), "999");
    assert_string_equal(wf_grouped(text, 1234567), "1,234,567");
    assert_string_equal(wf_grouped(text, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void check_bytes(void **state)
{
    static const struct {
        double bytes;
        const char *binary, *precise, *decimal;
    } cases[] = {
        {0, "0 B", "0 B", "0B"},
        {999, "999 B", "999 B", "999B"},
        {1000, "1000 B", "0.98 KiB", "1kB"},
        {1572864, "1.5 MiB", "1.50 MiB", "1.57MB"},
        {107374182400, "100 GiB", "100 GiB", "107GB"},
        {16e9, "14.9 GiB", "14.9 GiB", "16GB"},
    };
    char text[WF_NUMBER_CHARS];
    (void)state;

    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        assert_string_equal(wf_bytes_text(text, (size_t)cases[i].bytes), cases[i].binary);
        assert_string_equal(wf_bytes_print(text, cases[i].bytes, WF_BYTES_PRECISE),
                            cases[i].precise);
        assert_string_equal(wf_bytes_print(text, cases[i].bytes, WF_BYTES_DECIMAL),
                            cases[i].decimal);
    }
}

static void check_median(void **state)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    (void)state;
    assert_true(wf_median(odd, 3) == 2);
    assert_true(wf_median(even, 4) == 2.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_decimals), cmocka_unit_test(check_floats),
        cmocka_unit_test(check_groups),   cmocka_unit_test(check_bytes),
        cmocka_unit_test(check_median),
    };
    return cmocka_run_group_tests_name("numbers", tests, NULL, NULL) != 0;
}
