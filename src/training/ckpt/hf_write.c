/* Writes Hugging Face model directories. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "base/temporary.h"
#include "base/text.h"
#include "planning/spec/hf_config.h"
#include "training/ckpt/hf.h"
#include "training/ckpt/hf_priv.h"
#include "training/ckpt/safetensors_priv.h"

enum { FILE_NAME_SIZE = 64 };

/* One weight file.  It contains the entries first .. first + n - 1. */
struct hf_shard {
    size_t first, n;
    uint64_t n_elements;
};

struct wf_hf_writer {
    char *dir, *tmp; /* owned; tmp is NULL while the temporary directory does not exist */
    int tmp_lock;    /* while tmp is not NULL: its lock (base/temporary.h) */
    struct wf_safetensors_entry *entries; /* owned, with the names */
    size_t n_entries;
    struct hf_shard *shards; /* owned */
    size_t n_shards;
    struct wf_safetensors_pair *pairs; /* owned, with the strings */
    size_t n_pairs;
    uint64_t n_bytes;                   /* bytes of all tensors */
    struct wf_safetensors_writer *file; /* owned: writer of the current shard */
    size_t current;                     /* index of the current shard */
    uint64_t n_missing; /* elements of the current shard that are not yet appended */
    char **added;       /* owned, with the names: files and directories beside the weights */
    size_t n_added;
};

static void name_shard(const struct wf_hf_writer *w, size_t i, char out[FILE_NAME_SIZE])
{
    if (w->n_shards == 1)
        snprintf(out, FILE_NAME_SIZE, "model.safetensors");
    else
        snprintf(out, FILE_NAME_SIZE, "model-%05zu-of-%05zu.safetensors", i + 1, w->n_shards);
}

/* -- shards -------------------------------------------------------------------------------- */

static enum weft_status copy_entries(struct wf_hf_writer *w, const struct wf_hf_tensor *tensors,
                                     size_t n, enum wf_dtype type, struct weft_error *err)
{
    w->entries = calloc(n + 1, sizeof *w->entries);
    w->shards = calloc(n + 1, sizeof *w->shards);
    if (w->entries == NULL || w->shards == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu tensors", n);
    for (; w->n_entries < n; w->n_entries++) {
        const struct wf_hf_tensor *t = &tensors[w->n_entries];
        struct wf_safetensors_entry *e = &w->entries[w->n_entries];
        *e = (struct wf_safetensors_entry){strdup(t->name), type, t->n_dims, {0}};
        if (e->name == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of a tensor");
        memcpy(e->shape, t->shape, sizeof e->shape);
    }
    return WEFT_OK;
}

/* Assigns tensors to files in order.  A tensor with more than `limit` bytes gets its own
 * file. */
static enum weft_status plan_shards(struct wf_hf_writer *w, uint64_t limit,
                                    struct weft_error *err)
{
    uint64_t filled = 0, n, bytes;
    w->n_shards = 1;
    for (size_t i = 0; i < w->n_entries; i++) {
        WEFT_TRY(wf_safetensors_entry_size(&w->entries[i], &n, &bytes, err));
        if (!wf_size_add(w->n_bytes, bytes, &w->n_bytes))
            return WEFT_FAIL(err, WEFT_CKPT, "tensor '%s' exceeds the maximum size of a model",
                             w->entries[i].name);
        struct hf_shard *s = &w->shards[w->n_shards - 1];
        if (limit > 0 && s->n > 0 && (filled > limit || bytes > limit - filled)) {
            *++s = (struct hf_shard){.first = i};
            w->n_shards++;
            filled = 0;
        }
        s->n++;
        s->n_elements += n;
        filled += bytes;
    }
    return WEFT_OK;
}

/* -- the directory ------------------------------------------------------------------------- */

/* Records the name of a new file, or of its directory, so that it can be removed again. */
static enum weft_status record(struct wf_hf_writer *w, const char *name, size_t len,
                               struct weft_error *err)
{
    char **larger = realloc(w->added, (w->n_added + 1) * sizeof *larger);
    if (larger != NULL)
        w->added = larger;
    char *copy = larger == NULL ? NULL : strndup(name, len);
    if (copy == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of %s", name);
    w->added[w->n_added++] = copy;
    return WEFT_OK;
}

/* Makes the directory of a new file if its name has one, and returns the path of the file.  The
 * caller frees *path. */
static enum weft_status begin_file(struct wf_hf_writer *w, const char *name, char **path,
                                   struct weft_error *err)
{
    const char *slash = strchr(name, '/');
    if (w->tmp == NULL)
        return WEFT_FAIL(err, WEFT_INTERNAL, "%.160s: %s is added too late", w->dir, name);
    char *full = wf_path_join(w->tmp, name);
    if (full == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of %s", name);

    enum weft_status st = WEFT_OK;
    if (slash != NULL) {
        char *end = strrchr(full, '/');
        *end = '\0';
        if (mkdir(full, 0777) == 0)
            st = record(w, name, (size_t)(slash - name), err);
        else if (errno != EEXIST)
            st = WEFT_FAIL(err, WEFT_IO, "cannot make directory %.200s: %s", full,
                           strerror(errno));
        *end = '/';
    }
    if (st == WEFT_OK)
        st = record(w, name, strlen(name), err);
    if (st == WEFT_OK)
        *path = full;
    else
        free(full);
    return st;
}

enum weft_status wf_hf_writer_copy(struct wf_hf_writer *w, const char *name, const char *from,
                                   struct weft_error *err)
{
    char *path = NULL;
    WEFT_TRY(begin_file(w, name, &path, err));
    enum weft_status st = wf_file_copy(from, path, err);
    free(path);
    return st;
}

enum weft_status wf_hf_writer_add(struct wf_hf_writer *w, const char *name, const char *bytes,
                                  size_t n, struct weft_error *err)
{
    char *path = NULL;
    WEFT_TRY(begin_file(w, name, &path, err));
    enum weft_status st = wf_file_write(path, bytes, n, err);
    free(path);
    return st;
}

static enum weft_status write_text(struct wf_hf_writer *w, const char *name,
                                   const struct wf_text *text, struct weft_error *err)
{
    if (text->failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the text of %s", name);
    return wf_hf_writer_add(w, name, text->at, text->len, err);
}

static enum weft_status write_config(struct wf_hf_writer *w, const struct weft_model *model,
                                     const struct wf_hf_write_options *options,
                                     struct weft_error *err)
{
    struct wf_text text = {0};
    struct wf_hf_metadata about = {0};
    if (options->about != NULL)
        about = *options->about;
    about.dtype = options->type == WF_DTYPE_BF16 ? "bfloat16" : "float32";
    enum weft_status st = wf_hf_config_write(model, &about, &text, err);
    if (st == WEFT_OK)
        st = write_text(w, "config.json", &text, err);
    wf_text_release(&text);
    if (st == WEFT_OK && model->residual_block_layers > 0)
        st = wf_hf_writer_add(w, WF_HF_MODELING_FILE, (const char *)wf_hf_modeling,
                              wf_hf_modeling_len, err);
    return st;
}

/* Appends a JSON string.  Names are printable ASCII, so only '"' and '\' need an escape. */
static void add_quoted(struct wf_text *text, const char *name)
{
    wf_text_addc(text, '"');
    for (; *name != '\0'; name++) {
        if (*name == '"' || *name == '\\')
            wf_text_addc(text, '\\');
        wf_text_addc(text, *name);
    }
    wf_text_addc(text, '"');
}

static enum weft_status write_index(struct wf_hf_writer *w, struct weft_error *err)
{
    struct wf_text text = {0};
    char file[FILE_NAME_SIZE];
    wf_text_addf(&text, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n",
                 w->n_bytes);
    wf_text_adds(&text, "  \"weight_map\": {");
    for (size_t i = 0; i < w->n_shards; i++) {
        name_shard(w, i, file);
        for (size_t k = 0; k < w->shards[i].n; k++) {
            wf_text_adds(&text, i + k > 0 ? ",\n    " : "\n    ");
            add_quoted(&text, w->entries[w->shards[i].first + k].name);
            wf_text_addf(&text, ": \"%s\"", file);
        }
    }
    wf_text_adds(&text, "\n  }\n}\n");
    enum weft_status st = write_text(w, "model.safetensors.index.json", &text, err);
    wf_text_release(&text);
    return st;
}

/* -- the weights --------------------------------------------------------------------------- */

static enum weft_status copy_pairs(struct wf_hf_writer *w,
                                   const struct wf_hf_write_options *options,
                                   struct weft_error *err)
{
    w->pairs = calloc(options->n_pairs + 1, sizeof *w->pairs);
    if (w->pairs == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the metadata");
    for (; w->n_pairs < options->n_pairs; w->n_pairs++) {
        struct wf_safetensors_pair *to = &w->pairs[w->n_pairs];
        to->key = strdup(options->pairs[w->n_pairs].key);
        to->value = strdup(options->pairs[w->n_pairs].value);
        if (to->key == NULL || to->value == NULL) {
            free((char *)to->key);
            free((char *)to->value);
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the metadata");
        }
    }
    return WEFT_OK;
}

static enum weft_status open_shard(struct wf_hf_writer *w, struct weft_error *err)
{
    char name[FILE_NAME_SIZE];
    const struct hf_shard *s = &w->shards[w->current];
    name_shard(w, w->current, name);
    char *path = wf_path_join(w->tmp, name);
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of %s", name);
    enum weft_status st = wf_safetensors_writer_new(path, w->entries + s->first, s->n, w->pairs,
                                                    w->n_pairs, &w->file, err);
    w->n_missing = s->n_elements;
    free(path);
    return st;
}

/* Finishes the current shard if it is complete and opens the next shard that has elements. */
static enum weft_status advance_shard(struct wf_hf_writer *w, struct weft_error *err)
{
    while (w->n_missing == 0 && w->current < w->n_shards) {
        WEFT_TRY(wf_safetensors_writer_finish(w->file, err));
        wf_safetensors_writer_free(w->file);
        w->file = NULL;
        w->current++;
        if (w->current < w->n_shards)
            WEFT_TRY(open_shard(w, err));
    }
    return WEFT_OK;
}

static enum weft_status start(struct wf_hf_writer *w, const char *dir,
                              const struct weft_model *model,
                              const struct wf_hf_tensor *tensors, size_t n,
                              const struct wf_hf_write_options *options, struct weft_error *err)
{
    w->dir = wf_path_trim(dir);
    if (w->dir == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a directory");
    WEFT_TRY(copy_entries(w, tensors, n, options->type, err));
    WEFT_TRY(copy_pairs(w, options, err));
    WEFT_TRY(wf_safetensors_check_unique(w->entries, n, err));
    WEFT_TRY(plan_shards(w, options->shard_bytes, err));
    WEFT_TRY(wf_dir_check_empty(w->dir, err));
    WEFT_TRY(wf_temporary_new_dir(w->dir, &w->tmp, &w->tmp_lock, err));
    WEFT_TRY(write_config(w, model, options, err));
    if (w->n_shards > 1)
        WEFT_TRY(write_index(w, err));
    return open_shard(w, err);
}

enum weft_status wf_hf_writer_new(const char *dir, const struct weft_model *model,
                                  const struct wf_hf_tensor *tensors, size_t n,
                                  const struct wf_hf_write_options *options,
                                  struct wf_hf_writer **out, struct weft_error *err)
{
    struct wf_hf_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a handle to write %.160s", dir);
    enum weft_status st = start(w, dir, model, tensors, n, options, err);
    if (st == WEFT_OK)
        *out = w;
    else
        wf_hf_writer_free(w);
    return st;
}

enum weft_status wf_hf_writer_append(struct wf_hf_writer *w, const float *values, size_t n,
                                     struct weft_error *err)
{
    if (n == 0)
        return WEFT_OK;
    WEFT_TRY(advance_shard(w, err));
    if (w->file == NULL)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "%.160s: %zu elements were appended after the last tensor", w->dir, n);
    WEFT_TRY(wf_safetensors_writer_append(w->file, values, n, err));
    w->n_missing -= n;
    return WEFT_OK;
}

enum weft_status wf_hf_writer_finish(struct wf_hf_writer *w, struct weft_error *err)
{
    WEFT_TRY(advance_shard(w, err));
    if (w->file != NULL)
        /* This call returns the error for missing elements. */
        return wf_safetensors_writer_finish(w->file, err);
    WEFT_TRY(wf_dir_sync(w->tmp, err));
    if (rename(w->tmp, w->dir) != 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be renamed to its final name: %s", w->dir,
                         strerror(errno));
    close(w->tmp_lock);
    free(w->tmp);
    w->tmp = NULL;
    return wf_dir_sync_parent(w->dir, err);
}

/* Removes a file or an empty directory. */
static void remove_entry(const char *dir, const char *name)
{
    char *path = wf_path_join(dir, name);
    if (path != NULL)
        remove(path);
    free(path);
}

void wf_hf_writer_free(struct wf_hf_writer *w)
{
    if (w == NULL)
        return;

    wf_safetensors_writer_free(w->file);

    /* Removes the files of a directory that was not committed. */
    if (w->tmp != NULL) {
        char name[FILE_NAME_SIZE];
        for (size_t i = 0; i <= w->current && i < w->n_shards; i++) {
            name_shard(w, i, name);
            remove_entry(w->tmp, name);
        }
        for (size_t i = w->n_added; i-- > 0;) /* files before their directories */
            remove_entry(w->tmp, w->added[i]);
        rmdir(w->tmp);
        close(w->tmp_lock);
    }

    for (size_t i = 0; i < w->n_entries; i++)
        free((char *)w->entries[i].name);
    for (size_t i = 0; i < w->n_pairs; i++) {
        free((char *)w->pairs[i].key);
        free((char *)w->pairs[i].value);
    }

    for (size_t i = 0; i < w->n_added; i++)
        free(w->added[i]);

    free(w->entries);
    free(w->pairs);
    free(w->shards);
    free(w->added);
    free(w->tmp);
    free(w->dir);
    free(w);
}
