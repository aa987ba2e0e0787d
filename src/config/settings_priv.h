/* One value, whoever reads it. */
#ifndef CONFIG_SETTINGS_PRIV_H
#define CONFIG_SETTINGS_PRIV_H

#include "config/settings.h"

/* `where` begins an error: "run.yaml:3:7: optim.lr" or "--optim.lr". */
enum weft_status wf_setting_store(const struct wf_setting *row, const char *value,
                                  const char *where, void *settings, struct weft_error *err);

/* The value of all but texts, which every double holds: the choice's number, 1 for true. */
double wf_setting_number(const struct wf_setting *row, const void *settings);

/* "section.key", into WF_SETTING_NAME characters. */
void wf_setting_name(const struct wf_setting *row, char *out);

/* The row in that section; *in_section is whether there is such a section at all. */
const struct wf_setting *wf_setting_find_key(struct wf_setting_list list, const char *section,
                                             size_t section_len, const char *key,
                                             bool *in_section);

/* "there is no ...: did you mean ...?", for a name that was not found.  Section or key may be
 * anything a file holds. */
enum weft_status wf_setting_fail_unknown(struct wf_setting_list list, const char *where,
                                         const char *section, const char *key,
                                         struct weft_error *err);

#endif
