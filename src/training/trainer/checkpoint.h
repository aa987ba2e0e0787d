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

struct weft_trainer;
struct weft_train_settings;
struct weft_checkpointer;

/* What a rank says of itself. */
enum weft_checkpoint_state {
    WEFT_CHECKPOINT_IDLE,
    WEFT_CHECKPOINT_BUSY,
    WEFT_CHECKPOINT_WRITTEN,
    WEFT_CHECKPOINT_FAILED,
};

/* What rank 0 says to all. */
enum weft_checkpoint_action {
    WEFT_CHECKPOINT_NOTHING,
    WEFT_CHECKPOINT_BEGIN,
    WEFT_CHECKPOINT_COLLECT,
    WEFT_CHECKPOINT_DROP,
};

/* What rank 0 has to tell the user; zeroed when there is nothing. */
struct weft_checkpoint_news {
    uint64_t saved;  /* the step of a checkpoint that is on the disk and was read back */
    double seconds;  /* that it took */
    char error[300]; /* why one could not be written */
};

/* Nothing is made when the settings ask for no checkpoints: *out is NULL.  Collective. */
enum weft_status weft_checkpointer_new(struct weft_trainer *t,
                                       const struct weft_train_settings *s,
                                       struct weft_checkpointer **out, struct weft_error *err);
void weft_checkpointer_free(
    struct weft_checkpointer *c); /* NULL is allowed; waits for threads */

enum weft_checkpoint_state weft_checkpointer_state(const struct weft_checkpointer *c);

/* On rank 0, from all ranks' states, for the step that ends now. */
enum weft_checkpoint_action weft_checkpointer_decide(struct weft_checkpointer *c, uint64_t step,
                                                     const uint32_t *states, uint32_t n);
/* Collective. */
enum weft_status weft_checkpointer_act(struct weft_checkpointer *c, struct weft_trainer *t,
                                       enum weft_checkpoint_action action,
                                       struct weft_error *err);

/* Writes one now, unless there is one of this step, and returns when it is on the disk.  WEFT_IO on
 * all ranks when it cannot be: they can go on.  Collective. */
enum weft_status weft_checkpointer_save(struct weft_checkpointer *c, struct weft_trainer *t,
                                        struct weft_error *err);

/* On rank 0: what happened since it was last asked. */
struct weft_checkpoint_news weft_checkpointer_news(struct weft_checkpointer *c);

/* Loads weights, moments and the step's number from the newest whole checkpoint of the run's
 * directory, or from a path, as checkpoint.resume says; *step is 0 when there is none.  WEFT_CKPT
 * when it is another model's.  `note` says what was passed over, and which settings that decide
 * the numbers are not what they were.  Collective. */
enum weft_status weft_checkpoint_resume(struct weft_trainer *t,
                                        const struct weft_train_settings *s, uint64_t *step,
                                        char *note, size_t note_bytes, struct weft_error *err);

#endif
