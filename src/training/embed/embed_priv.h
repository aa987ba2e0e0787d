/* The definition of the public struct weft_settings. */
#ifndef TRAINING_EMBED_EMBED_PRIV_H
#define TRAINING_EMBED_EMBED_PRIV_H

#include "training/settings/settings.h"

struct weft_settings {
    struct wf_train_settings train;
};

#endif
