/* Texts that a model writes while it is trained: log.sample. */
#ifndef CLI_TRAIN_SAMPLE_H
#define CLI_TRAIN_SAMPLE_H

#include "cli/train.h"
#include "training/data/tokenizer.h"
#include "training/run/rundir.h"

struct wf_train_sampler {
    struct wf_sample_spec spec;
    const char *prompt_text;        /* borrowed */
    struct wf_tokenizer *tokenizer; /* owned; NULL: tokens are written as numbers */
    struct wf_tokens prompt;        /* owned */
    int32_t *tokens;                /* owned: (log.sample_tokens) */
    bool warned;
};

/* On rank 0, where the text is made; other ranks have a zeroed one.  WEFT_USAGE and WEFT_DATA for a
 * prompt that the model cannot take.  wf_train_sampler_release() frees.  Local. */
enum weft_status wf_train_sampler_init(struct wf_train_sampler *sampler,
                                       const struct wf_train_settings *s,
                                       const struct weft_model *model, struct weft_error *err);
void wf_train_sampler_release(struct wf_train_sampler *sampler); /* zeroed: allowed */

/* Writes a text after `step`, shows it, and appends it to the run's.  What goes wrong with the
 * text is a warning, the first time.  Collective. */
enum weft_status wf_train_sampler_run(struct wf_train_sampler *sampler,
                                      struct wf_trainer *trainer, struct wf_train_show *show,
                                      const struct wf_rundir *dir, uint64_t step,
                                      struct weft_error *err);

#endif
