/* Checks that hostile text is made safe to print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/printable.h"

static void check_bytes(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        char text[] = {'a', (char)c, 'b', '\0'};
        int plain = c >= 0x20 && c <= 0x7e;
        struct wf_printable shown = wf_printable(text);
        assert_int_equal(shown.at[1], plain ? c : '?');
        assert_int_equal(shown.at[0], 'a');
        assert_string_equal(shown.at + 2, "b");
        assert_int_equal(wf_is_printable(text), plain);
    }
    assert_string_equal(wf_printable("").at, "");
    assert_true(wf_is_printable(""));
}

/* A text of 99 bytes is unchanged; a longer one is truncated and ends in "...". */
static void check_lengths(void **state)
{
    (void)state;
    char text[300];
    for (size_t n = 0; n < sizeof text; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        struct wf_printable shown = wf_printable(text);
        if (n < WF_PRINTABLE_SIZE) {
            assert_string_equal(shown.at, text);
        } else {
            assert_int_equal(strlen(shown.at), WF_PRINTABLE_SIZE - 1);
            assert_string_equal(shown.at + WF_PRINTABLE_SIZE - 5, "x...");
        }
    }
}

/* Control characters, changes of the writing direction and invalid bytes are replaced; other
 * characters stay. */
static void check_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {"runs/a b", "runs/a b"},
        {"donn\xc3\xa9"
         "es/\xe6\x96\x87/\xf0\x9f\x99\x82",
         "donn\xc3\xa9"
         "es/\xe6\x96\x87/\xf0\x9f\x99\x82"},
        {"a\033]0;title\007b", "a?]0;title?b"},
        {"a\n\t\r\x7f", "a????"},
        {"\xc2\x9b"
         "31m",
         "??31m"}, /* CSI as one character */
        {"\xe2\x80\xae"
         "gpj",
         "???gpj"}, /* right to left */
        {"\xe2\x81\xa6", "???"},
        {"\xff\xc3", "??"},
        {"\xc3(", "?("},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(wf_shown(cases[i].text).at, cases[i].want);

    char text[3 * WF_SHOWN_SIZE];
    for (size_t n = 0; n < sizeof text; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        struct wf_shown shown = wf_shown(text);
        assert_true(strlen(shown.at) < WF_SHOWN_SIZE);
        if (strcmp(shown.at, text) != 0) {
            assert_true(n > WF_SHOWN_SIZE - 10);
            assert_string_equal(shown.at + strlen(shown.at) - 4, "x...");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_bytes),
        cmocka_unit_test(check_lengths),
        cmocka_unit_test(check_shown),
    };
    return cmocka_run_group_tests_name("printable", tests, NULL, NULL) != 0;
}
