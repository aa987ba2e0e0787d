/* Functions that the source files of settings share. */
#ifndef CONFIG_SETTINGS_PRIV_H
#define CONFIG_SETTINGS_PRIV_H

#include "config/settings.h"

/* Parses and stores one value.  An error message begins with `where`: "run.yaml:3:7: optim.lr"
 * or "--optim.lr". */
enum weft_status wf_setting_store(const struct wf_setting *row, const char *value,
                                  const char *where, void *settings, struct weft_error *err);

/* Returns the value of a setting that is not a text as a number: the index of a choice, 1 for
 * true. */
double wf_setting_number(const struct wf_setting *row, const void *settings);

/* Returns the row of a key in a section, or NULL.  Sets *in_section to whether the section exists. */
const struct wf_setting *wf_setting_find_key(struct wf_setting_list list, const char *section,
                                             size_t section_len, const char *key,
                                             bool *in_section);

/* Fails with "unknown setting ...: did you mean ...?".  `section` and `key` may contain any
 * bytes. */
enum weft_status wf_setting_fail_unknown(struct wf_setting_list list, const char *where,
                                         const char *section, const char *key,
                                         struct weft_error *err);

#endif
