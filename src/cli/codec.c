#include "cli/codec.h"

#include <stdlib.h>

#include "base/error.h"

/* -- bytes ---------------------------------------------------------------------------------- */

enum { DOCUMENT_END = 256, BYTE_VOCAB = 257 };

static enum weft_status encode_bytes(const void *self, const char *text, size_t len,
                                     int32_t **out, size_t *n, struct weft_error *err)
{
    int32_t *tokens =
        len < SIZE_MAX / sizeof *tokens ? malloc((len + 1) * sizeof *tokens) : NULL;
    (void)self;
    if (tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tokens", len);
    for (size_t i = 0; i < len; i++)
        tokens[i] = (unsigned char)text[i];
    *out = tokens;
    *n = len;
    return WEFT_OK;
}

static const char *byte_of(const void *self, int32_t token, size_t *len)
{
    const char *all = self;
    *len = token >= 0 && token < DOCUMENT_END;
    return *len == 1 ? all + token : NULL;
}

static enum weft_status open_bytes(struct weft_codec *codec, struct weft_error *err)
{
    char *all = malloc(DOCUMENT_END);
    if (all == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a tokenizer");
    for (int i = 0; i < DOCUMENT_END; i++)
        all[i] = (char)i;
    *codec = (struct weft_codec){.name = "bytes",
                                 .self = all,
                                 .encode = encode_bytes,
                                 .bytes = byte_of,
                                 .release = free,
                                 .end = DOCUMENT_END};
    return WEFT_OK;
}

/* -- which one ------------------------------------------------------------------------------ */

enum weft_status weft_codec_open(struct weft_codec *codec, const char *model, uint32_t vocab,
                                 struct weft_error *err)
{
    (void)model;
    *codec = (struct weft_codec){.name = "numbers", .end = -1};
    return vocab < BYTE_VOCAB ? WEFT_OK : open_bytes(codec, err);
}

void weft_codec_release(struct weft_codec *codec)
{
    if (codec->release != NULL)
        codec->release(codec->self);
    *codec = (struct weft_codec){0};
}
