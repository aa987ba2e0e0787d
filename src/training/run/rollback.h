/* What is made for a run before it begins: directories and a lock.  A run that does not begin takes
 * them back, and leaves nothing behind. */
#ifndef TRAINING_RUN_ROLLBACK_H
#define TRAINING_RUN_ROLLBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

struct wf_rollback {
    char *dir;    /* owned; NULL: nothing was noted */
    size_t first; /* how much of it names the first directory that is new; 0: none is */
    bool new_lock, new_checkpoints;
};

/* Notes what is there, before anything is made.  Local. */
enum weft_status wf_rollback_init(struct wf_rollback *made, const char *dir,
                                  struct weft_error *err);

/* Removes what was not there: the directories as far as they are empty and, for whoever has the
 * lock, an empty checkpoints/ and the lock.  Local. */
void wf_rollback_undo(const struct wf_rollback *made, bool locked);
void wf_rollback_release(struct wf_rollback *made); /* a zeroed one is allowed */

#endif
