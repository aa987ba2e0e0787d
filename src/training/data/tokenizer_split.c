/* Implements the patterns as hand-written scanners.  The scanners look ahead but never back, so
 * the end of a piece depends only on the start of the piece and the text after it. */
#include "training/data/tokenizer_split.h"

#include <stdint.h>
#include <string.h>

#include "training/data/unicode.h"

#define DIGITS_PATTERN(digits)                                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                       \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const patterns[] = {
    [WF_SPLIT_GPT2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                      "\\s+(?!\\S)|\\s+",
    [WF_SPLIT_LLAMA3] = DIGITS_PATTERN("\\p{N}{1,3}"),
    [WF_SPLIT_QWEN2] = DIGITS_PATTERN("\\p{N}"),
};

const char *wf_split_pattern(enum wf_split split)
{
    return patterns[split];
}

bool wf_split_find(const char *pattern, enum wf_split *out)
{
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (strcmp(pattern, patterns[i]) == 0) {
            *out = (enum wf_split)i;
            return true;
        }
    return false;
}

/* -- characters ---------------------------------------------------------------------------- */

/* The class of each ASCII character. */
static const char ascii_classes[129] = "OOOOOOOOOSSSSSOOOOOOOOOOOOOOOOOO"
                                       "SOOOOOOOOOOOOOOONNNNNNNNNNOOOOOO"
                                       "OLLLLLLLLLLLLLLLLLLLLLLLLLLOOOOO"
                                       "OLLLLLLLLLLLLLLLLLLLLLLLLLLOOOOO";

static inline enum wf_char_class ascii_class(unsigned char c)
{
    return (enum wf_char_class)ascii_classes[c];
}

/* Returns the class of the character at s[at] and stores its length in bytes in *n. */
static inline enum wf_char_class class_at(const unsigned char *s, size_t len, size_t at,
                                          size_t *n)
{
    if (s[at] < 0x80) {
        *n = 1;
        return ascii_class(s[at]);
    }
    return wf_unicode_class(wf_unicode_at(s, len, at, n));
}

/* Returns the end of the run of characters of class `of` that starts at `at`. */
static size_t run_end(const unsigned char *s, size_t len, size_t at, enum wf_char_class of)
{
    size_t n;
    for (;;) {
        while (at < len && s[at] < 0x80 && ascii_class(s[at]) == of)
            at++;
        if (at >= len || s[at] < 0x80 || class_at(s, len, at, &n) != of)
            return at;
        at += n;
    }
}

static bool is_newline(unsigned char c)
{
    return c == '\n' || c == '\r';
}

/* -- common parts of patterns -------------------------------------------------------------- */

/* Returns the length of the contraction at `at`, or 0 if there is none.  A contraction is an
 * apostrophe followed by s, t, m, d, re, ve or ll. */
static size_t contraction(const unsigned char *s, size_t len, size_t at, bool any_case)
{
    unsigned char fold = any_case ? 0x20 : 0;
    if (s[at] != '\'' || at + 1 >= len)
        return 0;
    unsigned char a = s[at + 1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if (at + 2 >= len)
        return 0;
    unsigned char b = s[at + 2] | fold;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    /* Unicode case folding maps the long s, U+017F, to s. */
    return any_case && s[at + 1] == 0xC5 && s[at + 2] == 0xBF ? 3 : 0;
}

/* Returns the end of a piece of white space.  The last white-space character of a run belongs
 * to the next piece, unless the run is at the end of the text. */
static size_t space_end(const unsigned char *s, size_t len, size_t at)
{
    size_t end = at, last = at, n;
    while (end < len && class_at(s, len, end, &n) == WF_CHAR_SPACE) {
        last = end;
        end += n;
    }
    return end == len || last == at ? end : last;
}

/* -- the patterns -------------------------------------------------------------------------- */

static size_t next_gpt2(const unsigned char *s, size_t len, size_t at)
{
    size_t n = contraction(s, len, at, false);
    if (n > 0)
        return at + n;
    enum wf_char_class first = class_at(s, len, at, &n);
    if (s[at] == ' ' && at + 1 < len) {
        size_t m;
        enum wf_char_class second = class_at(s, len, at + 1, &m);
        if (second != WF_CHAR_SPACE)
            return run_end(s, len, at + 1 + m, second);
    }
    return first == WF_CHAR_SPACE ? space_end(s, len, at) : run_end(s, len, at + n, first);
}

static size_t numbers_end(const unsigned char *s, size_t len, size_t at, int max_digits)
{
    size_t n;
    for (int i = 0; i < max_digits && at < len && class_at(s, len, at, &n) == WF_CHAR_NUMBER;
         i++)
        at += n;
    return at;
}

static size_t others_end(const unsigned char *s, size_t len, size_t at)
{
    at = run_end(s, len, at, WF_CHAR_OTHER);
    while (at < len && is_newline(s[at]))
        at++;
    return at;
}

/* Returns the end of a piece of white space.  If the run of white space contains a newline, the
 * piece ends after the last newline. */
static size_t lines_end(const unsigned char *s, size_t len, size_t at)
{
    size_t end = run_end(s, len, at, WF_CHAR_SPACE);
    for (size_t i = end; i > at; i--)
        if (is_newline(s[i - 1]))
            return i;
    return space_end(s, len, at);
}

static size_t next_llama3(const unsigned char *s, size_t len, size_t at, int digits)
{
    size_t n = contraction(s, len, at, true), m;
    if (n > 0)
        return at + n;
    enum wf_char_class first = class_at(s, len, at, &n);
    if (first == WF_CHAR_LETTER)
        return run_end(s, len, at + n, WF_CHAR_LETTER);
    if (first == WF_CHAR_NUMBER)
        return numbers_end(s, len, at, digits);
    if (at + n < len && !is_newline(s[at])) {
        enum wf_char_class second = class_at(s, len, at + n, &m);
        if (second == WF_CHAR_LETTER)
            return run_end(s, len, at + n + m, WF_CHAR_LETTER);
        if (second == WF_CHAR_OTHER && s[at] == ' ')
            return others_end(s, len, at + n);
    }
    return first == WF_CHAR_OTHER ? others_end(s, len, at) : lines_end(s, len, at);
}

size_t wf_split_piece_end(enum wf_split split, const char *text, size_t len, size_t at)
{
    const unsigned char *s = (const unsigned char *)text;
    switch (split) {
    case WF_SPLIT_GPT2:
        return next_gpt2(s, len, at);
    case WF_SPLIT_LLAMA3:
        return next_llama3(s, len, at, 3);
    case WF_SPLIT_QWEN2:
        return next_llama3(s, len, at, 1);
    }
    return len;
}

/* -- cutting ------------------------------------------------------------------------------- */

size_t wf_split_cut_by_letter(const char *text, size_t len, size_t window)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t stop = len > window ? len - window : 0;
    for (size_t i = len; i > stop + 1; i--)
        if (s[i - 1] < 0x80 && s[i - 2] < 0x80 && ascii_class(s[i - 1]) == WF_CHAR_SPACE &&
            ascii_class(s[i - 2]) == WF_CHAR_LETTER)
            return i - 1;
    return 0;
}

bool wf_split_ends_in_space(const char *text, size_t begin, size_t end)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n;
    for (size_t i = end; i > begin && end - i < 4; i--)
        if (class_at(s, end, i - 1, &n) == WF_CHAR_SPACE && i - 1 + n == end)
            return true;
    return false;
}

bool wf_split_is_final(const char *text, size_t len, size_t begin, size_t end)
{
    enum { CHARACTER = 4 };
    /* If a piece does not end in white space, its end depends only on the next character.  This
     * character must be complete. */
    return len > CHARACTER && end <= len - CHARACTER &&
           !wf_split_ends_in_space(text, begin, end);
}

size_t wf_split_boundary(enum wf_split split, const char *text, size_t len)
{
    enum { WINDOW = 1 << 16 };
    size_t cut = wf_split_cut_by_letter(text, len, WINDOW);
    if (cut > 0)
        return cut;
    for (size_t at = 0; at < len;) {
        size_t end = wf_split_piece_end(split, text, len, at);
        if (wf_split_is_final(text, len, at, end))
            cut = end;
        at = end;
    }
    return cut;
}
