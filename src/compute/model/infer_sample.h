/* Which token comes next: a pure function of logits, seed and position. */
#ifndef COMPUTE_MODEL_INFER_SAMPLE_H
#define COMPUTE_MODEL_INFER_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_sampling {
    double temperature; /* logits are divided by it; 0: always the most likely token */
    uint32_t top_k;     /* only so many of the most likely tokens; 0: all */
    double top_p;       /* ... and of these the most likely that have this share; 1: all */
    uint64_t seed;
};

/* Temperature finite and not negative, 0 < top_p <= 1. */
enum weft_status wf_sampling_check(const struct wf_sampling *how, struct weft_error *err);

/* A token as wf_sample() orders it. */
struct wf_candidate {
    float logit;
    int32_t token;
};

/* The token at `position` of a sequence, 0 .. n - 1.  Logits are finite; `work` has room for n.
 * Of equally likely tokens the one with the lower number comes first. */
int32_t wf_sample(const float *logits, size_t n, const struct wf_sampling *how,
                  uint64_t position, struct wf_candidate *work);

#endif
