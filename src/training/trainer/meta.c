#include "training/trainer/meta.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "training/ckpt/file.h"
#include "training/data/tokenizer.h"

enum { META_BYTES = 1 << 20 };

/* -- meta.json ------------------------------------------------------------------------------ */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

char *wf_meta_sibling_path(const struct wf_shards *shards, const char *name)
{
    const char *first = wf_shards_path(shards, 0);
    size_t len = (size_t)(base_name(first) - first);
    for (size_t i = 1; i < wf_shards_n_files(shards); i++) {
        const char *path = wf_shards_path(shards, i);
        if ((size_t)(base_name(path) - path) != len || strncmp(path, first, len) != 0)
            return NULL;
    }
    char *dir = len == 0 ? strdup(".") : strndup(first, len > 1 ? len - 1 : len);
    char *path = dir == NULL ? NULL : wf_path_join(dir, name);
    free(dir);
    return path;
}

static double number(const json_t *object, const char *key)
{
    double x = json_number_value(json_object_get(object, key));
    return isfinite(x) ? x : 0;
}

/* weft tokenize counts the bytes of all text, and tokens by part. */
static double ratio(const json_t *meta)
{
    double bytes = number(meta, "text_bytes");
    double tokens = number(json_object_get(meta, "train"), "tokens") +
                    number(json_object_get(meta, "val"), "tokens");
    double each = bytes > 0 && tokens > 0 ? bytes / tokens : 0;
    return isfinite(each) ? each : 0;
}

struct wf_meta wf_meta_read(const struct wf_shards *shards)
{
    char *path = wf_meta_sibling_path(shards, "meta.json"), *text = NULL;
    size_t len = 0;
    struct wf_meta out = {0};
    if (path != NULL && wf_file_read(path, META_BYTES, &text, &len, NULL) == WEFT_OK) {
        json_t *meta = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        double vocab = number(meta, "vocab");
        out.token_bytes = ratio(meta);
        if (vocab >= 2 && vocab <= WF_TOKENIZER_MAX_VOCAB)
            out.vocab = (uint32_t)vocab;
        json_decref(meta);
    }
    free(text);
    free(path);
    return out;
}

/* -- the vocabulary ------------------------------------------------------------------------- */

static enum weft_status count_tokens(const char *path, uint32_t *out, struct weft_error *err)
{
    struct wf_tokenizer *t = NULL;
    WEFT_TRY(wf_tokenizer_open(path, &t, err));
    *out = wf_tokenizer_n_vocab(t);
    wf_tokenizer_free(t);
    return WEFT_OK;
}

static enum weft_status vocab_beside(const struct wf_shards *shards, uint32_t *out,
                                     struct weft_error *err)
{
    *out = wf_meta_read(shards).vocab;
    if (*out != 0)
        return WEFT_OK;
    char *path = wf_meta_sibling_path(shards, "tokenizer.json");
    enum weft_status st = WEFT_OK;
    if (path != NULL && access(path, F_OK) == 0)
        st = count_tokens(path, out, err);
    free(path);
    return st;
}

enum weft_status wf_train_settings_infer_vocab(struct wf_train_settings *s,
                                               struct weft_error *err)
{
    struct wf_shards *shards = NULL;
    if (s->model.vocab != 0 || s->model.dir != NULL || s->data.train == NULL)
        return WEFT_OK;
    if (s->data.tokenizer != NULL)
        return count_tokens(s->data.tokenizer, &s->model.vocab, err);
    /* Data that cannot be read is told of by who needs it. */
    if (wf_shards_open_split(s->data.train, "train", &shards, NULL) != WEFT_OK)
        return WEFT_OK;
    enum weft_status st = vocab_beside(shards, &s->model.vocab, err);
    wf_shards_free(shards);
    return st;
}

enum weft_status wf_meta_check_vocab(const struct wf_shards *shards,
                                     const struct wf_train_settings *s, uint32_t vocab,
                                     struct weft_error *err)
{
    uint32_t needed = wf_meta_read(shards).vocab;
    if (needed <= vocab)
        return WEFT_OK;
    if (s->model.dir != NULL)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.150s has tokens of a vocabulary of %u, the model in %.150s one of "
                         "%u: tokenize the text with the model's tokenizer",
                         wf_shards_path(shards, 0), needed, s->model.dir, vocab);
    return WEFT_FAIL(err, WEFT_DATA,
                     "%.200s has tokens of a vocabulary of %u, the model has %u: set "
                     "model.vocab to %u, or leave it at auto",
                     wf_shards_path(shards, 0), needed, vocab, needed);
}
