/* Functions that help, manual pages and completion share. */
#ifndef MANUAL_MANUAL_PRIV_H
#define MANUAL_MANUAL_PRIV_H

#include <string.h>

#include "manual/manual.h"

/* Returns the settings of a command. */
static inline struct wf_setting_list wf_command_settings(const struct wf_command *c)
{
    return c->settings != NULL ? c->settings() : (struct wf_setting_list){NULL, 0};
}

/* Returns true if row i is the first row of its section. */
static inline bool wf_starts_section(struct wf_setting_list list, size_t i)
{
    return i == 0 || strcmp(list.at[i].section, list.at[i - 1].section) != 0;
}

#endif
