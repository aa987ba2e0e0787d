/* Compares stored weights with the model that their description defines, and reads them. */
#include "training/trainer/load.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
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
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s describes %u layers, but has only %llu tensor%s", path,
                         model->layers, (unsigned long long)info->n_tensors,
                         info->n_tensors == 1 ? "" : "s");

    WEFT_TRY(wf_param_list_init(&list, model, 0, model->layers + 2, err));
    enum weft_status st = check_names(w, &list, err);
    wf_param_list_release(&list);

    if (st == WEFT_OK)
        st = weft_model_count_params(model, &n_params, err);
    if (st == WEFT_OK && n_params != info->n_elements)
        st = WEFT_FAIL(err, WEFT_CKPT,
                       "%.160s describes a model of %zu parameters, but has %llu: the shapes "
                       "of its tensors do not match",
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

/* -- ranges of a checkpoint ---------------------------------------------------------------- */

struct weight_reading {
    struct wf_ckpt *store;
    const struct wf_load_range *ranges;
    struct weft_error err; /* the error of the first failure */
    atomic_flag failed;
    atomic_bool stop;
};

static void read_range(void *arg, size_t task, unsigned worker)
{
    struct weight_reading *r = arg;
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
    struct weight_reading r = {.store = store, .ranges = ranges, .failed = ATOMIC_FLAG_INIT};
    wf_pool_run(pool, n, read_range, &r);
    if (!atomic_load(&r.stop))
        return WEFT_OK;
    if (err != NULL)
        *err = r.err;
    return r.err.status;
}

/* -- hash ---------------------------------------------------------------------------------- */

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
