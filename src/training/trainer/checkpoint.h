/* Writes the checkpoints of a run.  Every rank writes its shards to a file, from a snapshot and
 * in the background if the setup enables it.  Rank 0 commits the checkpoint once all files are
 * written.
 *
 *     wf_checkpointer_new(&setup, &c, &err);
 *     for each step
 *         wf_checkpointer_after_step(c, step, &err);
 *     wf_checkpointer_save(c, step, &err);               at the end, or before a stop
 *     wf_checkpointer_free(c);
 *
 * A checkpoint goes through the same states on all ranks.  While a checkpoint is in progress,
 * each wf_checkpointer_after_step() exchanges the states of the ranks; otherwise it does not
 * communicate.
 *
 *     idle --due--> files are written --all written--> rank 0 commits --done--> idle
 *                                     --one failed---> discarded ------------>
 */
#ifndef TRAINING_TRAINER_CHECKPOINT_H
#define TRAINING_TRAINER_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/comm.h"
#include "weft/status.h"

struct wf_checkpointer;

/* A rank's shard of one parameter: elements begin .. begin + n - 1. */
struct wf_checkpoint_tensor {
    const char *name; /* all pointers are borrowed while the checkpointer exists */
    uint32_t n_dims;
    uint64_t shape[2];
    uint64_t begin, n;
    const float *value, *m, *v; /* (n) each */
};

struct wf_data_hash; /* training/trainer/data_hash.h */

struct wf_checkpointer_setup {
    struct weft_comm *comm; /* borrowed; NULL: this rank is the only one */
    const char *root;       /* the directory of all checkpoints; its parent exists */
    const char *config;     /* on rank 0: the settings of the run */
    const char *model;      /* on rank 0: the model's config.json */
    const char *tokenizer;  /* on rank 0: the hash of the tokenizer; NULL: unknown */
    /* On rank 0: the hashes of the training data; borrowed; NULL: they are not recorded. */
    struct wf_data_hash *data;
    const struct wf_checkpoint_tensor *tensors; /* copied */
    size_t n_tensors;                           /* 0: this rank has no shard */
    uint32_t every;                             /* number of steps between checkpoints */
    size_t keep;                                /* number of newest checkpoints to keep */
    bool background; /* write from a snapshot while the next steps run */
};

/* Outcome of a checkpoint, for the user.  All members are zero if there is no outcome. */
struct wf_checkpoint_result {
    uint64_t saved;  /* step of a checkpoint that is on the disk and was verified */
    double seconds;  /* seconds from the start of the checkpoint to its commit */
    char error[300]; /* why a checkpoint could not be written */
};

/* Returns WEFT_NOMEM with a message about checkpoints. */
enum weft_status wf_checkpoint_no_memory(struct weft_error *err);

/* Creates a checkpointer and prepares the directory.  On success the caller owns *out and frees
 * it with wf_checkpointer_free().  Collective. */
enum weft_status wf_checkpointer_new(const struct wf_checkpointer_setup *setup,
                                     struct wf_checkpointer **out, struct weft_error *err);
/* Waits for the threads and frees the checkpointer.  NULL is allowed. */
void wf_checkpointer_free(struct wf_checkpointer *c);

/* Returns the bytes of the snapshot from which checkpoints are written; 0 if there is none or c
 * is NULL.  Local. */
size_t wf_checkpointer_snapshot_bytes(const struct wf_checkpointer *c);

/* Advances the checkpoint in progress, or starts a checkpoint if one is due after this step.  A
 * write failure is not an error: wf_checkpointer_poll() reports it.  NULL is allowed.
 * Collective. */
enum weft_status wf_checkpointer_after_step(struct wf_checkpointer *c, uint64_t step,
                                            struct weft_error *err);

/* Writes a checkpoint of this step, unless one exists, and returns once the checkpoint is on
 * the disk.  Returns WEFT_IO on all ranks if the checkpoint cannot be written; the run can
 * continue.  NULL is allowed.  Collective. */
enum weft_status wf_checkpointer_save(struct wf_checkpointer *c, uint64_t step,
                                      struct weft_error *err);

/* Returns the outcome of the checkpoint that ended since the last call, on rank 0.  NULL is
 * allowed.  Local. */
struct wf_checkpoint_result wf_checkpointer_poll(struct wf_checkpointer *c);

#endif
