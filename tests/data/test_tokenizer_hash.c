/* Tests the hash that identifies a tokenizer: what changes it, what does not, and its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "data/token_help.h"
#include "folder.h"
#include "training/data/tokenizer.h"

/* Computed with Python's hashlib from the definition in docs/formats/tokenizer.md. */
#define BYTES_HASH UINT64_C(0x084af64e696e7445)

static uint64_t hash_of(const struct wf_text *json)
{
    struct weft_tokenizer *t = NULL;
    struct weft_error err = {.msg = ""};
    if (wf_tokenizer_parse(json->at, json->len, "test", &t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    uint64_t hash = wf_tokenizer_hash(t);
    weft_tokenizer_free(t);
    return hash;
}

static uint64_t hash_with(const struct merges *m, bool as_lists, const char *step,
                          const char *more)
{
    struct wf_text json = {0};
    put_tokenizer(&json, m, as_lists, step, more);
    uint64_t hash = hash_of(&json);
    wf_text_release(&json);
    return hash;
}

static void check_bytes(void **state)
{
    (void)state;
    struct weft_tokenizer *t = NULL;
    assert_int_equal(weft_tokenizer_new_bytes(&t, NULL), WEFT_OK);
    assert_true(wf_tokenizer_hash(t) == BYTES_HASH);
    weft_tokenizer_free(t);
}

/* A tokenizer.json whose tokens are the bytes gives the same tokens as the byte tokenizer. */
static void check_bytes_in_json(void **state)
{
    (void)state;
    struct wf_text json = {0};
    wf_text_adds(&json, "{\"added_tokens\":[{\"id\":256,\"content\":\"<|endoftext|>\","
                        "\"special\":true}],\"pre_tokenizer\":" GPT2_STEP
                        ",\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        wf_text_adds(&json, b == 0 ? "\"" : ",\"");
        put_chars(&json, &byte, 1);
        wf_text_addf(&json, "\":%d", b);
    }
    wf_text_adds(&json, "}}}");
    assert_true(hash_of(&json) == BYTES_HASH);
    wf_text_release(&json);
}

/* Everything that changes the tokens of a text changes the hash; the form of the file does
 * not. */
static void check_differences(void **state)
{
    (void)state;
    struct merges m, other, swapped;
    random_merges(&m, 40, "abcd", 1);
    random_merges(&other, 40, "abcd", 2);
    swapped = m;
    memcpy(swapped.left[0], m.left[1], MAX_PIECE);
    memcpy(swapped.right[0], m.right[1], MAX_PIECE);
    memcpy(swapped.left[1], m.left[0], MAX_PIECE);
    memcpy(swapped.right[1], m.right[0], MAX_PIECE);

    uint64_t hash = hash_with(&m, false, GPT2_STEP, "");
    assert_true(hash == hash_with(&m, true, GPT2_STEP, ""));
    assert_true(hash == hash_with(&m, false, GPT2_STEP, ",\"dropout\":null"));

    assert_true(hash != hash_with(&other, false, GPT2_STEP, ""));
    assert_true(hash != hash_with(&swapped, false, GPT2_STEP, ""));
    assert_true(hash != hash_with(&m, false, LLAMA3_STEP, ""));
    assert_true(hash != hash_with(&m, false, GPT2_STEP, ",\"ignore_merges\":true"));
    m.n--;
    assert_true(hash != hash_with(&m, false, GPT2_STEP, ""));
}

/* A tokenizer keeps its hash when it is saved and opened again. */
static void check_saved(void **state)
{
    (void)state;
    struct folder dir = folder_new();
    struct wf_text json = {0};
    struct merges m;
    struct weft_tokenizer *t = NULL, *again = NULL;
    random_merges(&m, 40, "abcd", 3);
    put_tokenizer(&json, &m, false, GPT2_STEP, "");
    assert_int_equal(wf_tokenizer_parse(json.at, json.len, "test", &t, NULL), WEFT_OK);

    assert_int_equal(weft_tokenizer_save(t, dir.path, NULL), WEFT_OK);
    assert_int_equal(weft_tokenizer_open(dir.path, &again, NULL), WEFT_OK);
    assert_true(wf_tokenizer_hash(t) == wf_tokenizer_hash(again));

    weft_tokenizer_free(t);
    weft_tokenizer_free(again);
    wf_text_release(&json);
    folder_remove(&dir);
}

static void check_text(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0", "084AF64E696E7445", "084af64e696e744",
                                        "084af64e696e74450", "084af64e696e744 "};
    char text[WF_TOKENIZER_HASH_SIZE];
    uint64_t hash = 7;

    wf_tokenizer_hash_print(BYTES_HASH, text);
    assert_string_equal(text, "084af64e696e7445");
    assert_true(wf_tokenizer_hash_parse(text, &hash));
    assert_true(hash == BYTES_HASH);

    wf_tokenizer_hash_print(0, text);
    assert_string_equal(text, "");
    assert_true(wf_tokenizer_hash_parse("", &hash));
    assert_true(hash == 0);

    for (size_t i = 0; i < WEFT_LEN(wrong); i++)
        assert_false(wf_tokenizer_hash_parse(wrong[i], &hash));
    assert_true(hash == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_bytes),       cmocka_unit_test(check_bytes_in_json),
        cmocka_unit_test(check_differences), cmocka_unit_test(check_saved),
        cmocka_unit_test(check_text),
    };
    return cmocka_run_group_tests_name("tokenizer hash", tests, NULL, NULL) != 0;
}
