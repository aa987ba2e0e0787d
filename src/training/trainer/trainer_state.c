/* Connects the trainer to checkpoints: determines which tensors of this rank belong to a
 * checkpoint, and when checkpoints are written and loaded. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "planning/spec/hf_config.h"
#include "training/data/tokenizer.h"
#include "training/trainer/data_hash.h"
#include "training/trainer/resume.h"
#include "training/trainer/trainer_priv.h"

static char *checkpoint_root(const struct wf_train_settings *s)
{
    return wf_path_join(s->log.dir, "checkpoints");
}

/* -- saving -------------------------------------------------------------------------------- */

/* Lists the shards of this rank, with the values and moments of the optimizer. */
static enum weft_status list_tensors(const struct wf_trainer *t,
                                     struct wf_checkpoint_tensor **out, size_t *n,
                                     struct weft_error *err)
{
    const struct wf_optim_tensor *o = wf_optim_tensors(t->optim, n);
    *out = calloc(*n + 1, sizeof **out);
    if (*out == NULL)
        return wf_checkpoint_no_memory(err);
    for (size_t i = 0; i < *n; i++) {
        const struct wf_param_desc *d =
            &t->sources[i].group->params[t->sources[i].tensor]->desc;
        (*out)[i] = (struct wf_checkpoint_tensor){.name = d->name,
                                                  .n_dims = d->n_dims,
                                                  .shape = {d->shape[0], d->shape[1]},
                                                  .begin = o[i].begin,
                                                  .n = o[i].end - o[i].begin,
                                                  .value = o[i].value + o[i].begin,
                                                  .m = o[i].m,
                                                  .v = o[i].v};
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_init_checkpoints(struct wf_trainer *t,
                                             const struct wf_train_settings *s,
                                             struct weft_error *err)
{
    const struct wf_hf_metadata metadata = {.dtype = "float32"};
    struct wf_checkpoint_tensor *tensors = NULL;
    struct wf_text config = {0}, model = {0};
    size_t n_tensors;
    if (s->checkpoint.every == 0 || s->log.dir == NULL)
        return WEFT_OK;

    enum weft_status st = wf_train_settings_print(s, &config, err);
    if (st == WEFT_OK)
        st = wf_hf_config_write(&t->topology.model, &metadata, &model, err);
    char *root = checkpoint_root(s);
    if (st == WEFT_OK && (config.failed || model.failed || root == NULL))
        st = wf_checkpoint_no_memory(err);
    if (st == WEFT_OK)
        st = list_tensors(t, &tensors, &n_tensors, err);

    if (st == WEFT_OK && t->rank == 0 && s->data.verify && t->data_hash == NULL) {
        st = wf_data_hash_new(t->data.shards, &t->data_hash, err);
        if (st == WEFT_OK)
            wf_data_hash_start(t->data_hash);
    }

    if (st == WEFT_OK) {
        char tokenizer[WF_TOKENIZER_HASH_SIZE];
        wf_tokenizer_hash_print(t->data.tokenizer, tokenizer);
        const struct wf_checkpointer_setup setup = {.comm = t->comm,
                                                    .root = root,
                                                    .config = config.at,
                                                    .model = model.at,
                                                    .tokenizer = tokenizer,
                                                    .data = t->data_hash,
                                                    .tensors = tensors,
                                                    .n_tensors = n_tensors,
                                                    .every = s->checkpoint.every,
                                                    .keep = s->checkpoint.keep,
                                                    .background = s->checkpoint.in_background};
        st = wf_checkpointer_new(&setup, &t->checkpointer, err);
    }
    wf_text_release(&config);
    wf_text_release(&model);
    free(tensors);
    free(root);
    return st;
}

enum weft_status wf_trainer_advance_checkpoint(struct wf_trainer *t, struct weft_error *err)
{
    return wf_checkpointer_after_step(t->checkpointer, t->done, err);
}

enum weft_status wf_trainer_checkpoint(struct wf_trainer *t, struct weft_error *err)
{
    return wf_checkpointer_save(t->checkpointer, t->done, err);
}

struct wf_checkpoint_result wf_trainer_poll_checkpoint(struct wf_trainer *t)
{
    return wf_checkpointer_poll(t->checkpointer);
}

/* -- loading ------------------------------------------------------------------------------- */

static size_t count_ranges(const struct wf_trainer *t)
{
    size_t n, sum = 0;
    for (uint32_t s = 0; s < t->topology.n_stages; s++) {
        wf_trainer_params(t, s, &n);
        sum += n;
    }
    wf_optim_tensors(t->optim, &n);
    return sum + 2 * n;
}

/* Lists the ranges that this rank reads: all values of its stages, and the moments of its
 * shards. */
static enum weft_status list_ranges(const struct wf_trainer *t, struct wf_load_range **out,
                                    size_t *n_out, struct weft_error *err)
{
    struct wf_load_range *ranges = calloc(count_ranges(t) + 1, sizeof *ranges);
    size_t n, filled = 0;
    if (ranges == NULL)
        return wf_checkpoint_no_memory(err);

    for (uint32_t s = 0; s < t->topology.n_stages; s++) {
        const struct wf_param *p = wf_trainer_params(t, s, &n);
        for (size_t i = 0; i < n; i++)
            ranges[filled++] = (struct wf_load_range){p[i].desc.name, WF_STORE_FIELD_VALUE, 0,
                                                      p[i].n, p[i].value};
    }
    const struct wf_optim_tensor *o = wf_optim_tensors(t->optim, &n);
    for (size_t i = 0; i < n; i++) {
        uint64_t count = o[i].end - o[i].begin;
        ranges[filled++] =
            (struct wf_load_range){o[i].name, WF_STORE_FIELD_M, o[i].begin, count, o[i].m};
        ranges[filled++] =
            (struct wf_load_range){o[i].name, WF_STORE_FIELD_V, o[i].begin, count, o[i].v};
    }
    *out = ranges;
    *n_out = filled;
    return WEFT_OK;
}

static enum weft_status load_checkpoint(struct wf_trainer *t, const struct wf_train_settings *s,
                                        const char *root, const char *path,
                                        struct weft_error *err)
{
    struct wf_load_range *ranges = NULL;
    struct wf_resume_setup setup = {.comm = t->comm,
                                    .pool = t->pool,
                                    .root = root,
                                    .path = path,
                                    .model = &t->topology.model,
                                    .params = &t->topology.params,
                                    .settings = s,
                                    .tokenizer = t->data.tokenizer,
                                    .data = &t->data_hash,
                                    .shards = t->data.shards};

    WEFT_TRY(list_ranges(t, &ranges, &setup.n_ranges, err));
    setup.ranges = ranges;
    enum weft_status st = wf_resume_load(&setup, &t->resumed, err);
    free(ranges);
    if (st != WEFT_OK)
        return st;
    wf_trainer_pack(t); /* also for step 0, which is the step of a converted model */
    t->done = t->resumed.step;
    return WEFT_OK;
}

enum weft_status wf_trainer_resume(struct wf_trainer *t, const struct wf_train_settings *s,
                                   struct weft_error *err)
{
    if (s->checkpoint.resume_mode == WF_RESUME_NO)
        return WEFT_OK;
    if (s->checkpoint.resume_mode == WF_RESUME_PATH)
        return load_checkpoint(t, s, NULL, s->checkpoint.resume, err);
    if (s->log.dir == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "checkpoint.resume is auto, but there is no run directory; set "
                         "log.dir");
    char *root = checkpoint_root(s);
    if (root == NULL)
        return wf_checkpoint_no_memory(err);
    enum weft_status st = load_checkpoint(t, s, root, NULL, err);
    free(root);
    return st;
}
