/* Measures the loss of a stored model: starts the ranks and opens what each of them needs. */
#include "training/jobs/evaluate.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "training/layout/local_ranks.h"
#include "training/trainer/load.h"
#include "weft/comm.h"

struct evaluation {
    const struct wf_weights *weights;
    const struct wf_evaluate_options *options;
    struct wf_model_evaluation *out; /* written by the rank that returns to the caller */
};

static void derive_figures(struct wf_model_evaluation *e, double seconds)
{
    e->perplexity = wf_perplexity(e->result.loss);
    e->bits_per_token = e->result.loss / log(2);
    e->bits_per_byte = e->token_bytes > 0 ? e->bits_per_token / e->token_bytes : NAN;
    e->tok_s = (double)e->result.tokens / seconds;
}

/* Opens the data and loads the model of a rank. */
static enum weft_status open_rank(const struct evaluation *job, struct weft_comm *comm,
                                  uint32_t seq, struct wf_shards **shards,
                                  struct wf_pool **pool, struct wf_evaluator **evaluator,
                                  struct weft_error *err)
{
    const struct wf_evaluate_options *o = job->options;
    WEFT_TRY(wf_shards_open_split(o->data, "val", shards, err));
    WEFT_TRY(wf_load_check_tokenizer(job->weights, *shards, err));
    WEFT_TRY(wf_pool_new(o->threads, pool, err));
    const struct wf_evaluator_spec spec = {.weights = job->weights,
                                           .rows = o->rows,
                                           .seq = seq,
                                           .precision = o->precision,
                                           .pool = *pool};
    return wf_evaluator_new(&spec, comm, evaluator, err);
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct evaluation *job = arg;
    const struct weft_model *model = &wf_weights_info(job->weights)->model;
    const struct wf_evaluate_options *o = job->options;
    struct wf_shards *shards = NULL;
    struct wf_pool *pool = NULL;
    struct wf_evaluator *evaluator = NULL;
    struct wf_model_evaluation e = {.seq = o->seq != 0         ? o->seq
                                           : model->ctx < 1024 ? model->ctx
                                                               : 1024,
                                    .rank = comm == NULL ? 0 : weft_comm_rank(comm),
                                    .n_ranks = comm == NULL ? 1 : weft_comm_size(comm)};

    enum weft_status st = open_rank(job, comm, e.seq, &shards, &pool, &evaluator, err);
    if (st == WEFT_OK && comm != NULL)
        st = weft_comm_barrier(comm,
                               err); /* the time begins when all ranks have their weights */
    if (st == WEFT_OK) {
        const struct wf_evaluate_data data = {.shards = shards, .batches = o->batches};
        int64_t begin = wf_clock_ns();
        st = wf_evaluate(evaluator, &data, &e.result, err);
        double seconds = (double)(wf_clock_ns() - begin) * 1e-9;
        e.token_bytes = wf_evaluate_token_bytes(shards);
        derive_figures(&e, seconds);
    }

    wf_evaluator_free(evaluator);
    wf_pool_free(pool);
    wf_shards_free(shards);
    if (st == WEFT_OK && (e.rank == 0 || weft_comm_launcher() != NULL))
        *job->out = e;
    return st;
}

struct launched {
    struct evaluation *job;
    uint32_t ranks;
};

static enum weft_status run_launched(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct launched *x = arg;
    if (x->ranks != 0 && x->ranks != weft_comm_size(comm))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%u ranks are given, but %s started %u; use the same number for both",
                         x->ranks, weft_comm_launcher(), weft_comm_size(comm));
    return run_rank(comm, x->job, err);
}

enum weft_status wf_evaluate_model(const struct wf_weights *w,
                                   const struct wf_evaluate_options *o,
                                   struct wf_model_evaluation *out, struct weft_error *err)
{
    struct wf_evaluate_options own = *o;
    struct evaluation job = {w, &own, out};
    uint32_t ranks = o->ranks == 0 ? 1 : o->ranks;
    if (own.rows == 0)
        own.rows = WF_EVALUATE_ROWS;
    if (own.threads == 0)
        own.threads = wf_threads_per_rank(ranks);
    if (weft_comm_launcher() != NULL)
        return weft_comm_run_mpi(run_launched, &(struct launched){&job, o->ranks}, err);
    if (ranks == 1)
        return run_rank(NULL, &job, err);
    return weft_comm_run_threads(ranks, run_rank, &job, err);
}
