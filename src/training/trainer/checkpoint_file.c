/* Writes the checkpoint file of one rank, from a snapshot or from the live values. */
#include "training/trainer/checkpoint_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"

enum weft_status wf_checkpoint_file_init(struct wf_checkpoint_file *f,
                                         const struct wf_checkpoint_tensor *tensors, size_t n,
                                         bool background, struct weft_error *err)
{
    size_t bytes = 0;
    f->tensors = calloc(n + 1, sizeof *f->tensors);
    if (f->tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a checkpoint of %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        f->tensors[f->n_tensors++] = tensors[i];
        bytes += WF_STORE_N_FIELDS * tensors[i].n * sizeof(float);
    }
    if (!background)
        return WEFT_OK;

    f->snapshot = wf_pages_alloc(bytes + 1);
    if (f->snapshot == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "no memory for a snapshot of %zu bytes; set checkpoint.async to "
                         "false to write without one",
                         bytes);
    f->snapshot_bytes = bytes;
    /* Make the system allocate the pages now, not at the first checkpoint. */
    memset(f->snapshot, 0, bytes);
    return WEFT_OK;
}

void wf_checkpoint_file_release(struct wf_checkpoint_file *f)
{
    wf_checkpoint_file_reset(f);
    free(f->snapshot);
    free(f->tensors);
}

void wf_checkpoint_file_reset(struct wf_checkpoint_file *f)
{
    wf_background_join(&f->work);
    wf_store_writer_free(f->writer);
    f->writer = NULL;
    free(f->blob);
    f->blob = NULL;
    f->blob_bytes = 0;
    f->begun = false;
}

enum wf_file_state wf_checkpoint_file_state(const struct wf_checkpoint_file *f)
{
    if (!f->begun)
        return WF_FILE_STATE_IDLE;
    if (wf_background_is_running(&f->work))
        return WF_FILE_STATE_BUSY;
    return f->work.status == WEFT_OK ? WF_FILE_STATE_WRITTEN : WF_FILE_STATE_FAILED;
}

/* Adds one field of a tensor; *next is the free part of the snapshot, or NULL. */
static enum weft_status add_field(struct wf_checkpoint_file *f,
                                  const struct wf_checkpoint_tensor *t,
                                  enum wf_store_field field, const float *values, float **next,
                                  struct weft_error *err)
{
    if (*next != NULL) {
        memcpy(*next, values, t->n * sizeof *values);
        values = *next;
        *next += t->n;
    }
    return wf_store_writer_add(f->writer, t->name, t->n_dims, t->shape, field, t->begin, values,
                               t->n, err);
}

static enum weft_status open_file(struct wf_checkpoint_file *f, const char *root, uint64_t step,
                                  const char *run, uint32_t rank, struct weft_error *err)
{
    float *next = f->snapshot;
    WEFT_TRY(wf_store_writer_new(root, step, run, rank, &f->writer, err));
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct wf_checkpoint_tensor *t = &f->tensors[i];
        WEFT_TRY(add_field(f, t, WF_STORE_FIELD_VALUE, t->value, &next, err));
        WEFT_TRY(add_field(f, t, WF_STORE_FIELD_M, t->m, &next, err));
        WEFT_TRY(add_field(f, t, WF_STORE_FIELD_V, t->v, &next, err));
    }
    return WEFT_OK;
}

static enum weft_status write_file(void *file, struct weft_error *err)
{
    struct wf_checkpoint_file *f = file;
    return wf_store_writer_finish(f->writer, &f->blob, &f->blob_bytes, err);
}

void wf_checkpoint_file_begin(struct wf_checkpoint_file *f, const char *root, uint64_t step,
                              const char *run, uint32_t rank)
{
    f->begun = true;
    f->work.status = WEFT_OK;
    f->work.err = (struct weft_error){0};
    if (f->n_tensors == 0)
        return;
    f->work.status = open_file(f, root, step, run, rank, &f->work.err);
    if (f->work.status == WEFT_OK)
        wf_background_start(&f->work, write_file, f);
}
