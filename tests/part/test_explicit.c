/* Tests partitions in text form: lists of counts and Megatron's layouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "weft/part.h"

enum form { COUNTS, LAYOUT };

static enum weft_status parse(enum form form, const char *text, size_t len, uint32_t n_stages,
                              uint32_t n_layers, struct weft_partition *p,
                              struct weft_error *err)
{
    return form == COUNTS ? weft_partition_parse_counts(p, text, len, n_stages, n_layers, err)
                          : weft_partition_parse_pattern(p, text, len, n_stages, n_layers, err);
}

/* clang-format off */
static struct good_case {
    enum form form;
    const char *text;
    uint32_t n_stages, n_layers; /* required; 0: any */
    uint32_t want_stages, want[8];
} good[] = {
    {COUNTS, "4,3,3,2",             4, 12,      4, {4, 3, 3, 2}},
    {COUNTS, "4,3,3,2",             0, 0,       4, {4, 3, 3, 2}},
    {COUNTS, " 4 ,\t3,\r\n3 , 2\n", 4, 12,      4, {4, 3, 3, 2}},
    {COUNTS, "7",                   1, 7,       1, {7}},
    {COUNTS, "2,0,2",               3, 4,       3, {2, 0, 2}},
    {COUNTS, "0,4,0",               3, 4,       3, {0, 4, 0}},
    {COUNTS, "007,1",               2, 8,       2, {7, 1}},
    {COUNTS, "1048576",             1, 1048576, 1, {1048576}},
    {LAYOUT, "Et*3|(tt|)*2L",       4, 7,       4, {3, 2, 2, 0}},
    {LAYOUT, "Et*3|(tt|)*2|L",      5, 7,       5, {3, 2, 2, 0, 0}},
    {LAYOUT, "EttttL",              1, 4,       1, {4}},
    {LAYOUT, "E|t|t|L",             4, 2,       4, {0, 1, 1, 0}},
    {LAYOUT, "E,t|,t ,t|\tt\n|L",   0, 0,       4, {1, 2, 1, 0}},
    {LAYOUT, "Et||tL",              3, 2,       3, {1, 0, 1}},
    {LAYOUT, "Et|*3tL",             4, 2,       4, {1, 0, 0, 1}},
    {LAYOUT, "E(t*2|)*3tL",         4, 7,       4, {2, 2, 2, 1}},
    {LAYOUT, "E((t|)*2t|)*2tL",     7, 7,       7, {1, 1, 1, 1, 1, 1, 1}},
    {LAYOUT, "(E)(t)(L)",           1, 1,       1, {1}},
    {LAYOUT, "(Et|t)*1L",           2, 2,       2, {1, 1}},
    {LAYOUT, "Et * 3 | t, * ,2 L",  2, 5,       2, {3, 2}},
};
/* clang-format on */

static void check_good(void **state)
{
    const struct good_case *c = *state;
    struct weft_partition p;
    struct weft_error err;
    assert_int_equal(
        parse(c->form, c->text, strlen(c->text), c->n_stages, c->n_layers, &p, &err), WEFT_OK);
    assert_int_equal(p.n_stages, c->want_stages);
    uint32_t first = 0;
    for (uint32_t s = 0; s < p.n_stages; s++) {
        assert_int_equal(p.at[s].first_layer, first);
        assert_int_equal(p.at[s].end_layer, first += c->want[s]);
        assert_int_equal(p.at[s].embedding, s == 0);
        assert_int_equal(p.at[s].head, s == p.n_stages - 1);
    }
    weft_partition_release(&p);
}

#define NEST10 "(((((((((("

/* clang-format off */
static struct bad_case {
    enum form form;
    const char *text;
    uint32_t n_stages, n_layers;
    const char *want;
} bad[] = {
    {COUNTS, "", 0, 0, "layers per stage, column 1: a number is missing at the end"},
    {COUNTS, "  ", 0, 0, "column 3: a number is missing"},
    {COUNTS, "4,,3", 0, 0, "column 3: ',' is not a number"},
    {COUNTS, "4,3,", 0, 0, "column 5: a number is missing"},
    {COUNTS, "4,-3", 0, 0, "column 3: '-' is not a number"},
    {COUNTS, "4,x", 0, 0, "column 3: 'x' is not a number"},
    {COUNTS, "4;3", 0, 0, "column 2: expected a comma, not ';'"},
    {COUNTS, "4 3", 0, 0, "column 3: expected a comma, not '3'"},
    {COUNTS, "4\x07", 0, 0, "column 2: expected a comma, not byte 0x07"},
    {COUNTS, "4\xff", 0, 0, "not byte 0xff"},
    {COUNTS, "1,1048577", 0, 0, "column 3: the number is too large (maximum 1048576)"},
    {COUNTS, "99999999999999999999999", 0, 0, "column 1: the number is too large"},
    {COUNTS, "1,1048576", 0, 0, "column 3: more than 1048576 stages or layers"},
    {COUNTS, "4,3,3", 4, 10, "3 numbers for 4 stages (ranks x chunks); give one per stage"},
    {COUNTS, "4,3,3,2,1", 4, 13, "5 numbers for 4 stages"},
    {COUNTS, "4,6,3,2", 4, 12,
     "column 5: the sum exceeds the model's 12 layers here; the total is 15"},
    {COUNTS, "14,1", 2, 12,
     "column 1: the sum exceeds the model's 12 layers here; the total is 15"},
    {COUNTS, "4,3,3,1", 4, 12,
     "column 8: the sum is 11, but the model has 12 layers: 1 are missing"},
    {COUNTS, "0,0", 0, 0, "0 layers; give at least 1"},
    {LAYOUT, "", 0, 0, "layout, column 1: the layout must start with E"},
    {LAYOUT, " , ", 0, 0, "column 1: the layout must start with E"},
    {LAYOUT, "ttL", 0, 0, "column 1: the layout must start with E"},
    {LAYOUT, "|EtL", 0, 0, "column 1: the layout must start with E"},
    {LAYOUT, "tEL", 0, 0, "column 1: the layout must start with E"},
    {LAYOUT, "EtE|L", 0, 0, "column 3: second E"},
    {LAYOUT, "E*2tL", 0, 0, "column 1: second E"},
    {LAYOUT, "(Et|)*2L", 0, 0, "column 2: second E"},
    {LAYOUT, "Ett", 0, 0, "column 4: the layout must end with L"},
    {LAYOUT, "E", 0, 0, "column 2: the layout must end with L"},
    {LAYOUT, "EtL|", 0, 0, "column 3: L, the head, must be the last"},
    {LAYOUT, "EtLt", 0, 0, "column 3: L, the head, must be the last"},
    {LAYOUT, "EtL*2", 0, 0, "column 3: L, the head, must be the last"},
    {LAYOUT, "EL", 0, 0, "0 layers; give at least 1"},
    {LAYOUT, "Etm|tL", 0, 0, "column 5: t after m"},
    {LAYOUT, "EmtL", 0, 0, "column 3: t after m"},
    {LAYOUT, "Etm|mL", 0, 0, "column 5: m on a second stage; all m must be on one stage"},
    {LAYOUT, "Et|(m|)*2L", 0, 0, "column 5: m on a second stage"},
    {LAYOUT, "EmL", 0, 0, "0 layers; give at least 1"},
    {LAYOUT, "EtTL", 0, 0, "column 3: unexpected 'T'; use E, t, m, L, |, parentheses and *n"},
    {LAYOUT, "Et3L", 0, 0, "column 3: unexpected '3'"},
    {LAYOUT, "Et\x01L", 0, 0, "column 3: unexpected byte 0x01"},
    {LAYOUT, "Et*L", 0, 0, "column 4: 'L' is not a number"},
    {LAYOUT, "Et*", 0, 0, "column 4: a number is missing at the end"},
    {LAYOUT, "Et*-1L", 0, 0, "column 4: '-' is not a number"},
    {LAYOUT, "Et*0L", 0, 0, "column 4: repeated 0 times; give at least 1"},
    {LAYOUT, "Et*2*3L", 0, 0, "column 5: * must follow one item or group"},
    {LAYOUT, "*2EtL", 0, 0, "column 1: * must follow one item or group"},
    {LAYOUT, "E(*2)tL", 0, 0, "column 3: * must follow"},
    {LAYOUT, "Et*1 2L", 0, 0, "column 6: unexpected '2'"},
    {LAYOUT, "E(tL", 0, 0, "column 2: unmatched ("},
    {LAYOUT, "Et)L", 0, 0, "column 3: unmatched )"},
    {LAYOUT, "Et()*3L", 0, 0, "column 3: the group is empty"},
    {LAYOUT, "E( , )L", 0, 0, "column 2: the group is empty"},
    {LAYOUT, "E" NEST10 NEST10 NEST10 "(((t", 0, 0, "column 34: more than 32 nested parentheses"},
    {LAYOUT, "Et*1048577L", 0, 0, "column 4: the number is too large"},
    {LAYOUT, "Et*1048576L", 0, 0, "column 4: more than 1048576 stages and layers"},
    {LAYOUT, "E((t*1000)*1000)*1000L", 0, 0, "column 18: more than 1048576 stages and layers"},
    {LAYOUT, "Ett|tL", 4, 3, "2 stages, but ranks x chunks is 4"},
    {LAYOUT, "Ett|tL", 2, 4, "3 layers, but the model has 4"},
};
/* clang-format on */

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    struct weft_partition p = {0};
    struct weft_error err = {.msg = ""};
    size_t len = strlen(c->text);
    char *exact = malloc(len + 1); /* without a NUL: a sanitizer detects a read past the end */
    assert_non_null(exact);
    memcpy(exact, c->text, len);
    exact = realloc(exact, len > 0 ? len : 1);
    assert_non_null(exact);
    assert_int_equal(parse(c->form, exact, len, c->n_stages, c->n_layers, &p, &err),
                     WEFT_USAGE);
    free(exact);
    if (strstr(err.msg, c->want) == NULL)
        assert_string_equal(err.msg, c->want);
    assert_null(p.at);
    assert_int_equal(parse(c->form, c->text, len, c->n_stages, c->n_layers, &p, NULL),
                     WEFT_USAGE);
}

/* Parses the maximum of 2^20 stages and layers. */
static void check_largest(void **state)
{
    (void)state;
    struct weft_partition p;
    const char *text = "E(t|)*524287L";
    assert_int_equal(weft_partition_parse_pattern(&p, text, strlen(text), 524288, 524287, NULL),
                     WEFT_OK);
    weft_partition_release(&p);
}

static void check_counts_array(void **state)
{
    (void)state;
    struct weft_partition p = {0};
    struct weft_error err;
    const uint32_t counts[] = {3, 0, 2}, none[] = {0, 0}, many[] = {1 << 20, UINT32_MAX};
    assert_int_equal(weft_partition_init_counts(&p, counts, 3, &err), WEFT_OK);
    assert_int_equal(p.at[1].first_layer, 3);
    assert_int_equal(p.at[2].end_layer, 5);
    weft_partition_release(&p);
    assert_int_equal(weft_partition_init_counts(&p, none, 2, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "0 layers"));
    assert_int_equal(weft_partition_init_counts(&p, counts, 0, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "0 stages"));
    assert_int_equal(weft_partition_init_counts(&p, many, 2, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "the layers up to stage 1 are 4296015871"));
    assert_null(p.at);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(good) + WEFT_LEN(bad) + 2];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(good); i++)
        tests[n++] = (struct CMUnitTest){good[i].text, check_good, NULL, NULL, &good[i]};
    for (size_t i = 0; i < WEFT_LEN(bad); i++)
        tests[n++] = (struct CMUnitTest){bad[i].want, check_bad, NULL, NULL, &bad[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_largest);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_counts_array);
    return cmocka_run_group_tests_name("explicit", tests, NULL, NULL) != 0;
}
