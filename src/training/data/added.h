/* Added tokens: names in a text that are tokens of their own, found before the text is split.
 *
 * Names are matched as the tokenizers library does: the leftmost name, and of several names at
 * the same position the longest. */
#ifndef TRAINING_DATA_ADDED_H
#define TRAINING_DATA_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct wf_added {
    char *name; /* owned */
    int32_t id;
    bool special;
    bool lstrip, rstrip; /* the token includes white space before or after it */
    bool single_word;    /* not found within a word */
    bool normalized;     /* found in the normalized text, else in the original text */
};

/* A set of names to search for. */
struct wf_added_set {
    struct wf_added_entry {
        char *text; /* owned: the name as it appears in the text */
        size_t len;
        size_t index; /* in the list of added tokens */
    } * at;           /* owned: in byte order */
    size_t n;
    size_t n_plain;   /* names of tokens that are not special */
    size_t longest;   /* bytes of the longest name */
    bool starts[256]; /* true: a name starts with this byte */
};

/* Adds a name; a name that is already there is ignored.  wf_added_set_sort() must follow. */
enum weft_status wf_added_set_add(struct wf_added_set *s, const char *text, size_t len,
                                  size_t index, bool special, struct weft_error *err);
void wf_added_set_sort(struct wf_added_set *s);
void wf_added_set_release(struct wf_added_set *s);

/* Returns true if a name may start before position `cut` of a text and end at or after it. */
bool wf_added_set_crosses(const struct wf_added_set *s, const char *text, size_t cut);

/* A search for the tokens of a set in a text. */
struct wf_added_search {
    const struct wf_added_set *set; /* borrowed */
    const struct wf_added *tokens;  /* borrowed: the list of added tokens */
    const char *text;               /* borrowed */
    size_t len;
    bool special; /* find special tokens, too */
    size_t at;    /* where the search continues */
    size_t done;  /* end of the last token */
};

/* Finds the next token.  Stores its id, where it begins and where it ends.  Returns false at
 * the end of the text. */
bool wf_added_search_next(struct wf_added_search *s, int32_t *id, size_t *begin, size_t *end);

#endif
