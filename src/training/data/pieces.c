/* Implements the steps of a pre-tokenizer and finds where a text can be cut. */
#include "training/data/pieces.h"

#include "training/data/tokenizer_priv.h"
#include "training/data/unicode.h"

void wf_steps_release(struct wf_steps *s)
{
    for (size_t i = 0; i < s->n; i++)
        wf_regex_free(s->at[i].regex);
    *s = (struct wf_steps){.n = 0};
}

/* -- one step ------------------------------------------------------------------------------ */

static int32_t char_at(const struct wf_subject *s, size_t at, size_t *n)
{
    *n = 1;
    if (s->byte_chars)
        return (int32_t)wf_byte_to_char(s->at[at]);
    return s->at[at] < 0x80 ? s->at[at] : wf_unicode_at(s->at, s->len, at, n);
}

/* Returns the end of the match at `at`, or `at` if there is none. */
static size_t match_at(const struct wf_step *step, struct wf_subject *s, size_t at)
{
    size_t n = 0;
    if (at >= s->len) {
        s->saw_end = true;
        return at;
    }
    if (step->kind == WF_STEP_REGEX)
        return wf_regex_match(step->regex, s, at);

    s->saw_end = s->saw_end || at + 4 > s->len;
    int32_t c = char_at(s, at, &n);
    bool found = step->kind == WF_STEP_PUNCTUATION ? wf_unicode_is_punctuation(c)
                 : c < 0x80                        ? c >= '0' && c <= '9'
                                                   : wf_unicode_class(c) == WF_CHAR_NUMBER;
    return found ? at + n : at;
}

/* Returns the start of the next match from `at` on, or the length of the text if there is none.
 * Stops where more text might lead to a match. */
static size_t find_match(const struct wf_step *step, struct wf_subject *s, size_t at,
                         bool stops_at_end)
{
    size_t n;
    while (at < s->len) {
        if (match_at(step, s, at) > at || (stops_at_end && s->saw_end))
            return at;
        (void)char_at(s, at, &n);
        at += n;
    }
    s->saw_end = true;
    return s->len;
}

static size_t matches_end(const struct wf_step *step, struct wf_subject *s, size_t at)
{
    size_t end;
    while ((end = match_at(step, s, at)) > at)
        at = end;
    return at;
}

/* Returns the end of the piece that starts at `at`.  Sets *is_gap if the piece is text without
 * a match. */
static size_t matched_end(const struct wf_step *step, struct wf_subject *s, size_t at,
                          bool stops_at_end, bool *is_gap)
{
    size_t end = match_at(step, s, at);
    bool matches = end > at;
    *is_gap = false;

    switch (step->behavior) {
    case WF_STEP_CONTIGUOUS:
        if (matches)
            return matches_end(step, s, end);
        break;
    case WF_STEP_WITH_PREVIOUS:
        if (!matches)
            at = find_match(step, s, at, false);
        end = match_at(step, s, at);
        return end > at ? end : s->len;
    case WF_STEP_WITH_NEXT:
        if (matches && match_at(step, s, end) > end)
            return end;
        return find_match(step, s, matches ? end : at, false);
    case WF_STEP_ISOLATED:
        if (matches)
            return end;
        break;
    }

    *is_gap = true;
    return find_match(step, s, at, stops_at_end);
}

/* Returns the end of the piece of one step that starts at `at`, in a text of `len` bytes. */
static size_t step_end(const struct wf_step *step, const char *text, size_t len, size_t at)
{
    struct wf_subject s = {(const unsigned char *)text, len, step->byte_chars, false};
    bool is_gap;
    if (step->kind == WF_STEP_PATTERN)
        return wf_split_piece_end(step->pattern, text, len, at);
    return matched_end(step, &s, at, false, &is_gap);
}

size_t wf_steps_piece_end(const struct wf_steps *s, struct wf_pieces_cursor *c, size_t at)
{
    size_t limit = c->len;
    for (size_t i = 0; i < s->n; i++) {
        if (c->ends[i] <= at)
            c->ends[i] = step_end(&s->at[i], c->text, limit, at);
        limit = c->ends[i];
    }
    return limit;
}

/* -- cutting ------------------------------------------------------------------------------- */

/* Returns true if a piece always ends between an ASCII letter and ASCII white space. */
static bool separates_words(const struct wf_steps *s)
{
    bool covers = false;
    for (size_t i = 0; i < s->n; i++) {
        const struct wf_step *step = &s->at[i];
        covers = covers || step->kind == WF_STEP_PATTERN;
        if (step->kind != WF_STEP_REGEX)
            continue;
        if (step->behavior != WF_STEP_ISOLATED || !wf_regex_separates_words(step->regex) ||
            (step->byte_chars && wf_regex_uses_letters(step->regex)))
            return false;
        covers = covers || (!step->byte_chars && wf_regex_matches_letters(step->regex));
    }
    return covers;
}

/* Returns the end of the last piece that depends neither on text after `len`, from `at` on, nor
 * on text after the piece, or `at` if there is none.  Goes into text without matches, which
 * later steps split. */
static size_t last_final(const struct wf_steps *s, size_t level, const char *text, size_t len,
                         size_t at)
{
    const struct wf_step *step = &s->at[level];
    struct wf_subject subject = {(const unsigned char *)text, len, step->byte_chars, false};
    size_t final = at, end;
    for (; at < len; at = end) {
        bool is_gap = false;
        if (step->kind == WF_STEP_PATTERN) {
            end = wf_split_piece_end(step->pattern, text, len, at);
            final = wf_split_is_final(text, len, at, end) ? end : final;
            continue;
        }

        end = matched_end(step, &subject, at, true, &is_gap);
        if (subject.saw_end) {
            size_t inner =
                is_gap && level + 1 < s->n ? last_final(s, level + 1, text, end, at) : at;
            return inner > at ? inner : final;
        }
        /* The end of white space depends on what follows it. */
        final = wf_split_ends_in_space(text, at, end) ? final : end;
    }
    return final;
}

/* Returns true if look-ahead in the steps is only used for the end of white space. */
static bool looks_ahead_for_space(const struct wf_steps *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].kind == WF_STEP_REGEX && !wf_regex_looks_for_space(s->at[i].regex))
            return false;
    return true;
}

/* Returns the last position after a newline that is between two characters of Chinese, Japanese
 * or Korean text, within the last `window` bytes, or 0 if there is none.  In all patterns a
 * piece ends there, and normalization does not change these characters across the position. */
static size_t cut_by_line(const unsigned char *s, size_t len, size_t window)
{
    size_t stop = len > window ? len - window : 4, n;
    for (size_t i = len > 3 ? len - 3 : 0; i > stop && i > 4; i--) {
        if (s[i - 1] != '\n')
            continue;
        size_t before = wf_unicode_before(s, i - 5, i - 1);
        int32_t left = wf_unicode_at(s, len, before, &n), right = wf_unicode_at(s, len, i, &n);
        bool wide = left >= 0x3001 && left <= 0x9FFF && wf_unicode_starts_chunk(left);
        if (wide && wf_unicode_class(right) == WF_CHAR_LETTER && right >= 0x3041 &&
            wf_unicode_starts_chunk(right))
            return i;
    }
    return 0;
}

size_t wf_steps_boundary(const struct wf_steps *s, bool by_words, bool normalized,
                         const char *text, size_t len)
{
    enum { WINDOW = 1 << 16 };
    const unsigned char *bytes = (const unsigned char *)text;
    size_t cut = separates_words(s) ? wf_split_cut_by_letter(text, len, WINDOW) : 0;
    if (cut > 0 || by_words)
        return cut;
    if (wf_steps_is_pattern(s))
        cut = cut_by_line(bytes, len, WINDOW);
    if (cut > 0 || normalized || s->n == 0 || !looks_ahead_for_space(s))
        return cut;
    return last_final(s, 0, text, len, 0);
}
