/* What is made for a run before it begins: directories and a lock.  A run that does not begin takes
 * them back, and leaves nothing behind. */
#ifndef TRAINING_RUN_MADE_H
#define TRAINING_RUN_MADE_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

struct weft_made {
    char *dir;    /* owned; NULL: nothing was noted */
    size_t first; /* how much of it names the first directory that is new; 0: none is */
    bool new_lock, new_checkpoints;
};

/* Notes what is there, before anything is made.  Local. */
enum weft_status weft_made_note(struct weft_made *made, const char *dir,
                                struct weft_error *err);

/* Removes what was not there: the directories as far as they are empty and, for whoever has the
 * lock, an empty checkpoints/ and the lock.  Local. */
void weft_made_undo(const struct weft_made *made, bool locked);
void weft_made_release(struct weft_made *made); /* a zeroed one is allowed */

#endif
