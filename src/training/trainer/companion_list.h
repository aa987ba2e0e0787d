/* Lists the companion files of a Hugging Face directory: those that describe how to use its
 * weights. */
#ifndef TRAINING_TRAINER_COMPANION_LIST_H
#define TRAINING_TRAINER_COMPANION_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

struct wf_companion_list {
    char **names; /* owned, with the strings; sorted; relative to the directory */
    size_t n;
};

/* Lists the companion files of a directory and of its subdirectory additional_chat_templates:
 * JSON files, templates, vocabularies, programs, model cards and licenses, except for
 * config.json, the lists of weight files, hidden files, and files that are too large to be
 * copied.  An unreadable directory has no files.  The caller releases *list.  Local. */
enum weft_status wf_companion_list_init(struct wf_companion_list *list, const char *dir,
                                        struct weft_error *err);
void wf_companion_list_release(struct wf_companion_list *list); /* a zeroed list is allowed */

/* Returns true if the list has this name. */
bool wf_companion_list_has(const struct wf_companion_list *list, const char *name);

/* Returns true if a file belongs to a tokenizer or contains token ids: it is useless with
 * another tokenizer. */
bool wf_companion_is_tokenizer(const char *name);

#endif
