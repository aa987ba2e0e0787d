/* Reads meta.json beside the shards, finds the size of their vocabulary, and checks that it
 * fits a model. */
#include "training/data/meta.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "training/data/tokenizer.h"

/* -- meta.json ----------------------------------------------------------------------------- */

/* Returns the length of the directory part of a path, including the final slash. */
static size_t dir_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash + 1 - path);
}

char *wf_meta_sibling_path(const struct wf_shards *shards, const char *name)
{
    const char *first = wf_shards_path(shards, 0);
    size_t len = dir_length(first), n_name = strlen(name) + 1;

    for (size_t i = 1; i < wf_shards_n_files(shards); i++) {
        const char *path = wf_shards_path(shards, i);
        if (dir_length(path) != len || strncmp(path, first, len) != 0)
            return NULL;
    }

    const char *dir = len == 0 ? "./" : first;
    len = len == 0 ? 2 : len;
    char *path = malloc(len + n_name);
    if (path != NULL) {
        memcpy(path, dir, len);
        memcpy(path + len, name, n_name);
    }
    return path;
}

static double number(const json_t *object, const char *key)
{
    double x = json_number_value(json_object_get(object, key));
    return isfinite(x) ? x : 0;
}

/* Returns the number of text bytes divided by the number of tokens of both splits, or 0 if
 * unknown. */
static double bytes_per_token(const json_t *meta)
{
    double bytes = number(meta, "text_bytes");
    double tokens = number(json_object_get(meta, "train"), "tokens") +
                    number(json_object_get(meta, "val"), "tokens");
    double ratio = bytes > 0 && tokens > 0 ? bytes / tokens : 0;
    return isfinite(ratio) ? ratio : 0;
}

struct wf_meta wf_meta_read(const struct wf_shards *shards)
{
    enum { MAX_BYTES = 1 << 20 };
    char *path = wf_meta_sibling_path(shards, "meta.json"), *text = NULL;
    size_t len = 0;
    struct wf_meta out = {0};
    struct stat info;
    bool readable = path != NULL && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                    info.st_size <= MAX_BYTES;

    if (readable && wf_input_read_as(WEFT_DATA, path, &text, &len, NULL) == WEFT_OK) {
        json_t *meta = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        double vocab = number(meta, "vocab");
        const char *kind = json_string_value(json_object_get(meta, "tokenizer"));
        out.is_bytes = kind != NULL && strcmp(kind, "bytes") == 0;
        out.token_bytes = bytes_per_token(meta);
        if (vocab >= 2 && vocab <= WF_TOKENIZER_MAX_VOCAB)
            out.vocab = (uint32_t)vocab;
        json_decref(meta);
    }
    free(text);
    free(path);
    return out;
}

/* -- the vocabulary ------------------------------------------------------------------------ */

enum weft_status wf_meta_count_tokens(const char *path, uint32_t *out, struct weft_error *err)
{
    struct weft_tokenizer *t = NULL;
    WEFT_TRY(weft_tokenizer_open(path, &t, err));
    *out = weft_tokenizer_n_vocab(t);
    weft_tokenizer_free(t);
    return WEFT_OK;
}

enum weft_status wf_meta_find_vocab(const struct wf_shards *shards, uint32_t *out,
                                    struct weft_error *err)
{
    *out = wf_meta_read(shards).vocab;
    if (*out != 0)
        return WEFT_OK;
    char *path = wf_meta_sibling_path(shards, "tokenizer.json");
    enum weft_status st = WEFT_OK;
    if (path != NULL && access(path, F_OK) == 0)
        st = wf_meta_count_tokens(path, out, err);
    free(path);
    return st;
}

/* -- the identity of the tokenizer --------------------------------------------------------- */

enum weft_status wf_meta_hash_tokenizer(const char *path, uint64_t *out, struct weft_error *err)
{
    struct weft_tokenizer *t = NULL;
    enum weft_status st = weft_tokenizer_open(path, &t, err);
    if (st != WEFT_OK && st != WEFT_DATA)
        return st;
    *out = st == WEFT_OK ? wf_tokenizer_hash(t) : 0;
    weft_tokenizer_free(t);
    return WEFT_OK;
}

/* Finds the tokenizer of shards without a hash, which an older weft has written. */
static enum weft_status find_by_directory(const struct wf_shards *shards, uint64_t *out,
                                          struct weft_error *err)
{
    char *path = wf_meta_sibling_path(shards, "tokenizer.json");
    struct weft_tokenizer *bytes = NULL;
    enum weft_status st = WEFT_OK;
    *out = 0;
    if (path != NULL && access(path, F_OK) == 0) {
        st = wf_meta_hash_tokenizer(path, out, err);
    } else if (wf_meta_read(shards).is_bytes) {
        st = weft_tokenizer_new_bytes(&bytes, err);
        *out = st == WEFT_OK ? wf_tokenizer_hash(bytes) : 0;
    }
    weft_tokenizer_free(bytes);
    free(path);
    return st;
}

enum weft_status wf_meta_find_tokenizer(const struct wf_shards *shards, uint64_t *out,
                                        struct weft_error *err)
{
    size_t first = 0, n = wf_shards_n_files(shards);
    while (first < n && wf_shards_file_hash(shards, first) == 0)
        first++;
    if (first == n)
        return find_by_directory(shards, out, err);

    uint64_t hash = wf_shards_file_hash(shards, first);
    for (size_t i = first + 1; i < n; i++)
        WEFT_TRY(wf_meta_check_same(wf_shards_path(shards, i), wf_shards_file_hash(shards, i),
                                    wf_shards_path(shards, first), hash, err));
    *out = hash;
    return WEFT_OK;
}

enum weft_status wf_meta_check_same(const char *what, uint64_t have, const char *other,
                                    uint64_t want, struct weft_error *err)
{
    if (have == 0 || want == 0 || have == want)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_DATA,
                     "%.150s has the tokenizer %016" PRIx64 ", but %.150s has %016" PRIx64
                     "; tokenize the text with the model's tokenizer",
                     what, have, other, want);
}

enum weft_status wf_meta_check_vocab(const struct wf_shards *shards, const char *model_dir,
                                     uint32_t vocab, struct weft_error *err)
{
    uint32_t needed = wf_meta_read(shards).vocab;
    if (needed <= vocab)
        return WEFT_OK;
    if (model_dir != NULL)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.150s: the tokens come from a vocabulary of %u, the model in %.150s "
                         "has %u; tokenize the text with the model's tokenizer",
                         wf_shards_path(shards, 0), needed, model_dir, vocab);
    return WEFT_FAIL(err, WEFT_DATA,
                     "%.200s: the tokens come from a vocabulary of %u, the model has %u; set "
                     "model.vocab to %u or auto",
                     wf_shards_path(shards, 0), needed, vocab, needed);
}
