/* Makes text safe to print. */
#include "base/printable.h"

#include <string.h>

#include "base/text.h"

size_t wf_printable_copy(char *out, size_t size, const char *text, size_t len)
{
    size_t n = 0;
    for (; n < len && n + 1 < size; n++)
        out[n] = wf_is_printable_char(text[n]) ? text[n] : '?';
    out[n] = '\0';
    return n;
}

struct wf_printable wf_printable(const char *text)
{
    struct wf_printable out;
    size_t n = wf_printable_copy(out.at, sizeof out.at, text, strlen(text));
    if (text[n] != '\0')
        memcpy(out.at + n - 3, "...", 3);
    return out;
}

size_t wf_shown_length(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    int n = wf_utf8_length(text);
    bool control = c[0] < ' ' || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0);
    bool direction = n == 3 && c[0] == 0xe2 &&
                     ((c[1] == 0x80 && c[2] >= 0xaa && c[2] <= 0xae) ||
                      (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
    return n <= 0 || control || direction ? 0 : (size_t)n;
}

struct wf_shown wf_shown(const char *text)
{
    struct wf_shown out;
    size_t n = 0;
    while (*text != '\0' && n + 8 < sizeof out.at) {
        size_t len = wf_shown_length(text);
        out.at[n] = '?';
        memcpy(out.at + n, text, len);
        text += len == 0 ? 1 : len;
        n += len == 0 ? 1 : len;
    }
    out.at[n] = '\0';
    if (*text != '\0')
        memcpy(out.at + n, "...", sizeof "...");
    return out;
}

bool wf_is_printable(const char *text)
{
    while (wf_is_printable_char(*text))
        text++;
    return *text == '\0';
}
