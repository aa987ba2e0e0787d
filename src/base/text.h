/* A growing piece of text.  A failed allocation is remembered and reported once, at the end. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

struct wf_text {
    char *at; /* owned; NUL-terminated once anything was added */
    size_t len, cap;
    bool failed;
};

void wf_text_add(struct wf_text *t, const char *bytes, size_t len);
void wf_text_adds(struct wf_text *t, const char *string);
void wf_text_addc(struct wf_text *t, char c);
void wf_text_addu(struct wf_text *t, unsigned long long number);
void wf_text_addf(struct wf_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void wf_text_release(struct wf_text *t);

/* The bytes of the one well-formed UTF-8 character at `text`, which ends in NUL; 0 when there is
 * none.  The NUL itself has one. */
int wf_utf8_length(const char *text);

/* What a noun has behind `n`: "1 rank", "2 ranks". */
static inline const char *wf_plural(unsigned long long n)
{
    return n == 1 ? "" : "s";
}

/* How far `a` is from `b` in single edits, whatever their case: for "did you mean". */
size_t wf_text_distance(const char *a, const char *b);

/* The name that a person may have meant: one that begins like what was written, else the one with
 * the least distance; NULL when none is near.  Names are found at `stride` bytes from each other:
 * the field of a table. */
const char *wf_text_nearest(const char *written, const char *const *names, size_t n,
                            size_t stride);

#endif
