/* Checks that decimation keeps every visible extreme of a line, and how numbers are printed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "training/report/chart.h"

static uint32_t next(uint32_t *s)
{
    return *s = *s * 1664525u + 1013904223u;
}

static int pixel_of(double x, double x0, double x1, int pixels)
{
    return (int)((x - x0) * (pixels / (x1 - x0)));
}

/* Computes minimum and maximum of each pixel directly. */
static void check_extremes(const struct wf_chart_line *line, const size_t *keep, size_t n,
                           double x0, double x1, int pixels)
{
    for (int p = 0; p <= pixels; p++) {
        double low = NAN, high = NAN, kept_low = NAN, kept_high = NAN;
        for (size_t i = 0; i < line->n; i++)
            if (pixel_of(line->x[i], x0, x1, pixels) == p) {
                low = fmin(low, line->y[i]);
                high = fmax(high, line->y[i]);
            }
        for (size_t k = 0; k < n; k++)
            if (pixel_of(line->x[keep[k]], x0, x1, pixels) == p) {
                kept_low = fmin(kept_low, line->y[keep[k]]);
                kept_high = fmax(kept_high, line->y[keep[k]]);
            }
        assert_true((isnan(low) && isnan(kept_low)) || low == kept_low);
        assert_true((isnan(high) && isnan(kept_high)) || high == kept_high);
    }
}

static void check_decimation(void **state)
{
    enum { N = 4000 };
    static double x[N], y[N];
    static size_t keep[N];
    uint32_t seed = 7;

    for (int pixels = 16; pixels <= 1024; pixels *= 8)
        for (size_t n = 1; n <= N; n = n * 3 + 1) {
            for (size_t i = 0; i < n; i++) {
                x[i] = (double)i + 1;
                y[i] = next(&seed) % 50 == 0 ? NAN : (double)(next(&seed) >> 8);
            }

            const struct wf_chart_line line = {.x = x, .y = y, .n = n};
            double x1 = n == 1 ? 2 : (double)n;
            size_t kept = wf_chart_decimate(&line, 1, x1, pixels, keep);

            assert_true(kept >= 1 && kept <= n && kept <= 4 * ((size_t)pixels + 1));
            assert_true(keep[0] == 0 && keep[kept - 1] == n - 1);
            for (size_t k = 1; k < kept; k++)
                assert_true(keep[k] > keep[k - 1]);

            if (n > 1)
                check_extremes(&line, keep, kept, 1, x1, pixels);
        }
    (void)state;
}

/* A chart never contains non-finite numbers. */
static const struct {
    double y[4];
    size_t n;
} odd[] = {{{0}, 0},
           {{5}, 1},
           {{NAN}, 1},
           {{NAN, NAN}, 2},
           {{3, 3, 3}, 3},
           {{0, 0}, 2},
           {{1e300, -1e300}, 2},
           {{1e-300, 2e-300}, 2},
           {{1, NAN, 2, NAN}, 4},
           {{-5, -4}, 2}};

static void check_nonfinite(void **state)
{
    static const double x[] = {1, 2, 3, 9e15};
    for (size_t i = 0; i < WEFT_LEN(odd); i++)
        for (int unit = 0; unit < WF_N_UNITS; unit++) {
            char *page = NULL, *data = NULL;
            size_t len;
            FILE *out = open_memstream(&page, &len), *numbers = open_memstream(&data, &len);
            const struct wf_chart_line line = {
                .name = "</script>", .x = x, .y = odd[i].y, .n = odd[i].n};
            const struct wf_chart c = {.id = "a",
                                       .title = "<b>",
                                       .unit = (enum wf_unit)unit,
                                       .width = 500,
                                       .height = 200,
                                       .from_zero = unit % 2 == 0,
                                       .level = NAN,
                                       .lines = &line,
                                       .n_lines = 1,
                                       .legend = true};

            assert_true(wf_chart_put(out, numbers, &c));
            fclose(out);
            fclose(numbers);

            assert_null(strstr(page, "nan"));
            assert_null(strstr(page, "inf"));
            assert_null(strstr(page, "</script>"));
            assert_null(strstr(page, "<b>"));
            assert_null(strstr(data, "nan"));
            assert_null(strstr(data, "inf"));
            assert_null(strstr(data, "</script>"));

            assert_true(strlen(page) < 20000);
            free(page);
            free(data);
        }
    (void)state;
}

static const struct {
    enum wf_unit unit;
    double value;
    const char *want;
} figures[] = {
    {WF_UNIT_LOSS, 4.81234, "4.8123"},     {WF_UNIT_NORM, 0.8421, "0.842"},
    {WF_UNIT_LR, 5.9e-4, "5.90e-04"},      {WF_UNIT_LR, 0, "0"},
    {WF_UNIT_COUNT, 1234567, "1,234,567"}, {WF_UNIT_COUNT, 999, "999"},
    {WF_UNIT_COUNT, -1000, "-1,000"},      {WF_UNIT_MS, 812.4, "812 ms"},
    {WF_UNIT_MS, 8.125, "8.12 ms"},        {WF_UNIT_MS, 1250, "1.25 s"},
    {WF_UNIT_MS, 7390e3, "2:03:10"},       {WF_UNIT_MS, 0.25, "250 \xc2\xb5s"},
    {WF_UNIT_PERCENT, 0.1834, "18.3%"},    {WF_UNIT_BYTES, 1310720, "1.25 MiB"},
    {WF_UNIT_BYTES, 512, "512 B"},         {WF_UNIT_BYTES, 1023 * 1024, "1.00 MiB"},
    {WF_UNIT_SHORT, 124e6, "124M"},        {WF_UNIT_SHORT, 52.4288e9, "52.4B"},
    {WF_UNIT_SHORT, 999.7e3, "1.00M"},     {WF_UNIT_LOSS, NAN, "n/a"},
};

static void check_numbers(void **state)
{
    char words[WF_FORMAT_LEN];
    for (size_t i = 0; i < WEFT_LEN(figures); i++)
        assert_string_equal(wf_unit_format(words, figures[i].unit, figures[i].value),
                            figures[i].want);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_decimation),
                                       cmocka_unit_test(check_nonfinite),
                                       cmocka_unit_test(check_numbers)};
    return cmocka_run_group_tests_name("chart", tests, NULL, NULL) != 0;
}
