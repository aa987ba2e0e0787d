/* Reads Hugging Face directories and checkpoints. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/spec/hf_config.h"
#include "training/ckpt/store.h"
#include "training/inspect/inspect.h"

void wf_model_info_release(struct wf_model_info *v)
{
    wf_hf_free(v->hf);
    wf_param_list_release(&v->params);
    free(v->tensors);
    *v = (struct wf_model_info){0};
}

static enum weft_status check_tensors(const struct wf_model_info *v, struct weft_error *err)
{
    const char **names = calloc(v->params.n + 1, sizeof *names);
    if (names == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu names", v->params.n);
    for (size_t i = 0; i < v->params.n; i++)
        names[i] = v->params.at[i].name;
    enum weft_status st = wf_hf_check_names(v->hf, names, v->params.n, err);
    free(names);
    for (size_t i = 0; st == WEFT_OK && i < v->params.n; i++) {
        struct wf_hf_location place;
        const struct wf_hf_tensor *t = &v->tensors[i];
        st = wf_hf_find(v->hf, t->name, t->n_dims, t->shape, &place, err);
    }
    return st;
}

static enum weft_status list_tensors(struct wf_model_info *v, struct weft_error *err)
{
    const struct weft_model *model = wf_hf_model(v->hf);
    WEFT_TRY(wf_param_list_init(&v->params, model, 0, model->layers + 2, err));
    v->tensors = calloc(v->params.n + 1, sizeof *v->tensors);
    if (v->tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tensors", v->params.n);
    for (size_t i = 0; i < v->params.n; i++) {
        const struct wf_param_desc *d = &v->params.at[i];
        v->tensors[i] = (struct wf_hf_tensor){
            .name = d->name, .n_dims = d->n_dims, .shape = {d->shape[0], d->shape[1]}};
        v->n_params += wf_param_size(d);
    }
    return check_tensors(v, err);
}

enum weft_status wf_model_inspect(struct wf_model_info *v, const char *dir,
                                  struct weft_error *err)
{
    *v = (struct wf_model_info){0};
    WEFT_TRY(wf_hf_open(dir, &v->hf, err));
    const struct weft_model *model = wf_hf_model(v->hf);
    enum weft_status st = WEFT_OK;
    /* Check the layer count of config.json before list_tensors() allocates memory for that many
     * layers. */
    if (model->layers > wf_hf_count(v->hf))
        st = WEFT_FAIL(err, WEFT_CKPT,
                       "%.200s: config.json has %u layers, but there are only %zu tensors", dir,
                       model->layers, wf_hf_count(v->hf));
    if (st == WEFT_OK)
        st = list_tensors(v, err);
    if (st != WEFT_OK)
        wf_model_info_release(v);
    return st;
}

struct wf_hf_location wf_model_info_locate(const struct wf_model_info *m, size_t i)
{
    struct wf_hf_location place = {0};
    const struct wf_hf_tensor *t = &m->tensors[i];
    wf_hf_find(m->hf, t->name, t->n_dims, t->shape, &place,
               NULL); /* check_tensors() found it */
    return place;
}

enum weft_status wf_checkpoint_inspect(struct wf_checkpoint_info *v, const char *path,
                                       struct weft_error *err)
{
    *v = (struct wf_checkpoint_info){0};
    WEFT_TRY(wf_ckpt_open(path, true, &v->store, err));
    const char *model = wf_ckpt_model(v->store);
    for (size_t i = 0; i < wf_ckpt_count(v->store); i++)
        v->n_params += wf_ckpt_at(v->store, i)->n;
    v->has_moments =
        wf_ckpt_count(v->store) > 0 && wf_ckpt_at(v->store, 0)->has[WF_STORE_FIELD_M];
    enum weft_status st = wf_hf_config_parse(model, strlen(model), path, &v->model, err);
    if (st != WEFT_OK)
        wf_checkpoint_info_release(v);
    return st;
}

void wf_checkpoint_info_release(struct wf_checkpoint_info *c)
{
    wf_ckpt_free(c->store);
    *c = (struct wf_checkpoint_info){0};
}
