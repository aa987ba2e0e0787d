/* Tests text buffers, edit distances, and the nearest name. */
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
    {"two empty names", "", "", 0},
    {"an empty name", "", "abc", 3},
    {"one change", "1f1b", "1f1c", 1},
    {"one letter more", "gpipe", "gpipes", 1},
    {"one letter less", "gpipe", "gipe", 1},
    {"two neighbours swapped", "wave", "waev", 2},
    {"the textbook example", "kitten", "sitting", 3},
    {"nothing in common", "abc", "xyz", 3},
    {"case is ignored", "ZB-V", "zb-v", 0},
    {"case is ignored on both sides", "gPiPe", "GpIpE", 0},
    {"an underscore is a hyphen", "ZB_H1", "zb-h1", 0},
    {"a blank is not a hyphen", "zb h1", "zb-h1", 1},
    {"a missing hyphen", "ZBV", "zb-v", 1},
    {"characters that differ from others by the case bit", "[\\]", "{|}", 3},
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

/* Names are members of a struct, as in real tables. */
static const struct named {
    int before;
    const char *name;
} names[] = {
    {0, "gpipe"},          {1, "1f1b"}, {2, "interleaved-1f1b"}, {3, NULL}, {4, "zb-h1"},
    {5, "interleaved-zb"}, {6, "zb-v"}, {7, "zb-v-auto"},
};

static struct nearest_case {
    const char *name, *written, *want;
    size_t n; /* number of names */
} nearest[] = {
    {"the name itself", "1f1b", "1f1b", WEFT_LEN(names)},
    {"a prefix: the first match of the table", "interleaved", "interleaved-1f1b",
     WEFT_LEN(names)},
    {"a longer prefix", "interleaved-z", "interleaved-zb", WEFT_LEN(names)},
    {"a prefix in another case", "INTER", "interleaved-1f1b", WEFT_LEN(names)},
    {"a prefix is preferred to one change", "zb-v-", "zb-v-auto", WEFT_LEN(names)},
    {"a prefix of two letters", "gp", "gpipe", WEFT_LEN(names)},
    {"one letter is not a prefix", "g", NULL, WEFT_LEN(names)},
    {"a letter left out, in another case", "ZBV", "zb-v", WEFT_LEN(names)},
    {"an underscore", "zb_h1", "zb-h1", WEFT_LEN(names)},
    {"after a NULL name", "zb-h2", "zb-h1", WEFT_LEN(names)},
    {"two changes of five", "gqiqe", "gpipe", WEFT_LEN(names)},
    {"three changes of five", "gqiqq", NULL, WEFT_LEN(names)},
    {"no name is near", "chimera", NULL, WEFT_LEN(names)},
    {"no name is near a very long one",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL, WEFT_LEN(names)},
    {"an empty text", "", NULL, WEFT_LEN(names)},
    {"after the end of the table", "zb-h1", NULL, 3},
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

/* A failed allocation is permanent. */
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

/* A stream appends all bytes.  Once the buffer has failed, so has the stream. */
static void check_stream(void **state)
{
    struct wf_text t = {0};
    (void)state;
    FILE *out = wf_text_open(&t);
    assert_non_null(out);
    for (int i = 0; i < 5000; i++)
        fprintf(out, "%04d,", i);
    assert_int_equal(fclose(out), 0);
    assert_false(t.failed);
    assert_int_equal(t.len, 25000);
    assert_memory_equal(t.at + 24995, "4999,", 6);

    out = wf_text_open(&t);
    assert_non_null(out);
    t.failed = true; /* as after a failed allocation */
    fputs("lost", out);
    assert_int_not_equal(fclose(out), 0);
    assert_int_equal(t.len, 25000);
    wf_text_release(&t);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + WEFT_LEN(nearest) + 5];
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
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_stream);
    return cmocka_run_group_tests_name("text", tests, NULL, NULL) != 0;
}
