/* Prints models: Hugging Face directories, safetensors files, checkpoints. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/inspect.h"
#include "cli/model.h"
#include "training/ckpt/store.h"

/* -- one tensor ----------------------------------------------------------------------------- */

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Writes "(768, 2304)", and "()" for a scalar. */
static void shape_text(char *out, size_t size, const struct wf_safetensors_tensor *t)
{
    int n = snprintf(out, size, "(");
    for (uint32_t i = 0; i < t->n_dims && n > 0 && (size_t)n < size; i++)
        n += snprintf(out + n, size - (size_t)n, "%s%llu", i > 0 ? ", " : "",
                      (unsigned long long)t->shape[i]);
    if (n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ")");
}

static void print_tensor(FILE *out, const char *name, const struct wf_safetensors_tensor *t,
                         const char *file)
{
    char shape[8 * 22];
    shape_text(shape, sizeof shape, t);
    fprintf(out, "  %-48s %-5s %-16s%s%s\n", name, t->dtype, shape, file != NULL ? " " : "",
            file != NULL ? file : "");
}

static void put_tensor(struct wf_json *j, const char *name,
                       const struct wf_safetensors_tensor *t, const char *file)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "name", name);
    wf_json_string(j, "type", t->dtype);
    wf_json_begin(j, "shape", '[');
    for (uint32_t i = 0; i < t->n_dims; i++)
        wf_json_uint(j, NULL, t->shape[i]);
    wf_json_end(j, ']');
    if (file != NULL)
        wf_json_string(j, "file", file);
    wf_json_end(j, '}');
}

/* -- directories ---------------------------------------------------------------------------- */

void wf_model_line(const struct weft_model *m, uint64_t n_params, size_t n_tensors, FILE *out)
{
    char params[WF_NUMBER_CHARS];
    fprintf(out, "model    %s, %u layer%s of dimension %u, %u heads", weft_arch_name(m->arch),
            m->layers, m->layers == 1 ? "" : "s", m->dim, m->heads);
    if (m->kv_heads != m->heads)
        fprintf(out, " (%u of keys and values)", m->kv_heads);
    fprintf(out, ", ffn %u, vocabulary %u, context %u%s", m->ffn, m->vocab, m->ctx,
            m->tied ? ", tied" : "");
    if (m->residual_block_layers > 0)
        fprintf(out, ", residual blocks of %u layers", m->residual_block_layers);
    fprintf(out, "; %s parameters in %zu tensors\n", wf_grouped(params, n_params), n_tensors);
}

void wf_model_json(const struct weft_model *m, uint64_t n_params, struct wf_json *j)
{
    wf_json_string(j, "arch", weft_arch_name(m->arch));
    wf_json_uint(j, "layers", m->layers);
    wf_json_uint(j, "dim", m->dim);
    wf_json_uint(j, "heads", m->heads);
    wf_json_uint(j, "kv_heads", m->kv_heads);
    wf_json_uint(j, "ffn", m->ffn);
    wf_json_uint(j, "vocab", m->vocab);
    wf_json_uint(j, "ctx", m->ctx);
    wf_json_bool(j, "tied", m->tied);
    wf_json_uint(j, "residual_block_layers", m->residual_block_layers);
    wf_json_uint(j, "parameters", n_params);
}

static void print_model(const struct wf_model_info *v, FILE *out, const char *path)
{
    fprintf(out, "%s: a model\n", path);
    wf_model_line(wf_hf_model(v->hf), v->n_params, v->params.n, out);
    for (size_t i = 0; i < v->params.n; i++) {
        struct wf_hf_location at = wf_model_info_locate(v, i);
        print_tensor(out, v->tensors[i].name, at.tensor,
                     file_name(wf_safetensors_path(at.file)));
    }
}

static void print_model_json(const struct wf_model_info *v, FILE *out, const char *path)
{
    struct wf_json j;
    wf_inspect_begin(&j, out, path, "model");
    wf_model_json(wf_hf_model(v->hf), v->n_params, &j);
    wf_json_begin(&j, "tensors", '[');
    for (size_t i = 0; i < v->params.n; i++) {
        struct wf_hf_location at = wf_model_info_locate(v, i);
        put_tensor(&j, v->tensors[i].name, at.tensor, file_name(wf_safetensors_path(at.file)));
    }
    wf_json_end(&j, ']');
    wf_inspect_end(&j);
}

enum weft_status wf_inspect_hash(const char *path, const struct wf_inspect *how,
                                 struct weft_error *err)
{
    struct wf_weights *w = NULL;
    char hash[WF_HASH_HEX_SIZE];
    WEFT_TRY(wf_model_open(path, &w, err));
    enum weft_status st = wf_load_hash(w, hash, err);
    wf_weights_free(w);
    if (st == WEFT_OK && how->json) {
        struct wf_json j;
        wf_inspect_begin(&j, how->out, path, "model");
        wf_json_string(&j, "hash", hash);
        wf_inspect_end(&j);
    } else if (st == WEFT_OK) {
        fprintf(how->out, "%s  %s\n", hash, path);
    }
    return st;
}

enum weft_status wf_inspect_model(const char *path, const struct wf_inspect *how,
                                  struct weft_error *err)
{
    struct wf_model_info v;
    WEFT_TRY(wf_model_inspect(&v, path, err));
    if (how->json)
        print_model_json(&v, how->out, path);
    else
        print_model(&v, how->out, path);
    wf_model_info_release(&v);
    return WEFT_OK;
}

/* -- one file ------------------------------------------------------------------------------- */

enum weft_status wf_inspect_safetensors(const char *path, const struct wf_inspect *how,
                                        struct weft_error *err)
{
    struct wf_safetensors *s = NULL;
    uint64_t elements = 0;
    WEFT_TRY(wf_safetensors_open(path, &s, err));
    size_t n = wf_safetensors_count(s);
    for (size_t i = 0; i < n; i++) /* cannot overflow: all tensors are in the file */
        elements += wf_safetensors_at(s, i)->n;
    if (how->json) {
        struct wf_json j;
        wf_inspect_begin(&j, how->out, path, "safetensors");
        wf_json_uint(&j, "elements", elements);
        wf_json_begin(&j, "tensors", '[');
        for (size_t i = 0; i < n; i++)
            put_tensor(&j, wf_safetensors_at(s, i)->name, wf_safetensors_at(s, i), NULL);
        wf_json_end(&j, ']');
        wf_inspect_end(&j);
    } else {
        char count[WF_NUMBER_CHARS];
        fprintf(how->out, "%s: a safetensors file\ntensors  %zu with %s elements\n", path, n,
                wf_grouped(count, elements));
        for (size_t i = 0; i < n; i++)
            print_tensor(how->out, wf_safetensors_at(s, i)->name, wf_safetensors_at(s, i),
                         NULL);
    }
    wf_safetensors_free(s);
    return WEFT_OK;
}

/* -- checkpoints ---------------------------------------------------------------------------- */

static void print_checkpoint(const struct wf_checkpoint_info *v, FILE *out, const char *path)
{
    fprintf(out, "%s: a checkpoint of step %llu, run %s; all hashes match\n", path,
            (unsigned long long)wf_ckpt_step(v->store), wf_ckpt_run(v->store));
    wf_model_line(&v->model, v->n_params, wf_ckpt_count(v->store), out);
    fprintf(out, "contents values%s\n", v->has_moments ? " and AdamW moments" : "");
    for (size_t i = 0; i < wf_ckpt_count(v->store); i++) {
        const struct wf_ckpt_param *p = wf_ckpt_at(v->store, i);
        fprintf(out, "  %-48s (", p->name);
        for (uint32_t k = 0; k < p->n_dims; k++)
            fprintf(out, "%s%llu", k == 0 ? "" : ", ", (unsigned long long)p->shape[k]);
        fprintf(out, ")\n");
    }
}

static void print_checkpoint_json(const struct wf_checkpoint_info *v, FILE *out,
                                  const char *path)
{
    struct wf_json j;
    wf_inspect_begin(&j, out, path, "checkpoint");
    wf_json_uint(&j, "step", wf_ckpt_step(v->store));
    wf_json_string(&j, "run", wf_ckpt_run(v->store));
    wf_model_json(&v->model, v->n_params, &j);
    wf_json_bool(&j, "moments", v->has_moments);
    wf_json_begin(&j, "tensors", '[');
    for (size_t i = 0; i < wf_ckpt_count(v->store); i++) {
        const struct wf_ckpt_param *p = wf_ckpt_at(v->store, i);
        wf_json_begin(&j, NULL, '{');
        wf_json_string(&j, "name", p->name);
        wf_json_begin(&j, "shape", '[');
        for (uint32_t k = 0; k < p->n_dims; k++)
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
    struct wf_checkpoint_info v;
    WEFT_TRY(wf_checkpoint_inspect(&v, path, err));
    if (how->json)
        print_checkpoint_json(&v, how->out, path);
    else
        print_checkpoint(&v, how->out, path);
    wf_checkpoint_info_release(&v);
    return WEFT_OK;
}
