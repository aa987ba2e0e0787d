/* Converts weights from any supported source into a checkpoint. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "base/temporary.h"
#include "planning/spec/hf_config.h"
#include "training/ckpt/hf.h"
#include "training/ckpt/store_priv.h"
#include "training/ckpt/weights.h"

static const char run_name[] = "convert";

struct job {
    const struct wf_weights *weights;
    const struct wf_hf_tensor *tensors;
    size_t n;
    uint64_t step;
    const struct wf_weights_extras *extras; /* NULL: no extra files */
    const char *path;
    char *root;     /* owned: temporary directory beside `path` for the new checkpoint */
    int lock;       /* while root is not NULL: its lock (base/temporary.h) */
    float **values; /* owned: values of all tensors, one array per tensor */
    float *zeros;   /* owned: zeros for the moments; has the size of the largest tensor */
};

static enum weft_status no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the weights of a checkpoint");
}

static size_t count(const struct wf_hf_tensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!wf_size_mul(n, (size_t)t->shape[i], &n))
            return SIZE_MAX / sizeof(float);
    return n;
}

static enum weft_status read_values(struct job *j, struct weft_error *err)
{
    size_t largest = 1;
    j->values = calloc(j->n + 1, sizeof *j->values);
    if (j->values == NULL)
        return no_memory(err);
    for (size_t i = 0; i < j->n; i++) {
        const struct wf_hf_tensor *t = &j->tensors[i];
        size_t n = count(t);
        largest = wf_size_max(largest, n);
        j->values[i] = calloc(n, sizeof **j->values);
        if (j->values[i] == NULL)
            return no_memory(err);
        WEFT_TRY(wf_weights_read(j->weights, t->name, t->n_dims, t->shape, j->values[i], err));
    }
    j->zeros = calloc(largest, sizeof *j->zeros);
    return j->zeros == NULL ? no_memory(err) : WEFT_OK;
}

static enum weft_status add_all(const struct job *j, struct wf_store_writer *w,
                                struct weft_error *err)
{
    for (size_t i = 0; i < j->n; i++) {
        const struct wf_hf_tensor *t = &j->tensors[i];
        for (enum wf_store_field field = 0; field < WF_STORE_N_FIELDS; field++)
            WEFT_TRY(wf_store_writer_add(
                w, t->name, t->n_dims, t->shape, field, 0,
                field == WF_STORE_FIELD_VALUE ? j->values[i] : j->zeros, count(t), err));
    }
    return WEFT_OK;
}

static enum weft_status commit(const struct job *j, const char *blob, size_t bytes,
                               struct weft_error *err)
{
    const struct wf_hf_metadata about = {.dtype = "float32"};
    struct wf_text model = {0};
    enum weft_status st =
        wf_hf_config_write(&wf_weights_info(j->weights)->model, &about, &model, err);
    if (st == WEFT_OK && (model.failed || model.at == NULL))
        st = no_memory(err);

    const struct wf_store_commit_info parts = {
        .root = j->root,
        .step = j->step,
        .run = run_name,
        .config = "",
        .model = model.at,
        .tokenizer = j->extras == NULL ? NULL : j->extras->tokenizer,
        .blobs = &blob,
        .blob_bytes = &bytes,
        .n_blobs = 1};
    if (st == WEFT_OK)
        st = wf_store_commit(&parts, 1, err);
    wf_text_release(&model);
    return st;
}

static enum weft_status write_store(const struct job *j, struct weft_error *err)
{
    struct wf_store_writer *w = NULL;
    char *blob = NULL;
    size_t bytes = 0;
    WEFT_TRY(wf_store_writer_new(j->root, j->step, run_name, 0, &w, err));
    enum weft_status st = add_all(j, w, err);
    if (st == WEFT_OK)
        st = wf_store_writer_finish(w, &blob, &bytes, err);
    if (st == WEFT_OK)
        st = commit(j, blob, bytes, err);
    free(blob);
    wf_store_writer_free(w);
    if (st != WEFT_OK)
        wf_store_abort(j->root, j->step, run_name, NULL);
    return st;
}

/* Adds the extra files to the checkpoint and renames it to `path`. */
static enum weft_status rename_final(const struct job *j, struct weft_error *err)
{
    char name[STORE_STEP_NAME_SIZE];
    wf_store_step_name(j->step, name);
    char *dir = wf_path_join(j->root, name);
    enum weft_status st = dir == NULL ? no_memory(err) : WEFT_OK;
    if (st == WEFT_OK && j->extras != NULL && j->extras->add != NULL)
        st = j->extras->add(j->extras->arg, dir, err);
    if (st == WEFT_OK && rename(dir, j->path) != 0)
        st = WEFT_FAIL(err, WEFT_IO, "%.160s cannot be renamed to its final name: %s", j->path,
                       strerror(errno));
    if (st == WEFT_OK)
        st = wf_dir_sync_parent(j->path, err);
    free(dir);
    return st;
}

/* Returns an error if the name of the directory is that of another step. */
static enum weft_status check_name(const struct job *j, struct weft_error *err)
{
    const char *slash = strrchr(j->path, '/');
    uint64_t step;
    if (!wf_store_parse_step(slash == NULL ? j->path : slash + 1, &step) || step == j->step)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%.160s is named after step %" PRIu64
                     ", but the checkpoint is of step %" PRIu64
                     "; use that step or another name",
                     j->path, step, j->step);
}

static enum weft_status convert(struct job *j, struct weft_error *err)
{
    WEFT_TRY(check_name(j, err));
    WEFT_TRY(wf_dir_check_empty(j->path, err));
    WEFT_TRY(read_values(j, err));
    WEFT_TRY(wf_temporary_new_dir(j->path, &j->root, &j->lock, err));
    WEFT_TRY(write_store(j, err));
    return rename_final(j, err);
}

enum weft_status wf_weights_to_checkpoint(const struct wf_weights *w,
                                          const struct wf_hf_tensor *tensors, size_t n,
                                          uint64_t step, const struct wf_weights_extras *extras,
                                          const char *path, struct weft_error *err)
{
    char *trimmed = wf_path_trim(path);
    if (trimmed == NULL)
        return no_memory(err);
    struct job j = {.weights = w,
                    .tensors = tensors,
                    .n = n,
                    .step = step,
                    .extras = extras,
                    .path = trimmed};
    enum weft_status st = convert(&j, err);

    if (j.root != NULL) {
        wf_store_discard(j.root, step, NULL); /* no effect if the checkpoint was renamed */
        rmdir(j.root);
        close(j.lock);
    }
    for (size_t i = 0; j.values != NULL && i < n; i++)
        free(j.values[i]);
    free(j.values);
    free(j.zeros);
    free(j.root);
    free(trimmed);
    return st;
}
