/* The file of one rank in a checkpoint: snapshots the rank's shards and writes them on a
 * thread. */
#ifndef TRAINING_TRAINER_CHECKPOINT_FILE_H
#define TRAINING_TRAINER_CHECKPOINT_FILE_H

#include "runtime/comm/background.h"
#include "training/ckpt/store.h"
#include "training/trainer/checkpoint.h"

enum wf_file_state {
    WF_FILE_STATE_IDLE,
    WF_FILE_STATE_BUSY,
    WF_FILE_STATE_WRITTEN,
    WF_FILE_STATE_FAILED,
    WF_N_FILE_STATES
};

/* A zeroed struct is in the idle state. */
struct wf_checkpoint_file {
    struct wf_checkpoint_tensor *tensors; /* owned */
    size_t n_tensors;
    float *snapshot; /* owned; NULL: the live values are written */
    size_t snapshot_bytes;
    bool begun;
    struct wf_store_writer *writer; /* owned */
    char *blob;                     /* owned: describes the written file to wf_store_commit() */
    size_t blob_bytes;
    struct wf_background work; /* work.err has the cause of a failure */
};

/* Copies the list of tensors and, if `background` is true, allocates the snapshot.  Local. */
enum weft_status wf_checkpoint_file_init(struct wf_checkpoint_file *f,
                                         const struct wf_checkpoint_tensor *tensors, size_t n,
                                         bool background, struct weft_error *err);
void wf_checkpoint_file_release(struct wf_checkpoint_file *f); /* waits for the thread */

/* Takes the snapshot and starts to write the file.  A failure is reported by
 * wf_checkpoint_file_state().  Local. */
void wf_checkpoint_file_begin(struct wf_checkpoint_file *f, const char *root, uint64_t step,
                              const char *run, uint32_t rank);

/* Returns the state of the file.  A rank without shards has nothing to write: its file counts
 * as written after wf_checkpoint_file_begin().  Local. */
enum wf_file_state wf_checkpoint_file_state(const struct wf_checkpoint_file *f);

/* Waits for the thread, frees writer and blob, and sets the file to the idle state.  Local. */
void wf_checkpoint_file_reset(struct wf_checkpoint_file *f);

#endif
