/* Selects the tokens of a step.  The selection is a pure function of the step number.
 *
 * A step has B rows of T inputs; the targets are the inputs shifted by one token.
 *
 *     in file order   step k uses tokens k*B*T .. (k+1)*B*T, the last one only as a target.
 *                     The rows of a step are adjacent.  An epoch consists of all whole steps in
 *                     the data; the next epoch uses the same tokens again.
 *     shuffled        window i consists of the T + 1 tokens from token i*T on; row r of step k
 *                     is window k*B + r of a random order, which differs in each
 *                     epoch.  An epoch uses each window once; a step may span two epochs.
 *
 * Tokens at the end of the data that do not fill a step or a window are not used.  No state is
 * stored between steps, so a run can resume at any step.
 */
#ifndef TRAINING_DATA_BATCH_H
#define TRAINING_DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/size.h"
#include "training/data/shard.h"

struct wf_batch {
    const struct wf_shards *shards; /* borrowed while the batch is in use */
    uint32_t rows;                  /* B: sequences per step, summed over all replicas */
    uint32_t seq;                   /* T: tokens per sequence */
    uint32_t vocab;
    bool shuffle;
    uint64_t seed;      /* seed of the shuffled order */
    uint64_t epoch_len; /* steps per epoch in file order; windows per epoch if shuffled */
};

/* Initializes *batch.  Returns WEFT_DATA if the data is too short for one step or, if shuffled,
 * for one window.  Local. */
enum weft_status wf_batch_init(struct wf_batch *batch, const struct wf_shards *shards,
                               uint32_t rows, uint32_t seq, uint32_t vocab, bool shuffle,
                               uint64_t seed, struct weft_error *err);

/* Reads the inputs and the targets of the rows row0 .. row0 + rows - 1 of a step.  Both outputs
 * have the shape (rows, T).  A target that the loss mask excludes is -1.  May be called from
 * any thread.  Local. */
enum weft_status wf_batch_read(const struct wf_batch *batch, uint64_t step, uint32_t row0,
                               uint32_t rows, int32_t *inputs, int32_t *targets,
                               struct weft_error *err);

/* Returns the position of the first token of a row, which uses T + 1 tokens. */
uint64_t wf_batch_position(const struct wf_batch *batch, uint64_t step, uint32_t row);

/* Returns the range of rows of one micro-batch in a step with `rows` rows.  If the rows cannot
 * be divided evenly, each of the first micro-batches has one more row. */
static inline struct wf_range wf_micro_range(uint32_t rows, uint32_t n_micros, uint32_t micro)
{
    return wf_range_part(rows, n_micros, micro);
}

/* Returns the element at index i < n of a random permutation of 0 .. n-1.  The permutation
 * depends on seed, epoch and n, and is computed without a table. */
uint64_t wf_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

#endif
