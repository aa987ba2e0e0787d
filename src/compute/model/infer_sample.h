/* Selects the next token: a pure function of logits, seed and position. */
#ifndef COMPUTE_MODEL_INFER_SAMPLE_H
#define COMPUTE_MODEL_INFER_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_sampling {
    double temperature; /* divides the logits; 0: always the most likely token */
    uint32_t top_k;     /* only this many of the most likely tokens; 0: all */
    /* Of these, only the most likely ones with this total probability; 1: all. */
    double top_p;
    uint64_t seed;
};

/* Returns WEFT_USAGE unless the temperature is in 0 .. 10^6 and 0 < top_p <= 1. */
enum weft_status wf_sampling_check(const struct wf_sampling *how, struct weft_error *err);

/* A token and its logit, for sorting. */
struct wf_candidate {
    float logit;
    int32_t token;
};

/* Returns the token, 0 .. n - 1, at `position` of a sequence.  Logits must be finite; `work`
 * has n elements.  Among equally likely tokens the lower number ranks first. */
int32_t wf_sample(const float *logits, size_t n, const struct wf_sampling *how,
                  uint64_t position, struct wf_candidate *work);

#endif
