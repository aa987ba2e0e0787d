/* Measures the loss of a stored model on token shards, on one rank or through a pipeline. */
#ifndef TRAINING_JOBS_EVALUATE_H
#define TRAINING_JOBS_EVALUATE_H

#include <stdint.h>

#include "base/json.h"
#include "compute/tensor/tensor.h"
#include "training/ckpt/weights.h"
#include "training/trainer/evaluate.h"

enum { WF_EVALUATE_ROWS = 4 }; /* default number of windows per batch */

struct wf_evaluate_options {
    /* token shards; if a directory contains val-*.bin files, only these are read */
    const char *data;
    uint32_t seq;            /* tokens per window; 0: the context of the model, at most 1024 */
    uint32_t rows;           /* windows per batch; 0: WF_EVALUATE_ROWS */
    uint64_t batches;        /* maximum number of batches; 0: no maximum */
    enum wf_dtype precision; /* precision of matrix products */
    uint32_t threads;        /* threads per rank; 0: cores are divided evenly among ranks */
    /* Number of ranks, each with one stage; 0: one, or those that the launcher started.  Ranks
     * are threads, except under a launcher, which has decided their number. */
    uint32_t ranks;
};

struct wf_model_evaluation {
    struct wf_evaluation result;
    uint32_t seq;       /* tokens per window */
    double token_bytes; /* mean number of bytes of text per token; 0: unknown */
    double perplexity, bits_per_token;
    double bits_per_byte;   /* NAN if token_bytes is unknown */
    double tok_s;           /* tokens per second */
    uint32_t rank, n_ranks; /* rank of this process */
};

/* Computes the loss of the model.  Collective over the processes that a launcher started. */
enum weft_status wf_evaluate_model(const struct wf_weights *w,
                                   const struct wf_evaluate_options *o,
                                   struct wf_model_evaluation *out, struct weft_error *err);

/* Writes an evaluation as a JSON object.  `model` and `data` are the paths that were given. */
void wf_model_evaluation_write_json(struct wf_json *j, const struct wf_model_evaluation *e,
                                    const char *model, const char *data);

#endif
