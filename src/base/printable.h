/* Makes text from files safe to print: no control or escape byte reaches a terminal. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

enum { WF_PRINTABLE_SIZE = 100 };

struct wf_printable {
    char at[WF_PRINTABLE_SIZE];
};

/* Returns true if `c` is a printable ASCII character. */
static inline bool wf_is_printable_char(char c)
{
    return c >= ' ' && c <= '~';
}

/* Copies `len` bytes, but at most size - 1, and appends a NUL.  Replaces every byte that is not
 * printable ASCII by '?'.  Returns the number of bytes copied. */
size_t wf_printable_copy(char *out, size_t size, const char *text, size_t len);

/* Returns the text with every byte that is not printable ASCII replaced by '?'.  A text that is
 * too long is truncated and ends in "...":
 *     WEFT_FAIL(err, WEFT_CKPT, "key '%s' ...", wf_printable(key).at) */
struct wf_printable wf_printable(const char *text);

/* Returns true if all bytes of the text are printable ASCII. */
bool wf_is_printable(const char *text);

#endif
