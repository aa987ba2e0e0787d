/* Growing texts, and the distance behind "did you mean". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/text.h"

static struct distance_case {
    const char *name, *a, *b;
    size_t want;
} cases[] = {
    {"the same", "1f1b", "1f1b", 0},
    {"nothing and nothing", "", "", 0},
    {"nothing and something", "", "abc", 3},
    {"one change", "1f1b", "1f1c", 1},
    {"one letter more", "gpipe", "gpipes", 1},
    {"one letter less", "gpipe", "gipe", 1},
    {"two neighbours swapped", "wave", "waev", 2},
    {"the textbook's", "kitten", "sitting", 3},
    {"nothing in common", "abc", "xyz", 3},
    {"case counts", "ZB-V", "zb-v", 3},
    {"63 letters", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 1},
    {"longer names are never near",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a", 64},
};

static void check_distance(void **state)
{
    const struct distance_case *c = *state;
    assert_int_equal(weft_text_distance(c->a, c->b), c->want);
    assert_int_equal(weft_text_distance(c->b, c->a), c->want);
}

static void check_adding(void **state)
{
    (void)state;
    struct weft_text t = {0};
    weft_text_adds(&t, "ab");
    weft_text_addc(&t, '\0');
    weft_text_addu(&t, 0);
    weft_text_addu(&t, UINT64_MAX);
    weft_text_addf(&t, "<%d %s>", -7, "x");
    weft_text_addf(&t, "%s", "");
    assert_false(t.failed);
    assert_int_equal(t.len, 3 + 1 + 20 + 6);
    assert_memory_equal(t.at,
                        "ab\0"
                        "018446744073709551615<-7 x>",
                        t.len + 1);
    weft_text_release(&t);
    assert_null(t.at);
    assert_int_equal(t.len, 0);
}

static void check_growth(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct weft_text t = {0};
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0)
            weft_text_addf(&t, "%c", 'a' + i % 26);
        else
            weft_text_addc(&t, (char)('a' + i % 26));
    }
    assert_int_equal(t.len, N);
    assert_int_equal(t.at[N], '\0');
    for (int i = 0; i < N; i++)
        assert_int_equal(t.at[i], 'a' + i % 26);
    weft_text_release(&t);
}

/* A size that no machine has is a failure that stays. */
static void check_overflow(void **state)
{
    (void)state;
    struct weft_text t = {0};
    weft_text_adds(&t, "a");
    weft_text_add(&t, "b", SIZE_MAX);
    assert_true(t.failed);
    weft_text_adds(&t, "c");
    assert_true(t.failed);
    assert_string_equal(t.at, "a");
    weft_text_release(&t);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 3];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, check_distance, NULL, NULL, &cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_adding);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_growth);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_overflow);
    return cmocka_run_group_tests_name("text", tests, NULL, NULL) != 0;
}
