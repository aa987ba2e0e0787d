/* Generates text with the model during training, as log.sample requires. */
#ifndef TRAINING_SESSION_SAMPLER_H
#define TRAINING_SESSION_SAMPLER_H

#include "base/text.h"
#include "training/data/tokenizer.h"
#include "training/settings/settings.h"
#include "training/trainer/trainer.h"

struct wf_sampler {
    struct wf_sample_spec spec;
    const char *prompt_text;          /* borrowed */
    struct weft_tokenizer *tokenizer; /* owned; NULL: tokens are written as numbers */
    struct weft_tokens prompt;        /* owned */
    int32_t *tokens;                  /* owned: (log.sample_tokens), the generated tokens */
};

/* Encodes log.sample_prompt.  Only rank 0 calls this function; the other ranks pass a zeroed
 * sampler to wf_sampler_run().  Returns WEFT_USAGE or WEFT_DATA if the model cannot accept the
 * prompt.  The caller releases the sampler after success and after failure.  Local. */
enum weft_status wf_sampler_init(struct wf_sampler *sampler, const struct wf_train_settings *s,
                                 const struct weft_model *model, struct weft_error *err);
void wf_sampler_release(struct wf_sampler *sampler); /* a zeroed struct is allowed */

/* On rank 0, appends the prompt and the generated text to *out.  A failure that affects only
 * the text is stored in *failure and is not an error of the run.  Collective. */
enum weft_status wf_sampler_run(struct wf_sampler *sampler, struct wf_trainer *trainer,
                                struct wf_text *out, struct weft_error *failure,
                                struct weft_error *err);

#endif
