#include "training/trainer/load.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "training/ckpt/file.h"
#include "training/data/meta.h"
#include "training/data/shard.h"
#include "training/data/tokenizer.h"
#include "training/trainer/param_names.h"

static enum weft_status check_names(const struct wf_weights *w,
                                    const struct wf_param_list *params, struct weft_error *err)
{
    const char **names = wf_param_names(params, err);
    if (names == NULL)
        return WEFT_NOMEM;
    enum weft_status st = wf_weights_check_names(w, names, params->n, err);
    free(names);
    return st;
}

static enum weft_status check(const struct wf_weights *w, const char *path,
                              struct weft_error *err)
{
    const struct wf_weights_info *info = wf_weights_info(w);
    const struct weft_model *model = &info->model;
    struct wf_param_list list;
    size_t n_params;
    if (model->layers > info->n_tensors)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s describes %u layers, and has %llu tensor%s",
                         path, model->layers, (unsigned long long)info->n_tensors,
                         info->n_tensors == 1 ? "" : "s");
    WEFT_TRY(wf_param_list_init(&list, model, 0, model->layers + 2, err));
    enum weft_status st = check_names(w, &list, err);
    wf_param_list_release(&list);
    if (st == WEFT_OK)
        st = weft_model_count_params(model, &n_params, err);
    if (st == WEFT_OK && n_params != info->n_elements)
        st = WEFT_FAIL(err, WEFT_CKPT,
                       "%.160s describes a model of %zu parameters, and has %llu: tensors have "
                       "other shapes than it says",
                       path, n_params, (unsigned long long)info->n_elements);
    return st;
}

enum weft_status wf_load_open(const char *path, struct wf_weights **out, struct weft_error *err)
{
    struct wf_weights *w = NULL;
    WEFT_TRY(wf_weights_open(path, &w, err));
    enum weft_status st = check(w, path, err);
    if (st == WEFT_OK)
        *out = w;
    else
        wf_weights_free(w);
    return st;
}

enum weft_status wf_load_param(const struct wf_weights *w, const struct wf_param_desc *d,
                               float *out, struct weft_error *err)
{
    const uint64_t shape[2] = {d->shape[0], d->shape[1]};
    return wf_weights_read(w, d->name, d->n_dims, shape, out, err);
}

enum weft_status wf_load_stage(const struct wf_weights *w, struct wf_tstage *stage,
                               struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    size_t n;
    struct wf_param *params = wf_tstage_params(stage, &n);
    for (size_t i = 0; st == WEFT_OK && i < n; i++)
        st = wf_load_param(w, &params[i].desc, params[i].value, err);
    if (st == WEFT_OK)
        wf_tstage_pack(stage);
    return st;
}

static enum weft_status read_param(void *arg, const struct wf_param_desc *d, float *out,
                                   struct weft_error *err)
{
    return wf_load_param(arg, d, out, err);
}

enum weft_status wf_load_infer(const struct wf_weights *w, struct wf_infer *m,
                               struct weft_error *err)
{
    return wf_infer_load(m, read_param, (void *)w, err);
}

/* -- parts of a checkpoint ------------------------------------------------------------------ */

struct reading {
    struct wf_ckpt *store;
    const struct wf_load_range *ranges;
    struct weft_error err; /* of whoever fails first */
    atomic_flag failed;
    atomic_bool stop;
};

static void read_range(void *arg, size_t task, unsigned worker)
{
    struct reading *r = arg;
    const struct wf_load_range *range = &r->ranges[task];
    struct weft_error err = {0};
    (void)worker;
    if (atomic_load(&r->stop))
        return;
    enum weft_status st = wf_ckpt_read(r->store, range->name, range->what, range->begin,
                                       range->n, range->out, &err);
    if (st == WEFT_OK || atomic_flag_test_and_set(&r->failed))
        return;
    r->err = err;
    r->err.status = st;
    atomic_store(&r->stop, true);
}

enum weft_status wf_load_ranges(struct wf_ckpt *store, const struct wf_load_range *ranges,
                                size_t n, struct wf_pool *pool, struct weft_error *err)
{
    struct reading r = {.store = store, .ranges = ranges, .failed = ATOMIC_FLAG_INIT};
    wf_pool_run(pool, n, read_range, &r);
    if (!atomic_load(&r.stop))
        return WEFT_OK;
    if (err != NULL)
        *err = r.err;
    return r.err.status;
}

/* -- a hash --------------------------------------------------------------------------------- */

enum weft_status wf_load_hash(const struct wf_weights *w, char out[WF_HASH_HEX_SIZE],
                              struct weft_error *err)
{
    const struct weft_model *model = &wf_weights_info(w)->model;
    struct wf_param_list list;
    WEFT_TRY(wf_param_list_init(&list, model, 0, model->layers + 2, err));
    struct wf_hf_tensor *tensors = wf_param_hf_tensors(&list, err);
    enum weft_status st =
        tensors == NULL ? WEFT_NOMEM : wf_weights_hash(w, tensors, list.n, out, err);
    free(tensors);
    wf_param_list_release(&list);
    return st;
}

/* -- the tokenizer -------------------------------------------------------------------------- */

static enum weft_status no_path(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a tokenizer");
}

/* DIR/NAME when it is there, else NULL. */
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

/* The path of a tokenizer of no more tokens than the model has, else NULL: what lies beside the
 * data by chance is none of its.  Takes `path`, which may be NULL. */
static enum weft_status take_fitting(char *path, uint32_t vocab, char **out,
                                     struct weft_error *err)
{
    struct wf_tokenizer *t = NULL;
    enum weft_status st =
        path == NULL || access(path, F_OK) != 0 ? WEFT_OK : wf_tokenizer_open(path, &t, err);
    if (t != NULL && wf_tokenizer_n_vocab(t) <= vocab)
        *out = path;
    else
        free(path);
    wf_tokenizer_free(t);
    return st;
}

/* Data that cannot be read is told of by who needs it. */
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

/* A model that weft can train may have a tokenizer that it cannot use: that is no error. */
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

/* The settings are those of another day, and paths in them may lead nowhere by now. */
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

/* RUN/checkpoints/step-N, by whatever path it was opened. */
static enum weft_status is_in_run(const char *path, bool *out, struct weft_error *err)
{
    struct stat parent, named;
    char *up = wf_path_join(path, ".."), *there = wf_path_join(path, "../../checkpoints");
    enum weft_status st = up == NULL || there == NULL ? no_path(err) : WEFT_OK;
    *out = st == WEFT_OK && stat(up, &parent) == 0 && stat(there, &named) == 0 &&
           parent.st_dev == named.st_dev && parent.st_ino == named.st_ino;
    free(up);
    free(there);
    return st;
}

enum weft_status wf_load_find_tokenizer(const struct wf_weights *w, char **out,
                                        struct weft_error *err)
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

enum weft_status wf_load_run_model(const struct wf_train_settings *s, struct weft_model *out,
                                   struct weft_error *err)
{
    if (s->model.dir == NULL)
        return wf_train_settings_model(s, out, err);
    struct wf_hf *hf = NULL;
    WEFT_TRY(wf_hf_open(s->model.dir, &hf, err));
    *out = *wf_hf_model(hf);
    wf_hf_free(hf);
    return WEFT_OK;
}
