/* Reads JSON text from front to back without building a tree, for files that are too large for
 * one.  A caller walks through the objects and arrays it needs and skips everything else.
 *
 *     bool more = false;
 *     WEFT_TRY(wf_scan_begin(&s, '{', &more));
 *     while (more) {
 *         struct wf_scan_text key;
 *         WEFT_TRY(wf_scan_key(&s, &key));
 *         WEFT_TRY(wf_scan_is(key, "rank") ? wf_scan_atom(&s, &rank) : wf_scan_skip(&s));
 *         WEFT_TRY(wf_scan_next(&s, '}', &more));
 *     }
 */
#ifndef PLANNING_TRACE_JSON_SCAN_H
#define PLANNING_TRACE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

enum { WF_SCAN_MAX_DEPTH = 64 }; /* of nested objects and arrays in a skipped value */

struct wf_scan {
    const char *source;           /* borrowed: the name of the text in error messages */
    const char *begin, *at, *end; /* borrowed: the text, and the read position */
    struct weft_error *err;       /* borrowed; may be NULL */
};

/* A piece of the text.  A string has no quotes, and its escape sequences are not decoded. */
struct wf_scan_text {
    const char *at; /* borrowed: from the text; NULL if the value is an object or an array */
    size_t len;
};

/* All functions return WEFT_DATA with the position if the text is not JSON. */

/* Reads the bracket '{' or '[' and stores whether the object or array has elements. */
enum weft_status wf_scan_begin(struct wf_scan *s, char bracket, bool *more);

/* Reads a comma or the closing bracket '}' or ']', and stores whether an element follows. */
enum weft_status wf_scan_next(struct wf_scan *s, char bracket, bool *more);

/* Reads a key of an object and the colon after it. */
enum weft_status wf_scan_key(struct wf_scan *s, struct wf_scan_text *out);

/* Reads a string, a number or a word.  An object or an array is skipped and gives NULL. */
enum weft_status wf_scan_atom(struct wf_scan *s, struct wf_scan_text *out);

/* Skips a value of any type. */
enum weft_status wf_scan_skip(struct wf_scan *s);

/* Checks that only blanks follow. */
enum weft_status wf_scan_end(struct wf_scan *s);

/* Returns the next character that is not a blank, or NUL at the end of the text. */
char wf_scan_peek(struct wf_scan *s);

/* Returns true if a piece equals a string, or begins with it. */
bool wf_scan_is(struct wf_scan_text t, const char *string);
bool wf_scan_begins(struct wf_scan_text t, const char *string);

/* Reads a decimal number such as 12.5 or 1e3 and stores it times 10^digits, rounded to the
 * nearest integer.  No double is involved, so that 4108074051493.491 us are exact in
 * nanoseconds (digits = 3).  Returns false if the text is not a number or the result is out of
 * range. */
bool wf_scan_decimal(struct wf_scan_text t, int digits, int64_t *out);

#endif
