/* A growing text buffer, UTF-8, and distances between names.  A failed allocation sets
 * `failed`; later additions do nothing, so callers check `failed` once, at the end. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "weft/status.h"

struct wf_text {
    char *at; /* owned; NUL-terminated after the first addition, NULL before */
    size_t len, cap;
    bool failed;
};

/* Appends bytes. */
void wf_text_add(struct wf_text *t, const char *bytes, size_t len);

/* Appends a string. */
void wf_text_adds(struct wf_text *t, const char *string);

/* Appends a character. */
void wf_text_addc(struct wf_text *t, char c);

/* Appends a decimal number. */
void wf_text_addu(struct wf_text *t, unsigned long long number);

/* Appends formatted text. */
void wf_text_addf(struct wf_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns a stream that appends to `t`, or NULL without memory; the caller closes it before it
 * reads `t`.  Use it instead of open_memstream(), which drops bytes silently without memory:
 * here `failed` is set. */
FILE *wf_text_open(struct wf_text *t);

/* Frees the buffer. */
void wf_text_release(struct wf_text *t);

/* Returns the number of bytes of the first UTF-8 character of the NUL-terminated `text`, or 0
 * if its bytes are malformed.  For an empty text the result is 1, the length of the NUL. */
int wf_utf8_length(const char *text);

/* Returns true if a string is valid UTF-8. */
bool wf_is_utf8(const char *text);

/* Returns the plural ending ("s" or "") of a noun after the number `n`: "1 rank", "2 ranks". */
static inline const char *wf_plural(unsigned long long n)
{
    return n == 1 ? "" : "s";
}

/* Returns the edit distance between two names, ignoring case. */
size_t wf_text_distance(const char *a, const char *b);

/* Returns the name that is most similar to `written`, for a "did you mean" message: a name that
 * begins with `written`, or else the name with the minimum edit distance.  Returns NULL if no
 * name is similar.  Consecutive names are `stride` bytes apart, so that the names can be a
 * field of a table. */
const char *wf_text_nearest(const char *written, const char *const *names, size_t n,
                            size_t stride);

#endif
