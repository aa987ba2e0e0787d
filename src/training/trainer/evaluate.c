/* Runs forward passes of a whole model over all windows of the data. */
#include "training/trainer/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "training/data/meta.h"

struct windows {
    const struct wf_evaluate_data *data;
    uint64_t n_targets;
    int32_t *inputs, *targets, *row; /* owned */
};

/* Reads window `w`.  Positions past the end of the data have no target. */
static enum weft_status fill_row(const struct windows *x, uint64_t w, uint32_t row,
                                 struct weft_error *err)
{
    uint32_t seq = x->data->seq;
    int32_t *inputs = x->inputs + (size_t)row * seq, *targets = x->targets + (size_t)row * seq;
    size_t n = 0;
    if (w <= x->n_targets / seq && w * seq < x->n_targets)
        n = wf_size_min(seq, x->n_targets - w * seq);
    if (n > 0)
        WEFT_TRY(wf_shards_read(x->data->shards, w * seq, n + 1, x->data->vocab, x->row, err));
    memcpy(inputs, x->row, n * sizeof *inputs);
    memcpy(targets, x->row + 1, n * sizeof *targets);
    for (size_t i = n; i < seq; i++) {
        inputs[i] = 0;
        targets[i] = -1;
    }
    return WEFT_OK;
}

static enum weft_status run_batch(struct weft_stage stage, const struct windows *x,
                                  uint64_t batch, double *loss, struct weft_error *err)
{
    uint32_t rows = x->data->rows;
    for (uint32_t r = 0; r < rows; r++)
        WEFT_TRY(fill_row(x, batch * rows + r, r, err));
    struct weft_stage_call call = {.rows = rows,
                                   .in = x->inputs,
                                   .targets = x->targets,
                                   .scale = 1,
                                   .loss = loss,
                                   .train = false};
    return stage.ops->forward(stage.self, &call, err);
}

static enum weft_status run_all_batches(struct wf_tstage *stage, const struct windows *x,
                                        struct wf_evaluation *out, struct weft_error *err)
{
    uint64_t tokens = (uint64_t)x->data->rows * x->data->seq;
    uint64_t n = x->n_targets / tokens + (x->n_targets % tokens != 0);
    double sum = 0;
    if (x->data->batches != 0 && x->data->batches < n)
        n = x->data->batches;
    for (uint64_t b = 0; b < n; b++) {
        double loss = 0;
        WEFT_TRY(run_batch(wf_tstage_stage(stage), x, b, &loss, err));
        sum += loss;
    }
    out->tokens = n * tokens < x->n_targets ? n * tokens : x->n_targets;
    out->loss = sum / (double)out->tokens;
    return WEFT_OK;
}

enum weft_status wf_evaluate(struct wf_tstage *stage, const struct wf_evaluate_data *data,
                             struct wf_evaluation *out, struct weft_error *err)
{
    uint64_t n = wf_shards_n_tokens(data->shards);
    size_t tokens, bytes;
    if (n < 2)
        return WEFT_FAIL(err, WEFT_DATA, "%s has %llu token%s: two are needed to predict one",
                         wf_shards_path(data->shards, 0), (unsigned long long)n,
                         n == 1 ? "" : "s");
    if (data->rows == 0 || data->seq == 0 || !wf_size_mul(data->rows, data->seq, &tokens) ||
        !wf_size_mul(tokens, sizeof(int32_t), &bytes))
        return WEFT_FAIL(err, WEFT_USAGE, "%u windows of %u tokens cannot be evaluated",
                         data->rows, data->seq);
    struct windows x = {.data = data, .n_targets = n - 1};
    x.inputs = malloc(bytes);
    x.targets = malloc(bytes);
    x.row = malloc(((size_t)data->seq + 1) * sizeof *x.row);
    enum weft_status st = WEFT_OK;
    if (x.inputs == NULL || x.targets == NULL || x.row == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tokens", tokens);
    if (st == WEFT_OK)
        st = run_all_batches(stage, &x, out, err);
    free(x.inputs);
    free(x.targets);
    free(x.row);
    return st;
}

double wf_evaluate_token_bytes(const struct wf_shards *shards)
{
    return wf_meta_read(shards).token_bytes;
}
