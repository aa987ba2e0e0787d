/* Tests the parsing of lists of values: "4:6:8" and "F=1,I=1:2". */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "config/values.h"

enum { MAX_ITEMS = 4 };

static struct list_case {
    const char *name, *text;
    size_t n;
    double want[MAX_ITEMS];
    const char *error;
    enum wf_quantity quantity;
} lists[] = {
    {"one", "4", 1, {4}, NULL, WF_QUANTITY_PLAIN},
    {"three", "4:6:8", 3, {4, 6, 8}, NULL, WF_QUANTITY_PLAIN},
    {"fractions and powers", "0.5:1e3:-2", 3, {0.5, 1000, -2}, NULL, WF_QUANTITY_PLAIN},
    {"nothing", "", 0, {0}, "x: '' is not a number", WF_QUANTITY_PLAIN},
    {"a colon at the end", "4:", 0, {0}, "x: '' is not a number", WF_QUANTITY_PLAIN},
    {"a colon at the start", ":4", 0, {0}, "x: ':4' is not a number", WF_QUANTITY_PLAIN},
    {"two colons", "4::6", 0, {0}, "x: ':6' is not a number", WF_QUANTITY_PLAIN},
    {"commas", "4,6:8", 3, {4, 6, 8}, NULL, WF_QUANTITY_PLAIN},
    {"a comma at the end", "4,", 0, {0}, "is not a number", WF_QUANTITY_PLAIN},
    {"letters", "four", 0, {0}, "x: 'four' is not a number", WF_QUANTITY_PLAIN},
    {"letters after a number", "4k", 0, {0}, "x: '4k' is not a number", WF_QUANTITY_PLAIN},
    {"a blank", "4: 6", 0, {0}, "x: ' 6' is not a number", WF_QUANTITY_PLAIN},
    {"a tab", "\t4", 0, {0}, "is not a number", WF_QUANTITY_PLAIN},
    {"infinity", "inf", 0, {0}, "x: inf is out of range", WF_QUANTITY_PLAIN},
    {"not a number", "nan", 0, {0}, "x: nan is out of range", WF_QUANTITY_PLAIN},
    {"too large", "1e999", 0, {0}, "x: 1e999 is out of range", WF_QUANTITY_PLAIN},
    {"bytes", "16GB:1.5KiB:7", 3, {16e9, 1536, 7}, NULL, WF_QUANTITY_BYTES},
    {"a fraction of bytes", "16.8MB", 1, {16800000}, NULL, WF_QUANTITY_BYTES},
    {"times", "40ms,2min", 2, {40 * 1e-3, 120}, NULL, WF_QUANTITY_TIME},
    {"operations", "312TFLOPS", 1, {312e12}, NULL, WF_QUANTITY_FLOPS},
    {"an unknown unit",
     "4:5XB",
     0,
     {0},
     "x: '5XB' has an unknown unit; give bytes, as in 80GB",
     WF_QUANTITY_BYTES},
    {"a unit of something else",
     "4ms",
     0,
     {0},
     "x: '4ms' has an unknown unit; give bytes",
     WF_QUANTITY_BYTES},
    {"a blank before the unit", "4 GB", 0, {0}, "x: '4 GB' is not a number", WF_QUANTITY_BYTES},
    {"too large with its unit",
     "1e300GB",
     0,
     {0},
     "x: 1e300GB is out of range",
     WF_QUANTITY_BYTES},
};

static void check_list(void **state)
{
    const struct list_case *c = *state;
    struct weft_values v = {0};
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_values_parse(c->text, "x", c->quantity, NULL, &v, &err);
    assert_int_equal(st, c->error == NULL ? WEFT_OK : WEFT_USAGE);
    if (c->error != NULL && strstr(err.msg, c->error) == NULL)
        fail_msg("want \"%s\", have \"%s\"", c->error, err.msg);
    assert_int_equal(v.n, c->n);
    for (size_t i = 0; i < c->n; i++)
        assert_true(v.at[i] == c->want[i]);
    wf_values_release(&v);
    assert_null(v.at);
}

static struct keys_case {
    const char *name, *text;
    double f[MAX_ITEMS], i[MAX_ITEMS], c[MAX_ITEMS]; /* terminated by NAN */
    const char *error;
} keys[] = {
    {"one key", "F=2", {2, NAN}, {NAN}, {NAN}, NULL},
    {"all of them", "C=0.5,I=3,F=2", {2, NAN}, {3, NAN}, {0.5, NAN}, NULL},
    {"a list", "F=1:2:3,I=4", {1, 2, 3, NAN}, {4, NAN}, {NAN}, NULL},
    {"at the limit", "F=0", {0, NAN}, {NAN}, {NAN}, NULL},
    {"a negative value where allowed", "I=-4", {NAN}, {-4, NAN}, {NAN}, NULL},
    {"nothing", "", {NAN}, {NAN}, {NAN}, "x: '' is not KEY=value with one of F, I, C"},
    {"no key", "1", {NAN}, {NAN}, {NAN}, "x: '1' is not KEY=value"},
    {"no value", "F", {NAN}, {NAN}, {NAN}, "x: 'F' is not KEY=value"},
    {"an empty value", "F=", {NAN}, {NAN}, {NAN}, "x: '' is not a number"},
    {"an unknown key", "F=1,G=2", {NAN}, {NAN}, {NAN}, "x: 'G=2' is not KEY=value"},
    {"a longer key", "FF=1", {NAN}, {NAN}, {NAN}, "x: 'FF=1' is not KEY=value"},
    {"lower case", "f=1", {NAN}, {NAN}, {NAN}, "x: 'f=1' is not KEY=value"},
    {"a comma at the end", "F=1,", {NAN}, {NAN}, {NAN}, "x: '' is not KEY=value"},
    {"a key twice", "F=1,F=2", {NAN}, {NAN}, {NAN}, "x: F is given twice"},
    {"a list instead of a number", "C=1:2", {NAN}, {NAN}, {NAN}, "x: C takes one number"},
    {"below the limit",
     "I=1,F=-1",
     {NAN},
     {NAN},
     {NAN},
     "x: -1 is out of range; give at least 0"},
    {"times with units", "F=40ms:2s,C=500us", {40, 2000, NAN}, {NAN}, {0.5, NAN}, NULL},
    {"a 0 needs no unit", "F=40ms,I=0", {40, NAN}, {0, NAN}, {NAN}, NULL},
    {"some times without a unit",
     "F=40ms,I=2:3",
     {NAN},
     {NAN},
     {NAN},
     "x: '40ms' has a unit and '2' has none; give all of them a unit, or none"},
    {"bytes instead of a time", "F=4GB", {NAN}, {NAN}, {NAN}, "x: '4GB' has an unknown unit"},
};

static void check_values(struct weft_values v, const double *want)
{
    size_t n = 0;
    while (!isnan(want[n]))
        n++;
    assert_int_equal(v.n, n);
    for (size_t i = 0; i < n; i++)
        assert_true(v.at[i] == want[i]);
}

/* On failure all lists are empty; a sanitizer detects leaks. */
static void check_keys(void **state)
{
    const struct keys_case *k = *state;
    struct weft_values f = {0}, i = {0}, c = {0};
    const struct wf_value_key table[] = {{"F", &f, 0, false, WF_QUANTITY_TIME},
                                         {"I", &i, -HUGE_VAL, false, WF_QUANTITY_TIME},
                                         {"C", &c, 0, true, WF_QUANTITY_TIME}};
    struct wf_units units = {.quantity = WF_QUANTITY_TIME, .scale = 1e-3};
    struct weft_error err = {.msg = ""};
    enum weft_status st =
        wf_values_parse_keys(k->text, "x", table, WEFT_LEN(table), &units, &err);
    assert_int_equal(st, k->error == NULL ? WEFT_OK : WEFT_USAGE);
    if (k->error != NULL && strstr(err.msg, k->error) == NULL)
        fail_msg("want \"%s\", have \"%s\"", k->error, err.msg);
    check_values(f, k->f);
    check_values(i, k->i);
    check_values(c, k->c);
    if (st == WEFT_OK) {
        wf_values_release(&f);
        wf_values_release(&i);
        wf_values_release(&c);
    }
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(lists) + WEFT_LEN(keys)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        tests[n++] = (struct CMUnitTest){lists[i].name, check_list, NULL, NULL, &lists[i]};
    for (size_t i = 0; i < WEFT_LEN(keys); i++)
        tests[n++] = (struct CMUnitTest){keys[i].name, check_keys, NULL, NULL, &keys[i]};
    return cmocka_run_group_tests_name("values", tests, NULL, NULL) != 0;
}
