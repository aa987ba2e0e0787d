/* Text to tokens and back, as `weft generate` needs it: whatever tokenizer a model has, behind
 * one small interface. */
#ifndef CLI_CODEC_H
#define CLI_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_codec {
    const char *name;
    void *self; /* owned */
    /* The tokens of a text; the caller frees *out. */
    enum weft_status (*encode)(const void *self, const char *text, size_t len, int32_t **out,
                               size_t *n, struct weft_error *err);
    /* The bytes of a token, which may be part of a character; NULL for one that has none.
     * Borrowed. */
    const char *(*bytes)(const void *self, int32_t token, size_t *len);
    void (*release)(void *self); /* NULL: nothing to do */
    int64_t end;                 /* the token between documents; negative: none */
};

/* The codec of a model with this vocabulary, and a tokenizer at that path (NULL: none was found, and
 * tokens are bytes if there are enough of them); `encode` is NULL when it has none and only takes
 * numbers.  wf_codec_release() frees. */
enum weft_status wf_codec_open(struct wf_codec *codec, const char *tokenizer, uint32_t vocab,
                               struct weft_error *err);
void wf_codec_release(struct wf_codec *codec); /* a zeroed one is allowed */

#endif
