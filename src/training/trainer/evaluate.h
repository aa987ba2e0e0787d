/* Evaluates how well a stored model predicts tokens, on one rank or through a pipeline.
 *
 *     struct wf_evaluator *x;
 *     struct wf_evaluation e;
 *     WEFT_TRY(wf_evaluator_new(&spec, comm, &x, err));
 *     WEFT_TRY(wf_evaluate(x, &data, &e, err));
 *     perplexity = wf_perplexity(e.loss), bits per token = e.loss / ln 2
 *     wf_evaluator_free(x);
 *
 * Each rank has one stage.  Ranks run different batches at the same time and send activations
 * alone.  The loss has the same bits with any number of ranks.
 *
 * The data is divided in file order into windows of `seq` inputs; the target of each input is
 * the next token.  The last window may be shorter.  Every token except the first is predicted
 * once, from at most `seq` tokens before it.  The mean is over the tokens that the loss mask of
 * the shards does not exclude. */
#ifndef TRAINING_TRAINER_EVALUATE_H
#define TRAINING_TRAINER_EVALUATE_H

#include <stdint.h>

#include "compute/kern/pool.h"
#include "compute/tensor/tensor.h"
#include "training/ckpt/weights.h"
#include "training/data/shard.h"
#include "weft/comm.h"
#include "weft/status.h"

struct wf_evaluator;

struct wf_evaluator_spec {
    const struct wf_weights
        *weights;            /* borrowed during the creation only; from wf_load_open() */
    uint32_t rows;           /* windows per batch */
    uint32_t seq;            /* tokens per window */
    enum wf_dtype precision; /* precision of matrix products */
    struct wf_pool *pool;    /* borrowed */
};

/* Loads this rank's part of the model.  comm is borrowed; NULL: this rank is the only one.  The
 * caller owns *out.  Local. */
enum weft_status wf_evaluator_new(const struct wf_evaluator_spec *spec, struct weft_comm *comm,
                                  struct wf_evaluator **out, struct weft_error *err);
void wf_evaluator_free(struct wf_evaluator *x); /* NULL is allowed */

struct wf_evaluate_data {
    const struct wf_shards *shards; /* borrowed */
    uint64_t batches;               /* maximum number of batches; 0: no maximum */
};

struct wf_evaluation {
    uint64_t tokens; /* number of predicted tokens that count */
    double loss;     /* mean loss per token, in nats */
};

/* Computes the mean loss; the same on all ranks.  Returns WEFT_DATA if there are fewer than two
 * tokens, if the mask excludes all, or if a token is not in the vocabulary, and WEFT_NUMERIC if
 * the loss is not finite. Collective. */
enum weft_status wf_evaluate(struct wf_evaluator *x, const struct wf_evaluate_data *data,
                             struct wf_evaluation *out, struct weft_error *err);

/* Returns the perplexity of a mean loss in nats. */
double wf_perplexity(double loss);

/* Returns the mean bytes of text per token from the meta.json file in the directory of the
 * shards, or 0 if this number is unknown or the shards have a loss mask.  Local. */
double wf_evaluate_token_bytes(const struct wf_shards *shards);

#endif
