/* Finds the settings of a run that differ from those of its checkpoint. */
#ifndef TRAINING_TRAINER_SETTINGS_CHANGES_H
#define TRAINING_TRAINER_SETTINGS_CHANGES_H

#include "base/text.h"
#include "training/settings/settings.h"

/* Appends each setting that affects the results of a step and whose value differs from that in
 * `then`, the settings of the checkpoint as YAML.  Example: "optim.lr was 0.1 and is 0.2".
 * Appends nothing if `then` is empty or cannot be parsed.  Local. */
void wf_settings_add_changes(const char *then, const struct wf_train_settings *now,
                             struct wf_text *out);

/* Sets *out to whether a setting has the same value in the settings `then`, the text of a
 * checkpoint, and `now`; false if it is unknown.  Returns WEFT_NOMEM without memory.  Local. */
enum weft_status wf_settings_is_same(const char *then, const struct wf_train_settings *now,
                                     const char *name, bool *out, struct weft_error *err);

#endif
