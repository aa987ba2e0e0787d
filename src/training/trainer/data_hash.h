/* The hashes of the training data in a checkpoint: one line "XXH3 TOKENS NAME" per shard. */
#ifndef TRAINING_TRAINER_DATA_HASH_H
#define TRAINING_TRAINER_DATA_HASH_H

#include <stdint.h>

#include "training/data/shard.h"

struct wf_data_hash; /* opaque */

/* Creates an object without reading the shards, which are borrowed while it exists.  The caller
 * frees *out with wf_data_hash_free().  Local. */
enum weft_status wf_data_hash_new(const struct wf_shards *shards, struct wf_data_hash **out,
                                  struct weft_error *err);
void wf_data_hash_free(struct wf_data_hash *h); /* stops reading; NULL is allowed */

/* Starts to read all shards on a thread.  Local. */
void wf_data_hash_start(struct wf_data_hash *h);

/* Waits until all shards are read and returns the text, which is borrowed.  It is empty if h is
 * NULL or if a shard could not be read.  Local. */
const char *wf_data_hash_wait(struct wf_data_hash *h);

/* Reads all shards and compares them with `text`, the text in the checkpoint of step `step`.
 * Returns WEFT_DATA, and names the shard, if one differs.  Local. */
enum weft_status wf_data_hash_compare(struct wf_data_hash *h, const char *text, uint64_t step,
                                      struct weft_error *err);

#endif
