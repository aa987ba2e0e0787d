/* The checkpoints of a run of many ranks: each writes its shares, from a snapshot and in the
 * background if that is asked for; rank 0 puts them together when all are written.
 *
 * Rank 0 decides at the end of each step what is done next, and all do it: begin one, collect what
 * was written, or drop it.  What each rank is at travels with the reports that steps send anyway. */
#ifndef TRAINING_TRAINER_CHECKPOINT_H
#define TRAINING_TRAINER_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_trainer;
struct wf_train_settings;
struct wf_checkpointer;

/* What a rank says of itself. */
enum wf_checkpoint_state {
    WF_CHECKPOINT_STATE_IDLE,
    WF_CHECKPOINT_STATE_BUSY,
    WF_CHECKPOINT_STATE_WRITTEN,
    WF_CHECKPOINT_STATE_FAILED,
};

/* What rank 0 says to all. */
enum wf_checkpoint_action {
    WF_CHECKPOINT_ACTION_NONE,
    WF_CHECKPOINT_ACTION_BEGIN,
    WF_CHECKPOINT_ACTION_COLLECT,
    WF_CHECKPOINT_ACTION_DISCARD,
};

/* What rank 0 has to tell the user; zeroed when there is nothing. */
struct wf_checkpoint_result {
    uint64_t saved;  /* the step of a checkpoint that is on the disk and was read back */
    double seconds;  /* that it took */
    char error[300]; /* why one could not be written */
};

/* Nothing is made when the settings ask for no checkpoints: *out is NULL.  Collective. */
enum weft_status wf_checkpointer_new(struct wf_trainer *t, const struct wf_train_settings *s,
                                     struct wf_checkpointer **out, struct weft_error *err);
void wf_checkpointer_free(struct wf_checkpointer *c); /* NULL is allowed; waits for threads */

enum wf_checkpoint_state wf_checkpointer_state(const struct wf_checkpointer *c);

/* On rank 0, from all ranks' states, for the step that ends now. */
enum wf_checkpoint_action wf_checkpointer_decide(struct wf_checkpointer *c, uint64_t step,
                                                 const uint32_t *states, uint32_t n);
/* Collective. */
enum weft_status wf_checkpointer_apply(struct wf_checkpointer *c, struct wf_trainer *t,
                                       enum wf_checkpoint_action action,
                                       struct weft_error *err);

/* Writes one now, unless there is one of this step, and returns when it is on the disk.  WEFT_IO on
 * all ranks when it cannot be: they can go on.  Collective. */
enum weft_status wf_checkpointer_save(struct wf_checkpointer *c, struct wf_trainer *t,
                                      struct weft_error *err);

/* On rank 0: what happened since it was last asked. */
struct wf_checkpoint_result wf_checkpointer_poll(struct wf_checkpointer *c);

/* Loads weights, moments and the step's number from the newest whole checkpoint of the run's
 * directory, or from a path, as checkpoint.resume says; *step is 0 when there is none.  WEFT_CKPT
 * when it is another model's.  `note` says what was passed over, and which settings that decide
 * the numbers are not what they were.  Collective. */
enum weft_status wf_checkpoint_resume(struct wf_trainer *t, const struct wf_train_settings *s,
                                      uint64_t *step, char *note, size_t note_bytes,
                                      struct weft_error *err);

#endif
