/* Removes the directories and the lock that were made for a run that did not start. */
#ifndef TRAINING_RUN_ROLLBACK_H
#define TRAINING_RUN_ROLLBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

struct wf_rollback {
    char *dir;    /* owned; NULL: not initialized */
    size_t first; /* length of the path of the topmost new directory; 0: no directory is new */
    bool new_lock, new_checkpoints;
};

/* Records which directories exist, before any directory is made.  Local. */
enum weft_status wf_rollback_init(struct wf_rollback *rollback, const char *dir,
                                  struct weft_error *err);

/* Removes what did not exist at wf_rollback_init(): empty directories and, if the caller holds
 * the lock, an empty checkpoints/ and the lock file.  Local. */
void wf_rollback_undo(const struct wf_rollback *rollback, bool locked);
void wf_rollback_release(struct wf_rollback *rollback); /* a zeroed struct is allowed */

#endif
