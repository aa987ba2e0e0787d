/* Numbers with units: every unit, and texts that are not numbers with units. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/units.h"

static const struct {
    const char *text;
    enum wf_quantity quantity;
    double want;
    const char *rest; /* what follows the number and its unit */
} good[] = {
    {"7", WF_QUANTITY_PLAIN, 7, ""},
    {"7GB", WF_QUANTITY_PLAIN, 7, "GB"},
    {"7", WF_QUANTITY_BYTES, 7, ""},
    {"7.5", WF_QUANTITY_BYTES, 7.5, ""},
    {"7B", WF_QUANTITY_BYTES, 7, ""},
    {"80GB", WF_QUANTITY_BYTES, 80e9, ""},
    {"16.8MB", WF_QUANTITY_BYTES, 16.8e6, ""},
    {"3kB", WF_QUANTITY_BYTES, 3000, ""},
    {"3KB", WF_QUANTITY_BYTES, 3000, ""},
    {"2TB", WF_QUANTITY_BYTES, 2e12, ""},
    {"2PB", WF_QUANTITY_BYTES, 2e15, ""},
    {"1EB", WF_QUANTITY_BYTES, 1e18, ""},
    {"64KiB", WF_QUANTITY_BYTES, 65536, ""},
    {"1MiB", WF_QUANTITY_BYTES, 1048576, ""},
    {"1.5GiB:2", WF_QUANTITY_BYTES, 1610612736, ":2"},
    {"1EiB", WF_QUANTITY_BYTES, 1152921504606846976.0, ""},
    {"1e3kB,", WF_QUANTITY_BYTES, 1e6, ","},
    {"5", WF_QUANTITY_TIME, 5, ""},
    {"5ns", WF_QUANTITY_TIME, 5e-9, ""},
    {"1.5us", WF_QUANTITY_TIME, 1.5e-6, ""},
    {"3\302\265s", WF_QUANTITY_TIME, 3e-6, ""},
    {"40ms", WF_QUANTITY_TIME, 40e-3, ""},
    {"1s", WF_QUANTITY_TIME, 1, ""},
    {"3min", WF_QUANTITY_TIME, 180, ""},
    {"2h", WF_QUANTITY_TIME, 7200, ""},
    {"1d", WF_QUANTITY_TIME, 86400, ""},
    {"450GB/s", WF_QUANTITY_BANDWIDTH, 450e9, ""},
    {"1GiB/s", WF_QUANTITY_BANDWIDTH, 1073741824, ""},
    {"400Gbit/s", WF_QUANTITY_BANDWIDTH, 50e9, ""},
    {"400Gb/s", WF_QUANTITY_BANDWIDTH, 50e9, ""},
    {"8b/s", WF_QUANTITY_BANDWIDTH, 1, ""},
    {"312TFLOPS", WF_QUANTITY_FLOPS, 312e12, ""},
    {"1PFLOP/s", WF_QUANTITY_FLOPS, 1e15, ""},
    {"9FLOPS", WF_QUANTITY_FLOPS, 9, ""},
};

static const struct {
    const char *text;
    enum wf_quantity quantity;
    enum wf_amount_result want;
} bad[] = {
    {"", WF_QUANTITY_BYTES, WF_AMOUNT_NO_NUMBER},
    {"GB", WF_QUANTITY_BYTES, WF_AMOUNT_NO_NUMBER},
    {" 4GB", WF_QUANTITY_BYTES, WF_AMOUNT_NO_NUMBER},
    {"4gb", WF_QUANTITY_BYTES, WF_AMOUNT_BAD_UNIT},
    {"4kiB", WF_QUANTITY_BYTES, WF_AMOUNT_BAD_UNIT},
    {"4iB", WF_QUANTITY_BYTES, WF_AMOUNT_BAD_UNIT},
    {"4G", WF_QUANTITY_BYTES, WF_AMOUNT_BAD_UNIT},
    {"4GBB", WF_QUANTITY_BYTES, WF_AMOUNT_BAD_UNIT},
    {"4Gb", WF_QUANTITY_BYTES, WF_AMOUNT_BAD_UNIT},
    {"4GB/s", WF_QUANTITY_BYTES, WF_AMOUNT_BAD_UNIT},
    {"4ms", WF_QUANTITY_BYTES, WF_AMOUNT_BAD_UNIT},
    {"4m", WF_QUANTITY_TIME, WF_AMOUNT_BAD_UNIT},
    {"4sec", WF_QUANTITY_TIME, WF_AMOUNT_BAD_UNIT},
    {"4Gibit/s", WF_QUANTITY_BANDWIDTH, WF_AMOUNT_BAD_UNIT},
    {"4GB", WF_QUANTITY_BANDWIDTH, WF_AMOUNT_BAD_UNIT},
    {"4/s", WF_QUANTITY_BANDWIDTH, WF_AMOUNT_BAD_UNIT},
    {"4T", WF_QUANTITY_FLOPS, WF_AMOUNT_BAD_UNIT},
    {"4TFlops", WF_QUANTITY_FLOPS, WF_AMOUNT_BAD_UNIT},
};

static void check_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(good); i++) {
        struct wf_amount a;
        const char *end = NULL;
        if (wf_amount_read(good[i].text, good[i].quantity, &a, &end) != WF_AMOUNT_OK)
            fail_msg("%s is rejected", good[i].text);
        assert_string_equal(end, good[i].rest);
        double value = wf_amount_value(a, good[i].quantity);
        if (fabs(value - good[i].want) > 1e-15 * good[i].want)
            fail_msg("%s is %.17g", good[i].text, value);
    }
}

static void check_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(bad); i++) {
        struct wf_amount a;
        const char *end = NULL;
        if (wf_amount_read(bad[i].text, bad[i].quantity, &a, &end) != bad[i].want)
            fail_msg("%s has another result", bad[i].text);
    }
}

static void check_print(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *want;
    } cases[] = {{0, "0 s"},          {1.5e-9, "1.5 ns"},
                 {40e-6, "40 us"},    {0.2543077294, "254.308 ms"},
                 {1, "1 s"},          {7200, "7200 s"},
                 {0.99999999, "1 s"}, {-0.004, "-4 ms"},
                 {1e-12, "0.001 ns"}};
    char text[WF_NUMBER_CHARS];
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        assert_string_equal(wf_time_print(text, cases[i].seconds), cases[i].want);
    assert_string_equal(wf_time_unit_name(1e-3), "ms");
    assert_string_equal(wf_time_unit_name(1), "s");
    assert_null(wf_time_unit_name(0.25));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_good),
        cmocka_unit_test(check_bad),
        cmocka_unit_test(check_print),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL) != 0;
}
