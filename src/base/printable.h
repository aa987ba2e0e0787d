/* Text from files, made fit to be shown: no control or escape byte reaches a terminal. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

enum { WF_PRINTABLE_SIZE = 100 };

struct wf_printable {
    char at[WF_PRINTABLE_SIZE];
};

/* The text with '?' for every byte that is not printable ASCII, cut (and then ended by dots) where
 * it is too long:  WEFT_FAIL(err, WEFT_CKPT, "key '%s' ...", wf_printable(key).at) */
struct wf_printable wf_printable(const char *text);

/* Whether all of the text can be shown as it is. */
bool wf_is_printable(const char *text);

#endif
