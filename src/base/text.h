/* A growing piece of text.  A failed allocation is remembered and reported once, at the end. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

struct weft_text {
    char *at; /* owned; NUL-terminated once anything was added */
    size_t len, cap;
    bool failed;
};

void weft_text_add(struct weft_text *t, const char *bytes, size_t len);
void weft_text_adds(struct weft_text *t, const char *string);
void weft_text_addc(struct weft_text *t, char c);
void weft_text_addu(struct weft_text *t, unsigned long long number);
void weft_text_addf(struct weft_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void weft_text_release(struct weft_text *t);

/* The bytes of the one well-formed UTF-8 character at `text`, which ends in NUL; 0 when there is
 * none.  The NUL itself has one. */
int weft_utf8_length(const char *text);

/* The shortest decimal text that reads back as the same double, into WEFT_NUMBER_CHARS. */
enum { WEFT_NUMBER_CHARS = 32 };
void weft_number_print(double value, char *out);

/* What a noun has behind `n`: "1 rank", "2 ranks". */
static inline const char *weft_plural(unsigned long long n)
{
    return n == 1 ? "" : "s";
}

/* How far `a` is from `b` in single edits, whatever their case: for "did you mean". */
size_t weft_text_distance(const char *a, const char *b);

/* The name that a person may have meant: one that begins like what was written, else the one with
 * the least distance; NULL when none is near.  Names are found at `stride` bytes from each other:
 * the field of a table. */
const char *weft_text_nearest(const char *written, const char *const *names, size_t n,
                              size_t stride);

#endif
