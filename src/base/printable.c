/* Makes text safe to print. */
#include "base/printable.h"

#include <string.h>

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

bool wf_is_printable(const char *text)
{
    while (wf_is_printable_char(*text))
        text++;
    return *text == '\0';
}
