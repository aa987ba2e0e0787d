/* The settings of a training run.
 *
 *     struct weft_settings *s = NULL;
 *     weft_settings_new(&s, &err);
 *     weft_settings_read(s, "run.yaml", &err);
 *     weft_settings_set(s, "train.steps", "100", &err);
 *     ...
 *     weft_settings_free(s);
 *
 * `weft train --print-config` lists all settings with their meaning, range and default.
 *
 * Unstable: settings may be added and renamed until version 1.0.
 */
#ifndef WEFT_SETTINGS_H
#define WEFT_SETTINGS_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_settings; /* opaque; only one thread may use it while it is being changed */

/* Creates settings with all defaults.  The caller owns *out. */
WEFT_API enum weft_status weft_settings_new(struct weft_settings **out, struct weft_error *err);

/* Frees settings; NULL is allowed. */
WEFT_API void weft_settings_free(struct weft_settings *s);

/* Sets the values of a YAML file; other settings stay unchanged.  Returns WEFT_USAGE with line
 * and column for unknown keys and wrong values. */
WEFT_API enum weft_status weft_settings_read(struct weft_settings *s, const char *path,
                                             struct weft_error *err);

/* Sets one value, such as "optim.lr" to "3e-4".  Returns WEFT_USAGE for unknown names and wrong
 * values. */
WEFT_API enum weft_status weft_settings_set(struct weft_settings *s, const char *name,
                                            const char *value, struct weft_error *err);

/* Prints all settings as a YAML file with comments.  The caller frees *out. */
WEFT_API enum weft_status weft_settings_print(const struct weft_settings *s, char **out,
                                              struct weft_error *err);

/* Completes and checks the settings: derives the vocabulary from the data, compares the
 * transport with the launcher, and divides the cores among ranks.  Call it once before
 * weft_trainer_new(); weft_train() calls it.  Returns WEFT_USAGE if the settings contradict
 * each other. */
WEFT_API enum weft_status weft_settings_check(struct weft_settings *s, struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
