/* How well a model predicts tokens.
 *
 *     struct wf_evaluation e;
 *     WEFT_TRY(wf_evaluate(stage, &data, &e, err));
 *     perplexity = exp(e.loss), bits a token = e.loss / ln 2
 *
 * The data is cut, in file order, into windows of `seq` tokens and the one behind, each of which
 * is seen once; the last is as long as what is left.  So every token but the first is predicted,
 * once, from up to seq tokens before it. */
#ifndef TRAINING_TRAINER_EVALUATE_H
#define TRAINING_TRAINER_EVALUATE_H

#include <stdint.h>

#include "compute/model/stage.h"
#include "training/data/shard.h"
#include "weft/status.h"

struct wf_evaluate_data {
    const struct wf_shards *shards; /* borrowed */
    uint32_t rows;                  /* windows at one time: one of the stage's row counts */
    uint32_t seq, vocab;            /* the stage's */
    uint64_t batches;               /* at most so many times `rows` windows; 0: all */
};

struct wf_evaluation {
    uint64_t tokens; /* predicted */
    double loss;     /* mean, in nats */
};

/* `stage` is a whole model, packed, none of whose micros is under way; slot 0 is used.  Data of
 * fewer than two tokens is WEFT_DATA, a loss that is no number WEFT_NUMERIC.  Local. */
enum weft_status wf_evaluate(struct wf_tstage *stage, const struct wf_evaluate_data *data,
                             struct wf_evaluation *out, struct weft_error *err);

/* Bytes of text that a token of these shards stands for on average, by the meta.json beside them;
 * 0: not known.  Local. */
double wf_evaluate_token_bytes(const struct wf_shards *shards);

#endif
