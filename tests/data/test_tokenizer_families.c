/* Tests tokenizers of several model families: small ones, with texts and tokens that the
 * tokenizers library recorded (tests/hf/record.py).  Also cuts texts everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "base/error.h"
#include "base/random.h"
#include "training/data/tokenizer.h"

static const char *families[] = {"qwen2", "deepseek", "starcoder", "falcon",
                                 "flags", "llama2",   "phi3",      "mistral",
                                 "gemma", "claude",   "metaspace", "gpt2_prefix"};

static struct weft_tokenizer *open_family(const char *family)
{
    char path[4096];
    struct weft_tokenizer *t = NULL;
    struct weft_error err = {.msg = ""};
    snprintf(path, sizeof path, "%s/tokenizer/%s.json", WEFT_TEST_DATA, family);
    if (weft_tokenizer_open(path, &t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return t;
}

static void assert_ids(const struct weft_tokens *have, const json_t *want)
{
    assert_int_equal(have->len, json_array_size(want));
    for (size_t i = 0; i < have->len; i++)
        assert_int_equal(have->at[i], json_integer_value(json_array_get(want, i)));
}

/* Encodes a text with and without the cache of words, twice. */
static void check_text(const struct weft_tokenizer *t, struct wf_encoder *e, const json_t *row)
{
    const json_t *text = json_object_get(row, "text");
    const char *at = json_string_value(text);
    size_t len = json_string_length(text);
    struct weft_tokens tokens = {0};

    assert_int_equal(weft_tokenizer_encode(t, at, len, &tokens, NULL), WEFT_OK);
    assert_ids(&tokens, json_object_get(row, "ids"));
    tokens.len = 0;
    assert_int_equal(weft_tokenizer_encode_special(t, at, len, &tokens, NULL), WEFT_OK);
    assert_ids(&tokens, json_object_get(row, "special"));
    for (int again = 0; again < 2; again++) {
        tokens.len = 0;
        assert_int_equal(wf_encoder_encode(e, at, len, &tokens, NULL), WEFT_OK);
        assert_ids(&tokens, json_object_get(row, "ids"));
        tokens.len = 0;
        assert_int_equal(wf_encoder_encode_special(e, at, len, &tokens, NULL), WEFT_OK);
        assert_ids(&tokens, json_object_get(row, "special"));
    }
    weft_tokens_release(&tokens);
}

/* The tokens of recorded texts are those of the tokenizers library. */
static void check_family(void **state)
{
    const char *family = *state;
    char path[4096], line[8192];
    struct weft_tokenizer *t = open_family(family);
    struct wf_encoder *e = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/tokenizer/%s.jsonl", WEFT_TEST_DATA, family);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(wf_encoder_new(t, &e, NULL), WEFT_OK);

    for (; fgets(line, sizeof line, in) != NULL; n++) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        check_text(t, e, row);
        json_decref(row);
    }

    assert_int_equal(n, 19);
    fclose(in);
    wf_encoder_free(e);
    weft_tokenizer_free(t);
}

/* -- cutting ------------------------------------------------------------------------------- */

static const char *const units[] = {"a",
                                    "the",
                                    " ",
                                    "  ",
                                    "\n",
                                    "x ",
                                    "1",
                                    ".",
                                    "e\xCC\x81",
                                    "'s",
                                    "\t",
                                    "\xE6\x97\xA5",
                                    "\xE3\x80\x82",
                                    "\xE3\x80\x82\n",
                                    "\xCC\xA7",
                                    "<|user|>",
                                    "<mask>",
                                    "word",
                                    "<a><b>",
                                    "\xE2\x96\x81",
                                    "</s>",
                                    "<0x0A>",
                                    "\xC2\xA0",
                                    "\xEF\xAC\x81",
                                    "<tool_call>",
                                    "newtoken",
                                    "\xC3"};

static void add_tokens(const struct weft_tokenizer *t, const char *text, size_t len,
                       unsigned flags, struct weft_tokens *out)
{
    struct wf_encoder *e = NULL;
    assert_int_equal(wf_encoder_new(t, &e, NULL), WEFT_OK);
    assert_int_equal(wf_encoder_encode_part(e, text, len, flags, out, NULL), WEFT_OK);
    wf_encoder_free(e);
}

/* Cuts a text where the tokenizer allows it if only the first `shown` bytes are known. */
static bool check_cut(const struct weft_tokenizer *t, const char *text, size_t len,
                      size_t shown, unsigned flags)
{
    struct weft_tokens whole = {0}, parts = {0};
    size_t cut = wf_tokenizer_boundary(t, text, shown);
    assert_true(cut <= shown);
    if (cut > 0) {
        add_tokens(t, text, len, flags, &whole);
        add_tokens(t, text, cut, flags, &parts);
        add_tokens(t, text + cut, len - cut, flags | WF_ENCODE_CONTINUES, &parts);
        if (whole.len != parts.len)
            fail_msg("cut at %zu: '%.*s|%.*s', %zu shown", cut, (int)cut, text,
                     (int)(len - cut), text + cut, shown);
        if (whole.len > 0)
            assert_memory_equal(whole.at, parts.at, whole.len * sizeof *whole.at);
    }
    weft_tokens_release(&whole);
    weft_tokens_release(&parts);
    return cut > 0;
}

/* A text can be encoded in parts, with any text after a cut. */
static void check_cuts(void **state)
{
    const char *family = *state;
    enum { LEN = 60 };
    struct weft_tokenizer *t = open_family(family);
    size_t n_cuts = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        char text[LEN];
        size_t n = 0;
        for (uint64_t i = 0;; i++) {
            const char *unit = units[wf_random_below(seed, 1, i, (uint32_t)WEFT_LEN(units))];
            if (n + strlen(unit) > LEN)
                break;
            memcpy(text + n, unit, strlen(unit));
            n += strlen(unit);
        }
        for (size_t shown = 1; shown <= n; shown += 3)
            n_cuts += check_cut(t, text, n, shown, seed % 2 == 0 ? 0 : WF_ENCODE_SPECIAL);
    }
    assert_true(n_cuts > 100); /* cuts are found */
    weft_tokenizer_free(t);
}

/* -- other properties ---------------------------------------------------------------------- */

static void check_ends(void **state)
{
    (void)state;
    struct weft_tokenizer *llama = open_family("llama2"), *qwen = open_family("qwen2");
    size_t n = 0;
    assert_int_equal(weft_tokenizer_eot(llama), 2); /* </s> */
    assert_int_equal(wf_tokenizer_prompt_prefix(llama, &n)[0], 1);
    assert_int_equal(n, 1);
    assert_true(wf_tokenizer_strips_space(llama));
    assert_false(wf_tokenizer_strips_space(qwen));
    (void)wf_tokenizer_prompt_prefix(qwen, &n);
    assert_int_equal(n, 0);

    struct weft_error err = {.msg = ""};
    int32_t end = weft_tokenizer_find(qwen, "<|im_end|>");
    assert_true(end >= 0 && end != weft_tokenizer_eot(qwen));
    assert_int_equal(wf_tokenizer_set_eot(qwen, "<|im_end|>", &err), WEFT_OK);
    assert_int_equal(weft_tokenizer_eot(qwen), end);
    assert_int_equal(wf_tokenizer_set_eot(qwen, "<none>", &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "'<none>'"));
    assert_int_equal(weft_tokenizer_eot(qwen), end);
    weft_tokenizer_free(llama);
    weft_tokenizer_free(qwen);
}

/* Different families have different identities. */
static void check_hashes(void **state)
{
    (void)state;
    uint64_t hashes[WEFT_LEN(families)];
    for (size_t i = 0; i < WEFT_LEN(families); i++) {
        struct weft_tokenizer *t = open_family(families[i]), *again = open_family(families[i]);
        hashes[i] = wf_tokenizer_hash(t);
        assert_true(hashes[i] == wf_tokenizer_hash(again));
        for (size_t k = 0; k < i; k++)
            assert_true(hashes[i] != hashes[k]);
        weft_tokenizer_free(t);
        weft_tokenizer_free(again);
    }
}

int main(void)
{
    enum { N = sizeof families / sizeof families[0] };
    struct CMUnitTest tests[2 * N + 2];
    size_t n = 0;
    for (size_t i = 0; i < N; i++)
        tests[n++] =
            (struct CMUnitTest){families[i], check_family, NULL, NULL, (void *)families[i]};
    for (size_t i = 0; i < N; i++)
        tests[n++] =
            (struct CMUnitTest){families[i], check_cuts, NULL, NULL, (void *)families[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_ends);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_hashes);
    return cmocka_run_group_tests_name("tokenizer families", tests, NULL, NULL) != 0;
}
