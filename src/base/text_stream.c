/* A stream that writes to a text buffer. */
#define _GNU_SOURCE /* fopencookie */

#include "base/text.h"

static ssize_t add_bytes(void *cookie, const char *bytes, size_t n)
{
    struct wf_text *t = cookie;
    wf_text_add(t, bytes, n);
    return t->failed ? 0 : (ssize_t)n; /* 0 is an error */
}

FILE *wf_text_open(struct wf_text *t)
{
    FILE *out = fopencookie(t, "w", (cookie_io_functions_t){.write = add_bytes});
    t->failed = t->failed || out == NULL;
    return out;
}
