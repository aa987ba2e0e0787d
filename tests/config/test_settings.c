/* Tests settings as a table: files, flags, rejected input, and round trips through printing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "config/settings.h"

struct settings {
    uint32_t layers, precision, threads;
    uint64_t seed;
    double lr, clip;
    bool shuffle;
    char *train, *dir;
};

#define AT(field) .offset = offsetof(struct settings, field)

static const struct wf_setting rows[] = {
    {"model", "layers", WF_SETTING_COUNT, "12", "layers", .min = 1, .max = 4096, AT(layers)},
    {"model", "seed", WF_SETTING_LONG, "1", "of random numbers", .max = 9007199254740992.0,
     AT(seed)},
    {"data", "train", WF_SETTING_STRING, "", "shards", AT(train)},
    {"data", "shuffle", WF_SETTING_SWITCH, "false", "in random order", AT(shuffle)},
    {"optim", "lr", WF_SETTING_REAL, "3e-4", "learning rate", .max = 100, AT(lr)},
    {"optim", "clip", WF_SETTING_REAL, "1", "maximum gradient norm", .zero = "off", .min = 1e-3,
     .max = 1e6, AT(clip)},
    {"optim", "precision", WF_SETTING_CHOICE, "fp32", "of numbers", .choices = "fp32|bf16|fp8",
     AT(precision)},
    {"log", "threads", WF_SETTING_COUNT, "auto", "of a rank", .zero = "auto", .min = 1,
     .max = 1024, AT(threads)},
    {"log", "dir", WF_SETTING_STRING, "runs/last", "where to", AT(dir)},
};

static const struct wf_setting_list list = {rows, WEFT_LEN(rows)};

static const struct settings defaults = {
    .layers = 12, .seed = 1, .lr = 3e-4, .clip = 1, .dir = (char *)"runs/last"};

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void assert_same(const struct settings *have, const struct settings *want)
{
    assert_int_equal(have->layers, want->layers);
    assert_int_equal(have->precision, want->precision);
    assert_int_equal(have->threads, want->threads);
    assert_int_equal(have->seed, want->seed);
    assert_true(have->lr == want->lr);
    assert_true(have->clip == want->clip);
    assert_int_equal(have->shuffle, want->shuffle);
    assert_true(same_text(have->train, want->train));
    assert_true(same_text(have->dir, want->dir));
}

static void assert_has(const char *have, const char *want)
{
    if (strstr(have, want) == NULL)
        fail_msg("want \"%s\", have \"%s\"", want, have);
}

enum { MAX_ITEMS = 6 };

static struct merge_case {
    const char *name, *file;
    const char *argv[MAX_ITEMS];
    struct settings want;
} merges[] = {
    {"nothing", NULL, {NULL}, {12, 0, 0, 1, 3e-4, 1, false, NULL, (char *)"runs/last"}},
    {"an empty file", "", {NULL}, {12, 0, 0, 1, 3e-4, 1, false, NULL, (char *)"runs/last"}},
    {"comments only",
     "# model:\n#   layers: 3\n",
     {NULL},
     {12, 0, 0, 1, 3e-4, 1, false, NULL, (char *)"runs/last"}},
    {"a file",
     "model: {layers: 3, seed: 9007199254740992}\ndata:\n  train: a.bin\n  shuffle: true\n"
     "optim:\n  lr: 1e-3\n  clip: off\n  precision: bf16\nlog:\n  threads: 4\n  dir: x\n",
     {NULL},
     {3, 1, 4, 9007199254740992, 1e-3, 0, true, (char *)"a.bin", (char *)"x"}},
    {"flags",
     NULL,
     {"--model.layers=5", "--optim.lr", "2e-3", "--data.train=", "--log.threads=auto"},
     {5, 0, 0, 1, 2e-3, 1, false, NULL, (char *)"runs/last"}},
    {"flags override the file",
     "optim: {lr: 1e-3, clip: 2}\nlog: {dir: file}\n",
     {"--optim.lr=5e-3", "--log.dir", "flag"},
     {12, 0, 0, 1, 5e-3, 2, false, NULL, (char *)"flag"}},
    {"other arguments are left alone",
     NULL,
     {"x.yaml", "--print-config", "--optim.precision=fp8", "--", "--optim.lr=1"},
     {12, 2, 0, 1, 3e-4, 1, false, NULL, (char *)"runs/last"}},
    {"the last one of two equal flags is used",
     "optim: {lr: 1}\n",
     {"--optim.lr=2", "--log.dir=a", "--optim.lr", "5e-3", "--log.dir=b"},
     {12, 0, 0, 1, 5e-3, 1, false, NULL, (char *)"b"}},
    {"a value that looks like a flag",
     NULL,
     {"--data.train", "--log.dir=x"},
     {12, 0, 0, 1, 3e-4, 1, false, (char *)"--log.dir=x", (char *)"runs/last"}},
    {"0 for off, and no negative zero",
     "optim: {clip: 0, lr: -0}\n",
     {NULL},
     {12, 0, 0, 1, 0, 0, false, NULL, (char *)"runs/last"}},
    {"a missing value is an empty text",
     "log:\n  dir:\ndata:\n  train: ~\n",
     {NULL},
     {12, 0, 0, 1, 3e-4, 1, false, NULL, NULL}},
    {"an empty section",
     "log:\ndata: {}\n",
     {NULL},
     {12, 0, 0, 1, 3e-4, 1, false, NULL, (char *)"runs/last"}},
    {"quotes",
     "data: {train: \"null\"}\nlog: {dir: 'a: b'}\noptim: {lr: \"0.5\"}\n",
     {NULL},
     {12, 0, 0, 1, 0.5, 1, false, (char *)"null", (char *)"a: b"}},
    {"anchors, aliases and tags do no harm",
     "model: {layers: &n 7}\nlog: {threads: *n}\ndata: {train: !!str 5}\n",
     {NULL},
     {7, 0, 7, 1, 3e-4, 1, false, (char *)"5", (char *)"runs/last"}},
};

static int count_args(const char *const *argv)
{
    int n = 0;
    while (n < MAX_ITEMS && argv[n] != NULL)
        n++;
    return n;
}

static enum weft_status merge(const char *file, const char *const *argv, struct settings *s,
                              struct weft_error *err)
{
    WEFT_TRY(wf_settings_init(list, s, err));
    enum weft_status st =
        file == NULL ? WEFT_OK : wf_settings_parse(list, file, strlen(file), "f.yaml", s, err);
    if (st == WEFT_OK)
        st = wf_settings_parse_flags(list, count_args(argv), (char **)argv, s, err);
    return st;
}

static void check_merge(void **state)
{
    const struct merge_case *c = *state;
    struct settings s;
    struct weft_error err = {.msg = ""};
    memset(&s, 0x55, sizeof s);
    if (merge(c->file, c->argv, &s, &err) != WEFT_OK)
        fail_msg("rejected: %s", err.msg);
    assert_same(&s, &c->want);
    wf_settings_release(list, &s);
    assert_null(s.dir);
}

static struct error_case {
    const char *name, *file;
    const char *argv[MAX_ITEMS];
    const char *error;
} errors[] = {
    /* Names. */
    {"a misspelt key",
     "optim:\n  lrr: 1\n",
     {NULL},
     "f.yaml:2:3: unknown setting optim.lrr: did you mean optim.lr?"},
    {"a misspelt section",
     "optm:\n  lr: 1\n",
     {NULL},
     "f.yaml:1:1: unknown section optm: did you mean optim?"},
    {"an unknown section",
     "qqqqqqqq: {}\n",
     {NULL},
     "f.yaml:1:1: unknown section qqqqqqqq: expected one of model, data, optim, log"},
    {"a key of another section",
     "model: {layers: 1}\nlog: {lr: 1}\n",
     {NULL},
     "f.yaml:2:7: unknown setting log.lr: did you mean optim.lr?"},
    {"an unknown key", "log: {qqqqqqqq: 1}\n", {NULL}, "unknown setting log.qqqqqqqq"},
    {"a key without a section", "lr: 1\n", {NULL}, "f.yaml:1:1: unknown section lr"},
    {"a misspelt flag",
     NULL,
     {"--optim.clp=1"},
     "--optim.clp: unknown setting optim.clp: "
     "did you mean optim.clip?"},
    {"a flag's misspelt section", NULL, {"--optimizer.lr=1"}, "did you mean optim.lr?"},
    {"an unknown flag without a value",
     NULL,
     {"--log.qqqqqqqq"},
     "unknown setting log.qqqqqqqq"},
    {"no key", NULL, {"--log.=1"}, "unknown setting log."},
    {"a merge key", "model: &m {layers: 1}\nlog: {<<: *m}\n", {NULL}, "unknown setting log.<<"},
    /* Twice. */
    {"a key twice", "optim:\n  lr: 1\n  lr: 1\n", {NULL}, "f.yaml:3:3: given twice: lr"},
    {"a section twice",
     "log: {}\nmodel: {}\nlog: {}\n",
     {NULL},
     "f.yaml:3:1: section given twice: log"},
    {"a flag twice, the last one wrong",
     NULL,
     {"--optim.lr=1", "--optim.lr", "much"},
     "--optim.lr: 'much' is not a number"},
    {"a flag twice, the first one wrong", NULL, {"--optim.lr=much", "--optim.lr=1"}, "'much'"},
    /* Values. */
    {"a fraction",
     "model:\n  layers: 1.5\n",
     {NULL},
     "f.yaml:2:11: model.layers: '1.5' is not a whole number; give 1 to 4096"},
    {"a negative number", "model: {layers: -1}\n", {NULL}, "'-1' is not a whole number"},
    {"a power", "model: {seed: 1e3}\n", {NULL}, "'1e3' is not a whole number"},
    {"too small", "model: {layers: 0}\n", {NULL}, "'0' is out of range; give 1 to 4096"},
    {"too large",
     NULL,
     {"--model.layers=4097"},
     "--model.layers: '4097' is out of range; give 1 to 4096"},
    {"beyond 32 bits", NULL, {"--model.layers=4294967297"}, "is out of range"},
    {"beyond 2^53",
     NULL,
     {"--model.seed=9007199254740994"},
     "is out of range; give 0 to 9007199254740992"},
    {"hundreds of digits",
     NULL,
     {"--model.seed=99999999999999999999999999999999999999999"},
     "is out of range"},
    {"not a number",
     NULL,
     {"--optim.lr=fast"},
     "--optim.lr: 'fast' is not a number; give 0 to 100"},
    {"half a number", NULL, {"--optim.lr=1e"}, "'1e' is not a number"},
    {"an empty number", "optim:\n  lr:\n", {NULL}, "optim.lr: '' is not a number"},
    {"infinity", NULL, {"--optim.lr=inf"}, "'inf' is not a number"},
    {"a number that overflows", NULL, {"--optim.lr=1e999"}, "'1e999' is out of range"},
    {"hexadecimal", NULL, {"--optim.lr=0x1"}, "'0x1' is not a number"},
    {"a blank", NULL, {"--optim.lr= 1"}, "' 1' is not a number"},
    {"between off and the minimum",
     NULL,
     {"--optim.clip=1e-9"},
     "'1e-9' is out of range; give off, or 0.001 to 1000000"},
    {"the word for 0 of another setting",
     NULL,
     {"--optim.clip=auto"},
     "'auto' is not a number"},
    {"not a switch value",
     "data: {shuffle: yes}\n",
     {NULL},
     "f.yaml:1:17: data.shuffle: 'yes' is not valid; give true or false"},
    {"an unknown choice",
     NULL,
     {"--optim.precision=fp16"},
     "--optim.precision: 'fp16' is not valid; give fp32, bf16, fp8"},
    {"part of a choice", NULL, {"--optim.precision=bf"}, "is not valid"},
    {"two choices", NULL, {"--optim.precision=fp32|bf16"}, "is not valid"},
    {"a list", "optim: {lr: [1, 2]}\n", {NULL}, "f.yaml:1:13: expected a single value"},
    {"a mapping", "optim: {lr: {a: 1}}\n", {NULL}, "expected a single value"},
    {"a list for a key", "optim: {[lr]: 1}\n", {NULL}, "expected a single value"},
    {"a number for a section",
     "optim: 5\n",
     {NULL},
     "f.yaml:1:8: expected 'key: value' lines in section optim"},
    {"a list of sections", "- optim\n", {NULL}, "expected sections with 'key: value' lines"},
    {"a NUL", "data: {train: \"a\\0b\"}\n", {NULL}, "NUL character in train"},
    {"invalid UTF-8", NULL, {"--data.train=a\xff"}, "--data.train: byte 1 is not valid UTF-8"},
    {"a flag without its value", NULL, {"--optim.lr"}, "--optim.lr needs a value"},
    /* Control characters never reach a terminal. */
    {"an escape in a value", "optim: {lr: \"\\e[2J\"}\n", {NULL}, "optim.lr: '?[2J' is not"},
    {"an escape in a key",
     "log: {\"\\e[2Jqqqqqqqq\": 1}\n",
     {NULL},
     "unknown setting log.?[2Jqqq"},
    {"an escape in a section", "\"\\e[2Jqqqqqqqq\": 1\n", {NULL}, "unknown section ?[2Jqqq"},
    {"an escape in a flag", NULL, {"--log.\x1b=1"}, "--log.?: unknown setting log.?"},
    /* Malformed YAML. */
    {"an unterminated mapping",
     "optim: {lr: 1\n",
     {NULL},
     "f.yaml:2:1: did not find expected ',' or '}'"},
    {"a tab", "optim:\n\tlr: 1\n", {NULL}, "f.yaml:2:1: found character that cannot start"},
    {"a control character",
     "log: {}\noptim: \x01\n",
     {NULL},
     "f.yaml:2:8: control characters are not allowed"},
    {"bytes that are not text", "log: {}\n\xff\n", {NULL}, "f.yaml:2:1: invalid leading UTF-8"},
    {"an alias of nothing", "log: *x\n", {NULL}, "f.yaml:1:6: found undefined alias"},
    {"two documents", "log: {}\n---\nlog: {}\n", {NULL}, "f.yaml: more than one document"},
};

static void check_error(void **state)
{
    const struct error_case *c = *state;
    struct settings s;
    struct weft_error err = {.msg = ""};
    assert_int_equal(merge(c->file, c->argv, &s, &err), WEFT_USAGE);
    assert_has(err.msg, c->error);
    wf_settings_release(list, &s);
}

/* Texts for which libyaml takes quadratic time are refused, and deep lists do not crash it. */
static void check_repeated(void **state)
{
    static const struct {
        const char *part, *error;
    } cases[] = {{"[", "f.yaml: too many nested brackets (20000; maximum 1000)"},
                 {"{", "f.yaml: too many nested brackets (20000; maximum 1000)"},
                 {"- &a 1\n", "f.yaml: too many anchors (&) (20000; maximum 1000)"},
                 {"%TAG !a! b\n", "f.yaml: too many directives (%) (20000; maximum 100)"},
                 {"%TAG !a! b\r", "f.yaml: too many directives (%) (20000; maximum 100)"},
                 {"- ", "f.yaml:1:1: expected sections"},
                 {"? ", "f.yaml:1:3: expected a single value"}};
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_text text = {0};
        struct settings s;
        struct weft_error err = {.msg = ""};
        for (int k = 0; k < 20000; k++)
            wf_text_adds(&text, cases[i].part);
        assert_int_equal(wf_settings_init(list, &s, NULL), WEFT_OK);
        assert_int_equal(wf_settings_parse(list, text.at, text.len, "f.yaml", &s, &err),
                         WEFT_USAGE);
        assert_has(err.msg, cases[i].error);
        wf_settings_release(list, &s);
        wf_text_release(&text);
    }
}

/* -- printing ------------------------------------------------------------------------------ */

static void check_printed(void **state)
{
    (void)state;
    static const char want[] =
        "model:\n"
        "  # layers (1 to 4096; default 12)\n"
        "  layers: 12\n"
        "  # of random numbers (0 to 9007199254740992; default 1)\n"
        "  seed: 1\n"
        "\n"
        "data:\n"
        "  # shards (default none)\n"
        "  train: \"\"\n"
        "  # in random order (true or false; default false)\n"
        "  shuffle: false\n"
        "\n"
        "optim:\n"
        "  # learning rate (0 to 100; default 3e-4)\n"
        "  lr: 0.0003\n"
        "  # maximum gradient norm (off, or 0.001 to 1000000; default 1)\n"
        "  clip: 1\n"
        "  # of numbers (fp32, bf16, fp8; default fp32)\n"
        "  precision: fp32\n"
        "\n"
        "log:\n"
        "  # of a rank (auto, or 1 to 1024; default auto)\n"
        "  threads: auto\n"
        "  # where to (default runs/last)\n"
        "  dir: runs/last\n";

    struct settings s;
    struct wf_text out = {0};

    assert_int_equal(wf_settings_init(list, &s, NULL), WEFT_OK);
    assert_same(&s, &defaults);
    wf_settings_print(list, &s, &out);
    assert_string_equal(out.at, want);
    wf_text_release(&out);
    wf_settings_release(list, &s);
}

static const char *const texts[] = {
    "a.bin",
    "/data/x-1_2.bin,y.bin",
    "no",
    "True",
    "null",
    "~",
    "",
    "5",
    "1e3",
    "-",
    "- a",
    "a: b",
    "a #b",
    "#a",
    "'a'",
    "\"a\"",
    "a\\b\\",
    "\ta\n\r\x01\x7f",
    " a ",
    "{a}",
    "[a]",
    "*a",
    "&a",
    "!a",
    "%a",
    "@a",
    "`a",
    "?",
    "|",
    ">",
    "...",
    "---",
    "\xc3\xa4\xe2\x82\xac\xf0\x9f\xa7\xb5",
    "\xc2\x85\xc2\x80\xc2\xa0",
    "\xe2\x80\xa8\xe2\x80\xa9",
    "\xef\xbb\xbf",
    "\xef\xbf\xbe\xef\xbf\xbf",
    "\xee\x80\x80\xef\xbf\xbd",
    "\xf0\x9f\xbf\xbf",
};

/* Printed and parsed settings are equal bit for bit. */
static void check_round_trip(void **state)
{
    (void)state;
    static const double reals[] = {0,  0.1, 1.0 / 3, 3e-4, 1e-300, 5e-324, 99.999999999999986,
                                   100};

    for (size_t i = 0; i < WEFT_LEN(texts); i++) {
        struct settings s, back;
        struct wf_text out = {0};
        struct weft_error err = {.msg = ""};
        assert_int_equal(wf_settings_init(list, &s, NULL), WEFT_OK);
        assert_int_equal(wf_settings_init(list, &back, NULL), WEFT_OK);
        assert_int_equal(wf_settings_set(list, "data.train", texts[i], &s, NULL), WEFT_OK);
        s.lr = reals[i % WEFT_LEN(reals)];
        s.clip = i % 2 != 0 ? 0 : 1.0 / 3;
        s.seed = UINT64_C(1) << i;
        s.threads = (uint32_t)i;
        s.precision = i % 3;
        s.shuffle = i % 2 == 0;
        wf_settings_print(list, &s, &out);
        if (wf_settings_parse(list, out.at, out.len, "f", &back, &err) != WEFT_OK)
            fail_msg("rejected: %s in\n%s", err.msg, out.at);
        assert_same(&back, &s);
        assert_string_equal(texts[i], back.train == NULL ? "" : back.train);
        wf_text_release(&out);
        wf_settings_release(list, &s);
        wf_settings_release(list, &back);
    }
}

static void check_longest(void **state)
{
    (void)state;
    char text[WF_SETTING_TEXT + 1];
    struct settings s;
    struct weft_error err;
    memset(text, 'a', sizeof text);
    text[WF_SETTING_TEXT] = '\0';
    assert_int_equal(wf_settings_init(list, &s, NULL), WEFT_OK);
    assert_int_equal(wf_settings_set(list, "log.dir", text, &s, &err), WEFT_USAGE);
    assert_has(err.msg, "log.dir: the text is too long (4096 bytes; maximum 4095)");
    assert_string_equal(s.dir, "runs/last");
    text[WF_SETTING_TEXT - 1] = '\0';
    assert_int_equal(wf_settings_set(list, "log.dir", text, &s, NULL), WEFT_OK);
    assert_string_equal(s.dir, text);
    wf_settings_release(list, &s);
}

static void check_default(void **state)
{
    (void)state;
    struct settings s;
    assert_int_equal(wf_settings_init(list, &s, NULL), WEFT_OK);
    for (size_t i = 0; i < list.n; i++)
        assert_true(wf_setting_is_default(&rows[i], &s));
    static const char *const others[] = {"11",  "2",    "x",   "true", "0.0003000000001",
                                         "off", "bf16", "512", "y"};
    for (size_t i = 0; i < list.n; i++) {
        char name[WF_SETTING_NAME];
        snprintf(name, sizeof name, "%s.%s", rows[i].section, rows[i].key);
        assert_ptr_equal(wf_setting_find(list, name), &rows[i]);
        assert_int_equal(wf_settings_set(list, name, others[i], &s, NULL), WEFT_OK);
        assert_false(wf_setting_is_default(&rows[i], &s));
    }
    assert_null(wf_setting_find(list, "model"));
    wf_settings_release(list, &s);
}

static void check_others(void **state)
{
    (void)state;
    static const char *const argv[] = {"a.yaml", "--json",  "--x.y=1", "-o",
                                       "b.c",    "--x.y",   "v",       "--out=a.b",
                                       "--",     "--x.y=1", "-"};
    static const char *const want[] = {"a.yaml",    "--json", "-o",      "b.c",
                                       "--out=a.b", "--",     "--x.y=1", "-"};
    char *others[WEFT_LEN(argv)];
    int n = wf_settings_other_args(WEFT_LEN(argv), (char **)argv, others);
    assert_int_equal(n, WEFT_LEN(want));
    for (int i = 0; i < n; i++)
        assert_string_equal(others[i], want[i]);
}

int main(void)
{
    static const struct CMUnitTest single[] = {
        cmocka_unit_test(check_repeated), cmocka_unit_test(check_printed),
        cmocka_unit_test(check_longest),  cmocka_unit_test(check_round_trip),
        cmocka_unit_test(check_others),   cmocka_unit_test(check_default),
    };
    struct CMUnitTest tests[WEFT_LEN(single) + WEFT_LEN(merges) + WEFT_LEN(errors)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(single); i++)
        tests[n++] = single[i];
    for (size_t i = 0; i < WEFT_LEN(merges); i++)
        tests[n++] = (struct CMUnitTest){merges[i].name, check_merge, NULL, NULL, &merges[i]};
    for (size_t i = 0; i < WEFT_LEN(errors); i++)
        tests[n++] = (struct CMUnitTest){errors[i].name, check_error, NULL, NULL, &errors[i]};
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL) != 0;
}
