/* Scanner for large JSON texts.  It checks the structure of the text, but not the escape
 * sequences and the UTF-8 of strings. */
#include "planning/trace/json_scan.h"

#include <limits.h>
#include <string.h>

#include "base/error.h"

static enum weft_status fail_here(struct wf_scan *s, const char *expected)
{
    return WEFT_FAIL(
        s->err, WEFT_DATA, "%.80s: byte %zu: %s%s", s->source, (size_t)(s->at - s->begin) + 1,
        s->at == s->end ? "the JSON text is incomplete; expected " : "expected ", expected);
}

char wf_scan_peek(struct wf_scan *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
    return s->at < s->end ? *s->at : '\0';
}

enum weft_status wf_scan_begin(struct wf_scan *s, char bracket, bool *more)
{
    if (wf_scan_peek(s) != bracket)
        return fail_here(s, bracket == '{' ? "an object, {" : "an array, [");
    s->at++;
    *more = wf_scan_peek(s) != (bracket == '{' ? '}' : ']');
    if (!*more)
        s->at++;
    return WEFT_OK;
}

enum weft_status wf_scan_next(struct wf_scan *s, char bracket, bool *more)
{
    char c = wf_scan_peek(s);
    if (c != ',' && c != bracket)
        return fail_here(s, bracket == '}' ? ", or }" : ", or ]");
    s->at++;
    *more = c == ',';
    return WEFT_OK;
}

static enum weft_status read_string(struct wf_scan *s, struct wf_scan_text *out)
{
    const char *begin = s->at + 1, *at = begin;
    for (;;) {
        const char *quote = memchr(at, '"', (size_t)(s->end - at));
        if (quote == NULL) {
            s->at = s->end;
            return fail_here(s, "the closing quote of a string");
        }
        const char *slash = quote;
        while (slash > at && slash[-1] == '\\')
            slash--;
        at = quote + 1;
        if ((quote - slash) % 2 != 0)
            continue; /* the quote is escaped */
        *out = (struct wf_scan_text){begin, (size_t)(quote - begin)};
        s->at = at;
        return WEFT_OK;
    }
}

enum weft_status wf_scan_key(struct wf_scan *s, struct wf_scan_text *out)
{
    if (wf_scan_peek(s) != '"')
        return fail_here(s, "a key in quotes");
    WEFT_TRY(read_string(s, out));
    if (wf_scan_peek(s) != ':')
        return fail_here(s, ": after a key");
    s->at++;
    return WEFT_OK;
}

static bool is_word_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '-' || c == '+' || c == '.';
}

/* Reads a number, true, false or null.  Python also writes NaN and Infinity. */
static enum weft_status read_word(struct wf_scan *s, struct wf_scan_text *out)
{
    const char *begin = s->at;
    while (s->at < s->end && is_word_char(*s->at))
        s->at++;
    if (s->at == begin)
        return fail_here(s, "a value");
    *out = (struct wf_scan_text){begin, (size_t)(s->at - begin)};
    return WEFT_OK;
}

/* Skips nested objects and arrays.  `open` has one bit per level: 1 for an object. */
static enum weft_status skip_nested(struct wf_scan *s)
{
    uint64_t open = 0;
    unsigned depth = 0;
    bool more = true;
    do {
        struct wf_scan_text ignored;
        if (more && depth > 0 && (open & 1))
            WEFT_TRY(wf_scan_key(s, &ignored));
        char c = more ? wf_scan_peek(s) : ' ';
        if (more && (c == '{' || c == '[')) {
            if (depth == WF_SCAN_MAX_DEPTH)
                return fail_here(s, "at most 64 nested objects and arrays");
            depth++;
            open = open << 1 | (c == '{');
            WEFT_TRY(wf_scan_begin(s, c, &more));
            if (more)
                continue; /* read the first element */
        } else if (more) {
            WEFT_TRY(c == '"' ? read_string(s, &ignored) : read_word(s, &ignored));
            WEFT_TRY(wf_scan_next(s, open & 1 ? '}' : ']', &more));
            if (more)
                continue;
        }
        /* An object or array is complete. */
        depth--;
        open >>= 1;
        if (depth > 0)
            WEFT_TRY(wf_scan_next(s, open & 1 ? '}' : ']', &more));
    } while (depth > 0);
    return WEFT_OK;
}

enum weft_status wf_scan_atom(struct wf_scan *s, struct wf_scan_text *out)
{
    char c = wf_scan_peek(s);
    if (c == '"')
        return read_string(s, out);
    if (c != '{' && c != '[')
        return read_word(s, out);
    *out = (struct wf_scan_text){NULL, 0};
    return skip_nested(s);
}

enum weft_status wf_scan_skip(struct wf_scan *s)
{
    struct wf_scan_text ignored;
    return wf_scan_atom(s, &ignored);
}

enum weft_status wf_scan_end(struct wf_scan *s)
{
    wf_scan_peek(s);
    return s->at == s->end ? WEFT_OK : fail_here(s, "the end of the text");
}

/* -- pieces --------------------------------------------------------------------------------- */

bool wf_scan_begins(struct wf_scan_text t, const char *string)
{
    size_t n = strlen(string);
    return t.at != NULL && t.len >= n && memcmp(t.at, string, n) == 0;
}

bool wf_scan_is(struct wf_scan_text t, const char *string)
{
    return t.len == strlen(string) && wf_scan_begins(t, string);
}

/* The digits of a number without the point, and the power of ten by which to multiply them. */
struct decimal {
    uint64_t value;
    long exponent;
    bool negative, any, full; /* full: the next digit does not fit; later digits are dropped */
    unsigned dropped;         /* the first dropped digit, for rounding */
};

static void add_digit(struct decimal *d, unsigned digit, bool fraction)
{
    d->any = true;
    if (!d->full && d->value <= (UINT64_MAX - 9) / 10) {
        d->value = d->value * 10 + digit;
        d->exponent -= fraction;
        return;
    }
    if (!d->full)
        d->dropped = digit;
    d->full = true;
    d->exponent += !fraction;
}

/* Reads the exponent after 'e'.  Returns false if it is malformed or huge. */
static bool read_exponent(const char *at, const char *end, long *out)
{
    bool negative = at < end && *at == '-';
    long value = 0;
    at += at < end && (*at == '-' || *at == '+');
    if (at == end)
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9' || value > 1000)
            return false;
        value = value * 10 + (*at - '0');
    }
    *out = negative ? -value : value;
    return true;
}

/* Multiplies the digits by the power of ten and rounds half away from zero. */
static bool scale_decimal(struct decimal *d)
{
    for (; d->exponent > 0 && d->value > 0; d->exponent--)
        if (__builtin_mul_overflow(d->value, (uint64_t)10, &d->value))
            return false;
    for (; d->exponent < 0 && (d->value > 0 || d->dropped > 0); d->exponent++) {
        d->dropped = (unsigned)(d->value % 10);
        d->value /= 10;
    }
    d->value += d->dropped >= 5;
    return d->value <= INT64_MAX;
}

bool wf_scan_decimal(struct wf_scan_text t, int digits, int64_t *out)
{
    struct decimal d = {0};
    long exponent = 0;
    bool fraction = false;
    if (t.at == NULL || t.len == 0)
        return false;
    const char *at = t.at, *end = t.at + t.len;
    d.negative = *at == '-';
    for (at += d.negative; at < end; at++) {
        if (*at >= '0' && *at <= '9')
            add_digit(&d, (unsigned)(*at - '0'), fraction);
        else if (*at == '.' && !fraction)
            fraction = true;
        else
            break;
    }
    if (!d.any || (at < end && *at != 'e' && *at != 'E') ||
        (at < end && !read_exponent(at + 1, end, &exponent)))
        return false;
    d.exponent += exponent + digits;
    if (!scale_decimal(&d))
        return false;
    *out = d.negative ? -(int64_t)d.value : (int64_t)d.value;
    return true;
}
