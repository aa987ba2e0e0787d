/* Selects the next token: a pure function of logits, seed and position. */
#ifndef COMPUTE_MODEL_INFER_SAMPLE_H
#define COMPUTE_MODEL_INFER_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_sampling {
    double temperature; /* divisor of the logits; 0: always select the most likely token */
    uint32_t top_k;     /* number of most likely tokens to select from; 0: all tokens */
    /* Restricts the top_k tokens to the smallest set of most likely tokens whose total
     * probability is at least top_p; 1: no restriction. */
    double top_p;
    uint64_t seed;
};

/* Returns the defaults: temperature 0.8, top_k 50, top_p 1, seed 42. */
struct wf_sampling wf_sampling_defaults(void);

/* Returns WEFT_USAGE unless the temperature is in 0 .. 10^6 and 0 < top_p <= 1. */
enum weft_status wf_sampling_check(const struct wf_sampling *how, struct weft_error *err);

/* A token and its logit, for sorting. */
struct wf_candidate {
    float logit;
    int32_t token;
};

/* Selects the token, 0 .. n - 1, at `position` of a sequence.  All logits must be finite.
 * `work` is scratch memory of n elements.  Among equally likely tokens, the one with the lower
 * number ranks first. */
int32_t wf_sample(const float *logits, size_t n, const struct wf_sampling *how,
                  uint64_t position, struct wf_candidate *work);

#endif
