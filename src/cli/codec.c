#include "cli/codec.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "ckpt/file.h"
#include "cli/cli.h"
#include "data/tokenizer.h"

static enum weft_status encode(const void *self, const char *text, size_t len, int32_t **out,
                               size_t *n, struct weft_error *err)
{
    struct weft_tokens tokens = {0};
    enum weft_status st = weft_tokenizer_encode(self, text, len, &tokens, err);
    if (st == WEFT_OK) /* so that an empty text has memory, too */
        st = weft_tokens_reserve(&tokens, 1, err);
    if (st != WEFT_OK) {
        weft_tokens_release(&tokens);
        return st;
    }
    *out = tokens.at;
    *n = tokens.len;
    return WEFT_OK;
}

static const char *bytes(const void *self, int32_t token, size_t *len)
{
    return weft_tokenizer_token(self, token, len);
}

static void release(void *self)
{
    weft_tokenizer_free(self);
}

static bool has_file(const char *dir, const char *name)
{
    char *path = weft_path_join(dir, name);
    bool there = path != NULL && access(path, F_OK) == 0;
    free(path);
    return there;
}

enum weft_status weft_codec_open(struct weft_codec *codec, const char *model, uint32_t vocab,
                                 struct weft_error *err)
{
    struct weft_tokenizer *t = NULL;
    *codec = (struct weft_codec){.name = "none", .end = -1};
    if (weft_is_directory(model) &&
        (has_file(model, "tokenizer.json") || has_file(model, "vocab.json")))
        WEFT_TRY(weft_tokenizer_open(model, &t, err));
    else if (vocab >= 257)
        WEFT_TRY(weft_tokenizer_bytes(&t, err));
    else
        return WEFT_OK;
    if (weft_tokenizer_n_vocab(t) > vocab) {
        enum weft_status st =
            WEFT_FAIL(err, WEFT_DATA, "%.200s has a tokenizer of %u tokens, and a model of %u",
                      model, weft_tokenizer_n_vocab(t), vocab);
        weft_tokenizer_free(t);
        return st;
    }
    *codec = (struct weft_codec){.name = weft_tokenizer_kind(t),
                                 .self = t,
                                 .encode = encode,
                                 .bytes = bytes,
                                 .release = release,
                                 .end = weft_tokenizer_document_end(t)};
    return WEFT_OK;
}

void weft_codec_release(struct weft_codec *codec)
{
    if (codec->release != NULL)
        codec->release(codec->self);
    *codec = (struct weft_codec){0};
}
