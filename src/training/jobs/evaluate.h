/* Measures the loss of a stored model on token shards. */
#ifndef TRAINING_JOBS_EVALUATE_H
#define TRAINING_JOBS_EVALUATE_H

#include <stdint.h>

#include "compute/tensor/tensor.h"
#include "training/ckpt/weights.h"
#include "training/trainer/evaluate.h"

struct wf_evaluate_options {
    /* token shards; if a directory contains val-*.bin files, only these are read */
    const char *data;
    uint32_t seq;            /* tokens per window; 0: the context of the model, at most 1024 */
    uint32_t rows;           /* windows per batch */
    uint64_t batches;        /* maximum number of batches; 0: no maximum */
    enum wf_dtype precision; /* precision of matrix products */
    uint32_t threads;        /* number of threads; 0: one per core */
};

struct wf_model_evaluation {
    struct wf_evaluation result;
    uint32_t seq;       /* tokens per window */
    double token_bytes; /* mean number of bytes of text per token; 0: unknown */
    double seconds;
};

/* Computes the loss of the model.  Local. */
enum weft_status wf_evaluate_model(const struct wf_weights *w,
                                   const struct wf_evaluate_options *o,
                                   struct wf_model_evaluation *out, struct weft_error *err);

#endif
