/* Tests tokenizers: against a slow reference, round trips, saved files, and invalid files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/input.h"
#include "data/token_help.h"
#include "folder.h"
#include "training/data/tokenizer.h"

static struct weft_tokenizer *parse(const struct wf_text *json)
{
    struct weft_tokenizer *t = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_tokenizer_parse(json->at, json->len, "test", &t, &err);
    if (st != WEFT_OK)
        fail_msg("%s", err.msg);
    return t;
}

static struct weft_tokenizer *make(const struct merges *m, const char *step, const char *more)
{
    struct wf_text json = {0};
    put_tokenizer(&json, m, false, step, more);
    struct weft_tokenizer *t = parse(&json);
    wf_text_release(&json);
    return t;
}

static void assert_tokens(const struct weft_tokens *have, const int32_t *want, size_t n)
{
    assert_int_equal(have->len, n);
    if (n > 0)
        assert_memory_equal(have->at, want, n * sizeof *want);
}

/* -- encoding ------------------------------------------------------------------------------ */

static void check_bytes(void **state)
{
    (void)state;
    struct weft_tokenizer *t = NULL;
    struct weft_tokens tokens = {0};
    char text[256];
    int32_t want[256];

    for (int i = 0; i < 256; i++) {
        text[i] = (char)i;
        want[i] = i;
    }

    assert_int_equal(weft_tokenizer_new_bytes(&t, NULL), WEFT_OK);
    assert_int_equal(weft_tokenizer_n_vocab(t), 257);
    assert_int_equal(weft_tokenizer_eot(t), 256);
    assert_int_equal(weft_tokenizer_find(t, "<|endoftext|>"), 256);
    assert_string_equal(weft_tokenizer_kind(t), "bytes");

    assert_int_equal(weft_tokenizer_encode(t, text, 256, &tokens, NULL), WEFT_OK);
    assert_tokens(&tokens, want, 256);
    assert_decodes(t, &tokens, text, 256);

    size_t len;
    assert_null(weft_tokenizer_token(t, 257, &len));
    assert_null(weft_tokenizer_token(t, -1, &len));

    weft_tokens_release(&tokens);
    weft_tokenizer_free(t);
}

/* Encodes short and long pieces of letters, with and without the cache. */
static void check_against_slow(void **state)
{
    (void)state;
    enum { LONG = 300 };

    for (uint64_t seed = 0; seed < 12; seed++) {
        struct merges m;
        random_merges(&m, 5 + 12 * (size_t)seed, seed % 2 == 0 ? "ab" : "abcd", seed);
        struct weft_tokenizer *t = make(&m, GPT2_STEP, "");
        struct wf_encoder *e = NULL;
        struct weft_tokens tokens = {0};
        assert_int_equal(wf_encoder_new(t, &e, NULL), WEFT_OK);

        for (uint64_t k = 0; k < 120; k++) {
            char text[LONG];
            int32_t want[LONG];
            size_t len = k < 80 ? k % 40 : 40 + wf_random_below(seed, 2, k, LONG - 40);
            for (size_t i = 0; i < len; i++)
                text[i] = "abcd"[wf_random_below(seed, 3 + k, i, 4) % (seed % 2 ? 4 : 2)];
            size_t n = slow_encode(&m, text, len, want);

            for (int again = 0; again < 3; again++) {
                tokens.len = 0;
                assert_int_equal(again == 0 ? weft_tokenizer_encode(t, text, len, &tokens, NULL)
                                            : wf_encoder_encode(e, text, len, &tokens, NULL),
                                 WEFT_OK);
                assert_tokens(&tokens, want, n);
            }
            assert_decodes(t, &tokens, text, len);
        }

        weft_tokens_release(&tokens);
        wf_encoder_free(e);
        weft_tokenizer_free(t);
    }
}

static struct merges hello = {
    4, {"h", "l", "he", " "}, {"e", "o", "l", "h"}}; /* 256 he, 257 lo, 258 hel, 259 " h" */

static struct known_case {
    const char *name, *step, *more, *text;
    size_t n;
    int32_t want[8];
} known[] = {
    {"the lowest rank first", GPT2_STEP, "", "hello", 2, {258, 257}},
    {"merges stay within pieces", GPT2_STEP, "", "h el", 4, {71, 220, 68, 75}},
    {"the lower rank wins a letter", GPT2_STEP, "", " he", 2, {220, 256}},
    {"ignore_merges takes whole pieces",
     GPT2_STEP,
     ",\"ignore_merges\":true",
     " h hel",
     3,
     {259, 220, 258}},
    {"special names are text", GPT2_STEP, "", "<|>", 3, {27, 91, 29}},
    {"three digits", LLAMA3_STEP, "", "1234", 4, {16, 17, 18, 19}},
    {"no text", GPT2_STEP, "", "", 0, {0}},
};

static void check_known(void **state)
{
    const struct known_case *c = *state;
    struct weft_tokenizer *t = make(&hello, c->step, c->more);
    struct weft_tokens tokens = {0};
    assert_int_equal(weft_tokenizer_n_vocab(t), 261);
    assert_int_equal(weft_tokenizer_eot(t), 260);
    assert_int_equal(weft_tokenizer_encode(t, c->text, strlen(c->text), &tokens, NULL),
                     WEFT_OK);
    assert_tokens(&tokens, c->want, c->n);
    weft_tokens_release(&tokens);
    weft_tokenizer_free(t);
}

/* Encodes arbitrary bytes with all patterns, whole and cut into parts. */
static void check_round_trips(void **state)
{
    (void)state;
    static const char *const steps[] = {GPT2_STEP, LLAMA3_STEP};
    struct merges m;
    random_merges(&m, 60, "ab 1\n.", 5);

    for (size_t s = 0; s < WEFT_LEN(steps); s++) {
        struct weft_tokenizer *t = make(&m, steps[s], "");
        for (uint64_t k = 0; k < 200; k++) {
            char text[200];
            struct weft_tokens whole = {0}, parts = {0};
            for (size_t i = 0; i < sizeof text; i++)
                text[i] = k % 3 == 0 ? (char)wf_random_below(k, 0, i, 256)
                                     : "ab 1\n.\xC3\xA9"[wf_random_below(k, 0, i, 8)];

            assert_int_equal(weft_tokenizer_encode(t, text, sizeof text, &whole, NULL),
                             WEFT_OK);
            assert_decodes(t, &whole, text, sizeof text);

            size_t cut = wf_tokenizer_boundary(t, text, 100);
            assert_int_equal(weft_tokenizer_encode(t, text, cut, &parts, NULL), WEFT_OK);
            assert_int_equal(
                weft_tokenizer_encode(t, text + cut, sizeof text - cut, &parts, NULL), WEFT_OK);
            assert_tokens(&parts, whole.at, whole.len);

            weft_tokens_release(&whole);
            weft_tokens_release(&parts);
        }
        weft_tokenizer_free(t);
    }
}

/* A word of a million letters does not take quadratic time. */
static void check_long_word(void **state)
{
    (void)state;
    enum { N = 1000000 };
    struct merges m = {3, {"a", "aa", "aaaa"}, {"a", "aa", "aaaa"}};
    struct weft_tokenizer *t = make(&m, GPT2_STEP, "");
    struct weft_tokens tokens = {0};
    char *text = malloc(N + 1);
    memset(text, 'a', N + 1);
    assert_int_equal(weft_tokenizer_encode(t, text, N + 1, &tokens, NULL), WEFT_OK);
    assert_int_equal(tokens.len, N / 8 + 1);
    assert_int_equal(tokens.at[N / 8 - 1], 258);
    assert_int_equal(tokens.at[N / 8], byte_id('a'));
    free(text);
    weft_tokens_release(&tokens);
    weft_tokenizer_free(t);
}

static struct whole_case {
    const char *bytes;
    size_t want;
} wholes[] = {
    {"", 0},
    {"a", 1},
    {"a\xC3", 1},
    {"a\xC3\xA9", 3},
    {"\xE6", 0},
    {"\xE6\x97", 0},
    {"\xE6\x97\xA5", 3},
    {"a\xF0\x9F\x91", 1},
    {"\xA5\xA5", 2},
    {"\xFF", 1},
    {"\xF0\x9F\x91\xA9", 4},
    {"\xA5\xA5\xA5\xA5", 4},
};

static void check_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(wholes); i++)
        assert_int_equal(wf_utf8_complete(wholes[i].bytes, strlen(wholes[i].bytes)),
                         wholes[i].want);
}

/* -- files --------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text, size_t len)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

static void assert_same_tokens(const struct weft_tokenizer *a, const struct weft_tokenizer *b)
{
    static const char text[] = "hello  hello he'll\n\n 12345 \xC3\xA9\xFF<|endoftext|>";
    struct weft_tokens x = {0}, y = {0};
    assert_int_equal(weft_tokenizer_n_vocab(a), weft_tokenizer_n_vocab(b));
    assert_int_equal(weft_tokenizer_eot(a), weft_tokenizer_eot(b));
    assert_int_equal(weft_tokenizer_encode(a, text, sizeof text, &x, NULL), WEFT_OK);
    assert_int_equal(weft_tokenizer_encode(b, text, sizeof text, &y, NULL), WEFT_OK);
    assert_tokens(&x, y.at, y.len);
    weft_tokens_release(&x);
    weft_tokens_release(&y);
}

/* vocab.json and merges.txt are equivalent to the tokenizer.json that is written from them. */
static void check_files(void **state)
{
    (void)state;
    struct folder f = folder_new();
    struct wf_text json = {0}, vocab = {0};
    static const char merges[] = "#version: 0.2\r\nh e\r\nl o\nhe l\n\xC4\xA0 h\n\n";
    put_tokenizer(&json, &hello, true, GPT2_STEP, "");
    wf_text_adds(&vocab, "{");
    put_vocab(&vocab, &hello);
    wf_text_adds(&vocab, ",\"<|endoftext|>\":260}");
    struct weft_tokenizer *want = parse(&json), *have = NULL;

    write_file(folder_in(&f, "vocab.json"), vocab.at, vocab.len);
    assert_int_equal(weft_tokenizer_open(f.path, &have, NULL), WEFT_DATA);
    write_file(folder_in(&f, "merges.txt"), merges, sizeof merges - 1);
    const char *const names[] = {"", "vocab.json", "merges.txt"};
    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        assert_int_equal(weft_tokenizer_open(folder_in(&f, names[i]), &have, NULL), WEFT_OK);
        assert_same_tokens(want, have);
        if (i > 0) {
            weft_tokenizer_free(have);
            continue;
        }
        assert_int_equal(weft_tokenizer_save(have, f.path, NULL), WEFT_OK);
        weft_tokenizer_free(have);
    }
    assert_int_equal(weft_tokenizer_open(folder_in(&f, "tokenizer.json"), &have, NULL),
                     WEFT_OK);
    assert_same_tokens(want, have);
    assert_int_equal(wf_tokenizer_save_as(have, folder_in(&f, "again.json"), NULL), WEFT_OK);
    weft_tokenizer_free(have);

    char *first = NULL, *second = NULL;
    size_t n_first, n_second;
    assert_int_equal(wf_input_read(folder_in(&f, "tokenizer.json"), &first, &n_first, NULL),
                     WEFT_OK);
    assert_int_equal(wf_input_read(folder_in(&f, "again.json"), &second, &n_second, NULL),
                     WEFT_OK);
    assert_string_equal(first, second);
    assert_int_equal(weft_tokenizer_save(want, folder_in(&f, "none"), NULL), WEFT_IO);
    free(first);
    free(second);
    weft_tokenizer_free(want);
    wf_text_release(&json);
    wf_text_release(&vocab);
    folder_remove(&f);
}

/* -- invalid and unsupported files --------------------------------------------------------- */

/* One part of a valid file is replaced. */
static struct bad_case {
    const char *name, *old, *new, *message;
} bad[] = {
    {"not JSON", "{\"added", "\"added", "line 1"},
    {"no model", "\"model\"", "\"motel\"", "has no model"},
    {"another model", "\"type\":\"BPE\"", "\"type\":\"Unigram\"", "model 'Unigram'"},
    {"byte fallback without tokens for bytes", "\"type\":\"BPE\",\"vocab\":{\"\xC4\x80\"",
     "\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"\xC4\x80!\"", "byte_fallback"},
    {"dropout", "\"type\":\"BPE\"", "\"type\":\"BPE\",\"dropout\":0.1", "dropout"},
    {"a suffix", "\"type\":\"BPE\"", "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"",
     "end_of_word_suffix"},
    {"a switch that is not a boolean", "\"type\":\"BPE\"",
     "\"type\":\"BPE\",\"ignore_merges\":1", "ignore_merges is neither"},
    {"a normalizer", "\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}",
     "normalizer 'Lowercase' is not supported (supported: NFC"},
    {"a normalizer in a sequence", "\"normalizer\":null",
     "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
     "\"StripAccents\"}]}",
     "normalizer 'StripAccents' is not supported"},
    {"two forms", "\"normalizer\":null",
     "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
     "\"NFKC\"}]}",
     "normalizer: 'NFKC' after another step"},
    {"another replacement", "\"normalizer\":null",
     "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"b\"}",
     "normalizer: Replace"},
    {"blanks replaced before ByteLevel", "\"normalizer\":null",
     "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
     "\"\xE2\x96\x81\"}",
     "normalizer: Replace is not supported with ByteLevel"},
    {"another decoder", "\"decoder\":{\"type\":\"ByteLevel\"}",
     "\"decoder\":{\"type\":\"Metaspace\"}", "decoder 'Metaspace'"},
    {"no ByteLevel", "\"pre_tokenizer\"", "\"pre\"", "pre_tokenizer has no ByteLevel"},
    {"another splitting", GPT2_STEP, "{\"type\":\"Whitespace\"}",
     "pre_tokenizer 'Whitespace' is not supported"},
    {"digits alone", GPT2_STEP, "{\"type\":\"Digits\"}", "has neither ByteLevel nor"},
    {"a prefix within a text", GPT2_STEP,
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"ByteLevel\"}]}",
     "add_prefix_space after another step"},
    {"another pattern", GPT2_STEP,
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+(?<!y)\"},\"behavior\":\"Isolated\"}",
     "pattern 'x+(?<!y)': at character 4: this group is not supported"},
    {"another behaviour", GPT2_STEP,
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+\"},\"behavior\":\"Removed\"}",
     "behavior 'Removed' of a Split"},
    {"an inverted split", GPT2_STEP,
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+\"},\"behavior\":\"Isolated\",\"invert\":"
     "true}",
     "invert of a Split"},
    {"an id twice", "\"hel\":258", "\"hel\":257", "id 257 is used twice"},
    {"an id below 0", "\"hel\":258", "\"hel\":-1", "token 'hel' has no id"},
    {"an id out of range", "\"hel\":258", "\"hel\":4000000000", "token 'hel' has no id"},
    {"an id that is text", "\"hel\":258", "\"hel\":\"258\"", "token 'hel' has no id"},
    {"a token twice", "\"hel\":258", "\"he\":258", "line 1"},
    {"an unknown token that is not there", "\"type\":\"BPE\",\"vocab\":{\"\xC4\x80\"",
     "\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"\xC4\x80!\"", "unk_token '<unk>'"},
    {"not byte-level", "\"hel\":258", "\"\xE2\x96\x81hel\":258", "represents no byte"},
    {"an empty token", "\"hel\":258", "\"\":258", "0 bytes"},
    {"a merge of an unknown token", "\"he l\"", "\"hello l\"", "merge 2 names a token"},
    {"a merge with an unknown result", "\"he l\"", "\"he h\"", "the result of merge 2"},
    {"a merge twice", "\"he l\"", "\"h e\"", "merge 2 is a duplicate"},
    {"half a merge", "\"he l\"", "\"hel\"", "merge 2 is not a pair"},
    {"a merge of three", "\"he l\"", "\"h e l\"", "merge 2 names a token"},
    {"a merge that is a number", "\"he l\"", "7", "merge 2 is not a pair"},
    {"merges that are not a list", "\"merges\":[", "\"merges\":{},\"m\":[",
     "merges is not a list"},
    {"an id far beyond the tokens", "\"id\":260", "\"id\":2000000",
     "has the id 2000000, but only"},
    {"an added id that is taken", "\"id\":260", "\"id\":5", "id 5 is used twice"},
    {"an added token without text", "\"content\":\"<|endoftext|>\"", "\"content\":\"\"",
     "no content"},
    {"a flag that is not a boolean", "\"special\":true", "\"special\":true,\"lstrip\":1",
     "lstrip is neither"},
    {"an added token with another id", "\"content\":\"<|endoftext|>\"", "\"content\":\"he\"",
     "token 'he' has the id 260 in added_tokens and 256 in vocab"},
    {"added tokens that are not a list",
     "\"added_tokens\":[{\"id\":260,\"content\":"
     "\"<|endoftext|>\",\"special\":true}]",
     "\"added_tokens\":7", "added_tokens is not a list"},
    {"bad UTF-8", "\"hel\":258", "\"h\xFF\":258", "line 1"},
};

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    struct wf_text good = {0}, text = {0};
    struct weft_tokenizer *t = NULL;
    struct weft_error err = {.msg = ""};
    put_tokenizer(&good, &hello, false, GPT2_STEP, "");
    const char *at = strstr(good.at, c->old);
    assert_non_null(at);
    wf_text_add(&text, good.at, (size_t)(at - good.at));
    wf_text_adds(&text, c->new);
    wf_text_adds(&text, at + strlen(c->old));
    assert_int_equal(wf_tokenizer_parse(text.at, text.len, "f.json", &t, &err), WEFT_DATA);
    assert_null(t);
    if (strncmp(err.msg, "f.json: ", 8) != 0 || strstr(err.msg, c->message) == NULL)
        fail_msg("'%s' lacks '%s'", err.msg, c->message);
    wf_text_release(&good);
    wf_text_release(&text);
}

/* Every truncated file is refused. */
static void check_truncated(void **state)
{
    (void)state;
    struct wf_text json = {0};
    put_tokenizer(&json, &hello, false, GPT2_STEP, "");
    for (size_t n = 0; n < json.len; n += 7) {
        struct weft_tokenizer *t = NULL;
        char *part = malloc(n + 1);
        memcpy(part, json.at, n);
        assert_int_equal(wf_tokenizer_parse(part, n, "f", &t, NULL), WEFT_DATA);
        free(part);
    }
    wf_text_release(&json);
}

int main(void)
{
    static const struct CMUnitTest plain[] = {
        cmocka_unit_test(check_bytes),       cmocka_unit_test(check_against_slow),
        cmocka_unit_test(check_round_trips), cmocka_unit_test(check_long_word),
        cmocka_unit_test(check_whole),       cmocka_unit_test(check_files),
        cmocka_unit_test(check_truncated),
    };
    struct CMUnitTest tests[WEFT_LEN(plain) + WEFT_LEN(known) + WEFT_LEN(bad)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(plain); i++)
        tests[n++] = plain[i];
    for (size_t i = 0; i < WEFT_LEN(known); i++)
        tests[n++] = (struct CMUnitTest){known[i].name, check_known, NULL, NULL, &known[i]};
    for (size_t i = 0; i < WEFT_LEN(bad); i++)
        tests[n++] = (struct CMUnitTest){bad[i].name, check_bad, NULL, NULL, &bad[i]};
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL) != 0;
}
