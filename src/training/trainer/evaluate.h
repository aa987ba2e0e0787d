/* Evaluates how well a model predicts tokens.
 *
 *     struct wf_evaluation e;
 *     WEFT_TRY(wf_evaluate(stage, &data, &e, err));
 *     perplexity = exp(e.loss), bits per token = e.loss / ln 2
 *
 * The data is divided in file order into windows of `seq` inputs; the target of each input is
 * the next token.  The last window may be shorter.  Every token except the first is predicted
 * once, from at most `seq` tokens before it. */
#ifndef TRAINING_TRAINER_EVALUATE_H
#define TRAINING_TRAINER_EVALUATE_H

#include <stdint.h>

#include "compute/model/stage.h"
#include "training/data/shard.h"
#include "weft/status.h"

struct wf_evaluate_data {
    const struct wf_shards *shards; /* borrowed */
    /* windows per batch; must be one of the row counts of the stage */
    uint32_t rows;
    uint32_t seq, vocab; /* sequence length and vocabulary size of the stage */
    uint64_t batches;    /* maximum number of batches; 0: no maximum */
};

struct wf_evaluation {
    uint64_t tokens; /* number of predicted tokens */
    double loss;     /* mean loss per token, in nats */
};

/* Computes the mean loss of a packed stage that contains a whole model and has no micro in
 * progress.  Uses slot 0 of the stage.  Returns WEFT_DATA if there are fewer than two tokens,
 * and WEFT_NUMERIC if the loss is not finite.  Local. */
enum weft_status wf_evaluate(struct wf_tstage *stage, const struct wf_evaluate_data *data,
                             struct wf_evaluation *out, struct weft_error *err);

/* Returns the mean bytes of text per token from the meta.json file in the directory of the
 * shards, or 0 if this number is unknown.  Local. */
double wf_evaluate_token_bytes(const struct wf_shards *shards);

#endif
