/* Models: Hugging Face directories, and safetensors files by themselves. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/inspect.h"
#include "cli/model.h"

/* -- one tensor ----------------------------------------------------------------------------- */

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* "(768, 2304)", and "()" for a single number. */
static void shape_text(char *out, size_t room, const struct weft_safetensors_tensor *t)
{
    int n = snprintf(out, room, "(");
    for (uint32_t i = 0; i < t->rank && n > 0 && (size_t)n < room; i++)
        n += snprintf(out + n, room - (size_t)n, "%s%llu", i > 0 ? ", " : "",
                      (unsigned long long)t->shape[i]);
    if (n > 0 && (size_t)n < room)
        snprintf(out + n, room - (size_t)n, ")");
}

static void print_tensor(FILE *out, const char *name, const struct weft_safetensors_tensor *t,
                         const char *file)
{
    char shape[8 * 22];
    shape_text(shape, sizeof shape, t);
    fprintf(out, "  %-48s %-5s %-16s%s%s\n", name, t->dtype, shape, file != NULL ? " " : "",
            file != NULL ? file : "");
}

static void put_tensor(struct weft_json *j, const char *name,
                       const struct weft_safetensors_tensor *t, const char *file)
{
    weft_json_begin(j, NULL, '{');
    weft_json_string(j, "name", name);
    weft_json_string(j, "type", t->dtype);
    weft_json_begin(j, "shape", '[');
    for (uint32_t i = 0; i < t->rank; i++)
        weft_json_uint(j, NULL, t->shape[i]);
    weft_json_end(j, ']');
    if (file != NULL)
        weft_json_string(j, "file", file);
    weft_json_end(j, '}');
}

/* -- directories ---------------------------------------------------------------------------- */

void weft_model_view_release(struct weft_model_view *v)
{
    weft_hf_free(v->hf);
    weft_param_list_release(&v->params);
    free(v->tensors);
    *v = (struct weft_model_view){0};
}

static enum weft_status check_tensors(const struct weft_model_view *v, struct weft_error *err)
{
    const char **names = calloc(v->params.n + 1, sizeof *names);
    if (names == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu names", v->params.n);
    for (size_t i = 0; i < v->params.n; i++)
        names[i] = v->params.at[i].name;
    enum weft_status st = weft_hf_check_names(v->hf, names, v->params.n, err);
    free(names);
    for (size_t i = 0; st == WEFT_OK && i < v->params.n; i++) {
        struct weft_hf_place place;
        const struct weft_hf_tensor *t = &v->tensors[i];
        st = weft_hf_find(v->hf, t->name, t->rank, t->shape, &place, err);
    }
    return st;
}

static enum weft_status list_tensors(struct weft_model_view *v, struct weft_error *err)
{
    const struct weft_model *model = weft_hf_model(v->hf);
    WEFT_TRY(weft_param_list_init(&v->params, model, 0, model->layers + 2, err));
    v->tensors = calloc(v->params.n + 1, sizeof *v->tensors);
    if (v->tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tensors", v->params.n);
    for (size_t i = 0; i < v->params.n; i++) {
        const struct weft_param_desc *d = &v->params.at[i];
        v->tensors[i] = (struct weft_hf_tensor){
            .name = d->name, .rank = d->rank, .shape = {d->shape[0], d->shape[1]}};
        v->n_params += weft_param_size(d);
    }
    return check_tensors(v, err);
}

enum weft_status weft_model_view_init(struct weft_model_view *v, const char *dir,
                                      struct weft_error *err)
{
    *v = (struct weft_model_view){0};
    WEFT_TRY(weft_hf_open(dir, &v->hf, err));
    const struct weft_model *model = weft_hf_model(v->hf);
    enum weft_status st = WEFT_OK;
    /* Before a list is made that is as long as config.json says. */
    if (model->layers > weft_hf_count(v->hf))
        st = WEFT_FAIL(err, WEFT_CKPT,
                       "%.200s: config.json has %u layers, but there are only %zu tensors", dir,
                       model->layers, weft_hf_count(v->hf));
    if (st == WEFT_OK)
        st = list_tensors(v, err);
    if (st != WEFT_OK)
        weft_model_view_release(v);
    return st;
}

void weft_model_line(const struct weft_model *m, uint64_t n_params, size_t n_tensors, FILE *out)
{
    char params[WEFT_NUMBER_TEXT];
    fprintf(out, "model    %s, %u layer%s of dimension %u, %u heads", weft_arch_name(m->arch),
            m->layers, m->layers == 1 ? "" : "s", m->dim, m->heads);
    if (m->kv_heads != m->heads)
        fprintf(out, " (%u of keys and values)", m->kv_heads);
    fprintf(out, ", ffn %u, vocabulary %u, context %u%s", m->ffn, m->vocab, m->ctx,
            m->tied ? ", tied" : "");
    if (m->residual_block_layers > 0)
        fprintf(out, ", residual blocks of %u layers", m->residual_block_layers);
    fprintf(out, "; %s parameters in %zu tensors\n", weft_grouped(params, n_params), n_tensors);
}

void weft_model_json(const struct weft_model *m, uint64_t n_params, struct weft_json *j)
{
    weft_json_string(j, "arch", weft_arch_name(m->arch));
    weft_json_uint(j, "layers", m->layers);
    weft_json_uint(j, "dim", m->dim);
    weft_json_uint(j, "heads", m->heads);
    weft_json_uint(j, "kv_heads", m->kv_heads);
    weft_json_uint(j, "ffn", m->ffn);
    weft_json_uint(j, "vocab", m->vocab);
    weft_json_uint(j, "ctx", m->ctx);
    weft_json_bool(j, "tied", m->tied);
    weft_json_uint(j, "residual_block_layers", m->residual_block_layers);
    weft_json_uint(j, "parameters", n_params);
}

void weft_model_view_print(const struct weft_model_view *v, FILE *out)
{
    weft_model_line(weft_hf_model(v->hf), v->n_params, v->params.n, out);
}

void weft_model_view_json(const struct weft_model_view *v, struct weft_json *j)
{
    weft_model_json(weft_hf_model(v->hf), v->n_params, j);
}

/* All have been found before. */
static struct weft_hf_place place_of(const struct weft_model_view *v, size_t i)
{
    struct weft_hf_place place = {0};
    const struct weft_hf_tensor *t = &v->tensors[i];
    weft_hf_find(v->hf, t->name, t->rank, t->shape, &place, NULL);
    return place;
}

static void print_model(const struct weft_model_view *v, FILE *out, const char *path)
{
    fprintf(out, "%s: a model\n", path);
    weft_model_view_print(v, out);
    for (size_t i = 0; i < v->params.n; i++) {
        struct weft_hf_place at = place_of(v, i);
        print_tensor(out, v->tensors[i].name, at.tensor,
                     file_name(weft_safetensors_path(at.file)));
    }
}

static void print_model_json(const struct weft_model_view *v, FILE *out, const char *path)
{
    struct weft_json j;
    weft_inspect_begin(&j, out, path, "model");
    weft_model_view_json(v, &j);
    weft_json_begin(&j, "tensors", '[');
    for (size_t i = 0; i < v->params.n; i++) {
        struct weft_hf_place at = place_of(v, i);
        put_tensor(&j, v->tensors[i].name, at.tensor,
                   file_name(weft_safetensors_path(at.file)));
    }
    weft_json_end(&j, ']');
    weft_inspect_end(&j);
}

enum weft_status weft_inspect_hash(const char *path, const struct weft_inspect *how,
                                   struct weft_error *err)
{
    struct weft_weights *w = NULL;
    char hash[WEFT_HASH_TEXT];
    WEFT_TRY(weft_model_open(path, &w, err));
    enum weft_status st = weft_load_hash(w, hash, err);
    weft_weights_free(w);
    if (st == WEFT_OK && how->json) {
        struct weft_json j;
        weft_inspect_begin(&j, how->out, path, "model");
        weft_json_string(&j, "hash", hash);
        weft_inspect_end(&j);
    } else if (st == WEFT_OK) {
        fprintf(how->out, "%s  %s\n", hash, path);
    }
    return st;
}

enum weft_status weft_inspect_model(const char *path, const struct weft_inspect *how,
                                    struct weft_error *err)
{
    struct weft_model_view v;
    WEFT_TRY(weft_model_view_init(&v, path, err));
    if (how->json)
        print_model_json(&v, how->out, path);
    else
        print_model(&v, how->out, path);
    weft_model_view_release(&v);
    return WEFT_OK;
}

/* -- one file ------------------------------------------------------------------------------- */

enum weft_status weft_inspect_safetensors(const char *path, const struct weft_inspect *how,
                                          struct weft_error *err)
{
    struct weft_safetensors *s = NULL;
    uint64_t elements = 0;
    WEFT_TRY(weft_safetensors_open(path, &s, err));
    size_t n = weft_safetensors_count(s);
    for (size_t i = 0; i < n; i++) /* each has its bytes in the file: no overflow */
        elements += weft_safetensors_at(s, i)->n;
    if (how->json) {
        struct weft_json j;
        weft_inspect_begin(&j, how->out, path, "safetensors");
        weft_json_uint(&j, "elements", elements);
        weft_json_begin(&j, "tensors", '[');
        for (size_t i = 0; i < n; i++)
            put_tensor(&j, weft_safetensors_at(s, i)->name, weft_safetensors_at(s, i), NULL);
        weft_json_end(&j, ']');
        weft_inspect_end(&j);
    } else {
        char count[WEFT_NUMBER_TEXT];
        fprintf(how->out, "%s: a safetensors file\ntensors  %zu with %s elements\n", path, n,
                weft_grouped(count, elements));
        for (size_t i = 0; i < n; i++)
            print_tensor(how->out, weft_safetensors_at(s, i)->name, weft_safetensors_at(s, i),
                         NULL);
    }
    weft_safetensors_free(s);
    return WEFT_OK;
}
