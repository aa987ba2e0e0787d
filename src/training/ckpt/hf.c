/* Reads Hugging Face model directories. */
#include "training/ckpt/hf.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "base/printable.h"
#include "base/text.h"
#include "planning/spec/hf_config.h"

enum {
    MAX_CONFIG_BYTES = 4 << 20,
    MAX_INDEX_BYTES = 16 << 20,
    MAX_SHARDS = 10000, /* every shard stays open, so this also limits open files */
    MAX_FILE_NAME = 255,
};

static const char single_file[] = "model.safetensors";
static const char head_name[] = "lm_head.weight";
static const char index_file[] = "model.safetensors.index.json";

/* A tensor and its name in current versions of transformers. */
struct tensor_ref {
    char *name; /* owned */
    const struct wf_safetensors *file;
    const struct wf_safetensors_tensor *tensor;
};

struct wf_hf {
    char *dir; /* owned */
    /* The lm_head.weight of a tied model, which is only compared; a NULL tensor: none. */
    struct wf_hf_location head;
    struct weft_model model;
    struct wf_safetensors **files; /* owned; sorted by name */
    size_t n_files;
    struct tensor_ref *tensors; /* owned; sorted by name */
    size_t n_tensors;
};

/* -- names --------------------------------------------------------------------------------- */

static bool has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Returns true for a tensor that is not read: a non-weight tensor of an old file, or the copy
 * of a tied weight. */
static bool is_ignored(const struct weft_model *m, const char *name)
{
    if (m->tied && strcmp(name, head_name) == 0)
        return true;
    if (m->arch == WEFT_ARCH_GPT2)
        return wf_path_ends_in(name, ".attn.bias") ||
               wf_path_ends_in(name, ".attn.masked_bias");
    return wf_path_ends_in(name, ".rotary_emb.inv_freq");
}

/* Returns the name of a tensor in current versions of transformers, or NULL if memory runs out.
 * The caller frees the name. */
static char *canonical_name(const struct weft_model *m, const char *name)
{
    if (m->arch != WEFT_ARCH_GPT2 || has_prefix(name, "transformer.") ||
        has_prefix(name, "lm_head.") || has_prefix(name, "model."))
        return strdup(name);
    size_t n = sizeof "transformer." + strlen(name);
    char *full = malloc(n);
    if (full != NULL)
        snprintf(full, n, "transformer.%s", name);
    return full;
}

static int compare_refs(const void *a, const void *b)
{
    const struct tensor_ref *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static const struct tensor_ref *find(const struct wf_hf *hf, const char *name)
{
    struct tensor_ref key = {.name = (char *)name};
    return bsearch(&key, hf->tensors, hf->n_tensors, sizeof key, compare_refs);
}

/* -- the files ----------------------------------------------------------------------------- */

static enum weft_status read_config(struct wf_hf *hf, struct weft_error *err)
{
    char *path = wf_path_join(hf->dir, "config.json"), *text = NULL;
    size_t len;
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of config.json");
    enum weft_status st = wf_file_read(path, MAX_CONFIG_BYTES, &text, &len, err);
    if (st != WEFT_OK && access(path, F_OK) != 0)
        wf_error_wrap(err, "", "; expected a model directory");
    if (st == WEFT_OK)
        st = wf_hf_config_parse(text, len, path, &hf->model, err);
    free(text);
    free(path);
    return st;
}

static enum weft_status open_file(struct wf_hf *hf, const char *name, struct weft_error *err)
{
    char *path = wf_path_join(hf->dir, name);
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of %s", name);
    enum weft_status st = wf_safetensors_open(path, &hf->files[hf->n_files], err);
    hf->n_files += st == WEFT_OK;
    free(path);
    return st;
}

/* -- the index: weight_map maps each tensor to its file ------------------------------------ */

static bool is_plain_file_name(const char *name)
{
    return name[0] != '.' && strlen(name) <= MAX_FILE_NAME && wf_is_printable(name) &&
           strchr(name, '/') == NULL && wf_path_ends_in(name, ".safetensors");
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the distinct file names in weight_map.  The caller frees *files. */
static enum weft_status list_files(const char *path, json_t *map, const char ***files,
                                   size_t *n, struct weft_error *err)
{
    size_t size = json_object_size(map), n_all = 0, n_unique = 0;
    if (size == 0)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: weight_map is empty or not an object", path);
    const char **all = calloc(size, sizeof *all);
    if (all == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory for a list of %zu names", path,
                         size);
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const char *file = json_string_value(value);
        if (file == NULL || !is_plain_file_name(file)) {
            free(all);
            return WEFT_FAIL(err, WEFT_CKPT,
                             "%.160s: weight_map '%s' is '%s'; expected the plain name of a "
                             ".safetensors file in the same directory",
                             path, wf_printable(name).at,
                             file != NULL ? wf_printable(file).at : "not a string");
        }
        all[n_all++] = file;
    }

    qsort(all, n_all, sizeof *all, compare_strings);
    for (size_t i = 0; i < n_all; i++)
        if (n_unique == 0 || strcmp(all[n_unique - 1], all[i]) != 0)
            all[n_unique++] = all[i];
    *files = all;
    *n = n_unique;
    return WEFT_OK;
}

static const char *file_name(const struct wf_safetensors *file)
{
    return wf_path_name(wf_safetensors_path(file));
}

/* Checks that weight_map assigns each tensor of `file` to `file`.  The caller also checks that
 * weight_map has as many names as all files together, so weight_map has no additional names. */
static enum weft_status check_map_of(const struct wf_safetensors *file, const char *path,
                                     json_t *map, size_t *n_found, struct weft_error *err)
{
    for (size_t i = 0; i < wf_safetensors_count(file); i++) {
        const char *name = wf_safetensors_at(file, i)->name;
        const char *mapped = json_string_value(json_object_get(map, name));
        if (mapped == NULL || strcmp(mapped, file_name(file)) != 0)
            return WEFT_FAIL(err, WEFT_CKPT,
                             "%.160s: weight_map has tensor '%s' in %s, but it is in %s", path,
                             wf_printable(name).at, mapped != NULL ? mapped : "no file",
                             file_name(file));
    }
    *n_found += wf_safetensors_count(file);
    return WEFT_OK;
}

static int compare_file_name(const void *name, const void *file)
{
    return strcmp(name, file_name(*(struct wf_safetensors *const *)file));
}

/* Reports a tensor that is missing from the file to which weight_map assigns it. */
static enum weft_status fail_missing(const struct wf_hf *hf, const char *path, json_t *map,
                                     struct weft_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const char *mapped = json_string_value(value);
        struct wf_safetensors **file =
            bsearch(mapped, hf->files, hf->n_files, sizeof *hf->files, compare_file_name);
        if (file == NULL || wf_safetensors_find(*file, name) == NULL)
            return WEFT_FAIL(
                err, WEFT_CKPT,
                "%.160s: weight_map has tensor '%s' in %s, but the file does not have it", path,
                wf_printable(name).at, mapped);
    }
    return WEFT_FAIL(err, WEFT_INTERNAL, "%.160s: weight_map and files differ", path);
}

static enum weft_status open_mapped(struct wf_hf *hf, const char *path, json_t *map,
                                    struct weft_error *err)
{
    const char **names = NULL;
    size_t n = 0, n_found = 0;
    WEFT_TRY(list_files(path, map, &names, &n, err));
    enum weft_status st = WEFT_OK;
    if (n > MAX_SHARDS)
        st = WEFT_FAIL(err, WEFT_CKPT, "%.160s: weight_map has %zu files (maximum %d)", path, n,
                       MAX_SHARDS);
    else if ((hf->files = calloc(n, sizeof *hf->files)) == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory for a list of %zu files", path, n);
    for (size_t i = 0; i < n && st == WEFT_OK; i++)
        st = open_file(hf, names[i], err);
    for (size_t i = 0; i < n && st == WEFT_OK; i++)
        st = check_map_of(hf->files[i], path, map, &n_found, err);
    free(names);
    if (st == WEFT_OK && n_found != json_object_size(map))
        st = fail_missing(hf, path, map, err);
    return st;
}

static enum weft_status open_index(struct wf_hf *hf, const char *path, struct weft_error *err)
{
    char *text;
    size_t len;
    WEFT_TRY(wf_file_read(path, MAX_INDEX_BYTES, &text, &len, err));
    json_error_t why;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    free(text);
    if (root == NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s:%d:%d: not valid JSON: %s", path, why.line,
                         why.column, wf_printable(why.text).at);
    enum weft_status st = open_mapped(hf, path, json_object_get(root, "weight_map"), err);
    json_decref(root);
    return st;
}

static enum weft_status open_weights(struct wf_hf *hf, struct weft_error *err)
{
    if (wf_dir_contains(hf->dir, single_file)) {
        hf->files = calloc(1, sizeof *hf->files);
        if (hf->files == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of files");
        return open_file(hf, single_file, err);
    }
    if (!wf_dir_contains(hf->dir, index_file))
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s has neither %s nor %s%s", hf->dir, single_file,
                         index_file,
                         wf_dir_contains(hf->dir, "pytorch_model.bin")
                             ? "; convert pytorch_model.bin to safetensors"
                             : "");
    char *path = wf_path_join(hf->dir, index_file);
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of %s", index_file);
    enum weft_status st = open_index(hf, path, err);
    free(path);
    return st;
}

/* -- the tensors --------------------------------------------------------------------------- */

static enum weft_status add_tensors(struct wf_hf *hf, const struct wf_safetensors *file,
                                    struct weft_error *err)
{
    for (size_t i = 0; i < wf_safetensors_count(file); i++) {
        const struct wf_safetensors_tensor *t = wf_safetensors_at(file, i);
        struct tensor_ref *to = &hf->tensors[hf->n_tensors];
        if (hf->model.tied && strcmp(t->name, head_name) == 0)
            hf->head = (struct wf_hf_location){file, t};
        if (is_ignored(&hf->model, t->name))
            continue;
        *to = (struct tensor_ref){canonical_name(&hf->model, t->name), file, t};
        if (to->name == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of a tensor");
        hf->n_tensors++;
    }
    return WEFT_OK;
}

static enum weft_status list_tensors(struct wf_hf *hf, struct weft_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < hf->n_files; i++)
        n += wf_safetensors_count(hf->files[i]);
    hf->tensors = calloc(n + 1, sizeof *hf->tensors);
    if (hf->tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory for a list of %zu tensors",
                         hf->dir, n);
    for (size_t i = 0; i < hf->n_files; i++)
        WEFT_TRY(add_tensors(hf, hf->files[i], err));

    qsort(hf->tensors, hf->n_tensors, sizeof *hf->tensors, compare_refs);
    for (size_t i = 1; i < hf->n_tensors; i++) {
        const struct tensor_ref *a = &hf->tensors[i - 1], *b = &hf->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return WEFT_FAIL(err, WEFT_CKPT, "%.160s: tensor '%s' duplicates '%s'",
                             wf_safetensors_path(b->file), wf_printable(b->tensor->name).at,
                             wf_printable(a->tensor->name).at);
    }

    if (!hf->model.tied && find(hf, head_name) == NULL)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s has no lm_head.weight, and tie_word_embeddings in config.json "
                         "is not true; weights are missing, or the model is tied",
                         hf->dir);
    return WEFT_OK;
}

enum weft_status wf_hf_open(const char *dir, struct wf_hf **out, struct weft_error *err)
{
    struct wf_hf *hf = calloc(1, sizeof *hf);
    if (hf == NULL || (hf->dir = strdup(dir)) == NULL) {
        free(hf);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a handle for %.160s", dir);
    }
    enum weft_status st = read_config(hf, err);
    if (st == WEFT_OK)
        st = open_weights(hf, err);
    if (st == WEFT_OK)
        st = list_tensors(hf, err);
    if (st == WEFT_OK)
        *out = hf;
    else
        wf_hf_free(hf);
    return st;
}

void wf_hf_free(struct wf_hf *hf)
{
    if (hf == NULL)
        return;
    for (size_t i = 0; i < hf->n_tensors; i++)
        free(hf->tensors[i].name);
    for (size_t i = 0; i < hf->n_files; i++)
        wf_safetensors_free(hf->files[i]);
    free(hf->tensors);
    free(hf->files);
    free(hf->dir);
    free(hf);
}

const struct weft_model *wf_hf_model(const struct wf_hf *hf)
{
    return &hf->model;
}

size_t wf_hf_count(const struct wf_hf *hf)
{
    return hf->n_tensors;
}

uint64_t wf_hf_elements(const struct wf_hf *hf)
{
    uint64_t n = 0; /* cannot overflow: every element takes bytes in a file */
    for (size_t i = 0; i < hf->n_tensors; i++)
        n += hf->tensors[i].tensor->n;
    return n;
}

/* Prints a shape as "(2, 3)". */
static void print_shape(char *out, size_t size, uint32_t n_dims, const uint64_t *shape)
{
    int n = snprintf(out, size, "(");
    for (uint32_t i = 0; i < n_dims && n > 0 && (size_t)n < size; i++)
        n += snprintf(out + n, size - (size_t)n, "%s%" PRIu64, i > 0 ? ", " : "", shape[i]);
    if (n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ")");
}

static enum weft_status fail_not_found(const struct wf_hf *hf, const char *name,
                                       struct weft_error *err)
{
    const char *near = NULL;
    if (hf->n_tensors > 0)
        near = wf_text_nearest(name, (const char *const *)&hf->tensors[0].name, hf->n_tensors,
                               sizeof hf->tensors[0]);
    return WEFT_FAIL(err, WEFT_CKPT, "%.160s has no tensor '%s'%s%s", hf->dir,
                     wf_printable(name).at, near != NULL ? "; the nearest is " : "",
                     near != NULL ? wf_printable(near).at : "");
}

enum weft_status wf_hf_find(const struct wf_hf *hf, const char *name, uint32_t n_dims,
                            const uint64_t *shape, struct wf_hf_location *out,
                            struct weft_error *err)
{
    const struct tensor_ref *t = find(hf, name);
    if (t == NULL)
        return fail_not_found(hf, name, err);

    bool same = t->tensor->n_dims == n_dims;
    for (uint32_t i = 0; same && i < n_dims; i++)
        same = t->tensor->shape[i] == shape[i];
    if (!same) {
        char has[100], needs[100];
        print_shape(has, sizeof has, t->tensor->n_dims, t->tensor->shape);
        print_shape(needs, sizeof needs, n_dims, shape);
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: tensor '%s' has shape %s, but the model of config.json "
                         "needs %s",
                         wf_safetensors_path(t->file), wf_printable(t->tensor->name).at, has,
                         needs);
    }
    *out = (struct wf_hf_location){t->file, t->tensor};
    return WEFT_OK;
}

enum weft_status wf_hf_read(const struct wf_hf *hf, const char *name, uint32_t n_dims,
                            const uint64_t *shape, float *out, struct weft_error *err)
{
    struct wf_hf_location found;
    WEFT_TRY(wf_hf_find(hf, name, n_dims, shape, &found, err));
    return wf_safetensors_read(found.file, found.tensor, 0, found.tensor->n, out, err);
}

/* -- tied weights -------------------------------------------------------------------------- */

/* Compares elements of two tensors as fp32, in pieces.  Sets *same. */
static enum weft_status compare_values(struct wf_hf_location a, struct wf_hf_location b,
                                       bool *same, struct weft_error *err)
{
    enum { PIECE = 1 << 16 };
    float *x = malloc(PIECE * sizeof *x), *y = malloc(PIECE * sizeof *y);
    enum weft_status st = x == NULL || y == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to compare two tensors")
                              : WEFT_OK;
    *same = true;
    for (uint64_t at = 0; st == WEFT_OK && *same && at < a.tensor->n; at += PIECE) {
        uint64_t n = a.tensor->n - at < PIECE ? a.tensor->n - at : PIECE;
        st = wf_safetensors_read(a.file, a.tensor, at, n, x, err);
        if (st == WEFT_OK)
            st = wf_safetensors_read(b.file, b.tensor, at, n, y, err);
        if (st == WEFT_OK)
            *same = memcmp(x, y, (size_t)n * sizeof *x) == 0;
    }
    free(x);
    free(y);
    return st;
}

/* Returns an error if a tied model has an lm_head.weight that differs from its embedding: it is
 * not known which one is meant. */
static enum weft_status check_tied(const struct wf_hf *hf, struct weft_error *err)
{
    const char *name = hf->model.arch == WEFT_ARCH_GPT2 ? "transformer.wte.weight"
                                                        : "model.embed_tokens.weight";
    const struct tensor_ref *embedding = find(hf, name);
    bool same = false;
    if (hf->head.tensor == NULL || embedding == NULL)
        return WEFT_OK;
    struct wf_hf_location input = {embedding->file, embedding->tensor};
    if (hf->head.tensor->n == input.tensor->n)
        WEFT_TRY(compare_values(hf->head, input, &same, err));
    if (same)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_CKPT,
                     "%.160s: tie_word_embeddings in config.json is true, but lm_head.weight "
                     "differs from %s; set tie_word_embeddings to false to use lm_head.weight, "
                     "or remove the tensor",
                     hf->dir, name);
}

/* -- names of all tensors ------------------------------------------------------------------ */

/* Walks both sorted lists in parallel and reports the first name that is in only one list. */
static enum weft_status compare_lists(const struct wf_hf *hf, const char *const *sorted,
                                      size_t n, struct weft_error *err)
{
    size_t k = 0;
    for (size_t i = 0; i < hf->n_tensors; i++) {
        const struct tensor_ref *t = &hf->tensors[i];
        if (k < n && strcmp(sorted[k], t->name) < 0)
            return fail_not_found(hf, sorted[k], err);
        if (k < n && strcmp(sorted[k], t->name) == 0) {
            while (k < n && strcmp(sorted[k], t->name) == 0)
                k++; /* skip a duplicate: callers may list a tied weight twice */
            continue;
        }
        const char *near = wf_text_nearest(t->name, sorted, n, sizeof *sorted);
        return WEFT_FAIL(
            err, WEFT_CKPT,
            "%.160s: unexpected tensor '%s'%s%s; config.json may belong to another "
            "model",
            wf_safetensors_path(t->file), wf_printable(t->tensor->name).at,
            near != NULL ? "; the nearest is " : "", near != NULL ? near : "");
    }
    return k < n ? fail_not_found(hf, sorted[k], err) : WEFT_OK;
}

enum weft_status wf_hf_check_names(const struct wf_hf *hf, const char *const *names, size_t n,
                                   struct weft_error *err)
{
    const char **sorted = calloc(n + 1, sizeof *sorted);
    if (sorted == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu names", n);
    if (n > 0)
        memcpy(sorted, names, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_strings);
    enum weft_status st = compare_lists(hf, sorted, n, err);
    free(sorted);
    return st == WEFT_OK ? check_tied(hf, err) : st;
}
