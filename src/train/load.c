#include "train/load.h"

#include <stdlib.h>

#include "base/error.h"

static enum weft_status check_names(const struct weft_weights *w,
                                    const struct weft_param_list *params,
                                    struct weft_error *err)
{
    const char **names = malloc((params->n + 1) * sizeof *names);
    if (names == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of %zu weights", params->n);
    for (size_t i = 0; i < params->n; i++)
        names[i] = params->at[i].name;
    enum weft_status st = weft_weights_check_names(w, names, params->n, err);
    free(names);
    return st;
}

static enum weft_status check(const struct weft_weights *w, const char *path,
                              struct weft_error *err)
{
    const struct weft_weights_info *info = weft_weights_info(w);
    const struct weft_model *model = &info->model;
    struct weft_param_list list;
    size_t n_params;
    if (model->layers > info->n_tensors)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s describes %u layers, and has %llu tensor%s",
                         path, model->layers, (unsigned long long)info->n_tensors,
                         info->n_tensors == 1 ? "" : "s");
    WEFT_TRY(weft_param_list_init(&list, model, 0, model->layers + 2, err));
    enum weft_status st = check_names(w, &list, err);
    weft_param_list_release(&list);
    if (st == WEFT_OK)
        st = weft_model_count_params(model, &n_params, err);
    if (st == WEFT_OK && n_params != info->n_elements)
        st = WEFT_FAIL(err, WEFT_CKPT,
                       "%.160s describes a model of %zu parameters, and has %llu: tensors have "
                       "other shapes than it says",
                       path, n_params, (unsigned long long)info->n_elements);
    return st;
}

enum weft_status weft_load_open(const char *path, struct weft_weights **out,
                                struct weft_error *err)
{
    struct weft_weights *w = NULL;
    WEFT_TRY(weft_weights_open(path, &w, err));
    enum weft_status st = check(w, path, err);
    if (st == WEFT_OK)
        *out = w;
    else
        weft_weights_free(w);
    return st;
}

enum weft_status weft_load_param(const struct weft_weights *w, const struct weft_param_desc *d,
                                 float *out, struct weft_error *err)
{
    const uint64_t shape[2] = {d->shape[0], d->shape[1]};
    return weft_weights_read(w, d->name, d->rank, shape, out, err);
}

enum weft_status weft_load_stage(const struct weft_weights *w, struct weft_tstage *stage,
                                 struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    size_t n;
    struct weft_param *params = weft_tstage_params(stage, &n);
    for (size_t i = 0; st == WEFT_OK && i < n; i++)
        st = weft_load_param(w, &params[i].desc, params[i].value, err);
    if (st == WEFT_OK)
        weft_tstage_pack(stage);
    return st;
}

static enum weft_status read_param(void *arg, const struct weft_param_desc *d, float *out,
                                   struct weft_error *err)
{
    return weft_load_param(arg, d, out, err);
}

enum weft_status weft_load_infer(const struct weft_weights *w, struct weft_infer *m,
                                 struct weft_error *err)
{
    return weft_infer_load(m, read_param, (void *)w, err);
}
