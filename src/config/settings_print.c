/* Prints settings as YAML. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "config/settings.h"
#include "config/settings_priv.h"

static void add_number(double value, struct wf_text *out)
{
    char text[WF_NUMBER_CHARS];
    wf_number_print(value, text);
    wf_text_adds(out, text);
}

/* Appends a bound of the valid range.  Whole numbers are never printed as 1e+06. */
static void add_bound(const struct wf_setting *row, double value, struct wf_text *out)
{
    if (row->type == WF_SETTING_REAL)
        add_number(value, out);
    else
        wf_text_addu(out, (unsigned long long)value);
}

/* -- one value ------------------------------------------------------------------------------ */

static void add_choice(const char *choices, uint32_t which, struct wf_text *out)
{
    for (; which > 0; which--)
        choices += strcspn(choices, "|") + 1;
    wf_text_add(out, choices, strcspn(choices, "|"));
}

/* Returns the code point of a well-formed UTF-8 character of n bytes. */
static uint32_t code_point(const char *s, int n)
{
    uint32_t code = (unsigned char)s[0] & (n == 1 ? 0x7fu : 0xffu >> (n + 1));
    for (int i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)s[i] & 0x3f);
    return code;
}

/* Returns true for characters that YAML forbids or treats as line breaks. */
static bool needs_escape(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
           (c & 0xfffe) == 0xfffe;
}

/* Appends a text in double quotes, the only form of YAML that can represent every text. */
static void add_quoted(const char *text, struct wf_text *out)
{
    wf_text_addc(out, '"');
    while (*text != '\0') {
        int n = wf_utf8_length(text); /* never 0: store_text() accepts only UTF-8 */
        uint32_t c = code_point(text, n);
        if (c == '"' || c == '\\')
            wf_text_addf(out, "\\%c", (char)c);
        else if (needs_escape(c))
            wf_text_addf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        else
            wf_text_add(out, text, (size_t)n);
        text += n;
    }
    wf_text_addc(out, '"');
}

/* Returns true if every YAML reader accepts the text without quotes as a string: the text
 * starts with a letter, has no special character, and is not a word for true, false or null. */
static bool is_plain(const char *text)
{
    static const char *const words[] = {"y",   "n",    "yes",   "no",  "on",
                                        "off", "true", "false", "null"};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/"
                                  "0123456789_.-+,";
    if (memchr(letters, text[0], 53) == NULL || text[strspn(text, letters)] != '\0')
        return false;
    for (size_t i = 0; i < WEFT_LEN(words); i++)
        if (wf_text_distance(text, words[i]) == 0) /* the comparison ignores case */
            return false;
    return true;
}

static void add_text(const char *text, struct wf_text *out)
{
    if (text == NULL)
        wf_text_adds(out, "\"\"");
    else if (is_plain(text))
        wf_text_adds(out, text);
    else
        add_quoted(text, out);
}

void wf_setting_add_value(const struct wf_setting *row, const void *settings,
                          struct wf_text *out)
{
    double number = row->type == WF_SETTING_STRING ? 0 : wf_setting_number(row, settings);

    switch (row->type) {
    case WF_SETTING_COUNT:
    case WF_SETTING_LONG:
    case WF_SETTING_REAL:
        if (number == 0 && row->zero != NULL)
            wf_text_adds(out, row->zero);
        else
            add_bound(row, number, out);
        break;
    case WF_SETTING_SWITCH:
        wf_text_adds(out, number != 0 ? "true" : "false");
        break;
    case WF_SETTING_CHOICE:
        add_choice(row->choices, (uint32_t)number, out);
        break;
    case WF_SETTING_STRING:
        add_text(*(char *const *)((const char *)settings + row->offset), out);
        break;
    }
}

/* -- valid values --------------------------------------------------------------------------- */

void wf_setting_add_range(const struct wf_setting *row, struct wf_text *out)
{
    switch (row->type) {
    case WF_SETTING_COUNT:
    case WF_SETTING_LONG:
    case WF_SETTING_REAL:
        if (row->zero != NULL)
            wf_text_addf(out, "%s, or ", row->zero);
        add_bound(row, row->min, out);
        wf_text_adds(out, " to ");
        add_bound(row, row->max, out);
        if (row->quantity != WF_QUANTITY_PLAIN)
            wf_text_addf(out, " (%s)", wf_quantity_example(row->quantity));
        break;

    case WF_SETTING_SWITCH:
        wf_text_adds(out, "true or false");
        break;
    case WF_SETTING_CHOICE:
        for (const char *at = row->choices; *at != '\0'; at++)
            if (*at == '|')
                wf_text_adds(out, ", ");
            else
                wf_text_addc(out, *at);
        break;
    case WF_SETTING_STRING:
        wf_text_adds(out, "a text");
        break;
    }
}

/* -- the whole file ------------------------------------------------------------------------- */

/* Appends "# help (range; default x)". */
static void add_comment(const struct wf_setting *row, struct wf_text *out)
{
    wf_text_addf(out, "  # %s (", row->help);
    if (row->type != WF_SETTING_STRING) {
        wf_setting_add_range(row, out);
        wf_text_adds(out, "; ");
    }
    wf_text_addf(out, "default %s)\n", row->fallback[0] == '\0' ? "none" : row->fallback);
}

void wf_settings_print(struct wf_setting_list list, const void *settings, struct wf_text *out)
{
    const char *section = "";
    for (size_t i = 0; i < list.n; i++) {
        const struct wf_setting *row = &list.at[i];
        if (strcmp(row->section, section) != 0)
            wf_text_addf(out, "%s%s:\n", i > 0 ? "\n" : "", row->section);
        section = row->section;
        add_comment(row, out);
        wf_text_addf(out, "  %s: ", row->key);
        wf_setting_add_value(row, settings, out);
        wf_text_addc(out, '\n');
    }
}
