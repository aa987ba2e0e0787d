/* How a model wants to be used: config.json and generation_config.json beside its weights. */
#ifndef TRAINING_JOBS_GENERATE_CONFIG_H
#define TRAINING_JOBS_GENERATE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "compute/model/infer_sample.h"
#include "training/ckpt/weights.h"
#include "training/data/codec.h"

struct wf_generate_config {
    int64_t start; /* token that starts a document; negative: none */
    int32_t *ends; /* owned: the tokens that end a document */
    size_t n_ends;
    char **stops; /* owned, with the strings: stop strings */
    size_t n_stops;
    struct wf_sampling sampling;
    uint32_t max_tokens; /* maximum number of new tokens; 0: not given */
    uint32_t max_length; /* maximum number of tokens with the prompt; 0: not given */
    struct wf_text note; /* one line about keys that weft ignores; empty: none */
};

/* Reads the settings of a model.  The ends are those of generation_config.json, or of
 * config.json, or of the codec.  Sampling has weft's defaults unless generation_config.json has
 * do_sample: false means temperature 0, true means the keys of the file with the defaults of
 * transformers.  Returns WEFT_CKPT if a file is invalid.  The caller releases *out.  Local. */
enum weft_status wf_generate_config_init(struct wf_generate_config *out,
                                         const struct wf_weights *w,
                                         const struct wf_codec *codec, struct weft_error *err);
void wf_generate_config_release(struct wf_generate_config *c); /* a zeroed struct is allowed */

#endif
