/* Characters of UTF-8 text: decoding, general categories, normalization forms.
 *
 * A byte that is not part of a valid UTF-8 character is a character of its own: it has no
 * category, and normalization copies it unchanged.
 *
 * The data is that of utf8proc, with two exceptions for equality with the tokenizers library:
 * characters that are new in Unicode 16 have their category, and characters newer than Unicode
 * 9 are not normalized. / */
#ifndef TRAINING_DATA_UNICODE_H
#define TRAINING_DATA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum { WF_NOT_A_CHAR = -1 };

/* Returns the character at s[at], or WF_NOT_A_CHAR for a byte that is not part of a valid
 * character, and stores its length in bytes in *n.  `at` must be less than len. */
int32_t wf_unicode_at(const unsigned char *s, size_t len, size_t at, size_t *n);

/* Returns the start of the character that ends at `at`, which is greater than `begin`. */
size_t wf_unicode_before(const unsigned char *s, size_t begin, size_t at);

/* Returns true if the property White_Space of a character is set. */
bool wf_unicode_is_space(int32_t c);

/* -- general categories -------------------------------------------------------------------- */

/* A set of general categories: bit i is category i of utf8proc_category_t. */
typedef uint32_t wf_category_set;

/* Returns the set of one category, or of no category for WF_NOT_A_CHAR. */
wf_category_set wf_unicode_category(int32_t c);

/* Stores the set of a category name such as "L" or "Lu".  Returns false for other names. */
bool wf_unicode_find_category(const char *name, size_t len, wf_category_set *out);

/* The classes of characters on which most patterns depend. */
enum wf_char_class {
    WF_CHAR_LETTER = 'L',
    WF_CHAR_NUMBER = 'N',
    WF_CHAR_SPACE = 'S',
    WF_CHAR_OTHER = 'O',
};

/* Returns the class of a character. */
enum wf_char_class wf_unicode_class(int32_t c);

/* Returns true for characters of the category P, and for all ASCII symbols. */
bool wf_unicode_is_punctuation(int32_t c);

/* Returns true if a character may be part of a word: letters, marks, digits, connectors. */
bool wf_unicode_is_word(int32_t c);

/* -- normalization ------------------------------------------------------------------------- */

enum wf_unicode_form {
    WF_UNICODE_AS_IS,
    WF_UNICODE_NFC,
    WF_UNICODE_NFD,
    WF_UNICODE_NFKC,
    WF_UNICODE_NFKD
};

/* Returns true if text before this character and text from it on can be normalized separately.
 * The result may be false although they can. */
bool wf_unicode_starts_chunk(int32_t c);

/* Appends a text in a normalization form. */
void wf_unicode_normalize(struct wf_text *out, const char *text, size_t len,
                          enum wf_unicode_form form);

#endif
