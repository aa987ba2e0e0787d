/* Converts text to tokens and tokens to text for one model.  A codec is a small interface to a
 * tokenizer. */
#ifndef TRAINING_DATA_CODEC_H
#define TRAINING_DATA_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_codec {
    const char *name; /* kind of tokenizer, or "none" */
    void *self;       /* owned */
    /* Encodes a text.  The caller frees *out.  `encode` is NULL if the codec has no tokenizer;
     * the user can then only work with token ids. */
    enum weft_status (*encode)(const void *self, const char *text, size_t len, int32_t **out,
                               size_t *n, struct weft_error *err);
    /* The same, but names of special tokens in the text become these tokens. */
    enum weft_status (*encode_special)(const void *self, const char *text, size_t len,
                                       int32_t **out, size_t *n, struct weft_error *err);
    /* Returns the bytes of a token, which may be an incomplete UTF-8 character.  Returns NULL
     * if the token has no bytes.  The pointer is borrowed. */
    const char *(*bytes)(const void *self, int32_t token, size_t *len);
    void (*release)(void *self); /* NULL: nothing to free */
    const int32_t *prefix;       /* borrowed from self: tokens before a prompt */
    size_t n_prefix;
    bool strips_space; /* the first blank of a text is not part of it */
    int64_t end;       /* id of the token between documents; negative: none */
};

/* Opens a codec for a model with a vocabulary of `vocab` tokens.  `tokenizer` is the path of
 * the tokenizer.  If the path is NULL and `vocab` is 257, tokens are bytes; if it is NULL and
 * `vocab` is another number, the codec has no tokenizer.  Returns WEFT_DATA if the tokenizer
 * has more tokens than the model.  The caller releases the codec with wf_codec_release(). */
enum weft_status wf_codec_open(struct wf_codec *codec, const char *tokenizer, uint32_t vocab,
                               struct weft_error *err);
/* Returns the bytes of a token, or U+FFFD if the token has no bytes: the vocabulary of a model
 * may be larger than that of its tokenizer.  codec->bytes must not be NULL.  Borrowed. */
const char *wf_codec_text(const struct wf_codec *codec, int32_t token, size_t *len);

void wf_codec_release(struct wf_codec *codec); /* a zero-initialized codec is allowed */

#endif
