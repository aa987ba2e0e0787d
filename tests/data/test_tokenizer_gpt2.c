/* Tests GPT-2's vocabulary, if $WEFT_GPT2_DIR is a folder with it: strings that are hard to
 * split yield the tokens of the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "data/token_help.h"
#include "folder.h"
#include "training/data/tokenizer.h"

static struct weft_tokenizer *open_gpt2(void)
{
    const char *dir = getenv("WEFT_GPT2_DIR");
    struct weft_tokenizer *t = NULL;
    struct weft_error err = {.msg = ""};
    if (dir == NULL) {
        print_message("skipped: set WEFT_GPT2_DIR to a folder with GPT-2's vocab.json and "
                      "merges.txt\n");
        skip();
    }
    if (weft_tokenizer_open(dir, &t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return t;
}

static size_t check_file(const struct weft_tokenizer *t)
{
    FILE *in = fopen(WEFT_TEST_DATA "/tokenizer/gpt2_cases.jsonl", "rb");
    char line[4096];
    size_t n_cases = 0;
    assert_non_null(in);

    for (; fgets(line, sizeof line, in) != NULL; n_cases++) {
        json_t *root = json_loads(line, 0, NULL);
        const json_t *text = json_object_get(root, "text"), *ids = json_object_get(root, "ids");
        struct weft_tokens tokens = {0};
        size_t len = json_string_length(text);

        assert_true(json_is_string(text) && json_is_array(ids));
        assert_int_equal(weft_tokenizer_encode(t, json_string_value(text), len, &tokens, NULL),
                         WEFT_OK);

        assert_int_equal(tokens.len, json_array_size(ids));
        for (size_t i = 0; i < tokens.len; i++)
            assert_int_equal(tokens.at[i], json_integer_value(json_array_get(ids, i)));
        assert_decodes(t, &tokens, json_string_value(text), len);

        weft_tokens_release(&tokens);
        json_decref(root);
    }

    fclose(in);
    return n_cases;
}

static void check_cases(void **state)
{
    (void)state;
    struct weft_tokenizer *t = open_gpt2();
    assert_int_equal(weft_tokenizer_n_vocab(t), 50257);
    assert_int_equal(weft_tokenizer_eot(t), 50256);
    assert_int_equal(check_file(t), 20);
    weft_tokenizer_free(t);
}

/* The tokenizer.json that is written from these files is equivalent. */
static void check_saved(void **state)
{
    (void)state;
    struct weft_tokenizer *t = open_gpt2(), *again = NULL;
    struct folder f = folder_new();
    assert_int_equal(weft_tokenizer_save(t, f.path, NULL), WEFT_OK);
    assert_int_equal(weft_tokenizer_open(f.path, &again, NULL), WEFT_OK);
    assert_int_equal(weft_tokenizer_eot(again), 50256);
    assert_int_equal(check_file(again), 20);
    weft_tokenizer_free(again);
    weft_tokenizer_free(t);
    folder_remove(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_cases),
        cmocka_unit_test(check_saved),
    };
    return cmocka_run_group_tests_name("tokenizer gpt2", tests, NULL, NULL) != 0;
}
