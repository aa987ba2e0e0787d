/* Splits text into pieces with the patterns of well-known vocabularies.  Byte-pair merges do not
 * cross pieces.
 *
 *     "Hello world's 42" -> "Hello" " world" "'s" " 42"
 *
 * Letters, numbers and white space are defined by Unicode.  A byte that is not part of a valid
 * UTF-8 character is a character that is neither letter nor number nor space.
 */
#ifndef TRAINING_DATA_TOKENIZER_SPLIT_H
#define TRAINING_DATA_TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

enum wf_split {
    WF_SPLIT_GPT2,   /* words with the preceding space; lower-case contractions */
    WF_SPLIT_LLAMA3, /* all contractions, numbers in groups of three digits, newlines together */
    WF_SPLIT_QWEN2,  /* the same with single digits */
};

/* Returns the pattern as written in tokenizer.json. */
const char *wf_split_pattern(enum wf_split split);

/* Finds the kind with this pattern.  Returns false if there is none. */
bool wf_split_find(const char *pattern, enum wf_split *out);

/* Returns the end of the piece that starts at `at` < len. */
size_t wf_split_piece_end(enum wf_split split, const char *text, size_t len, size_t at);

/* Returns a length at which a text that continues can be cut: the pieces of both parts are the
 * pieces of the whole.  It is the last such length that is found easily; 0: none. */
size_t wf_split_boundary(enum wf_split split, const char *text, size_t len);

#endif
