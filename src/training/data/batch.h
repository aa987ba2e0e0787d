/* Selects the tokens of a step: a pure function of the step's number.
 *
 * A step has B rows of T inputs; the targets are the inputs shifted by one token.
 *
 *     in file order   step k uses tokens k*B*T .. (k+1)*B*T, the last one only as a target; its rows
 *                     are adjacent.  An epoch is the number of whole steps in the data; then the
 *                     tokens repeat.
 *     shuffled        the data is divided into windows of T + 1 tokens; row r of step k is window
 *                     k*B + r of a random order, which differs in each epoch.  An epoch uses each
 *                     window once; a step may span two epochs.
 *
 * Tokens at the end that fill no step, or no window, are not used.  Nothing is stored between
 * steps: a run resumes at any step.
 */
#ifndef TRAINING_DATA_BATCH_H
#define TRAINING_DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/size.h"
#include "training/data/shard.h"

struct wf_batch {
    const struct wf_shards *shards; /* borrowed: while the batch is in use */
    uint32_t rows;                  /* B: sequences per step, over all replicas */
    uint32_t seq;                   /* T: tokens per sequence */
    uint32_t vocab;
    bool shuffle;
    uint64_t seed;      /* of the order */
    uint64_t epoch_len; /* steps per epoch; shuffled: windows per epoch */
};

/* Initializes *batch.  Returns WEFT_DATA if the data is too short for one step (shuffled: one
 * window).  Local. */
enum weft_status wf_batch_init(struct wf_batch *batch, const struct wf_shards *shards,
                               uint32_t rows, uint32_t seq, uint32_t vocab, bool shuffle,
                               uint64_t seed, struct weft_error *err);

/* Reads rows row0 .. row0 + rows - 1 of a step: inputs and targets, (rows, T) each.  Safe to call
 * from any thread.  Local. */
enum weft_status wf_batch_read(const struct wf_batch *batch, uint64_t step, uint32_t row0,
                               uint32_t rows, int32_t *inputs, int32_t *targets,
                               struct weft_error *err);

/* Returns the position of the first of a row's T + 1 tokens. */
uint64_t wf_batch_position(const struct wf_batch *batch, uint64_t step, uint32_t row);

/* Returns the rows of one micro-batch of a step with `rows` rows.  The remainder goes to the first
 * micro-batches. */
static inline struct wf_range wf_micro_range(uint32_t rows, uint32_t n_micros, uint32_t micro)
{
    return wf_range_part(rows, n_micros, micro);
}

/* Returns the position of index i < n in a random permutation of 0 .. n-1, which depends on seed
 * and epoch and is computed without a table. */
uint64_t wf_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

#endif
