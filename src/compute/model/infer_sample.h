/* Selects the next token: a pure function of logits, earlier tokens, seed and position.
 *
 * The steps and their order are those of transformers: the repetition penalty, the temperature,
 * top_k, top_p, min_p, then the draw.  At temperature 0 only the penalty applies. */
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
    /* Removes tokens whose probability is less than min_p times that of the most likely token;
     * 0: no restriction. */
    double min_p;
    /* Divisor of the positive logits and factor of the negative logits of tokens that occurred
     * before; 0 or 1: no penalty. */
    double repetition_penalty;
};

/* Returns the defaults: temperature 0.8, top_k 50, top_p 1, seed 42. */
struct wf_sampling wf_sampling_defaults(void);

/* Returns WEFT_USAGE unless the temperature is in 0 .. 10^6, 0 < top_p <= 1, 0 <= min_p <= 1,
 * and repetition_penalty is 0 or in 0.001 .. 1000. */
enum weft_status wf_sampling_check(const struct wf_sampling *how, struct weft_error *err);

/* A token and its logit, for sorting. */
struct wf_candidate {
    float logit;
    int32_t token;
};

/* Applies the repetition penalty to the logits of the given tokens, once per token.  `seen` is
 * scratch memory of one zero byte per logit; the bytes are zero again afterwards. */
void wf_sample_penalize(float *logits, const int32_t *tokens, size_t n_tokens, double penalty,
                        unsigned char *seen);

/* Selects the token, 0 .. n - 1, at `position` of a sequence.  Does not apply the repetition
 * penalty.  All logits must be finite.  `work` is scratch memory of n elements.  Among equally
 * likely tokens, the one with the lower number ranks first; tokens that are as likely as the
 * last of the top_k are kept, too. */
int32_t wf_sample(const float *logits, size_t n, const struct wf_sampling *how,
                  uint64_t position, struct wf_candidate *work);

#endif
