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

enum { WF_SHOWN_SIZE = 1024 };

struct wf_shown {
    char at[WF_SHOWN_SIZE];
};

/* Returns the length in bytes of the character at `text`, or 0 if it must not reach a terminal:
 * a control character (as in escape sequences), a change of the writing direction, or invalid
 * UTF-8. */
size_t wf_shown_length(const char *text);

/* Returns a name or a message in a form that is safe to print on a terminal: every byte of a
 * character for which wf_shown_length() is 0 becomes '?'.  A text that is too long is truncated
 * and ends in "...". */
struct wf_shown wf_shown(const char *text);

/* Returns true if all bytes of the text are printable ASCII. */
bool wf_is_printable(const char *text);

#endif
