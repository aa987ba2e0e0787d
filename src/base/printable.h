/* Text from files made safe to print: no control or escape byte reaches a terminal. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

enum { WF_PRINTABLE_SIZE = 100 };

struct wf_printable {
    char at[WF_PRINTABLE_SIZE];
};

/* Returns true for printable ASCII. */
static inline bool wf_is_printable_char(char c)
{
    return c >= ' ' && c <= '~';
}

/* Copies `len` bytes, at most size - 1, with '?' for every byte that is not printable ASCII, and
 * appends a NUL.  Returns the number of bytes copied. */
size_t wf_printable_copy(char *out, size_t size, const char *text, size_t len);

/* Returns the text with '?' for every byte that is not printable ASCII.  A text that is too long is
 * truncated and ends in "...":
 *     WEFT_FAIL(err, WEFT_CKPT, "key '%s' ...", wf_printable(key).at) */
struct wf_printable wf_printable(const char *text);

/* Returns true if all bytes of the text are printable ASCII. */
bool wf_is_printable(const char *text);

#endif
