/* Finds the tokenizer and the companion files that belong to a model or to a run. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "training/data/meta.h"
#include "training/data/shard.h"
#include "training/data/tokenizer.h"
#include "training/trainer/load.h"

static enum weft_status no_path(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a tokenizer");
}

/* Sets *out to DIR/NAME if that path exists. */
static enum weft_status find_in(const char *dir, const char *name, char **out,
                                struct weft_error *err)
{
    char *path = wf_path_join(dir, name);
    if (path == NULL)
        return no_path(err);
    if (access(path, F_OK) == 0) {
        *out = path;
        return WEFT_OK;
    }
    free(path);
    return WEFT_OK;
}

/* Sets *out to `path` if the vocabulary of that tokenizer fits the model, and otherwise frees
 * `path`.  Takes ownership of `path`, which may be NULL. */
static enum weft_status take_fitting(char *path, uint32_t vocab, char **out,
                                     struct weft_error *err)
{
    struct weft_tokenizer *t = NULL;
    enum weft_status st =
        path == NULL || access(path, F_OK) != 0 ? WEFT_OK : weft_tokenizer_open(path, &t, err);
    if (t != NULL && weft_tokenizer_n_vocab(t) <= vocab)
        *out = path;
    else
        free(path);
    weft_tokenizer_free(t);
    return st;
}

/* Finds the tokenizer in the directory of the data.  Unreadable data is ignored here; it is
 * reported when the data is opened for training. */
static enum weft_status find_beside_data(const char *data, uint32_t vocab, char **out,
                                         struct weft_error *err)
{
    struct wf_shards *shards = NULL;
    if (data == NULL || wf_shards_open_split(data, "train", &shards, NULL) != WEFT_OK)
        return WEFT_OK;
    char *path = wf_meta_sibling_path(shards, "tokenizer.json");
    wf_shards_free(shards);
    return take_fitting(path, vocab, out, err);
}

/* Finds the tokenizer in the directory of the model.  A supported model may have an unsupported
 * tokenizer, which is not an error. */
static enum weft_status find_in_model(const char *dir, uint32_t vocab, char **out,
                                      struct weft_error *err)
{
    struct weft_error why = {0};
    char *path = NULL;
    WEFT_TRY(find_in(dir, "tokenizer.json", &path, err));
    if (path == NULL)
        WEFT_TRY(find_in(dir, "vocab.json", &path, err));
    if (take_fitting(path, vocab, out, &why) == WEFT_NOMEM)
        return no_path(err);
    return WEFT_OK;
}

enum weft_status wf_load_find_run_tokenizer(const struct wf_train_settings *s, uint32_t vocab,
                                            char **out, struct weft_error *err)
{
    *out = NULL;
    if (s->data.tokenizer != NULL) {
        *out = strdup(s->data.tokenizer);
        return *out == NULL ? no_path(err) : WEFT_OK;
    }
    WEFT_TRY(find_beside_data(s->data.train, vocab, out, err));
    if (*out == NULL && s->model.dir != NULL)
        return find_in_model(s->model.dir, vocab, out, err);
    return WEFT_OK;
}

/* Finds the tokenizer by a path in the settings.  The settings may be old, so the path may no
 * longer exist. */
static enum weft_status find_by_settings(const char *text, uint32_t vocab, char **out,
                                         struct weft_error *err)
{
    const struct wf_setting_list list = wf_train_setting_list();
    struct wf_train_settings s;
    WEFT_TRY(wf_settings_init(list, &s, err));
    enum weft_status st = WEFT_OK;
    if (wf_settings_parse(list, text, strlen(text), "", &s, NULL) == WEFT_OK)
        st = wf_load_find_run_tokenizer(&s, vocab, out, err);
    wf_settings_release(list, &s);
    if (st == WEFT_OK && *out != NULL && access(*out, R_OK) != 0) {
        free(*out);
        *out = NULL;
    }
    return st;
}

/* Sets *out to true if the path, after following links, is RUN/checkpoints/step-N. */
static enum weft_status is_in_run(const char *path, bool *out, struct weft_error *err)
{
    struct stat parent, named;
    char *up = wf_path_join(path, ".."), *expected = wf_path_join(path, "../../checkpoints");
    enum weft_status st = up == NULL || expected == NULL ? no_path(err) : WEFT_OK;
    *out = st == WEFT_OK && stat(up, &parent) == 0 && stat(expected, &named) == 0 &&
           parent.st_dev == named.st_dev && parent.st_ino == named.st_ino;
    free(up);
    free(expected);
    return st;
}

/* Finds the tokenizer of a model without comparing it with the hash in its checkpoint. */
static enum weft_status find_any(const struct wf_weights *w, char **out, struct weft_error *err)
{
    const struct wf_weights_info *info = wf_weights_info(w);
    bool in_run = false;
    *out = NULL;
    WEFT_TRY(find_in(info->path, "tokenizer.json", out, err));
    if (*out == NULL)
        WEFT_TRY(find_in(info->path, "vocab.json", out, err));
    if (*out != NULL || info->settings == NULL)
        return WEFT_OK;
    WEFT_TRY(is_in_run(info->path, &in_run, err));
    if (in_run)
        WEFT_TRY(find_in(info->path, "../../tokenizer.json", out, err));
    return *out != NULL ? WEFT_OK
                        : find_by_settings(info->settings, info->model.vocab, out, err);
}

/* -- companion files ----------------------------------------------------------------------- */

/* Sets *out to `dir` if it is a Hugging Face directory. */
static enum weft_status take_source(const char *dir, char **out, struct weft_error *err)
{
    if (!wf_dir_contains(dir, "config.json"))
        return WEFT_OK;
    *out = strdup(dir);
    return *out == NULL ? no_path(err) : WEFT_OK;
}

/* Finds model.dir in the settings of the run that wrote a checkpoint. */
static enum weft_status source_by_settings(const char *text, char **out, struct weft_error *err)
{
    const struct wf_setting_list list = wf_train_setting_list();
    struct wf_train_settings s;
    WEFT_TRY(wf_settings_init(list, &s, err));
    enum weft_status st = WEFT_OK;
    if (wf_settings_parse(list, text, strlen(text), "", &s, NULL) == WEFT_OK &&
        s.model.dir != NULL)
        st = take_source(s.model.dir, out, err);
    wf_settings_release(list, &s);
    return st;
}

enum weft_status wf_load_find_source(const struct wf_weights *w, char **out,
                                     struct weft_error *err)
{
    const struct wf_weights_info *info = wf_weights_info(w);
    bool in_run = false;
    *out = NULL;
    if (wf_weights_hf(w) != NULL)
        return take_source(info->path, out, err);
    if (info->settings == NULL)
        return WEFT_OK;
    WEFT_TRY(is_in_run(info->path, &in_run, err));
    if (in_run)
        WEFT_TRY(find_in(info->path, "../../" WF_SOURCE_DIR, out, err));
    return *out != NULL ? WEFT_OK : source_by_settings(info->settings, out, err);
}

enum weft_status wf_load_find_run_source(const struct wf_train_settings *s, char **out,
                                         struct weft_error *err)
{
    *out = NULL;
    return s->model.dir == NULL ? WEFT_OK : take_source(s->model.dir, out, err);
}

/* -- identity ------------------------------------------------------------------------------ */

/* Returns the hash in a checkpoint, or 0 if it is unknown. */
static uint64_t recorded_hash(const struct wf_weights *w)
{
    const char *text = wf_weights_info(w)->tokenizer;
    uint64_t hash = 0;
    if (text != NULL && !wf_tokenizer_hash_parse(text, &hash))
        return 0;
    return hash;
}

enum weft_status wf_load_find_tokenizer(const struct wf_weights *w, char **out,
                                        struct weft_error *err)
{
    uint64_t want = recorded_hash(w), have = 0;
    char *path = NULL;
    WEFT_TRY(find_any(w, &path, err));
    enum weft_status st = WEFT_OK;
    if (want != 0 && path != NULL)
        st = wf_meta_hash_tokenizer(path, &have, err);
    if (st == WEFT_OK && want != 0 && have != 0 && want != have)
        st =
            WEFT_FAIL(err, WEFT_DATA,
                      "%.150s is another tokenizer than the one with which %.150s was trained; "
                      "restore the old file",
                      path, wf_weights_info(w)->path);
    if (st == WEFT_OK)
        *out = path;
    else
        free(path);
    return st;
}

enum weft_status wf_load_hash_model_tokenizer(const char *dir, uint64_t *out,
                                              struct weft_error *err)
{
    char *path = NULL;
    *out = 0;
    WEFT_TRY(find_in(dir, "tokenizer.json", &path, err));
    if (path == NULL)
        WEFT_TRY(find_in(dir, "vocab.json", &path, err));
    enum weft_status st = path == NULL ? WEFT_OK : wf_meta_hash_tokenizer(path, out, err);
    free(path);
    return st;
}

enum weft_status wf_load_hash_tokenizer(const struct wf_weights *w, uint64_t *out,
                                        struct weft_error *err)
{
    char *path = NULL;
    *out = recorded_hash(w);
    if (*out != 0)
        return WEFT_OK;
    WEFT_TRY(find_any(w, &path, err));
    enum weft_status st = path == NULL ? WEFT_OK : wf_meta_hash_tokenizer(path, out, err);
    free(path);
    return st;
}

enum weft_status wf_load_check_tokenizer(const struct wf_weights *w,
                                         const struct wf_shards *shards, struct weft_error *err)
{
    uint64_t have = 0, want = 0;
    WEFT_TRY(wf_meta_find_tokenizer(shards, &have, err));
    if (have == 0)
        return WEFT_OK;
    WEFT_TRY(wf_load_hash_tokenizer(w, &want, err));
    return wf_meta_check_same(wf_shards_path(shards, 0), have, wf_weights_info(w)->path, want,
                              err);
}
