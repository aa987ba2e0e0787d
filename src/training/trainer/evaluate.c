/* Runs forward passes of a stored model over all windows of the data. */
#include "training/trainer/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "compute/model/stage.h"
#include "training/data/meta.h"
#include "training/trainer/heartbeat.h"
#include "training/trainer/load.h"
#include "weft/exec.h"
#include "weft/part.h"
#include "weft/schedule.h"

double wf_perplexity(double loss)
{
    return exp(loss);
}

struct wf_evaluator {
    struct weft_comm *comm; /* borrowed; NULL: this rank is the only one */
    struct wf_pool *pool;   /* borrowed */
    uint32_t rank, n_ranks, rows, seq, vocab;
    struct weft_partition partition;
    struct weft_schedule *schedule; /* owned, like the following */
    struct weft_traffic *traffic;   /* NULL: no residual blocks between ranks */
    struct weft_program *program;
    struct wf_tstage *stage;
    struct weft_stage *stage_list; /* by stage */
    struct weft_exec *exec;
    int32_t *inputs, *targets, *row; /* tokens of a batch, and of a window */
};

/* -- the pipeline -------------------------------------------------------------------------- */

/* Divides the model by the time of forwards, with one stage per rank. */
static enum weft_status make_partition(struct wf_evaluator *x, const struct weft_model *model,
                                       struct weft_error *err)
{
    struct weft_items items = {0};
    bool proven;
    if (x->n_ranks == 1)
        return weft_partition_init_even(&x->partition, model->layers, 1, err);
    WEFT_TRY(weft_partition_check_filled(model->layers, x->n_ranks, err));
    WEFT_TRY(weft_items_init_model(&items, model, x->rows, x->seq, err));
    for (size_t i = 0; i < items.n; i++)
        items.at[i].i = items.at[i].w = 0;
    enum weft_status st =
        weft_partition_init_balanced(&x->partition, &items, x->n_ranks, NULL, &proven, err);
    weft_items_release(&items);
    return st;
}

/* Creates the schedule of one batch, which is one micro-batch: ranks run different steps at the
 * same time. */
static enum weft_status make_program(struct wf_evaluator *x, const struct weft_model *model,
                                     struct weft_error *err)
{
    const struct weft_gen_params params = {.ranks = x->n_ranks, .micros = 1};
    struct weft_schedule *whole = NULL;
    uint32_t *finished_by = NULL, n = 0;
    WEFT_TRY(weft_schedule_generate("gpipe", &params, &whole, err));
    enum weft_status st = weft_schedule_forward_only(whole, &x->schedule, err);
    weft_schedule_free(whole);
    WEFT_TRY(st);
    WEFT_TRY(weft_program_new(x->schedule, x->rank, NULL, &x->program, err));
    if (model->residual_block_layers == 0 || x->n_ranks == 1)
        return WEFT_OK;
    WEFT_TRY(weft_residual_blocks(&x->partition, model->residual_block_layers, &finished_by, &n,
                                  err));
    st = weft_traffic_new(weft_schedule_placement(x->schedule), finished_by, n,
                          WEFT_BLOCK_CACHE_FULL, &x->traffic, err);
    free(finished_by);
    return st;
}

static enum weft_status load_weights(struct wf_evaluator *x, const struct wf_weights *w,
                                     struct weft_error *err)
{
    size_t n;
    struct wf_param *params = wf_tstage_params(x->stage, &n);
    for (size_t i = 0; i < n; i++) {
        if (x->comm != NULL) /* loading all weights may take longer than the time-out */
            weft_comm_heartbeat(x->comm);
        WEFT_TRY(wf_load_param(w, &params[i].desc, params[i].value, err));
    }
    wf_tstage_pack(x->stage);
    return WEFT_OK;
}

static enum weft_status make_stage(struct wf_evaluator *x, const struct wf_evaluator_spec *spec,
                                   struct weft_error *err)
{
    const struct weft_model *model = &wf_weights_info(spec->weights)->model;
    const struct weft_stage_range *range = &x->partition.at[x->rank];
    /* Recomputation and fast sums save memory.  Without a backward pass they cost no time. */
    struct wf_tstage_spec stage = {
        .model = *model,
        .item0 = range->embedding ? 0 : range->first_layer + 1,
        .item1 = range->head ? model->layers + 2 : range->end_layer + 1,
        .seq = spec->seq,
        .row_counts = {spec->rows},
        .n_row_counts = 1,
        .slots = 1,
        .precision = spec->precision,
        .fast_sums = true,
        .recompute = WEFT_RECOMPUTE_FULL,
        .pool = spec->pool,
    };
    WEFT_TRY(wf_tstage_new(&stage, &x->stage, err));
    WEFT_TRY(load_weights(x, spec->weights, err));
    x->stage_list[x->rank] = wf_tstage_stage(x->stage);

    const struct weft_exec_setup setup = {
        .program = x->program,
        .comm = x->comm,
        .stages = x->stage_list,
        .rows = &spec->rows,
        .blocks = {.traffic = x->traffic, .row_elements = (size_t)spec->seq * model->dim},
    };
    return weft_exec_new(&setup, &x->exec, err);
}

static enum weft_status alloc_tokens(struct wf_evaluator *x, struct weft_error *err)
{
    size_t tokens, bytes;
    if (x->rows == 0 || x->seq == 0 || !wf_size_mul(x->rows, x->seq, &tokens) ||
        !wf_size_mul(tokens, sizeof(int32_t), &bytes))
        return WEFT_FAIL(err, WEFT_USAGE, "%u windows of %u tokens cannot be evaluated",
                         x->rows, x->seq);
    x->stage_list = calloc(x->n_ranks, sizeof *x->stage_list);
    x->inputs = malloc(bytes);
    x->targets = malloc(bytes);
    x->row = malloc(((size_t)x->seq + 1) * sizeof *x->row);
    if (x->stage_list == NULL || x->inputs == NULL || x->targets == NULL || x->row == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tokens", tokens);
    return WEFT_OK;
}

enum weft_status wf_evaluator_new(const struct wf_evaluator_spec *spec, struct weft_comm *comm,
                                  struct wf_evaluator **out, struct weft_error *err)
{
    const struct weft_model *model = &wf_weights_info(spec->weights)->model;
    struct wf_evaluator *x = calloc(1, sizeof *x);
    if (x == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for an evaluation");

    x->n_ranks = comm == NULL ? 1 : weft_comm_size(comm);
    x->rank = comm == NULL ? 0 : weft_comm_rank(comm);
    x->comm = comm;
    x->pool = spec->pool;
    if (comm != NULL)
        wf_pool_set_hook(x->pool, wf_send_heartbeat, comm);
    x->rows = spec->rows;
    x->seq = spec->seq;
    x->vocab = model->vocab;

    enum weft_status st = alloc_tokens(x, err);
    if (st == WEFT_OK)
        st = make_partition(x, model, err);
    if (st == WEFT_OK)
        st = make_program(x, model, err);
    if (st == WEFT_OK)
        st = make_stage(x, spec, err);
    if (st != WEFT_OK) {
        wf_evaluator_free(x);
        return st;
    }
    *out = x;
    return WEFT_OK;
}

void wf_evaluator_free(struct wf_evaluator *x)
{
    if (x == NULL)
        return;
    weft_exec_free(x->exec);
    if (x->comm != NULL)
        wf_pool_set_hook(x->pool, NULL, NULL);
    wf_tstage_free(x->stage);
    weft_program_free(x->program);
    weft_traffic_free(x->traffic);
    weft_schedule_free(x->schedule);
    weft_partition_release(&x->partition);
    free(x->stage_list);
    free(x->inputs);
    free(x->targets);
    free(x->row);
    free(x);
}

/* -- windows ------------------------------------------------------------------------------- */

/* Reads window `w`.  Positions past the end of the data have no target.  Adds the number of
 * targets that count to *n_counted. */
static enum weft_status fill_row(const struct wf_evaluator *x, const struct wf_shards *shards,
                                 uint64_t w, uint32_t row, uint64_t *n_counted,
                                 struct weft_error *err)
{
    uint64_t n_targets = wf_shards_n_tokens(shards) - 1;
    uint32_t seq = x->seq;
    int32_t *inputs = x->inputs + (size_t)row * seq, *targets = x->targets + (size_t)row * seq;
    size_t n = 0;
    if (w <= n_targets / seq && w * seq < n_targets)
        n = wf_size_min(seq, n_targets - w * seq);
    if (n > 0)
        WEFT_TRY(wf_shards_read(shards, w * seq, n + 1, x->vocab, x->row, err));
    memcpy(inputs, x->row, n * sizeof *inputs);
    memcpy(targets, x->row + 1, n * sizeof *targets);
    if (n > 0)
        WEFT_TRY(wf_shards_mask(shards, w * seq + 1, n, targets, err));
    for (size_t i = n; i < seq; i++) {
        inputs[i] = 0;
        targets[i] = -1;
    }
    for (size_t i = 0; i < n; i++)
        *n_counted += targets[i] != -1;
    return WEFT_OK;
}

/* The sum of the losses and the number of targets that count. */
struct eval_sums {
    double loss;
    uint64_t n;
};

/* Runs this rank's part of a batch and adds to *sums on the last rank. */
static enum weft_status run_batch(struct wf_evaluator *x, const struct wf_shards *shards,
                                  uint64_t batch, struct eval_sums *sums,
                                  struct weft_error *err)
{
    const void *inputs = x->inputs, *targets = x->targets;
    double loss = 0;
    bool reads = x->rank == 0 || x->rank + 1 == x->n_ranks;
    for (uint32_t r = 0; reads && r < x->rows; r++)
        WEFT_TRY(fill_row(x, shards, batch * x->rows + r, r, &sums->n, err));
    const struct weft_exec_io io = {.step = batch,
                                    .inputs = &inputs,
                                    .targets = &targets,
                                    .scale = 1,
                                    .losses = &loss,
                                    .forward_only = true};
    WEFT_TRY(weft_exec_step(x->exec, &io, err));
    sums->loss += loss;
    return WEFT_OK;
}

/* Copies the sums of the last rank to all ranks. */
static enum weft_status share_sums(struct wf_evaluator *x, struct eval_sums *sum,
                                   struct weft_error *err)
{
    if (x->n_ranks == 1)
        return WEFT_OK;
    struct eval_sums *all = calloc(x->n_ranks, sizeof *all);
    if (all == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the losses of %u ranks", x->n_ranks);
    enum weft_status st = weft_comm_gather_equal(x->comm, sum, sizeof *sum, all, err);
    if (st == WEFT_OK && x->rank == 0)
        *sum = all[x->n_ranks - 1];
    free(all);
    return st == WEFT_OK ? weft_comm_broadcast(x->comm, sum, sizeof *sum, err) : st;
}

enum weft_status wf_evaluate(struct wf_evaluator *x, const struct wf_evaluate_data *data,
                             struct wf_evaluation *out, struct weft_error *err)
{
    uint64_t n_tokens = wf_shards_n_tokens(data->shards), n_targets = n_tokens - 1;
    uint64_t tokens = (uint64_t)x->rows * x->seq;
    struct eval_sums sums = {0};
    if (n_tokens < 2)
        return WEFT_FAIL(err, WEFT_DATA, "%s has %llu token%s: two are needed to predict one",
                         wf_shards_path(data->shards, 0), (unsigned long long)n_tokens,
                         n_tokens == 1 ? "" : "s");
    uint64_t n = n_targets / tokens + (n_targets % tokens != 0);
    if (data->batches != 0 && data->batches < n)
        n = data->batches;
    for (uint64_t b = 0; b < n; b++)
        WEFT_TRY(run_batch(x, data->shards, b, &sums, err));
    WEFT_TRY(share_sums(x, &sums, err));
    if (sums.n == 0)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: the loss mask excludes all tokens",
                         wf_shards_path(data->shards, 0));
    *out = (struct wf_evaluation){.tokens = sums.n, .loss = sums.loss / (double)sums.n};
    return WEFT_OK;
}

double wf_evaluate_token_bytes(const struct wf_shards *shards)
{
    struct wf_meta meta = {0}; /* an error only hides one of several figures */
    (void)wf_meta_read(shards, &meta, NULL);
    return wf_shards_masked(shards) ? 0 : meta.token_bytes;
}
