/* Tests splitting: expected pieces, and cuts that do not change them.  The pieces were checked
 * with the regular expressions of another system over all characters of Unicode 14. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "training/data/tokenizer_split.h"

/* Bars separate the pieces. */
static struct split_case {
    const char *name;
    enum wf_split split;
    const char *pieces;
} cases[] = {
    {"words", WF_SPLIT_GPT2, "Hello| world"},
    {"spaces before a word", WF_SPLIT_GPT2, "a|  | b"},
    {"spaces at the end", WF_SPLIT_GPT2, "a|   "},
    {"one newline before a word", WF_SPLIT_GPT2, "a|\n|b"},
    {"newlines and a tab", WF_SPLIT_GPT2, "\n\n\t| x"},
    {"lower-case contractions", WF_SPLIT_GPT2, "don|'t| DON|'|T| we|'ll| I|'d"},
    {"an apostrophe after a space", WF_SPLIT_GPT2, "'s| '|t| '|re"},
    {"two apostrophes", WF_SPLIT_GPT2, "''|s"},
    {"letters, numbers, others", WF_SPLIT_GPT2, "ab|12|,.|c| 34| ,;"},
    {"accents are letters", WF_SPLIT_GPT2, "na\xC3\xAFve| caf\xC3\xA9"},
    {"a combining accent is not a letter", WF_SPLIT_GPT2, "e|\xCC\x81| x"},
    {"a fraction is a number", WF_SPLIT_GPT2, "\xC2\xBD| 1\xE2\x85\xA7"},
    {"wide spaces", WF_SPLIT_GPT2, "a|\xC2\xA0|b|\xE3\x80\x80|c|\xE1\xA0\x8E|d"},
    {"U+1C is not a space", WF_SPLIT_GPT2, "x| \x1C| y"},
    {"invalid bytes are others", WF_SPLIT_GPT2, "a|\xFF\xC3|b| \x80|c"},
    {"a truncated character", WF_SPLIT_GPT2, "a|\xE3\x80"},
    {"words, Llama 3", WF_SPLIT_LLAMA3, "Hello| world"},
    {"any contractions", WF_SPLIT_LLAMA3, "DON|'T| We|'Ll| I|'d"},
    {"the long s", WF_SPLIT_LLAMA3, "a|'\xC5\xBF"},
    {"three digits", WF_SPLIT_LLAMA3, "123|456|7| |89|a"},
    {"one digit, Qwen 2", WF_SPLIT_QWEN2, "1|2| |3|a"},
    {"one other before letters", WF_SPLIT_LLAMA3, "(ab|)(|cd| (|ef"},
    {"a tab before letters", WF_SPLIT_LLAMA3, "\tab|\n|cd"},
    {"newlines after others", WF_SPLIT_LLAMA3, "a|;\n\n|b| {\r\n|  | c"},
    {"white space to its last newline", WF_SPLIT_LLAMA3, "a| \n \n|  | b"},
    {"spaces before a number", WF_SPLIT_LLAMA3, "a|  | |12"},
    {"white space at the end", WF_SPLIT_LLAMA3, "a|\n|  "},
};

static void check_split(void **state)
{
    const struct split_case *c = *state;
    char text[256], have[256];
    size_t n = 0, m = 0;
    for (const char *p = c->pieces; *p != '\0'; p++)
        if (*p != '|')
            text[n++] = *p;
    for (size_t at = 0; at < n;) {
        size_t end = wf_split_piece_end(c->split, text, n, at);
        assert_true(end > at && end <= n);
        if (at > 0)
            have[m++] = '|';
        memcpy(have + m, text + at, end - at);
        m += end - at;
        at = end;
    }
    have[m] = '\0';
    assert_string_equal(have, c->pieces);
}

static void check_patterns(void **state)
{
    (void)state;
    for (int i = WF_SPLIT_GPT2; i <= WF_SPLIT_QWEN2; i++) {
        enum wf_split found;
        assert_true(wf_split_find(wf_split_pattern((enum wf_split)i), &found));
        assert_int_equal(found, i);
    }
    enum wf_split found;
    assert_false(wf_split_find("\\w+", &found));
}

/* Returns a text of fragments of characters, some of them invalid. */
static size_t random_text(char *out, size_t size, uint64_t seed, const char *const *units,
                          uint32_t n_units)
{
    size_t n = 0;
    for (uint64_t i = 0;; i++) {
        const char *unit = units[wf_random_below(seed, 1, i, n_units)];
        if (n + strlen(unit) > size)
            return n;
        memcpy(out + n, unit, strlen(unit));
        n += strlen(unit);
    }
}

static void check_cut_of(enum wf_split split, const char *text, size_t len, size_t shown,
                         size_t *n_cuts)
{
    size_t cut = wf_split_boundary(split, text, shown), at = 0, alone = 0;
    assert_true(cut <= shown);
    *n_cuts += cut > 0;
    while (at < cut) {
        alone = wf_split_piece_end(split, text, cut, at);
        at = wf_split_piece_end(split, text, len, at);
        assert_int_equal(at, alone);
    }
    assert_int_equal(at, cut);
}

/* With any following text, the pieces before a cut are those of the whole text, and a piece
 * begins at the cut. */
static void check_cuts(void **state)
{
    (void)state;
    static const char *const with[] = {"a",        "b",  " ", "\n", "'",    "1",
                                       ".",        "\r", "s", "\t", "\xC3", "\xE3\x80\x80",
                                       "\xC5\xBF", "  "};
    static const char *const without[] = {
        "1", "2", ".", "\n", " ", "\r", "\xC3", "\xA9", "'", "\xE3\x80\x80", "\xE6\x97\xA5"};
    enum { LEN = 60 };
    char text[LEN];
    size_t n_cuts = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        size_t n = seed % 2 == 0 ? random_text(text, LEN, seed, with, WEFT_LEN(with))
                                 : random_text(text, LEN, seed, without, WEFT_LEN(without));
        for (size_t shown = 0; shown <= n; shown++)
            for (int split = WF_SPLIT_GPT2; split <= WF_SPLIT_QWEN2; split++)
                check_cut_of((enum wf_split)split, text, n, shown, &n_cuts);
    }
    assert_true(n_cuts > 10000); /* cuts are found */
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 2];
    size_t n = WEFT_LEN(cases);
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, check_split, NULL, NULL, &cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_patterns);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_cuts);
    return cmocka_run_group_tests_name("token split", tests, NULL, NULL) != 0;
}
