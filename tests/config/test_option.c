/* Tests the parser of options: arguments that it accepts and rejects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "config/option.h"

struct settings {
    uint32_t ranks;
    const char *output, *format;
    bool json;
};

static const struct wf_option options[] = {
    {NULL, 0, WF_OPTION_HEADING, NULL, "Sizes", NULL, 0},
    {"ranks", 'p', WF_OPTION_COUNT, "P", "workers", NULL, offsetof(struct settings, ranks)},
    {"output", 'o', WF_OPTION_TEXT, "FILE", "where", NULL, offsetof(struct settings, output)},
    {"format", 0, WF_OPTION_CHOICE, "FORM", "how", "text|csv|pytorch",
     offsetof(struct settings, format)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "for programs", NULL,
     offsetof(struct settings, json)},
};

static const struct wf_option_list list = {options, WEFT_LEN(options)};

enum { MAX_ITEMS = 6 };

static struct option_case {
    const char *name;
    const char *argv[MAX_ITEMS];
    struct settings want;
    const char *operands[MAX_ITEMS];
    const char *error; /* NULL: accepted */
} cases[] = {
    {"nothing", {NULL}, {0}, {NULL}, NULL},
    {"a value as the next argument", {"--ranks", "4"}, {.ranks = 4}, {NULL}, NULL},
    {"a value after =", {"--ranks=4"}, {.ranks = 4}, {NULL}, NULL},
    {"a letter and a value", {"-p", "4"}, {.ranks = 4}, {NULL}, NULL},
    {"a letter with an attached value", {"-p4"}, {.ranks = 4}, {NULL}, NULL},
    {"a switch", {"--json"}, {.json = true}, {NULL}, NULL},
    {"a switch by letter", {"-j"}, {.json = true}, {NULL}, NULL},
    {"a choice", {"--format", "csv"}, {.format = "csv"}, {NULL}, NULL},
    {"a text that looks like an option", {"-o", "--json"}, {.output = "--json"}, {NULL}, NULL},
    {"a text with = in it", {"--output=a=b"}, {.output = "a=b"}, {NULL}, NULL},
    {"operands between options", {"a", "-j", "b"}, {.json = true}, {"a", "b"}, NULL},
    {"a dash is an operand", {"-"}, {0}, {"-"}, NULL},
    {"two dashes end the options", {"--", "--json", "-"}, {0}, {"--json", "-"}, NULL},
    {"an empty operand", {""}, {0}, {""}, NULL},
    {"the largest count", {"-p4294967294"}, {.ranks = 4294967294}, {NULL}, NULL},

    {"a misspelt name",
     {"--rank", "4"},
     {0},
     {NULL},
     "unknown option --rank: did you mean --ranks?"},
    {"an unknown name", {"--qqqqqqqq"}, {0}, {NULL}, "unknown option --qqqqqqqq (see --help)"},
    {"a very long name",
     {"--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
     {0},
     {NULL},
     "unknown option --aaaa"},
    {"no name", {"--=4"}, {0}, {NULL}, "unknown option --"},
    {"a heading is not an option", {"--Sizes"}, {0}, {NULL}, "unknown option --Sizes"},
    {"an unknown letter", {"-x"}, {0}, {NULL}, "unknown option -x (see --help)"},
    {"no value", {"--ranks"}, {0}, {NULL}, "--ranks needs a value: --ranks P"},
    {"an empty count", {"--ranks="}, {0}, {NULL}, "--ranks: '' is not a whole number"},
    {"an empty text", {"--output="}, {0}, {NULL}, "--output is empty"},
    {"zero", {"-p", "0"}, {0}, {NULL}, "--ranks is 0; give at least 1"},
    {"a negative number", {"-p", "-4"}, {0}, {NULL}, "--ranks: '-4' is not a whole number"},
    {"a sign", {"-p", "+4"}, {0}, {NULL}, "--ranks: '+4' is not a whole number"},
    {"a leading blank", {"-p", " 4"}, {0}, {NULL}, "--ranks: ' 4' is not a whole number"},
    {"letters after a number",
     {"-p", "4k"},
     {0},
     {NULL},
     "--ranks: '4k' is not a whole number"},
    {"hexadecimal", {"-p", "0x10"}, {0}, {NULL}, "--ranks: '0x10' is not a whole number"},
    {"2^32 - 1", {"-p", "4294967295"}, {0}, {NULL}, "--ranks: 4294967295 is too large"},
    {"beyond 64 bits", {"-p", "99999999999999999999"}, {0}, {NULL}, "is too large"},
    {"an unknown choice",
     {"--format", "xml"},
     {0},
     {NULL},
     "--format: 'xml' is not one of text|csv|pytorch"},
    {"part of a choice", {"--format", "te"}, {0}, {NULL}, "--format: 'te' is not one of"},
    {"two choices at once", {"--format", "text|csv"}, {0}, {NULL}, "is not one of"},
    {"an empty choice", {"--format="}, {0}, {NULL}, "--format: '' is not one of"},
    {"a switch with a value", {"--json=yes"}, {0}, {NULL}, "--json takes no value (got 'yes')"},
    {"a switch's letter with a value", {"-jx"}, {0}, {NULL}, "--json takes no value (got 'x')"},
    {"an option twice", {"-p4", "--ranks", "4"}, {0}, {NULL}, "--ranks is given twice"},
    {"a switch twice", {"-j", "-j"}, {0}, {NULL}, "--json is given twice"},
};

static bool same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_option(void **state)
{
    const struct option_case *c = *state;
    struct settings s = {0};
    struct weft_error err = {.msg = ""};
    const char *operands[MAX_ITEMS] = {NULL};
    size_t n = 0;
    int argc = 0;

    while (argc < MAX_ITEMS && c->argv[argc] != NULL)
        argc++;
    enum weft_status st =
        wf_options_parse(list, argc, (char **)c->argv, &s, operands, &n, &err);

    if (c->error != NULL) {
        assert_int_equal(st, WEFT_USAGE);
        if (strstr(err.msg, c->error) == NULL)
            fail_msg("want \"%s\", have \"%s\"", c->error, err.msg);
        return;
    }

    if (st != WEFT_OK)
        fail_msg("rejected: %s", err.msg);
    assert_int_equal(s.ranks, c->want.ranks);
    assert_int_equal(s.json, c->want.json);
    assert_true(same(s.output, c->want.output));
    assert_true(same(s.format, c->want.format));
    for (size_t i = 0; i < MAX_ITEMS; i++)
        assert_true(same(i < n ? operands[i] : NULL, c->operands[i]));
}

/* Printed options are read back, and a shell leaves them unchanged. */
static void check_print(void **state)
{
    struct settings s = {.ranks = 4, .output = "it's a $file", .format = "csv", .json = true};
    struct wf_text text = {0};
    (void)state;
    wf_options_print(list, &s, &text);
    assert_string_equal(text.at, " --ranks 4 --output 'it'\\''s a $file' --format csv --json");
    wf_text_release(&text);
    wf_options_print(list, &(struct settings){.output = "a=1:2,b/c.csv"}, &text);
    assert_string_equal(text.at, " --output a=1:2,b/c.csv");
    wf_text_release(&text);
    wf_options_print(list, &(struct settings){0}, &text);
    assert_null(text.at);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 1];
    tests[WEFT_LEN(cases)] = (struct CMUnitTest)cmocka_unit_test(check_print);
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[i] = (struct CMUnitTest){cases[i].name, check_option, NULL, NULL, &cases[i]};
    return cmocka_run_group_tests_name("option", tests, NULL, NULL) != 0;
}
