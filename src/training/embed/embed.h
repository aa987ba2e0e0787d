/* The internal side of the public training functions, for front ends that also use modules
 * below them: what a struct weft_settings and a struct weft_checkpoint contain. */
#ifndef TRAINING_EMBED_EMBED_H
#define TRAINING_EMBED_EMBED_H

#include "training/ckpt/weights.h"
#include "training/settings/settings.h"
#include "weft/checkpoint.h"
#include "weft/settings.h"

struct weft_settings {
    struct wf_train_settings train;
};

/* Returns the stored weights.  Borrowed. */
const struct wf_weights *wf_checkpoint_weights(const struct weft_checkpoint *c);

#endif
