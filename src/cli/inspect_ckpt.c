/* Checkpoints: the numbers of a run at one step. */
#include <string.h>

#include "base/error.h"
#include "cli/inspect.h"
#include "planning/spec/hf_config.h"
#include "training/ckpt/store.h"

struct checkpoint_view {
    struct weft_store *store; /* owned */
    struct weft_model model;
    uint64_t n_params;
};

static enum weft_status view_init(struct checkpoint_view *v, const char *path,
                                  struct weft_error *err)
{
    *v = (struct checkpoint_view){0};
    WEFT_TRY(weft_store_open(path, true, &v->store, err));
    const char *model = weft_store_model(v->store);
    for (size_t i = 0; i < weft_store_count(v->store); i++)
        v->n_params += weft_store_at(v->store, i)->n;
    enum weft_status st = weft_hf_config_parse(model, strlen(model), path, &v->model, err);
    if (st != WEFT_OK)
        weft_store_free(v->store);
    return st;
}

static bool has_moments(const struct checkpoint_view *v)
{
    return weft_store_count(v->store) > 0 && weft_store_at(v->store, 0)->has[WEFT_STORE_M];
}

static void print_view(const struct checkpoint_view *v, FILE *out, const char *path)
{
    fprintf(out, "%s: a checkpoint of step %llu, run %s; all its hashes are right\n", path,
            (unsigned long long)weft_store_step(v->store), weft_store_run(v->store));
    weft_model_line(&v->model, v->n_params, weft_store_count(v->store), out);
    fprintf(out, "holds    values%s\n", has_moments(v) ? " and the moments of AdamW" : "");
    for (size_t i = 0; i < weft_store_count(v->store); i++) {
        const struct weft_store_param *p = weft_store_at(v->store, i);
        fprintf(out, "  %-48s (", p->name);
        for (uint32_t k = 0; k < p->rank; k++)
            fprintf(out, "%s%llu", k == 0 ? "" : ", ", (unsigned long long)p->shape[k]);
        fprintf(out, ")\n");
    }
}

static void print_json(const struct checkpoint_view *v, FILE *out, const char *path)
{
    struct weft_json j;
    weft_inspect_begin(&j, out, path, "checkpoint");
    weft_json_uint(&j, "step", weft_store_step(v->store));
    weft_json_string(&j, "run", weft_store_run(v->store));
    weft_model_json(&v->model, v->n_params, &j);
    weft_json_bool(&j, "moments", has_moments(v));
    weft_json_begin(&j, "tensors", '[');
    for (size_t i = 0; i < weft_store_count(v->store); i++) {
        const struct weft_store_param *p = weft_store_at(v->store, i);
        weft_json_begin(&j, NULL, '{');
        weft_json_string(&j, "name", p->name);
        weft_json_begin(&j, "shape", '[');
        for (uint32_t k = 0; k < p->rank; k++)
            weft_json_uint(&j, NULL, p->shape[k]);
        weft_json_end(&j, ']');
        weft_json_end(&j, '}');
    }
    weft_json_end(&j, ']');
    weft_inspect_end(&j);
}

enum weft_status weft_inspect_checkpoint(const char *path, const struct weft_inspect *how,
                                         struct weft_error *err)
{
    struct checkpoint_view v;
    WEFT_TRY(view_init(&v, path, err));
    if (how->json)
        print_json(&v, how->out, path);
    else
        print_view(&v, how->out, path);
    weft_store_free(v.store);
    return WEFT_OK;
}
