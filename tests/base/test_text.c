/* Growing texts, the distance behind "did you mean", and the name that is meant. */
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
    {"case does not count", "ZB-V", "zb-v", 0},
    {"nor on which side", "gPiPe", "GpIpE", 0},
    {"an underscore is a hyphen", "ZB_H1", "zb-h1", 0},
    {"a blank is not", "zb h1", "zb-h1", 1},
    {"nor is a letter that is missing", "ZBV", "zb-v", 1},
    {"what differs from a letter by its case bit only", "[\\]", "{|}", 3},
    {"63 letters", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 1},
    {"longer names are never near",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a", 64},
};

static void check_distance(void **state)
{
    const struct distance_case *c = *state;
    assert_int_equal(wf_text_distance(c->a, c->b), c->want);
    assert_int_equal(wf_text_distance(c->b, c->a), c->want);
}

/* Names are members of a struct, as in the tables that are searched. */
static const struct named {
    int before;
    const char *name;
} names[] = {
    {0, "gpipe"},          {1, "1f1b"}, {2, "interleaved-1f1b"}, {3, NULL}, {4, "zb-h1"},
    {5, "interleaved-zb"}, {6, "zb-v"}, {7, "zb-v-auto"},
};

static struct nearest_case {
    const char *name, *written, *want;
    size_t n; /* of the names, from the first */
} nearest[] = {
    {"itself", "1f1b", "1f1b", WEFT_LEN(names)},
    {"a beginning: the first in the table", "interleaved", "interleaved-1f1b", WEFT_LEN(names)},
    {"a longer beginning", "interleaved-z", "interleaved-zb", WEFT_LEN(names)},
    {"a beginning in another case", "INTER", "interleaved-1f1b", WEFT_LEN(names)},
    {"a beginning goes before one change", "zb-v-", "zb-v-auto", WEFT_LEN(names)},
    {"a beginning of two letters", "gp", "gpipe", WEFT_LEN(names)},
    {"one letter is no beginning", "g", NULL, WEFT_LEN(names)},
    {"a letter left out, in another case", "ZBV", "zb-v", WEFT_LEN(names)},
    {"an underscore", "zb_h1", "zb-h1", WEFT_LEN(names)},
    {"behind a name that is not there", "zb-h2", "zb-h1", WEFT_LEN(names)},
    {"two changes of five", "gqiqe", "gpipe", WEFT_LEN(names)},
    {"three changes of five", "gqiqq", NULL, WEFT_LEN(names)},
    {"nothing is near", "chimera", NULL, WEFT_LEN(names)},
    {"nothing is near what is very long",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL, WEFT_LEN(names)},
    {"nothing is written", "", NULL, WEFT_LEN(names)},
    {"behind the table's end", "zb-h1", NULL, 3},
    {"no names", "1f1b", NULL, 0},
};

static void check_nearest(void **state)
{
    const struct nearest_case *c = *state;
    const char *got = wf_text_nearest(c->written, &names[0].name, c->n, sizeof names[0]);
    if (c->want == NULL)
        assert_null(got);
    else if (got == NULL)
        fail_msg("nothing is near %s", c->written);
    else
        assert_string_equal(got, c->want);
}

static void check_no_names(void **state)
{
    (void)state;
    const char *const none[] = {NULL, NULL};
    assert_null(wf_text_nearest("zb-v", none, WEFT_LEN(none), sizeof none[0]));
}

static void check_adding(void **state)
{
    (void)state;
    struct wf_text t = {0};
    wf_text_adds(&t, "ab");
    wf_text_addc(&t, '\0');
    wf_text_addu(&t, 0);
    wf_text_addu(&t, UINT64_MAX);
    wf_text_addf(&t, "<%d %s>", -7, "x");
    wf_text_addf(&t, "%s", "");
    assert_false(t.failed);
    assert_int_equal(t.len, 3 + 1 + 20 + 6);
    assert_memory_equal(t.at,
                        "ab\0"
                        "018446744073709551615<-7 x>",
                        t.len + 1);
    wf_text_release(&t);
    assert_null(t.at);
    assert_int_equal(t.len, 0);
}

static void check_growth(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct wf_text t = {0};
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0)
            wf_text_addf(&t, "%c", 'a' + i % 26);
        else
            wf_text_addc(&t, (char)('a' + i % 26));
    }
    assert_int_equal(t.len, N);
    assert_int_equal(t.at[N], '\0');
    for (int i = 0; i < N; i++)
        assert_int_equal(t.at[i], 'a' + i % 26);
    wf_text_release(&t);
}

/* A size that no machine has is a failure that stays. */
static void check_overflow(void **state)
{
    (void)state;
    struct wf_text t = {0};
    wf_text_adds(&t, "a");
    wf_text_add(&t, "b", SIZE_MAX);
    assert_true(t.failed);
    wf_text_adds(&t, "c");
    assert_true(t.failed);
    assert_string_equal(t.at, "a");
    wf_text_release(&t);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + WEFT_LEN(nearest) + 4];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, check_distance, NULL, NULL, &cases[i]};
    for (size_t i = 0; i < WEFT_LEN(nearest); i++)
        tests[n++] =
            (struct CMUnitTest){nearest[i].name, check_nearest, NULL, NULL, &nearest[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_no_names);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_adding);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_growth);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_overflow);
    return cmocka_run_group_tests_name("text", tests, NULL, NULL) != 0;
}
