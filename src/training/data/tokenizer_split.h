/* Splits text into pieces with the patterns of well-known vocabularies.  Byte-pair merges
 * do not cross pieces.
 *
 *     "Hello world's 42" -> "Hello" " world" "'s" " 42"
 *
 * Letters, numbers and white space are defined by Unicode.  A byte that is not part of a valid
 * UTF-8 character is treated as a character that is neither a letter nor a number nor white
 * space.
 */
#ifndef TRAINING_DATA_TOKENIZER_SPLIT_H
#define TRAINING_DATA_TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

enum wf_split {
    WF_SPLIT_GPT2, /* words include the preceding space; only lower-case contractions */
    /* Contractions in any case; numbers in groups of up to three digits; newlines in one
     * piece. */
    WF_SPLIT_LLAMA3,
    WF_SPLIT_QWEN2, /* like WF_SPLIT_LLAMA3, but each digit is a piece */
};

/* Returns the regular expression of a pattern as written in tokenizer.json. */
const char *wf_split_pattern(enum wf_split split);

/* Finds the wf_split value for a regular expression.  Returns false if there is none. */
bool wf_split_find(const char *pattern, enum wf_split *out);

/* Returns the end of the piece that starts at `at` < len. */
size_t wf_split_piece_end(enum wf_split split, const char *text, size_t len, size_t at);

/* Returns true if the last character of the piece from `begin` to `end` is white space. */
bool wf_split_ends_in_space(const char *text, size_t begin, size_t end);

/* Returns true if the piece from `begin` to `end` does not depend on text after `len`. */
bool wf_split_is_final(const char *text, size_t len, size_t begin, size_t end);

/* Returns the position of the last white space after a letter, both ASCII, within the last
 * `window` bytes, or 0 if there is none.  In all patterns a piece ends at such a position. */
size_t wf_split_cut_by_letter(const char *text, size_t len, size_t window);

/* Returns a length at which a text can be cut if more text follows: the pieces of both parts
 * are then the pieces of the whole text.  The result need not be the largest such length.
 * Returns 0 if no such length is found. */
size_t wf_split_boundary(enum wf_split split, const char *text, size_t len);

#endif
