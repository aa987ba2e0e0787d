/* The data of a trainer: opens training and validation data, and reads the tokens of a step. */
#ifndef TRAINING_TRAINER_TRAINER_DATA_H
#define TRAINING_TRAINER_TRAINER_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "training/data/batch.h"
#include "training/layout/topology.h"
#include "training/settings/settings.h"

/* Number of batches that an evaluation runs before their losses are gathered. */
enum { WF_EVAL_WINDOW = 64 };

struct wf_trainer_data {
    const struct wf_topology *topology; /* borrowed */
    struct wf_shards *shards;           /* owned */
    uint64_t tokenizer; /* hash of the tokenizer of data and model; 0: unknown */
    struct wf_batch batch;
    struct wf_shards *val_shards; /* owned; NULL: no validation data */
    struct wf_batch val_batch;
    uint64_t val_batches;      /* number of batches in one evaluation */
    int32_t *inputs, *targets; /* owned: (batch, seq), tokens of all replicas */

    /* The arrays below have one entry per micro-batch of this replica. */
    uint32_t first_micro, n_micros;
    uint32_t *rows;         /* owned */
    const void **input_at;  /* owned: pointers into `inputs` */
    const void **target_at; /* owned: pointers into `targets` */
    double *losses;         /* owned: sum of the loss over the tokens of each micro-batch */
    double *val_losses;     /* owned: the same for (WF_EVAL_WINDOW) batches of an evaluation */
};

/* Opens data.train and data.val and allocates the arrays.  The caller releases *d even if this
 * function fails.  Local. */
enum weft_status wf_trainer_data_init(struct wf_trainer_data *d,
                                      const struct wf_topology *topology, uint32_t rank,
                                      const struct wf_train_settings *s,
                                      struct weft_error *err);
void wf_trainer_data_release(struct wf_trainer_data *d);

/* Returns the bytes of the tokens of a step.  Local. */
size_t wf_trainer_data_bytes(const struct wf_trainer_data *d);

/* Reads batch `index` of `from` into inputs and targets, and counts the targets.  Every rank
 * reads the whole batch, since each rank needs the total number of targets.  Messages name the
 * step `step`.  Returns WEFT_DATA if a token is unusable.  A masked batch may have no target.
 * Local. */
enum weft_status wf_trainer_data_read(struct wf_trainer_data *d, const struct wf_batch *from,
                                      uint64_t index, uint64_t step, size_t *n_targets,
                                      struct weft_error *err);

#endif
