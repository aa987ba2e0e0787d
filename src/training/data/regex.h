/* Regular expressions of tokenizers.
 *
 * A small subset, matched by backtracking: characters, classes with ranges and general
 * categories (\p{L}, \s, \d), groups, (?i:...), the quantifiers ? * + {n,m} and their
 * possessive forms, and look-ahead.  A group can be optional but not repeated, so matching
 * needs little stack.  Other syntax is refused. / */
#ifndef TRAINING_DATA_REGEX_H
#define TRAINING_DATA_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

struct wf_regex;

/* A text to search. */
struct wf_subject {
    const unsigned char *at; /* borrowed */
    size_t len;
    /* True: each byte is a character, the one that represents it in tokenizer files. */
    bool byte_chars;
    /* Set if the end of the text was seen: with more text, the result might be another. */
    bool saw_end;
};

/* Compiles a pattern.  Returns WEFT_DATA if its syntax is not supported; the message begins
 * with the position.  The caller owns *out. */
enum weft_status wf_regex_new(const char *pattern, struct wf_regex **out,
                              struct weft_error *err);
void wf_regex_free(struct wf_regex *r); /* NULL is allowed */

/* Returns the pattern.  Borrowed. */
const char *wf_regex_pattern(const struct wf_regex *r);

/* Returns the end of the match that starts at `at`, or `at` if there is none.  Empty matches
 * count as none. */
size_t wf_regex_match(const struct wf_regex *r, struct wf_subject *s, size_t at);

/* Returns true if no match contains an ASCII letter followed by ASCII white space. */
bool wf_regex_separates_words(const struct wf_regex *r);

/* Returns true if some part of the expression matches an ASCII letter. */
bool wf_regex_uses_letters(const struct wf_regex *r);

/* Returns true if all look-ahead is (?!\S) after white space. */
bool wf_regex_looks_for_space(const struct wf_regex *r);

/* Returns true if a match starts at every ASCII letter. */
bool wf_regex_matches_letters(const struct wf_regex *r);

#endif
