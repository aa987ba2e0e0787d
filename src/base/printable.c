/* Text made safe to print. */
#include "base/printable.h"

#include <string.h>

static bool is_plain(char c)
{
    return c >= ' ' && c <= '~';
}

struct wf_printable wf_printable(const char *text)
{
    struct wf_printable out;
    size_t n = 0;
    for (; text[n] != '\0' && n + 1 < sizeof out.at; n++)
        out.at[n] = is_plain(text[n]) ? text[n] : '?';
    out.at[n] = '\0';
    if (text[n] != '\0')
        memcpy(out.at + n - 3, "...", 3);
    return out;
}

bool wf_is_printable(const char *text)
{
    while (is_plain(*text))
        text++;
    return *text == '\0';
}
