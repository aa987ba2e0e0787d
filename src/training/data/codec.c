/* Opens a tokenizer as a codec.  A model without a tokenizer uses bytes as tokens if its
 * vocabulary has the size of the byte tokenizer's; the tokens of others are unknown. */
#include "training/data/codec.h"

#include <stdlib.h>

#include "base/error.h"
#include "training/data/tokenizer.h"

typedef enum weft_status encode_fn(const struct weft_tokenizer *t, const char *text, size_t len,
                                   struct weft_tokens *out, struct weft_error *err);

static enum weft_status encode_with(encode_fn *function, const void *self, const char *text,
                                    size_t len, int32_t **out, size_t *n,
                                    struct weft_error *err)
{
    struct weft_tokens tokens = {0};
    enum weft_status st = function(self, text, len, &tokens, err);
    if (st == WEFT_OK) /* return an allocated array for an empty text, too */
        st = wf_tokens_reserve(&tokens, 1, err);
    if (st != WEFT_OK) {
        weft_tokens_release(&tokens);
        return st;
    }
    *out = tokens.at;
    *n = tokens.len;
    return WEFT_OK;
}

static enum weft_status encode(const void *self, const char *text, size_t len, int32_t **out,
                               size_t *n, struct weft_error *err)
{
    return encode_with(weft_tokenizer_encode, self, text, len, out, n, err);
}

static enum weft_status encode_special(const void *self, const char *text, size_t len,
                                       int32_t **out, size_t *n, struct weft_error *err)
{
    return encode_with(weft_tokenizer_encode_special, self, text, len, out, n, err);
}

static const char *bytes(const void *self, int32_t token, size_t *len)
{
    return weft_tokenizer_token(self, token, len);
}

static void release(void *self)
{
    weft_tokenizer_free(self);
}

enum weft_status wf_codec_open(struct wf_codec *codec, const char *tokenizer, uint32_t vocab,
                               struct weft_error *err)
{
    enum { BYTE_TOKENS = 257 };
    struct weft_tokenizer *t = NULL;
    *codec = (struct wf_codec){.name = "none", .end = -1};
    if (tokenizer != NULL)
        WEFT_TRY(weft_tokenizer_open(tokenizer, &t, err));
    else if (vocab == BYTE_TOKENS)
        WEFT_TRY(weft_tokenizer_new_bytes(&t, err));
    else
        return WEFT_OK;

    if (weft_tokenizer_n_vocab(t) > vocab) {
        enum weft_status st =
            WEFT_FAIL(err, WEFT_DATA, "%.200s has %u tokens, but the model has %u", tokenizer,
                      weft_tokenizer_n_vocab(t), vocab);
        weft_tokenizer_free(t);
        return st;
    }
    *codec = (struct wf_codec){.name = weft_tokenizer_kind(t),
                               .self = t,
                               .encode = encode,
                               .encode_special = encode_special,
                               .bytes = bytes,
                               .release = release,
                               .end = weft_tokenizer_eot(t)};
    codec->strips_space = wf_tokenizer_strips_space(t);
    codec->prefix = wf_tokenizer_prompt_prefix(t, &codec->n_prefix);
    return WEFT_OK;
}

const char *wf_codec_text(const struct wf_codec *codec, int32_t token, size_t *len)
{
    static const char replacement[] = "\xef\xbf\xbd";
    const char *text = codec->bytes(codec->self, token, len);
    if (text != NULL)
        return text;
    *len = sizeof replacement - 1;
    return replacement;
}

void wf_codec_release(struct wf_codec *codec)
{
    if (codec->release != NULL)
        codec->release(codec->self);
    *codec = (struct wf_codec){0};
}
