/* Checkpoints: the numbers of a run at one step. */
#include <string.h>

#include "base/error.h"
#include "cli/inspect.h"
#include "planning/spec/hf_config.h"
#include "training/ckpt/store.h"

struct checkpoint_view {
    struct wf_ckpt *store; /* owned */
    struct weft_model model;
    uint64_t n_params;
};

static enum weft_status view_init(struct checkpoint_view *v, const char *path,
                                  struct weft_error *err)
{
    *v = (struct checkpoint_view){0};
    WEFT_TRY(wf_ckpt_open(path, true, &v->store, err));
    const char *model = wf_ckpt_model(v->store);
    for (size_t i = 0; i < wf_ckpt_count(v->store); i++)
        v->n_params += wf_ckpt_at(v->store, i)->n;
    enum weft_status st = wf_hf_config_parse(model, strlen(model), path, &v->model, err);
    if (st != WEFT_OK)
        wf_ckpt_free(v->store);
    return st;
}

static bool has_moments(const struct checkpoint_view *v)
{
    return wf_ckpt_count(v->store) > 0 && wf_ckpt_at(v->store, 0)->has[WF_STORE_FIELD_M];
}

static void print_view(const struct checkpoint_view *v, FILE *out, const char *path)
{
    fprintf(out, "%s: a checkpoint of step %llu, run %s; all its hashes are right\n", path,
            (unsigned long long)wf_ckpt_step(v->store), wf_ckpt_run(v->store));
    wf_model_line(&v->model, v->n_params, wf_ckpt_count(v->store), out);
    fprintf(out, "holds    values%s\n", has_moments(v) ? " and the moments of AdamW" : "");
    for (size_t i = 0; i < wf_ckpt_count(v->store); i++) {
        const struct wf_ckpt_param *p = wf_ckpt_at(v->store, i);
        fprintf(out, "  %-48s (", p->name);
        for (uint32_t k = 0; k < p->rank; k++)
            fprintf(out, "%s%llu", k == 0 ? "" : ", ", (unsigned long long)p->shape[k]);
        fprintf(out, ")\n");
    }
}

static void print_json(const struct checkpoint_view *v, FILE *out, const char *path)
{
    struct wf_json j;
    wf_inspect_begin(&j, out, path, "checkpoint");
    wf_json_uint(&j, "step", wf_ckpt_step(v->store));
    wf_json_string(&j, "run", wf_ckpt_run(v->store));
    wf_model_json(&v->model, v->n_params, &j);
    wf_json_bool(&j, "moments", has_moments(v));
    wf_json_begin(&j, "tensors", '[');
    for (size_t i = 0; i < wf_ckpt_count(v->store); i++) {
        const struct wf_ckpt_param *p = wf_ckpt_at(v->store, i);
        wf_json_begin(&j, NULL, '{');
        wf_json_string(&j, "name", p->name);
        wf_json_begin(&j, "shape", '[');
        for (uint32_t k = 0; k < p->rank; k++)
            wf_json_uint(&j, NULL, p->shape[k]);
        wf_json_end(&j, ']');
        wf_json_end(&j, '}');
    }
    wf_json_end(&j, ']');
    wf_inspect_end(&j);
}

enum weft_status wf_inspect_checkpoint(const char *path, const struct wf_inspect *how,
                                       struct weft_error *err)
{
    struct checkpoint_view v;
    WEFT_TRY(view_init(&v, path, err));
    if (how->json)
        print_json(&v, how->out, path);
    else
        print_view(&v, how->out, path);
    wf_ckpt_free(v.store);
    return WEFT_OK;
}
