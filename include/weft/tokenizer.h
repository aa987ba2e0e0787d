/* Tokenizers: text to tokens and back.
 *
 *     struct weft_tokenizer *t = NULL;
 *     struct weft_tokens tokens = {0};
 *     if (weft_tokenizer_open("gpt2", &t, &err) != WEFT_OK) ...
 *     weft_tokenizer_encode(t, text, strlen(text), &tokens, &err);
 *     ...
 *     weft_tokens_release(&tokens);
 *     weft_tokenizer_free(t);
 *
 * Every byte string can be encoded, whether it is valid UTF-8 or not.  Decoding returns the
 * same bytes, except for what the tokenizer itself changes: normalization, a blank before the
 * text, bytes without a token.  No token is added.
 *
 * Unstable: more kinds of tokenizers will be added.
 */
#ifndef WEFT_TOKENIZER_H
#define WEFT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_tokenizer; /* opaque: read-only after creation, safe to use from any thread */

enum { WEFT_NO_TOKEN = -1 };

/* A growable list of tokens.  A zeroed list is empty. */
struct weft_tokens {
    int32_t *at; /* owned */
    size_t len, cap;
};

/* Frees the list.  A zeroed list is allowed. */
WEFT_API void weft_tokens_release(struct weft_tokens *t);

/* Creates a tokenizer with one token per byte.  Token 256 is the end of a document.  The caller
 * owns *out. */
WEFT_API enum weft_status weft_tokenizer_new_bytes(struct weft_tokenizer **out,
                                                   struct weft_error *err);

/* Opens a tokenizer: a directory with tokenizer.json, or with vocab.json and merges.txt, or the
 * path of one of these files.  tokenizer_config.json, added_tokens.json, config.json and
 * generation_config.json beside it are read, too.  Returns WEFT_DATA if the tokenizer uses an
 * unsupported feature; the error names the feature.  The caller owns *out. */
WEFT_API enum weft_status weft_tokenizer_open(const char *path, struct weft_tokenizer **out,
                                              struct weft_error *err);

/* Frees a tokenizer; NULL is allowed. */
WEFT_API void weft_tokenizer_free(struct weft_tokenizer *t);

/* Writes DIR/tokenizer.json and DIR/tokenizer_config.json, which names the end of a document,
 * each atomically. */
WEFT_API enum weft_status weft_tokenizer_save(const struct weft_tokenizer *t, const char *dir,
                                              struct weft_error *err);

/* Returns the kind of the tokenizer: "bytes" or "bpe". */
WEFT_API const char *weft_tokenizer_kind(const struct weft_tokenizer *t);

/* Returns the size of the vocabulary.  All token numbers are smaller than it. */
WEFT_API uint32_t weft_tokenizer_n_vocab(const struct weft_tokenizer *t);

/* Returns the end-of-document token, or WEFT_NO_TOKEN if there is none. */
WEFT_API int32_t weft_tokenizer_eot(const struct weft_tokenizer *t);

/* Returns the added token with this name or the token with this text, or WEFT_NO_TOKEN. */
WEFT_API int32_t weft_tokenizer_find(const struct weft_tokenizer *t, const char *name);

/* Appends the tokens of a text.  Names of special tokens are encoded as ordinary text; other
 * added tokens are found. */
WEFT_API enum weft_status weft_tokenizer_encode(const struct weft_tokenizer *t,
                                                const char *text, size_t len,
                                                struct weft_tokens *out,
                                                struct weft_error *err);

/* Appends the tokens of a text, in which names of special tokens become these tokens. */
WEFT_API enum weft_status weft_tokenizer_encode_special(const struct weft_tokenizer *t,
                                                        const char *text, size_t len,
                                                        struct weft_tokens *out,
                                                        struct weft_error *err);

/* Returns the bytes of a token, which may be part of a UTF-8 character; NULL for an unknown
 * token.  The pointer is borrowed. */
WEFT_API const char *weft_tokenizer_token(const struct weft_tokenizer *t, int32_t id,
                                          size_t *len);

#ifdef __cplusplus
}
#endif

#endif
