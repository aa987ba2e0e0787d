/* Converts text to tokens and back for one model: a tokenizer behind a small interface. */
#ifndef TRAINING_DATA_CODEC_H
#define TRAINING_DATA_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_codec {
    const char *name; /* the kind of tokenizer; "none" */
    void *self;       /* owned */
    /* Encodes a text.  The caller frees *out.  NULL: the codec has no tokenizer, and only token
     * numbers can be used. */
    enum weft_status (*encode)(const void *self, const char *text, size_t len, int32_t **out,
                               size_t *n, struct weft_error *err);
    /* Returns the bytes of a token, which may be part of a character; NULL if it has none.
     * Borrowed. */
    const char *(*bytes)(const void *self, int32_t token, size_t *len);
    void (*release)(void *self); /* NULL: nothing to free */
    int64_t end;                 /* the token between documents; negative: none */
};

/* Opens the codec of a model with `vocab` tokens from the tokenizer at a path.  Without a path
 * (NULL) tokens are bytes if the vocabulary has at least 257.  Returns WEFT_DATA if the tokenizer
 * has more tokens than the model.  wf_codec_release() frees. */
enum weft_status wf_codec_open(struct wf_codec *codec, const char *tokenizer, uint32_t vocab,
                               struct weft_error *err);
void wf_codec_release(struct wf_codec *codec); /* a zeroed one is allowed */

#endif
