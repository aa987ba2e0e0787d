#include "train/trainer.h"
#include "train/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "ckpt/hf.h"
#include "kern/peak.h"
#include "train/trainer_priv.h"

/* -- the model ------------------------------------------------------------------------------ */

static enum weft_status check_sizes(const struct weft_train_settings *s,
                                    const struct weft_model *model, uint32_t seq,
                                    struct weft_error *err)
{
    if (s->parallel.micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "parallel.micros is 0: give at least 1");
    if (s->parallel.micros > s->data.batch)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.micros %u is more than the %u sequences of data.batch",
                         s->parallel.micros, s->data.batch);
    if (seq > model->ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "data.seq %u is longer than the model's context of %u tokens: give at "
                         "most that",
                         seq, model->ctx);
    return WEFT_OK;
}

static enum weft_status make_stage(struct weft_trainer *t, const struct weft_train_settings *s,
                                   struct weft_error *err)
{
    struct weft_tstage_spec spec = {
        .model = t->model,
        .item0 = 0,
        .item1 = t->model.layers + 2,
        .seq = t->seq,
        .slots = t->order.slots,
        .split_slots = t->order.split_slots,
        .precision = t->precision,
        .fast_sums = s->train.reduction == WEFT_REDUCTION_FAST,
        .recompute = (enum weft_recompute)s->train.recompute,
        .pool = t->pool,
    };
    /* The first micros have what is over: one sequence more than the last. */
    struct weft_range first = weft_micro_range(s->data.batch, t->n_micros, 0);
    struct weft_range last = weft_micro_range(s->data.batch, t->n_micros, t->n_micros - 1);
    spec.row_counts[spec.n_row_counts++] = (uint32_t)(first.end - first.begin);
    if (last.end - last.begin != first.end - first.begin)
        spec.row_counts[spec.n_row_counts++] = (uint32_t)(last.end - last.begin);
    return weft_tstage_new(&spec, &t->stage, err);
}

/* Every weight from the directory, which must have no others. */
static enum weft_status load(struct weft_trainer *t, const struct weft_hf *hf,
                             struct weft_error *err)
{
    size_t n;
    struct weft_param *params = weft_tstage_params(t->stage, &n);
    const char **names = malloc((n + 1) * sizeof *names);
    if (names == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of %zu weights", n);
    for (size_t i = 0; i < n; i++)
        names[i] = params[i].desc.name;
    enum weft_status st = weft_hf_check_names(hf, names, n, err);
    for (size_t i = 0; i < n && st == WEFT_OK; i++) {
        const struct weft_param_desc *d = &params[i].desc;
        uint64_t shape[2] = {d->shape[0], d->shape[1]};
        st = weft_hf_read(hf, d->name, d->rank, shape, params[i].value, err);
        struct weft_mat values = {params[i].value, d->shape[1], WEFT_F32};
        size_t bad =
            st != WEFT_OK ? SIZE_MAX : weft_ops()->find_bad(values, d->shape[0], d->shape[1]);
        if (bad != SIZE_MAX)
            st = WEFT_FAIL(err, WEFT_CKPT,
                           "the weights: element %zu of %s is not a finite number", bad,
                           d->name);
    }
    free(names);
    return st;
}

static enum weft_status make_model(struct weft_trainer *t, const struct weft_train_settings *s,
                                   struct weft_error *err)
{
    struct weft_hf *hf = NULL;
    enum weft_status st;
    if (s->model.dir != NULL) {
        st = weft_hf_open(s->model.dir, &hf, err);
        if (st == WEFT_OK)
            t->model = *weft_hf_model(hf);
    } else {
        st = weft_train_settings_model(s, &t->model, err);
    }
    t->seq = s->data.seq != 0 ? s->data.seq : t->model.ctx;
    if (st == WEFT_OK)
        st = check_sizes(s, &t->model, t->seq, err);
    if (st == WEFT_OK)
        st = make_stage(t, s, err);
    if (st == WEFT_OK && hf != NULL)
        st = load(t, hf, err);
    else if (st == WEFT_OK)
        weft_tstage_start(t->stage, s->model.seed);
    if (st == WEFT_OK)
        weft_tstage_pack(t->stage);
    weft_hf_free(hf);
    return st;
}

static enum weft_status make_optim(struct weft_trainer *t, const struct weft_train_settings *s,
                                   struct weft_error *err)
{
    const struct weft_optim_settings how = {s->optim.beta1, s->optim.beta2, s->optim.eps,
                                            s->optim.weight_decay};
    return weft_optim_of_stage(t->stage, &how, t->pool, &t->optim, err);
}

/* -- the data and the order ----------------------------------------------------------------- */

static enum weft_status open_data(struct weft_trainer *t, const struct weft_train_settings *s,
                                  struct weft_error *err)
{
    size_t tokens, bytes;
    WEFT_TRY(weft_shards_open(s->data.train, &t->shards, err));
    WEFT_TRY(weft_batch_init(&t->batch, t->shards, s->data.batch, t->seq, t->model.vocab,
                             s->data.shuffle, s->model.seed, err));
    if (!weft_size_mul(s->data.batch, t->seq, &tokens) ||
        !weft_size_mul(tokens, sizeof *t->inputs, &bytes))
        return WEFT_FAIL(err, WEFT_USAGE, "data.batch %u x data.seq %u is too large",
                         s->data.batch, t->seq);
    t->inputs = malloc(bytes);
    t->targets = malloc(bytes);
    t->losses = calloc(t->n_micros, sizeof *t->losses);
    if (t->inputs == NULL || t->targets == NULL || t->losses == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the %zu tokens of a step", tokens);
    return WEFT_OK;
}

/* Each micro forward and back, in order: one slot serves them all. */
static enum weft_status make_plain_order(struct weft_trainer *t, struct weft_error *err)
{
    size_t n = 2 * (size_t)t->n_micros;
    t->plain_order = calloc(n, sizeof *t->plain_order);
    if (t->plain_order == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the order of %u micros", t->n_micros);
    for (uint32_t m = 0; m < t->n_micros; m++) {
        t->plain_order[2 * m] = (struct weft_micro_action){WEFT_MICRO_FORWARD, m, 0};
        t->plain_order[2 * m + 1] = (struct weft_micro_action){WEFT_MICRO_BACKWARD, m, 0};
    }
    t->order = (struct weft_micro_order){t->plain_order, n, 1, 0};
    return WEFT_OK;
}

static enum weft_status build(struct weft_trainer *t, const struct weft_train_settings *s,
                              const struct weft_micro_order *order, struct weft_error *err)
{
    t->n_micros = s->parallel.micros;
    t->precision = s->train.precision == WEFT_PRECISION_BF16 ? WEFT_BF16 : WEFT_F32;
    t->curve = weft_train_settings_curve(s);
    t->clip = s->optim.clip;
    if (order != NULL)
        t->order = *order;
    else
        WEFT_TRY(make_plain_order(t, err));
    WEFT_TRY(weft_pool_new(s->parallel.threads, &t->pool, err));
    WEFT_TRY(make_model(t, s, err));
    WEFT_TRY(open_data(t, s, err));
    return make_optim(t, s, err);
}

enum weft_status weft_trainer_new(const struct weft_train_settings *settings,
                                  const struct weft_micro_order *order,
                                  struct weft_trainer **out, struct weft_error *err)
{
    struct weft_trainer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trainer");
    enum weft_status st = build(t, settings, order, err);
    if (st != WEFT_OK) {
        weft_trainer_free(t);
        return st;
    }
    *out = t;
    return WEFT_OK;
}

void weft_trainer_free(struct weft_trainer *t)
{
    if (t == NULL)
        return;
    weft_optim_free(t->optim);
    weft_tstage_free(t->stage);
    weft_shards_free(t->shards);
    weft_pool_free(t->pool);
    free(t->plain_order);
    free(t->inputs);
    free(t->targets);
    free(t->losses);
    free(t);
}

/* -- saving --------------------------------------------------------------------------------- */

static enum weft_status write_weights(const struct weft_param *params, size_t n,
                                      struct weft_hf_writer *w, struct weft_error *err)
{
    for (size_t i = 0; i < n; i++)
        WEFT_TRY(weft_hf_writer_append(w, params[i].value, params[i].n, err));
    return weft_hf_writer_finish(w, err);
}

enum weft_status weft_trainer_save(const struct weft_trainer *t, const char *dir,
                                   struct weft_error *err)
{
    const struct weft_hf_write_options options = {
        .type = WEFT_F32, .shard_bytes = WEFT_HF_SHARD_BYTES, .bos = -1, .eos = -1};
    size_t n;
    const struct weft_param *params = weft_trainer_params(t, &n);
    struct weft_hf_tensor *tensors = calloc(n + 1, sizeof *tensors);
    struct weft_hf_writer *writer = NULL;
    if (tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of %zu weights", n);
    for (size_t i = 0; i < n; i++) {
        const struct weft_param_desc *d = &params[i].desc;
        tensors[i] = (struct weft_hf_tensor){d->name, d->rank, {d->shape[0], d->shape[1]}};
    }
    enum weft_status st =
        weft_hf_writer_new(dir, &t->model, tensors, n, &options, &writer, err);
    if (st == WEFT_OK)
        st = write_weights(params, n, writer, err);
    weft_hf_writer_free(writer);
    free(tensors);
    return st;
}

/* -- about it ------------------------------------------------------------------------------- */

uint64_t weft_trainer_done(const struct weft_trainer *t)
{
    return t->done;
}

const struct weft_param *weft_trainer_params(const struct weft_trainer *t, size_t *n)
{
    return weft_tstage_params(t->stage, n);
}

void weft_trainer_pack(struct weft_trainer *t)
{
    weft_tstage_pack(t->stage);
}

double weft_trainer_peak(const struct weft_trainer *t)
{
    return weft_peak_flops_alone(t->pool, t->precision);
}

struct weft_trainer_info weft_trainer_info(const struct weft_trainer *t)
{
    struct weft_tstage_bytes bytes = weft_tstage_memory(t->stage);
    struct weft_trainer_info info = {
        .model = t->model,
        .n_tokens = weft_shards_n_tokens(t->shards),
        .n_files = weft_shards_n_files(t->shards),
        .seq = t->seq,
        .threads = weft_pool_threads(t->pool),
    };
    info.bytes.weights = bytes.weights;
    info.bytes.gradients = bytes.gradients;
    info.bytes.packed = bytes.packed;
    info.bytes.activations = bytes.activations;
    info.bytes.scratch = bytes.scratch;
    info.bytes.moments = weft_optim_bytes(t->optim);
    info.bytes.total = bytes.weights + bytes.gradients + bytes.packed + bytes.activations +
                       bytes.scratch + info.bytes.moments;
    /* A model that was built has passed its check. */
    (void)weft_model_token_flops(&t->model, t->seq, &info.token_flops, NULL);
    (void)weft_model_count_params(&t->model, &info.n_params, NULL);
    return info;
}
