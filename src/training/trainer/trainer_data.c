/* Opens the data of a run and divides a step into micros. */
#include "training/trainer/trainer_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "training/data/meta.h"
#include "training/trainer/load.h"
#include "weft/comm.h"

/* -- opening ------------------------------------------------------------------------------- */

/* Adds the name of the setting to a message and, if ranks may see different files, the rank. */
static enum weft_status add_context(const struct wf_topology *l, uint32_t rank,
                                    const char *setting, enum weft_status st,
                                    struct weft_error *err)
{
    char before[64] = "";
    if (st == WEFT_OK)
        return st;
    if (l->pp * l->dp > 1 && weft_comm_launcher() != NULL)
        snprintf(before, sizeof before, "rank %u: %s: ", rank, setting);
    else
        snprintf(before, sizeof before, "%s: ", setting);
    wf_error_wrap(err, before, "");
    return st;
}

static enum weft_status open_train(struct wf_trainer_data *d, uint32_t rank,
                                   const struct wf_train_settings *s, struct weft_error *err)
{
    const struct wf_topology *l = d->topology;
    enum weft_status st = wf_shards_open_split(s->data.train, "train", &d->shards, err);
    WEFT_TRY(add_context(l, rank, "data.train", st, err));
    WEFT_TRY(wf_meta_check_vocab(d->shards, s->model.dir, l->model.vocab, err));
    st = wf_batch_init(&d->batch, d->shards, l->batch, l->seq, l->model.vocab, s->data.shuffle,
                       s->model.seed, err);
    return add_context(l, rank, "data.train", st, err);
}

/* Finds the tokenizer of the data and of the model and checks that they are the same. */
static enum weft_status check_tokenizers(struct wf_trainer_data *d,
                                         const struct wf_train_settings *s,
                                         struct weft_error *err)
{
    const char *data = wf_shards_path(d->shards, 0);
    uint64_t tokens = 0, validation = 0, model = 0;
    WEFT_TRY(wf_meta_find_tokenizer(d->shards, &tokens, err));
    if (d->val_shards != NULL)
        WEFT_TRY(wf_meta_find_tokenizer(d->val_shards, &validation, err));
    if (s->data.tokenizer != NULL)
        WEFT_TRY(wf_meta_hash_tokenizer(s->data.tokenizer, &model, err));
    else if (s->model.dir != NULL)
        WEFT_TRY(wf_load_hash_model_tokenizer(s->model.dir, &model, err));
    d->tokenizer = tokens != 0 ? tokens : model;
    if (!s->data.verify)
        return WEFT_OK;

    if (d->val_shards != NULL)
        WEFT_TRY(wf_meta_check_same(wf_shards_path(d->val_shards, 0), validation, data, tokens,
                                    err));
    return wf_meta_check_same(
        data, tokens, s->data.tokenizer != NULL ? s->data.tokenizer : s->model.dir, model, err);
}

static enum weft_status open_validation(struct wf_trainer_data *d, uint32_t rank,
                                        const struct wf_train_settings *s,
                                        struct weft_error *err)
{
    const struct wf_topology *l = d->topology;
    if (s->data.val == NULL)
        return WEFT_OK;
    enum weft_status st = wf_shards_open_split(s->data.val, "val", &d->val_shards, err);
    WEFT_TRY(add_context(l, rank, "data.val", st, err));
    st = wf_batch_init(&d->val_batch, d->val_shards, l->batch, l->seq, l->model.vocab, false, 0,
                       err);
    WEFT_TRY(add_context(l, rank, "data.val", st, err));
    d->val_batches =
        s->eval.batches < d->val_batch.epoch_len ? s->eval.batches : d->val_batch.epoch_len;
    return WEFT_OK;
}

static enum weft_status alloc_arrays(struct wf_trainer_data *d, uint32_t replica,
                                     struct weft_error *err)
{
    const struct wf_topology *l = d->topology;
    struct wf_range micros = wf_topology_micros(l, replica);
    size_t tokens, bytes;

    if (!wf_size_mul(l->batch, l->seq, &tokens) ||
        !wf_size_mul(tokens, sizeof *d->inputs, &bytes))
        return WEFT_FAIL(err, WEFT_USAGE, "data.batch %u x data.seq %u is too large", l->batch,
                         l->seq);

    d->first_micro = (uint32_t)micros.begin;
    d->n_micros = (uint32_t)(micros.end - micros.begin);
    d->inputs = malloc(bytes);
    d->targets = malloc(bytes);
    d->losses = calloc(d->n_micros, sizeof *d->losses);
    d->val_losses = calloc((size_t)WF_EVAL_WINDOW * d->n_micros, sizeof *d->val_losses);
    d->rows = calloc(d->n_micros, sizeof *d->rows);
    d->input_at = calloc(d->n_micros, sizeof *d->input_at);
    d->target_at = calloc(d->n_micros, sizeof *d->target_at);
    if (d->inputs == NULL || d->targets == NULL || d->losses == NULL || d->val_losses == NULL ||
        d->rows == NULL || d->input_at == NULL || d->target_at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the tokens of a step (%zu bytes)",
                         2 * bytes);

    for (uint32_t m = 0; m < d->n_micros; m++) {
        struct wf_range rows = wf_micro_range(l->batch, l->micros, d->first_micro + m);
        d->rows[m] = (uint32_t)(rows.end - rows.begin);
        d->input_at[m] = d->inputs + rows.begin * l->seq;
        d->target_at[m] = d->targets + rows.begin * l->seq;
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_data_init(struct wf_trainer_data *d,
                                      const struct wf_topology *topology, uint32_t rank,
                                      const struct wf_train_settings *s, struct weft_error *err)
{
    *d = (struct wf_trainer_data){.topology = topology};
    WEFT_TRY(open_train(d, rank, s, err));
    WEFT_TRY(alloc_arrays(d, rank / topology->pp, err));
    WEFT_TRY(open_validation(d, rank, s, err));
    return check_tokenizers(d, s, err);
}

size_t wf_trainer_data_bytes(const struct wf_trainer_data *d)
{
    size_t tokens = (size_t)d->topology->batch * d->topology->seq;
    return tokens * (sizeof *d->inputs + sizeof *d->targets);
}

void wf_trainer_data_release(struct wf_trainer_data *d)
{
    wf_shards_free(d->shards);
    wf_shards_free(d->val_shards);
    free(d->inputs);
    free(d->targets);
    free(d->losses);
    free(d->val_losses);
    free(d->rows);
    free(d->input_at);
    free(d->target_at);
}

/* -- reading ------------------------------------------------------------------------------- */

enum weft_status wf_trainer_data_read(struct wf_trainer_data *d, const struct wf_batch *from,
                                      uint64_t index, uint64_t step, size_t *n_targets,
                                      struct weft_error *err)
{
    const struct wf_topology *l = d->topology;
    size_t n = (size_t)l->batch * l->seq;
    for (uint32_t m = 0; m < l->micros; m++) {
        struct wf_range rows = wf_micro_range(l->batch, l->micros, m);
        enum weft_status st = wf_batch_read(
            from, index, (uint32_t)rows.begin, (uint32_t)(rows.end - rows.begin),
            d->inputs + rows.begin * l->seq, d->targets + rows.begin * l->seq, err);
        if (st != WEFT_OK) {
            char before[64];
            snprintf(before, sizeof before, "step %llu, micro %u: ", (unsigned long long)step,
                     m);
            wf_error_wrap(err, before, "");
            return st;
        }
    }

    *n_targets = 0;
    for (size_t i = 0; i < n; i++)
        *n_targets += d->targets[i] != -1;
    return WEFT_OK;
}
