/* Compares SHA-256 and escaping with published examples and the rules of HTML and JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/escape.h"
#include "base/sha256.h"

/* Checks the examples of FIPS 180-4 and one length for each way of padding. */
static void check_sha256(void **state)
{
    static const struct {
        const char *text, *hex;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopq"
         "rlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };

    (void)state;
    for (size_t i = 0; i < WEFT_LEN(known); i++) {
        uint8_t hash[32];
        char hex[65];
        wf_sha256((const unsigned char *)known[i].text, strlen(known[i].text), hash);
        for (int k = 0; k < 32; k++)
            snprintf(hex + 2 * k, 3, "%02x", hash[k]);
        assert_string_equal(hex, known[i].hex);

        /* The same bytes in parts. */
        struct wf_sha256 parts;
        uint8_t again[32];
        wf_sha256_init(&parts);
        for (const char *at = known[i].text; *at != '\0'; at++)
            wf_sha256_add(&parts, at, 1);
        wf_sha256_finish(&parts, again);
        assert_memory_equal(again, hash, sizeof hash);
    }
}

static void check_escape(void **state)
{
    static const struct {
        void (*escape)(FILE *, const char *);
        const char *text, *want;
    } cases[] = {
        {wf_escape_markup, "a<b & 'c' > \"d\"", "a&lt;b &amp; &#39;c&#39; &gt; &quot;d&quot;"},
        {wf_escape_script, "</script>", "\"\\u003c/script\\u003e\""},
        {wf_escape_script, "a\"\\\n&", "\"a\\\"\\\\\\u000a\\u0026\""},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        cases[i].escape(out, cases[i].text);
        fclose(out);
        assert_string_equal(text, cases[i].want);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_sha256),
        cmocka_unit_test(check_escape),
    };
    return cmocka_run_group_tests_name("escape", tests, NULL, NULL) != 0;
}
