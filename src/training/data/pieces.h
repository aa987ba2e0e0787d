/* Splits text into pieces by a sequence of steps, as the pre-tokenizer of a tokenizer
 * describes.  Each step splits the pieces of the previous step, and byte-pair merges do not
 * cross pieces.
 *
 *     Digits, then GPT-2's pattern:   "in 2024 it" -> "in" " " "2" "0" "2" "4" " it"
 */
#ifndef TRAINING_DATA_PIECES_H
#define TRAINING_DATA_PIECES_H

#include "training/data/regex.h"
#include "training/data/tokenizer_split.h"

enum wf_step_kind {
    WF_STEP_PATTERN, /* one of the patterns of tokenizer_split.h */
    WF_STEP_REGEX,
    WF_STEP_DIGITS,      /* runs of numbers */
    WF_STEP_EACH_DIGIT,  /* single numbers */
    WF_STEP_PUNCTUATION, /* single punctuation characters */
};

/* What becomes of a match and of the text around it. */
enum wf_step_behavior {
    WF_STEP_ISOLATED,   /* each match is a piece */
    WF_STEP_CONTIGUOUS, /* adjacent matches are one piece */
    WF_STEP_WITH_PREVIOUS,
    WF_STEP_WITH_NEXT,
};

struct wf_step {
    enum wf_step_kind kind;
    enum wf_step_behavior behavior;
    enum wf_split pattern;
    struct wf_regex *regex; /* owned */
    /* The step follows the conversion of bytes to characters (see tokenizer_priv.h): each byte
     * is a character. */
    bool byte_chars;
};

enum { WF_STEPS_MAX = 8 };

struct wf_steps {
    struct wf_step at[WF_STEPS_MAX];
    size_t n; /* 0: a text is one piece */
};

void wf_steps_release(struct wf_steps *s);

/* Returns true if the only step is a pattern of tokenizer_split.h. */
static inline bool wf_steps_is_pattern(const struct wf_steps *s)
{
    return s->n == 1 && s->at[0].kind == WF_STEP_PATTERN;
}

/* The position in a text. */
struct wf_pieces_cursor {
    const char *text; /* borrowed */
    size_t len;
    size_t ends[WF_STEPS_MAX]; /* end of the current piece of each step; zero at first */
};

/* Returns the end of the piece that starts at `at` < len.  Calls must go through a text from
 * its start to its end. */
size_t wf_steps_piece_end(const struct wf_steps *s, struct wf_pieces_cursor *c, size_t at);

/* Returns a length at which a text can be cut if more text follows, as wf_split_boundary()
 * does, or 0 if no such length is found.  `by_words`: only before white space after a letter.
 * `normalized`: the text is normalized before it is split. */
size_t wf_steps_boundary(const struct wf_steps *s, bool by_words, bool normalized,
                         const char *text, size_t len);

#endif
