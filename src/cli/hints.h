/* The command that helps after an error of the library, which states only the fact. */
#ifndef CLI_HINTS_H
#define CLI_HINTS_H

#include "weft/status.h"

/* Appends the name of a command to the message of an error if one helps. */
void wf_error_add_hint(struct weft_error *err);

#endif
