/* Cuts text into the pieces that byte-pair merges stay within, as the patterns of the well-known
 * vocabularies do.
 *
 *     "Hello world's 42" -> "Hello" " world" "'s" " 42"
 *
 * Letters, numbers and white space are what Unicode says.  A byte that belongs to no well-formed
 * UTF-8 character is a character of its own, neither letter nor number nor space.
 */
#ifndef TRAINING_DATA_TOKENIZER_SPLIT_H
#define TRAINING_DATA_TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

enum wf_split {
    WF_SPLIT_GPT2,   /* words with the space before them; contractions in small letters */
    WF_SPLIT_LLAMA3, /* any contractions, numbers by three digits, newlines together */
    WF_SPLIT_QWEN2,  /* the same with single digits */
};

/* The pattern as tokenizer.json has it. */
const char *wf_split_pattern(enum wf_split split);

/* The kind that has this pattern; false when there is none. */
bool wf_split_find(const char *pattern, enum wf_split *out);

/* Where the piece that begins at `at` ends; at < len, and a piece must begin there. */
size_t wf_split_piece_end(enum wf_split split, const char *text, size_t len, size_t at);

/* A place to cut text that goes on behind its end: the pieces of both parts, each split by itself,
 * are the pieces of the whole.  The last place that is easily found; 0 when there is none. */
size_t wf_split_boundary(enum wf_split split, const char *text, size_t len);

#endif
